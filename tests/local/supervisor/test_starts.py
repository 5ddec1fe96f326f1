"""All replicas of an app start, or none does."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from asyncsched.schedulers.local.supervisor import formats
from asyncsched.schedulers.local.supervisor.host import start_time
from asyncsched.schedulers.local.supervisor.process_tree import descendants
from tests._support import eventually_blocking
from tests.local.supervisor._client import Message, RefusedError, Supervisor, app, python, replica, shell


def executable(path: Path, content: str, mode: int = 0o755) -> str:
    path.write_text(content)
    path.chmod(mode)
    return str(path)


def below(supervisor: Supervisor) -> list[int]:
    """Return the processes below it, the oldest first; numbers of processes begin again from small ones."""
    pids = [pid for pid, _ in descendants(supervisor.pid)]
    return sorted(pids, key=lambda pid: (start_time(pid) or 0, pid))


REFUSED: dict[str, tuple[Message, str]] = {
    "missing": (replica("/no/such/program"), "/no/such/program: No such file or directory"),
    "not in PATH": (replica("no-such-program"), "no-such-program: not found in PATH"),
    "a directory": (replica("/usr"), "/usr: is a directory"),
    "no command": (replica(""), "the command is empty"),
    "no directory": (shell("exit", cwd="/no/such/dir"), "/no/such/dir: cannot enter the working directory"),
    "NUL in an argument": (replica("/bin/echo", "a\0b"), "argument 1 contains a NUL byte"),
    "NUL in a value": (shell("exit", env={"A": "secret\0"}), "variable 'A' contains a NUL byte"),
    "NUL in the directory": (shell("exit", cwd="/\0"), "the working directory contains a NUL byte"),
    "a lone surrogate": (replica("/bin/echo", "\ud800"), "argument 1 cannot be encoded on this machine"),
    "no variable": (shell("exit", env={"A=B": ""}), "not a valid variable name: 'A=B'"),
    "a long argument": (replica("/bin/echo", "x" * (128 << 10)), "argument 1 is too long"),
    "long arguments": (replica("/bin/echo", *["x" * 100_000] * 70), "the arguments and the environment are too long"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_start_is_refused_and_nothing_has_run(supervisor: Supervisor, tmp_path: Path, name: str) -> None:
    bad, why = REFUSED[name]
    ran = tmp_path / "ran"
    before = supervisor.descriptors()
    with pytest.raises(RefusedError) as refused:
        supervisor.submit(shell(f"echo > {ran}", role="good"), {**bad, "role": "bad", "dir": "bad/0"})

    assert f"replica bad/0 cannot start: {why}" in str(refused.value)
    assert "secret" not in str(refused.value)
    eventually_blocking(lambda: below(supervisor) == [])
    assert not ran.exists()
    assert [] == list((supervisor.home / formats.APPS).iterdir())
    eventually_blocking(lambda: supervisor.descriptors() == before)


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        ("#!/bin/sh\n", 0o644, "is not executable"),
        ("#!/no/such/interpreter -x\n", 0o755, "its interpreter '/no/such/interpreter' does not exist"),
        ("#!/bin/sh\r\n", 0o755, r"its interpreter '/bin/sh\r' does not exist"),
        ("#!/etc/passwd\n", 0o755, "its interpreter '/etc/passwd' is not executable"),
        ("echo hello\n", 0o755, "is neither a binary nor a script that begins with #!"),
        ("", 0o755, "is neither a binary nor a script that begins with #!"),
    ],
)
def test_a_script_that_cannot_be_executed_is_refused(
    supervisor: Supervisor, tmp_path: Path, content: str, mode: int, why: str
) -> None:
    script = executable(tmp_path / "script", content, mode)
    with pytest.raises(RefusedError) as refused:
        supervisor.submit(replica(script))

    assert f"replica role/0 cannot start: {script}: {why}" == str(refused.value)


def test_a_refusal_is_told_in_one_line_of_bounded_length(supervisor: Supervisor) -> None:
    with pytest.raises(RefusedError) as refused:
        supervisor.submit(replica("/no\n/such" + "/program" * 1000))

    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 2100


def test_a_program_that_only_the_kernel_refuses_fails_alone(supervisor: Supervisor, tmp_path: Path) -> None:
    program = executable(tmp_path / "program", "\x7fELF and no more")
    record = supervisor.run(replica(program), shell("exit 0", k=1))

    assert [127, 0] == [each["exit_code"] for each in record["replicas"]]
    assert f"could not be executed: {program}: Exec format error" == record["replicas"][0]["reason"]


def test_an_app_of_the_same_name_is_refused(supervisor: Supervisor) -> None:
    supervisor.submit(shell("exec sleep 1000"))
    answer = supervisor.ask("submit", app=app(shell("exit 0")))

    assert "exists" == answer["error"]
    assert supervisor.describe()["finished_ns"] is None


@pytest.mark.parametrize("name", ["", ".", "..", "../elsewhere", "a/b"])
def test_an_app_stays_in_its_place(supervisor: Supervisor, name: str) -> None:
    with pytest.raises(RefusedError):
        supervisor.submit(shell("exit 0"), dir=name)

    assert [] == list((supervisor.home / formats.APPS).iterdir())


@pytest.mark.parametrize("name", ["../../elsewhere", "role/../../..", ""])
def test_a_replica_stays_in_its_place(supervisor: Supervisor, name: str) -> None:
    before = supervisor.descriptors()
    with pytest.raises(RefusedError):
        supervisor.submit(shell("exit 0"), shell("exit 0", dir=name))

    assert ["apps", "supervisors"] == sorted(each.name for each in supervisor.home.iterdir())
    eventually_blocking(lambda: supervisor.descriptors() == before)


def test_a_tree_of_logs_goes_with_an_app_that_does_not_start(supervisor: Supervisor, tmp_path: Path) -> None:
    mine = tmp_path / "logs"
    mine.mkdir()
    logs = mine / "session" / "app" / "role"
    with pytest.raises(RefusedError):
        supervisor.submit(shell("exit 0", logs=f"{logs}/0"), shell("exit 0", cwd="/no/such", logs=f"{logs}/1"))

    assert [] == list(mine.iterdir())


def test_a_tree_of_logs_that_cannot_be_made_is_refused(supervisor: Supervisor, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RefusedError, match="file/logs"):
        supervisor.submit(shell("exit 0", logs=f"{tmp_path}/file/logs"))

    assert "mine" == (tmp_path / "file").read_text()


def test_what_a_request_lacks_is_told(supervisor: Supervisor) -> None:
    answer = supervisor.ask("submit", app={"app_id": "app"})

    assert "internal" == answer["error"]
    assert 0 == supervisor.run(shell("exit 0"))["replicas"][0]["exit_code"]


def test_no_descriptor_is_left_of_apps_that_have_ended(supervisor: Supervisor, tmp_path: Path) -> None:
    before = supervisor.descriptors()
    for number in range(3):
        replicas = [shell("echo out; echo err >&2", k=k, logs=f"{tmp_path}/logs/{number}/{k}") for k in range(3)]
        supervisor.run(*replicas, app_id=f"app{number}")

    eventually_blocking(lambda: supervisor.descriptors() == before)


# What a replica finds


def test_a_replica_finds_a_clean_place(supervisor: Supervisor) -> None:
    code = """
