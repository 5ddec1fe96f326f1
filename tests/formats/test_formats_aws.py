"""Jobs of a release before: their names, tags and rows tell the same apps, and new ones are tagged as they were."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asyncsched.errors import ConflictError
from asyncsched.schedulers.aws_batch import create_scheduler
from asyncsched.specs import AppDef, Role
from asyncsched.testing import VirtualClock
from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.direct import DirectClient
from tests.formats._aws import KEYED, OPTIONS, QUEUE, Recorded, old_service, told, without_ids
from tests.formats._frozen import KEYS, changed, frozen, lost


def test_apps_are_told_as_they_were_and_by_the_ids_that_they_had(release: str) -> None:
    service: Any = frozen(release, "aws/service.json")
    before: Any = frozen(release, "aws/told.json")

    async def look() -> Any:
        async with old_service(service) as scheduler:
            assert await scheduler.describe(before["deleted"]) is None
            return await told(scheduler, [*before["described"]])

    now = asyncio.run(look())
    assert [] == [*changed(without_ids(before, service) | {"deleted": ""}, without_ids(now, service) | {"deleted": ""})]


def test_a_key_that_was_used_before_is_the_same_app(release: str) -> None:
    service: Any = frozen(release, "aws/service.json")
    (keyed,) = (row for row in service["listed"] if row["jobName"].startswith(KEYS))

    async def again(app: AppDef) -> str:
        async with old_service(service) as scheduler:  # which cannot submit anything
            return await scheduler.schedule(await scheduler.submit_dryrun(app, OPTIONS, key=KEYS))

    assert asyncio.run(again(KEYED)) in (f"{QUEUE}:{keyed['jobId']}", f"{QUEUE}:{keyed['jobName']}")
    with pytest.raises(ConflictError):
        asyncio.run(again(AppDef("other", [Role("main", "image", entrypoint="true")])))


def test_what_is_sent_has_the_name_and_the_tags_that_releases_before_look_for(release: str) -> None:
    sent: Any = frozen(release, "aws/sent.json")
    (before,) = (each["request"] for each in sent if each["request"].get("jobName", "").startswith(KEYS))
    (definition,) = (
        each["request"]
        for each in sent
        if each["operation"] == "register_job_definition"
        and each["request"]["jobDefinitionName"] in before["jobDefinition"]
    )

    now = asyncio.run(_sent())

    submitted, registered = now["submit_job"], now["register_job_definition"]
    assert (before["jobName"], before["jobQueue"]) == (submitted["jobName"], submitted["jobQueue"])
    tags = {**before["tags"], "asyncsched/version": submitted["tags"]["asyncsched/version"]}
    assert tags == {name: submitted["tags"].get(name) for name in tags}
    assert [] == [*lost(definition, registered)]
    assert definition["type"] == registered["type"]
    assert registered["jobDefinitionName"].startswith("asx-")  # by which a list finds jobs of ours


async def _sent() -> dict[str, Any]:
    clock = VirtualClock()
    cloud = Cloud(clock=lambda: clock.time_ns() / 1e9)
    cloud.queues.add(QUEUE)
    batch, logs = (Recorded(DirectClient(cloud, name, sleep=clock.sleep)) for name in ("batch", "logs"))
    async with clock, create_scheduler("session", batch, logs, clock=clock) as scheduler:
        await scheduler.schedule(await scheduler.submit_dryrun(KEYED, OPTIONS, key=KEYS))
    return dict(batch.asked)
