"""What a replica does between fork and exec: set itself up, tell, and wait until all the others are good too.

Little of it, and plainly: each page that is touched here is copied or mapped anew, which is most of what a start costs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any, NoReturn

from .census import die_with_parent
from .limits import Limits, restore
from .marks import put_brand
from .program import find_program


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
        self._close(self._gate_write)

    def report(self, line: str) -> None:
        """Say one thing, at once and in one piece."""
        text = " ".join(line.split()).encode("utf-8", "replace")
        os.write(self._reports, text[:2000] + b"\n")

    def wait_at_gate(self) -> bool:
        """Wait for the others; tell whether to go on."""
        return bool(os.read(self._gate, 1))


def become(
    setup: Setup, which: int, spec: dict[str, Any], env: Mapping[str, str], outputs: list[int], brand: int
) -> NoReturn:
    """Turn this freshly forked process into the replica's program; never returns."""
    try:
        _prepare(setup, outputs)
        _enter(spec["cwd"])
        program = find_program(spec["argv"][0], env.get("PATH", os.defpath))
        setup.report(f"{which}")
        if setup.wait_at_gate():
            restore(setup.limits)
            put_brand(brand)
            os.execve(program, spec["argv"], env)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent has to hear of it
        setup.report(f"{which} {errno_of(error)} {describe(error)}")
    finally:
        os._exit(127)


def errno_of(error: BaseException) -> int:
    """Return the kernel's number for an error; 0 if it has none."""
    return (error.errno or 0) if isinstance(error, OSError) else 0


def describe(error: BaseException) -> str:
    """Return one line that says what stands in the way."""
    if not isinstance(error, OSError):
        return str(error) or type(error).__name__
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


def _prepare(setup: Setup, outputs: list[int]) -> None:
    setup.begin()
    os.setpgid(0, 0)
    die_with_parent()
    if os.getppid() != setup.parent:
        os._exit(127)
    signal.set_wakeup_fd(-1)
    # One that comes between the gate and exec must not be taken by the handler that we have inherited. What else
    # is handled is as it was by default after exec; nothing is ignored.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(setup.null, 0)
    os.dup2(outputs[0], 1)
    os.dup2(outputs[-1], 2)


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        raise OSError(error.errno, f"cannot enter the working directory: {error.strerror}", directory) from None
