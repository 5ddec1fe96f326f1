"""What replicas leave as their results, on a real daemon."""

from __future__ import annotations

import asyncio
import io
import tarfile

import pytest

from asyncsched.schedulers.docker import DockerScheduler
from asyncsched.specs import AppState
from asyncsched.specs.result import LARGEST_RESULT, UnreadableResult
from tests.docker._apps import OBEYS, app, shell
from tests.docker.test_scheduler import end
from tests.services.dockerd import Dockerd, busybox_tar, import_image

pytestmark = pytest.mark.service("dockerd")

BARE_IMAGE = "asyncsched-tests/bare:1"
WRITE = 'echo \'{"n": 1}\' > "$ASYNCSCHED_RESULT_FILE"'


def bare_tar() -> bytes:
    """Pack busybox without /tmp."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(busybox_tar())) as whole, tarfile.open(fileobj=buffer, mode="w") as bare:
        for entry in whole:
            if entry.name != "tmp":
                bare.addfile(entry, whole.extractfile(entry) if entry.isreg() else None)
    return buffer.getvalue()


@pytest.mark.guard(loop_step=False, reason="the test packs an image")
async def test_any_user_can_write_a_result_in_an_image_without_tmp(
    scheduler: DockerScheduler, dockerd: Dockerd
) -> None:
    await asyncio.to_thread(lambda: import_image(dockerd.api, BARE_IMAGE, bare_tar()))
    app_id = await scheduler.submit(app(shell(WRITE, image=BARE_IMAGE, num_replicas=2)), {"user": "65534:65534"})
    assert AppState.SUCCEEDED is await end(scheduler, app_id)

    assert {("worker", 0): {"n": 1}, ("worker", 1): {"n": 1}} == await scheduler.results(app_id)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ('ln -s /etc/passwd "$ASYNCSCHED_RESULT_FILE"', "a symbolic link"),
        ('mkdir "$ASYNCSCHED_RESULT_FILE"; cp /bin/busybox "$ASYNCSCHED_RESULT_FILE"', "a directory"),
        ('mkfifo "$ASYNCSCHED_RESULT_FILE"', "a named pipe"),
        (f'dd if=/dev/zero of="$ASYNCSCHED_RESULT_FILE" bs={LARGEST_RESULT} count=400', f"than {LARGEST_RESULT} bytes"),
        ('echo "{" > "$ASYNCSCHED_RESULT_FILE"', "not JSON"),
    ],
    ids=["link", "directory", "pipe", "large", "broken"],
)
async def test_a_result_that_cannot_be_read_says_why(scheduler: DockerScheduler, script: str, why: str) -> None:
    app_id = await scheduler.submit(app(shell(script)))
    await end(scheduler, app_id)
    found = await scheduler.results(app_id)

    assert found is not None
    (result,) = found.values()
    assert isinstance(result, UnreadableResult)
    assert why in str(result["error"])


async def test_a_result_is_read_while_its_replica_runs(scheduler: DockerScheduler) -> None:
    app_id = await scheduler.submit(app(shell(f"{WRITE}; echo written; {OBEYS}"), shell(OBEYS, name="silent")))
    async with scheduler.log_iter(app_id, should_tail=True) as lines:
        await anext(lines)

    assert {("worker", 0): {"n": 1}} == await scheduler.results(app_id)


async def test_a_root_that_is_read_only_starts_without_a_result(scheduler: DockerScheduler, dockerd: Dockerd) -> None:
    await asyncio.to_thread(lambda: import_image(dockerd.api, BARE_IMAGE, bare_tar()))
    info = await scheduler.submit_dryrun(app(shell(f"{WRITE}; exit 0", image=BARE_IMAGE)))
    info.request.containers[0].host_config["ReadonlyRootfs"] = True
    await scheduler.schedule(info)

    assert AppState.SUCCEEDED is await end(scheduler, info.app_id)
    assert {} == await scheduler.results(info.app_id)


async def test_a_file_that_the_role_names_itself_is_its_own(scheduler: DockerScheduler) -> None:
    app_id = await scheduler.submit(app(shell(WRITE, env={"ASYNCSCHED_RESULT_FILE": "/etc/result"})))
    await end(scheduler, app_id)

    assert {} == await scheduler.results(app_id)
