"""Watching jobs of several locations: one that cannot be read keeps nothing from the others."""

from __future__ import annotations

import asyncio

import pytest

from asyncsched.errors import PermissionDeniedError
from asyncsched.schedulers.gcp_batch import GCPBatchScheduler
from asyncsched.schedulers.gcp_batch.changes import FEW
from asyncsched.specs import AppDef, AppState
from tests.gcp_batch.conftest import played, quick
from tests.gcp_double.server import Double, Fault

APP = AppDef("app", [played(["wait"])])
NEAR, FAR = "us-central1", "europe-west1"
ALWAYS = -1


async def submitted(scheduler: GCPBatchScheduler, location: str, count: int) -> list[str]:
    return await asyncio.gather(*(scheduler.submit(APP, {"location": location}) for _ in range(count)))


@pytest.mark.parametrize("count", [1, FEW + 1])
async def test_a_location_that_fails_keeps_no_changes_of_others_back(
    double: Double, scheduler: GCPBatchScheduler, count: int
) -> None:
    made_first, made_last = [await submitted(scheduler, place, count) for place in (FAR, NEAR)]
    async with quick("s", retry_for=0.2) as made, asyncio.timeout(60):
        double.faults.append(Fault("503", method="GET", path=f"/locations/{FAR}/", times=ALWAYS))
        ended: set[str] = set()
        async with made.watch([*made_first, *made_last]) as watch:
            double.do(double.played.go_on.set)
            while ended != {*made_last}:
                event = await anext(watch)
                assert event.app_id in made_last
                if event.state is AppState.SUCCEEDED:
                    ended.add(event.app_id)
            double.do(double.faults.clear)
            while ended != {*made_first, *made_last}:
                event = await anext(watch)
                if event.state is AppState.SUCCEEDED:
                    ended.add(event.app_id)


async def test_a_location_whose_list_is_refused_ends_no_watch_of_others(
    double: Double, scheduler: GCPBatchScheduler
) -> None:
    refused, others = [await submitted(scheduler, place, FEW + 1) for place in (FAR, NEAR)]
    double.faults.append(Fault("403", method="GET", path=f"/locations/{FAR}/", times=ALWAYS))
    async with scheduler.watch(others) as watch, scheduler.watch(refused) as failing, asyncio.timeout(60):
        with pytest.raises(PermissionDeniedError):
            await anext(failing)
        double.do(double.played.go_on.set)
        states = {event.app_id: event.state async for event in watch}

    assert dict.fromkeys(others, AppState.SUCCEEDED) == states
