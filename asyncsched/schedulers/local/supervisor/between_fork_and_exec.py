"""Set up a replica between fork and exec: prepare, report, and wait until all replicas are ready.

The code is short and simple, because each memory page that is touched here is copied or mapped again, which is most of
the cost of a start. So only one of the children with the same program searches for it, which took at least a seventh of
a start.
"""

from __future__ import annotations

import os

from . import TYPE_CHECKING
from .bare import signal
from .exec_checks import find_program
from .files import USED_UP
from .formats import MARK
from .identity_tags import put_tag
from .limits import restore
from .process_tree import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

    from .limits import Limits


class Setup:
    """The descriptors that all children of one launch share.

    Attributes:
        reports_read: The descriptor from which the parent reads the children's reports.
    """

    def __init__(self, null: int, limits: Limits) -> None:
        self.null = null
        self.limits = limits
        self.parent = os.getpid()
        self.reports_read, self._reports = os.pipe2(os.O_CLOEXEC)
        try:
            # A child reads from the gate before exec; end of file without a byte means: do not execute.
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
        """Close the descriptors that only children need, so that the reports end with the last child."""
        self._close(self._reports, self._gate)

    def open_gate(self, children: int) -> None:
        """Let all children continue."""
        try:
            os.write(self._gate_write, b"." * children)
        except BrokenPipeError:
            pass  # all were killed in the meantime, which is handled like any other end
        self._close(self._gate_write)

    def close(self) -> None:
        """Close everything; a child that waits at the gate ends."""
        self._close(*self._open)

    # The children's side

    def begin(self) -> None:
        """Close this child's copy of the gate's write end."""
        os.close(self._gate_write)

    def report(self, line: str) -> None:
        """Report one line, at once and in one write."""
        text = " ".join(line.split()).encode("utf-8", "replace")
        os.write(self._reports, text[:2000] + b"\n")

    def wait_at_gate(self) -> bool:
        """Wait for the others; return whether to continue."""
        return bool(os.read(self._gate, 1))


class Plan:
    """What a child will execute.

    Args:
        number: The replica's number in its app.
        spec: The replica's part of the request.
        outputs: The write ends of its pipes, stdout first.
        tag: Its tag.
        mark: Its mark.
        finds_program: Whether it searches for its program before the gate; if not, another child with the same
            program does.
    """

    def __init__(
        self, number: int, spec: dict[str, Any], outputs: list[int], tag: int, mark: str, finds_program: bool
    ) -> None:
        self.number = number
        self.spec = spec
        self.outputs = outputs
        self.tag = tag
        self.mark = mark
        self.finds_program = finds_program


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
    except BaseException as error:  # noqa: BLE001 - the parent must get any error
        setup.report(f"{plan.number} {errno_of(error)} {describe(error)}")
    finally:
        os._exit(127)


def _find(spec: dict[str, Any], common_env: Mapping[str, str]) -> str:
    return find_program(spec["argv"][0], search_path(spec, common_env))


def search_path(spec: dict[str, Any], common_env: Mapping[str, str]) -> str:
    """Return the ``PATH`` in which a replica's program is searched."""
    path: str = spec["env"].get("PATH", common_env.get("PATH", os.defpath))
    return path


def errno_of(error: BaseException) -> int:
    """Return the errno of an error; 0 if it has none."""
    return (error.errno or 0) if isinstance(error, OSError) else 0


def describe(error: BaseException) -> str:
    """Return one line that describes an error."""
    if not isinstance(error, OSError):
        return str(error) or type(error).__name__
    names_file = error.filename and error.errno not in USED_UP  # those are not the file's fault
    return f"{error.filename}: {error.strerror}" if names_file else str(error.strerror)


def _prepare(setup: Setup, outputs: list[int]) -> None:
    setup.begin()
    os.setpgid(0, 0)
    die_with_parent()
    if os.getppid() != setup.parent:
        os._exit(127)
    signal.set_wakeup_fd(-1)
    # A TERM between the gate and exec must not reach the inherited handler. exec resets other handlers to the default;
    # no signal is ignored.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(setup.null, 0)
    os.dup2(outputs[0], 1)
    os.dup2(outputs[-1], 2)


def _enter(directory: str) -> None:
    if "\0" in directory:  # Python's message for this depends on its release
        raise ValueError("the working directory contains a NUL byte")
    try:
        os.chdir(directory)
    except OSError as error:
        raise OSError(error.errno, f"cannot enter the working directory: {error.strerror}", directory) from None
