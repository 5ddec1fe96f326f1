"""What a replica does between fork and exec: set itself up, tell, and wait until all the others are good too."""

from __future__ import annotations

import errno
import os
import signal
from typing import Any, NoReturn

from .census import die_with_parent

RESET = (
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGTERM,
    signal.SIGXFSZ,
    signal.SIGCHLD,
)
BINFMT = "/proc/sys/fs/binfmt_misc"


class Setup:
    """The descriptors that every child of one launch shares.

    Attributes:
        reports: Where a child writes one line when it is ready, or why it is not.
        gate: What a child reads from before it execs; its end without a byte means: do not.
    """

    def __init__(self, null: int, nofile: tuple[int, int]) -> None:
        self.null = null
        self.nofile = nofile
        self.reports_read, self.reports = os.pipe2(os.O_CLOEXEC)
        self.gate, self.gate_write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.reports_read, False)


def become(setup: Setup, number: int, spec: dict[str, Any], env: dict[str, str], outputs: list[int]) -> NoReturn:
    """Turn this freshly forked process into the replica's program; never returns."""
    try:
        _prepare(setup, outputs)
        _enter(spec["cwd"])
        program = find_program(spec["argv"][0], env.get("PATH", os.defpath))
        os.write(setup.reports, f"{number}\n".encode())
        if not os.read(setup.gate, 1):
            os._exit(127)
        _restore_limits(setup.nofile)
        os.execve(program, spec["argv"], env)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent has to hear of it
        os.write(setup.reports, _report(number, error))
    finally:
        os._exit(127)


def _report(number: int, error: BaseException) -> bytes:
    text = " ".join(str(error).split()) if not isinstance(error, OSError) else _describe(error)
    return f"{number} {text or type(error).__name__}\n".encode("utf-8", "replace")[:2000]


def _describe(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


def _prepare(setup: Setup, outputs: list[int]) -> None:
    os.close(setup.gate_write)
    os.setpgid(0, 0)
    parent = os.getppid()
    die_with_parent()
    if os.getppid() != parent:
        os._exit(127)
    for number in RESET:
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    os.dup2(setup.null, 0)
    os.dup2(outputs[0], 1)
    os.dup2(outputs[-1], 2)


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError as error:
        raise OSError(error.errno, f"cannot enter the working directory: {error.strerror}", directory) from None


def _restore_limits(nofile: tuple[int, int]) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, nofile)


def find_program(name: str, path: str) -> str:
    """Return where a program lies, as the shell would find it.

    Raises:
        FileNotFoundError: There is none, or the interpreter that its first line names is not there.
        PermissionError: There is one that may not be executed.
        OSError: The kernel would not know how to execute it.
    """
    if not name:
        raise FileNotFoundError(errno.ENOENT, "the command is empty", name)
    candidates = [name] if "/" in name else [os.path.join(each or ".", name) for each in path.split(os.pathsep)]
    refused = ""
    for candidate in candidates:
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                _check_header(candidate)
                return candidate
            refused = refused or candidate
    if refused:
        raise PermissionError(errno.EACCES, "is not executable", refused)
    if len(candidates) == 1 and os.path.isdir(candidates[0]):
        raise PermissionError(errno.EACCES, "is a directory", candidates[0])
    where = "No such file or directory" if "/" in name else "not found in PATH"
    raise FileNotFoundError(errno.ENOENT, where, name)


def _check_header(program: str) -> None:
    try:
        with open(program, "rb") as file:
            header = file.read(256)
    except PermissionError:
        return  # A program that may be executed but not read is the kernel's to judge.
    if header.startswith(b"#!"):
        words = header[2:].split(b"\n", 1)[0].split()
        interpreter = os.fsdecode(words[0]) if words else ""
        if not os.path.exists(interpreter):
            raise FileNotFoundError(errno.ENOENT, f"its interpreter {interpreter!r} does not exist", program)
    elif not header.startswith(b"\x7fELF") and not _has_other_formats():
        raise OSError(errno.ENOEXEC, "is neither a program nor a script that begins with #!", program)


def _has_other_formats() -> bool:
    try:
        return bool(set(os.listdir(BINFMT)) - {"register", "status"})
    except OSError:
        return False
