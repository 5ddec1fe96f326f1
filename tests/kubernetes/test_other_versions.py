"""Volcano's custom resources in another version than ours: what they lack is done without, and no app suffers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asyncsched.errors import InvalidRequestError
from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.specs import AppState
from tests._support import eventually
from tests.kubernetes._apps import BOTH, JOB, VOLCANO, app
from tests.kubernetes_fake import FakeCluster
from tests.kubernetes_fake.lists import COLUMNS

pytestmark = pytest.mark.service("kubernetes-fake")  # its pods are processes, in real time

ENDED = AppState.SUCCEEDED


def serve(fake: FakeCluster, **versions: str) -> None:
    """Serve kinds under other versions from now on; what watches them is cut off."""
    fake.run(lambda: fake.versions.update(versions))
    fake.cut(rf"watch ({'|'.join(versions)})")


async def end(scheduler: KubernetesScheduler, *apps: str) -> dict[str, AppState]:
    """Watch apps to their ends."""
    last: dict[str, AppState] = {}
    async for event in scheduler.watch(apps):
        last[event.app_id] = event.state
    return last


@BOTH
async def test_pod_groups_of_another_version_keep_nobody_from_watching(
    fake: FakeCluster, scheduler: KubernetesScheduler, cfg: dict[str, Any]
) -> None:
    serve(fake, podgroups="v1")
    ids = [await scheduler.submit(app("true"), cfg) for _ in range(3)]

    assert dict.fromkeys(ids, ENDED) == await end(scheduler, *ids)
    told = await scheduler.describe_many(ids)
    assert {ENDED} == {each.state for each in told.values() if each is not None}


async def test_jobs_of_volcano_that_are_served_under_another_version_from_now_on(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    """A scheduler that has seen ours finds that it is gone, and that the other kind is as it was."""
    waiting = [await scheduler.submit(app("sleep 1000"), JOB) for _ in range(3)]
    assert {*waiting} == {row.app_id for row in await scheduler.list()}
    watching = asyncio.ensure_future(end(scheduler, *waiting))
    await eventually(lambda: fake.traffic.open["watch vcjobs"])

    serve(fake, vcjobs="v1beta1")

    assert {*waiting} == {row.app_id for row in await scheduler.list()}
    assert all((await scheduler.describe_many(waiting)).values())
    ended = await scheduler.submit(app("true"), {})  # of the kind that there is now
    assert {ended: ENDED} == await end(scheduler, ended)
    assert dict.fromkeys(waiting) == await scheduler.cancel_many(waiting)
    assert dict.fromkeys(waiting, AppState.CANCELLED) == await watching
    with pytest.raises(InvalidRequestError, match=r"has no Volcano.*install Volcano, or use kind=job"):
        await scheduler.submit(app("true"), VOLCANO)


async def test_without_a_column_for_it_a_list_reads_the_state_from_the_job(
    scheduler: KubernetesScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A custom resource whose definition names no columns is shown with its name and its age."""
    monkeypatch.delitem(COLUMNS, "vcjobs")
    ended = await scheduler.submit(app("true"), VOLCANO)
    await end(scheduler, ended)

    assert {ended: ENDED} == {row.app_id: row.state for row in await scheduler.list()}


async def test_without_commands_of_ours_a_cancel_removes_the_job(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    serve(fake, commands="v1")
    app_id = await scheduler.submit(app("sleep 1000"), VOLCANO)

    await scheduler.cancel(app_id)

    assert await scheduler.describe(app_id) is None
