"""What a replica does between fork and exec: set itself up, tell, and wait until all the others are good too.

Little of it, and plainly: each page that is touched here is copied or mapped anew, which is most of what a start costs.
That is why `signal` of the standard library, which goes through an enum, is not used, and why one child of those that
look for the same program looks for it: each of the two took a seventh of a start and more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from .exec_checks import find_program
from .files import USED_UP
from .formats import MARK
from .identity_tags import put_tag
from .limits import Limits, restore
from .process_tree import die_with_parent

if TYPE_CHECKING:
    from signal import SIG_DFL, SIGTERM, set_wakeup_fd, signal
else:  # what is under `signal`, and is not described to type checkers
    from _signal import SIG_DFL, SIGTERM, set_wakeup_fd, signal


class Setup:
    """The descriptors that every child of one launch shares.

    Attributes:
        reports_read: Where the parent reads what children report.
    """

    def __init__(self, null: int, limits: Limits) -> None:
        self.null = null
        self.limits = limits
        self.parent = os.getpid()
        self.reports_read, self._reports = os.pipe2(os.O_CLOEXEC)
        try:
            # A child reads from the gate before it executes anything; its end without a byte means: do not.
            self._gate, self._gate_write = os.pipe2(os.O_CLOEXEC)
        except OSError:
            os.close(self.reports_read)
            os.close(self._reports)
            raise
        self._open = {self.reports_read, self._reports, self._gate, self._gate_write}
        os.set_blocking(self.reports_read, False)

    def _close(self, *fds: int) -> None:
        for fd in self._open.intersection(fds):
            self._open.discard(fd)
            os.close(fd)

    # The parent's side

    def close_childrens_ends(self) -> None:
        """Close what only children need, so that the reports end with the last of them."""
        self._close(self._reports, self._gate)

    def open_gate(self, children: int) -> None:
        """Let all children go on."""
        try:
            os.write(self._gate_write, b"." * children)
        except BrokenPipeError:
            pass  # All have been killed meanwhile, which is an end like any other.
        self._close(self._gate_write)

    def close(self) -> None:
        """Let go of everything; a child that waits at the gate ends."""
        self._close(*self._open)

    # The children's side

    def begin(self) -> None:
        """Do not hold open the gate for oneself."""
        os.close(self._gate_write)

    def report(self, line: str) -> None:
        """Say one thing, at once and in one piece."""
        text = " ".join(line.split()).encode("utf-8", "replace")
        os.write(self._reports, text[:2000] + b"\n")

    def wait_at_gate(self) -> bool:
        """Wait for the others; tell whether to go on."""
        return bool(os.read(self._gate, 1))


class Plan(NamedTuple):
    """What a child is to become.

    Attributes:
        number: The replica's number in its app.
        spec: The replica as it was asked for.
        outputs: The ends of its pipes that it writes to, stdout first.
        tag: Its tag.
        mark: Its mark.
        finds_program: Whether it finds its program before the gate; else another one does, whose program is the same.
    """

    number: int
    spec: dict[str, Any]
    outputs: list[int]
    tag: int
    mark: str
    finds_program: bool


def become(setup: Setup, plan: Plan, common_env: Mapping[str, str]) -> NoReturn:
    """Turn this freshly forked process into the replica's program; never returns."""
    spec = plan.spec
    try:
        _prepare(setup, plan.outputs)
        _enter(spec["cwd"])
        program = _find(spec, common_env) if plan.finds_program else ""
        setup.report(f"{plan.number}")
        if setup.wait_at_gate():
            restore(setup.limits)
            put_tag(plan.tag)
            env = {**common_env, **spec["env"], MARK: plan.mark}
            os.execve(program or _find(spec, common_env), spec["argv"], env)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent has to hear of it
        setup.report(f"{plan.number} {errno_of(error)} {describe(error)}")
    finally:
        os._exit(127)


def _find(spec: dict[str, Any], common_env: Mapping[str, str]) -> str:
    return find_program(spec["argv"][0], search_path(spec, common_env))


def search_path(spec: dict[str, Any], common_env: Mapping[str, str]) -> str:
    """Return where a replica's program is searched for."""
    path: str = spec["env"].get("PATH", common_env.get("PATH", os.defpath))
    return path


def errno_of(error: BaseException) -> int:
    """Return the kernel's number for an error; 0 if it has none."""
    return (error.errno or 0) if isinstance(error, OSError) else 0


def describe(error: BaseException) -> str:
    """Return one line that says what stands in the way."""
    if not isinstance(error, OSError):
        return str(error) or type(error).__name__
    names_file = error.filename and error.errno not in USED_UP  # which was not the file's fault
    return f"{error.filename}: {error.strerror}" if names_file else str(error.strerror)


def _prepare(setup: Setup, outputs: list[int]) -> None:
    setup.begin()
    os.setpgid(0, 0)
    die_with_parent()
    if os.getppid() != setup.parent:
        os._exit(127)
    set_wakeup_fd(-1)
    # One that comes between the gate and exec must not be taken by the handler that we have inherited. What else
    # is handled is as it was by default after exec; nothing is ignored.
    signal(SIGTERM, SIG_DFL)
    os.dup2(setup.null, 0)
    os.dup2(outputs[0], 1)
    os.dup2(outputs[-1], 2)


def _enter(directory: str) -> None:
    if "\0" in directory:  # what Python says of it depends on the release
        raise ValueError("the working directory holds a NUL byte")
    try:
        os.chdir(directory)
    except OSError as error:
        raise OSError(error.errno, f"cannot enter the working directory: {error.strerror}", directory) from None
