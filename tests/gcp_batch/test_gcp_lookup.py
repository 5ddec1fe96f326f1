"""Listing jobs of all locations: what can be read is listed, and what cannot is named."""

from __future__ import annotations

import asyncio
import logging

import pytest

from asyncsched.errors import AuthError, PermissionDeniedError, SchedulerError, UnavailableError
from asyncsched.schedulers.gcp_batch import GCPBatchScheduler
from asyncsched.specs import AppDef
from asyncsched.testing import VirtualClock
from tests.gcp_batch.conftest import played, quick
from tests.gcp_double.server import Double, Fault

APP = AppDef("app", [played(["sleep", 60])])
ALWAYS = -1
NEAR, FAR = "us-central1", "europe-west1"


async def listed(scheduler: GCPBatchScheduler) -> list[str]:
    return [row.app_id for row in await scheduler.list()]


def broken(location: str, kind: str, times: int = ALWAYS) -> Fault:
    return Fault(kind, method="GET", path=f"/locations/{location}/jobs", times=times)


@pytest.mark.parametrize("kind", ["403", "501"])
async def test_where_all_cannot_be_listed_at_once_each_location_is(
    double: Double, scheduler: GCPBatchScheduler, kind: str
) -> None:
    double.faults.append(broken("-", kind))
    ids = [await scheduler.submit(APP, {"location": place}) for place in (NEAR, FAR, NEAR)]

    assert ids[::-1] == await listed(scheduler)
    assert 1 == double.calls["GET /v1/projects/*/locations"]


@pytest.mark.parametrize(("kind", "place"), [("403", FAR), ("404", NEAR), ("503", NEAR), ("reset", FAR)])
async def test_a_location_that_cannot_be_read_is_named_and_the_others_are_listed(
    double: Double, caplog: pytest.LogCaptureFixture, kind: str, place: str
) -> None:
    double.lists_everywhere = False
    async with VirtualClock() as clock, quick("s", clock=clock) as made:
        ids = {each: await made.submit(APP, {"location": each}) for each in (NEAR, FAR)}
        double.faults.append(broken(place, kind))
        with caplog.at_level(logging.WARNING):
            assert [ids[({NEAR, FAR} - {place}).pop()]] == await listed(made)

    (told,) = [record.getMessage() for record in caplog.records if "not listed" in record.getMessage()]
    assert place in told


async def test_a_location_that_fails_half_way_is_named_and_the_others_are_listed(
    double: Double, caplog: pytest.LogCaptureFixture
) -> None:
    double.lists_everywhere = False
    double.largest_page = 1
    async with VirtualClock() as clock, quick("s", clock=clock) as made:
        ids = [await made.submit(APP, {"location": place}) for place in (NEAR, FAR, NEAR, FAR)]
        rows = made.list_iter()
        assert ids[3] == (await anext(rows)).app_id  # a page of each location has been read, the newest is of FAR
        double.faults.append(broken(FAR, "403"))
        with caplog.at_level(logging.WARNING):
            assert [ids[2], ids[0]] == [row.app_id async for row in rows]

    assert f"{FAR} are not all listed" in caplog.text


async def test_a_location_that_hangs_is_named_before_the_time_of_the_list_is_over(
    double: Double, caplog: pytest.LogCaptureFixture
) -> None:
    double.lists_everywhere = False
    double.largest_page = 1
    held = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def gate() -> None:
        loop.call_soon_threadsafe(held.set)
        await asyncio.Event().wait()

    async with VirtualClock() as clock, quick("s", clock=clock, request_timeout=30.0, retry_for=60.0) as made:
        ids = [await made.submit(APP, {"location": place}) for place in (NEAR, FAR, NEAR, FAR)]
        rows = made.list_iter()
        assert ids[3] == (await anext(rows)).app_id
        double.faults.append(Fault("held", method="GET", path=f"/{FAR}/", gate=gate))
        reading = asyncio.create_task(anext(rows))
        await held.wait()
        with caplog.at_level(logging.WARNING):
            await clock.advance(21.0)
            assert [ids[2], ids[0]] == [(await reading).app_id, *[row.app_id async for row in rows]]

    assert f"{FAR} are not all listed: Google Cloud did not answer jobs.list for {FAR}: it took more" in caplog.text


@pytest.mark.parametrize(
    ("kind", "error", "everywhere"),
    [
        ("403", PermissionDeniedError, True),
        ("403", PermissionDeniedError, False),
        ("401", AuthError, False),
        ("503", UnavailableError, False),
    ],
)
async def test_where_nothing_can_be_read_it_is_an_error(
    double: Double, kind: str, error: type[SchedulerError], everywhere: bool
) -> None:
    double.lists_everywhere = everywhere
    async with VirtualClock() as clock, quick("s", clock=clock) as made:
        await made.submit(APP, {})
        double.faults += [broken(place, kind) for place in ("-", NEAR, FAR)][0 if everywhere else 1 :]
        with pytest.raises(error, match=r"jobs\.list|the credentials|did not answer"):
            await listed(made)


async def test_an_account_that_may_do_nothing_is_told_what_it_lacks_first(
    double: Double, scheduler: GCPBatchScheduler
) -> None:
    double.faults.append(Fault("403", method="GET", times=ALWAYS))
    with pytest.raises(PermissionDeniedError, match=r"batch\.jobs\.list"):
        await listed(scheduler)


async def test_a_location_that_google_names_on_every_page_is_told_once(
    double: Double, scheduler: GCPBatchScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    double.largest_page = 1
    ids = [await scheduler.submit(APP, {}) for _ in range(3)]
    double.unreachable.append(FAR)
    with caplog.at_level(logging.WARNING):
        assert ids[::-1] == await listed(scheduler)

    assert 1 == caplog.text.count(FAR)
