"""The command line and a real Docker daemon."""

from __future__ import annotations

import signal

import pytest

from tests.cli._cli import Cli
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd

pytestmark = pytest.mark.service


@pytest.fixture
def docked(cli: Cli, docker_host: str, dockerd: Dockerd) -> Cli:
    cli.environment |= {"DOCKER_HOST": docker_host, "ASYNCSCHED_IMAGE": BUSYBOX_IMAGE}
    cli.schedulers = ["local_docker"]
    return cli


def test_from_run_to_delete(docked: Cli) -> None:
    line = ("run", "-s", "local_docker", "--replicas", "2", "--", "sh", "-c", "echo one; exit 3")
    done = docked(*line)
    handle, *lines = done.lines

    assert (1, ["sh/0 one", "sh/1 one"]) == (done.code, sorted(lines))
    assert "FAILED" in done.err
    assert handle in docked("list").out
    assert ["sh/0 one"] == docked("log", f"{handle}/sh/0").lines
    assert docked("status", "sh-").out.startswith(f"FAILED  {handle}\n")
    assert 1 == docked("wait", handle).code
    assert 0 == docked("delete", handle).code
    assert 4 == docked("status", handle).code


def test_detach_and_cancel(docked: Cli) -> None:
    done = docked("run", "-s", "local_docker", "--detach", "--", "sleep", "3600")

    assert 0 == done.code
    (handle,) = done.lines
    assert 0 == docked("cancel", handle).code
    assert (3, [f"{handle}  CANCELLED"]) == ((waited := docked("wait", handle)).code, waited.lines)


def test_ctrl_c_ends_it_and_twice_at_once(docked: Cli) -> None:
    script = "trap '' TERM; echo ready; sleep 3600 & wait; sleep 3600"
    running = docked.start("run", "-s", "local_docker", "-cfg", "grace_period=600", "--", "sh", "-c", script)
    assert running.stdout is not None
    assert running.stderr is not None
    handle = running.stdout.readline().strip()
    assert "sh/0 ready\n" == running.stdout.readline()
    running.send_signal(signal.SIGINT)
    assert "Ctrl-C again ends it at once" in running.stderr.readline()
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)  # a tenth of the grace period

    assert 130 == running.returncode
    assert 3 == docked("wait", handle).code


def test_no_daemon(cli: Cli) -> None:
    cli.environment["DOCKER_HOST"] = f"unix://{cli.folder}/nothing.sock"
    for line in (
        ["run", "-s", "local_docker", "utils.echo"],
        ["status", "local_docker://a/b"],
        ["list", "-s", "local_docker"],
    ):
        done = cli(*line)

        assert 5 == done.code
        assert [
            "error: cannot reach Docker                                     [local_docker: UnavailableError]",
            f"  why: {cli.folder}/nothing.sock (DOCKER_HOST): no such file or directory",
            "  fix: start it (sudo systemctl start docker), set DOCKER_HOST, or use the scheduler local_cwd",
        ] == done.err.splitlines()
