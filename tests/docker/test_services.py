"""The tests' own daemons: they live side by side, and none outlives the process that has started it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsched.schedulers.docker import DockerScheduler
from asyncsched.specs import AppState
from tests._support import eventually_blocking
from tests.docker._apps import OBEYS, app, shell
from tests.docker.test_scheduler import end, eventually_running
from tests.services import dockerd as docker_service
from tests.services.dockerd import Dockerd

pytestmark = [pytest.mark.service("dockerd"), pytest.mark.slow]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def another_dockerd(dockerd: Dockerd) -> Iterator[Dockerd]:
    with docker_service.new_dockerd() as daemon:
        yield daemon


def test_a_daemon_ends_when_its_process_is_killed(dockerd: Dockerd) -> None:
    directory = docker_service.new_directory()
    script = (
        "import sys, time; from pathlib import Path; from tests.services.dockerd import Dockerd\n"
        "daemon = Dockerd(Path(sys.argv[1])); daemon.start(); print(daemon.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(directory)], stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        daemon_pid = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)

    eventually_blocking(lambda: not directory.exists())
    assert not Path(f"/proc/{daemon_pid}/exe").exists()


async def test_daemons_live_side_by_side(
    dockerd: Dockerd, docker_host: str, another_dockerd: Dockerd, monkeypatch: pytest.MonkeyPatch
) -> None:
    ping = shell('until ping -c 1 -w 5 "$TORCHX_RANK0_HOST"; do sleep 0.1; done', name="second")
    async with DockerScheduler("here") as here, DockerScheduler("there") as there:
        await here.list()
        monkeypatch.setenv("DOCKER_HOST", another_dockerd.host)
        await there.list()
        for scheduler in (here, there):
            app_id = await scheduler.submit(app(shell(OBEYS, name="first"), ping))
            await eventually_running(scheduler, app_id)
            async for event in scheduler.watch([app_id]):
                status = event.current
                if status is not None and status.replicas[1].state.is_terminal():
                    assert AppState.SUCCEEDED is status.replicas[1].state
                    break
            await scheduler.cancel(app_id)
            assert AppState.CANCELLED is await end(scheduler, app_id)
    dockerd.clean()