import os, signal, resource
print(sorted(map(int, os.listdir("/proc/self/fd")))[:-1], os.readlink("/proc/self/fd/0"))
print([n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN and n not in (13, 25)])
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
print(os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid(), os.getcwd())
print([resource.getrlimit(kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU)])
"""
    mine = [resource.getrlimit(kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU)]
    supervisor.run(python(code, cwd="/tmp"))

    expected = ["[0, 1, 2] /dev/null", "[]", "set()", "True False /tmp", str(mine)]
    assert expected == supervisor.log().stdout.decode().splitlines()


def test_ignored_and_blocked_signals_of_the_owner_are_not_passed_on(home: Path) -> None:
    code = "import signal; print(signal.pthread_sigmask(0, ()), signal.getsignal(1), signal.getsignal(17))"
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGCHLD)}
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        supervisor = Supervisor(home)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        for number, handler in before.items():
            signal.signal(number, handler)
    with supervisor:
        supervisor.run(python(code))

        assert b"set() 0 0\n" == supervisor.log().stdout.replace(b"Handlers.SIG_DFL", b"0")


def test_a_value_need_not_be_utf_8(supervisor: Supervisor) -> None:
    odd = b"\xff\xfe \xe4".decode("utf-8", "surrogateescape")
    supervisor.run(shell('printf %s "$ODD"', env={"ODD": odd}))

    assert b"\xff\xfe \xe4" == supervisor.log().stdout


# While a replica is set up


@contextmanager
def held(program: Path) -> Iterator[None]:
    """Hold up whoever opens a file."""
    fd = os.open(program, os.O_RDWR)
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGWINCH)  # The kernel's word that somebody waits; it harms nobody.
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        yield
    finally:
        os.close(fd)


@pytest.fixture
def slow(tmp_path: Path) -> str:
    return executable(tmp_path / "slow", f"#!/bin/sh\necho > {tmp_path}/ran\n")


def say_submit(supervisor: Supervisor, *replicas: Message, **more: Any) -> None:
    """Ask for an app, and do not wait for an answer."""
    supervisor.say({"n": 99, "op": "submit", "app": app(*replicas, **more)})


def held_up(supervisor: Supervisor) -> int:
    """Return the process of the last replica once it is held up."""
    eventually_blocking(lambda: len(below(supervisor)) == 2)
    return below(supervisor)[-1]


def test_cancelled_while_it_starts_nothing_has_run(supervisor: Supervisor, slow: str, tmp_path: Path) -> None:
    with held(Path(slow)):
        say_submit(supervisor, shell(f"echo > {tmp_path}/ran"), replica(slow, k=1))
        held_up(supervisor)
        assert supervisor.ask("cancel", app_id="app")["known"]

        (answer,) = supervisor.events
        assert "it was cancelled before it started" == answer["message"]
        eventually_blocking(lambda: below(supervisor) == [])
    assert not (tmp_path / "ran").exists()


def test_an_app_that_starts_is_not_described(supervisor: Supervisor, slow: str) -> None:
    with held(Path(slow)):
        say_submit(supervisor, shell("exit 0"), replica(slow, k=1))
        held_up(supervisor)

        assert [] == supervisor.ask("describe", app_ids=["app"])["apps"]
        # Others can see on the disk that somebody is at it, and who.
        assert (None, supervisor.pid) == (supervisor.saved()["started_ns"], supervisor.saved()["supervisor"]["pid"])


def test_a_child_that_is_killed_while_it_is_set_up_fails_all(supervisor: Supervisor, slow: str, tmp_path: Path) -> None:
    with held(Path(slow)):
        say_submit(supervisor, shell(f"echo > {tmp_path}/ran"), replica(slow, k=1))
        os.kill(held_up(supervisor), signal.SIGKILL)
        answer = supervisor.hear()

    assert "replica role/1 cannot start: it ended during its setup" == answer["message"]
    eventually_blocking(lambda: below(supervisor) == [])
    assert not (tmp_path / "ran").exists()


def test_an_app_whose_processes_cannot_be_identified_is_refused(home: Path, slow: str, tmp_path: Path) -> None:
    with Supervisor(home, prefix=["/bin/sh", "-c", 'ulimit -n 60; exec "$@"', "sh"]) as supervisor:
        with held(Path(slow)):
            say_submit(supervisor, shell(f"echo > {tmp_path}/ran"), replica(slow, k=1))
            held_up(supervisor)
            visitors = [supervisor.visitor() for _ in range(80)]
            eventually_blocking(lambda: len(supervisor.descriptors()) == 60)
        answer = supervisor.hear()
        for visitor in visitors:
            visitor.close()

        assert "its processes cannot be identified: Too many open files" == answer["message"]
        eventually_blocking(lambda: below(supervisor) == [])
    assert not (tmp_path / "ran").exists()
    assert [] == list((home / formats.APPS).iterdir())


def test_a_child_that_is_set_up_ends_with_a_killed_worker(supervisor: Supervisor, slow: str, tmp_path: Path) -> None:
    with held(Path(slow)):
        say_submit(supervisor, shell(f"echo > {tmp_path}/ran"), replica(slow, k=1))
        held_up(supervisor)
        children = below(supervisor)
        os.kill(supervisor.pid, signal.SIGKILL)

        eventually_blocking(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
        eventually_blocking(lambda: not supervisor.is_alive())
    assert not (tmp_path / "ran").exists()


def test_an_app_that_starts_ends_with_its_owner(supervisor: Supervisor, slow: str, tmp_path: Path) -> None:
    with held(Path(slow)):
        say_submit(supervisor, shell(f"echo > {tmp_path}/ran"), replica(slow, k=1))
        held_up(supervisor)
        supervisor.close()

        eventually_blocking(lambda: not supervisor.is_alive())
    assert not (tmp_path / "ran").exists()
    assert [] == list((supervisor.home / formats.APPS).iterdir())


def test_asked_to_end_just_before_it_executes_it_ends(supervisor: Supervisor, tmp_path: Path) -> None:
    program = executable(tmp_path / "program", f"#!/bin/sh\necho > {tmp_path}/ran\n")
    other = executable(tmp_path / "other", "#!/bin/sh\nexec sleep 1000\n")
    with held(Path(other)):
        say_submit(supervisor, replica(program), replica(other, k=1), grace_period=600.0)
        held_up(supervisor)
        first = below(supervisor)[0]
        # The first has been set up, and waits for the other at the gate.
        eventually_blocking(lambda: "pipe" in Path(f"/proc/{first}/wchan").read_text())
        holding = held(Path(program))
        holding.__enter__()
    try:
        assert "error" not in supervisor.hear()
        supervisor.ask("cancel", app_id="app")
        record = supervisor.until()
    finally:
        holding.__exit__(None, None, None)
    # By the signal itself, and not by a handler that was inherited: exec would have made that forget it.
    assert [signal.SIGTERM, signal.SIGTERM] == [each["signal"] for each in record["replicas"]]
    assert not (tmp_path / "ran").exists()
