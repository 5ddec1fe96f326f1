"""Several faults of a service at once, as a bad day has them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from asyncsched.schedulers.gcp_batch import GCPBatchScheduler, create_scheduler
from asyncsched.specs import AppDef, AppState
from asyncsched.testing import VirtualClock
from tests._support import eventually
from tests.gcp_batch.conftest import lead_to, played
from tests.gcp_double.control import finish_job, running_job
from tests.gcp_double.server import PROJECT, Double, Fault


async def test_a_list_whose_first_page_is_empty_goes_on(double: Double, scheduler: GCPBatchScheduler) -> None:
    double.begins_with_nothing = True
    app_id = await scheduler.submit(AppDef("app", [played(["exit", 7], num_replicas=2)]), {})
    async with asyncio.timeout(60), scheduler.watch([app_id]) as watch:
        ended = [event async for event in watch][-1].current

    assert ended is not None
    assert (AppState.FAILED, [7, 7]) == (ended.state, [replica.exit_code for replica in ended.replicas])
    assert [app_id] == [row.app_id for row in await scheduler.list()]


async def test_a_log_is_whole_with_ten_reads_a_minute_and_every_fault_of_a_read(
    surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"line {number}" for number in range(20)]
    async with VirtualClock() as clock:
        with Double(quota=10, now_ns=clock.time_ns) as double:
            lead_to(double, surroundings, monkeypatch)
            uid = double.do(lambda: running_job(double, "job", 1))
            double.logs.empty_pages, double.logs.repeats_pages = 3, True
            kinds = ["401", "503", "reset", "500"]
            double.faults += [Fault(kind, path="entries:list") for kind in kinds]
            async with create_scheduler("s", clock=clock, log_idle=2.0) as made, asyncio.timeout(60):
                stream = made.log_iter(f"{PROJECT}:us-central1:job", should_tail=True)
                double.do(lambda: [double.logs.write(uid, 0, line) for line in lines[:10]])
                found = [(await anext(stream)).text for _ in range(10)]
                await eventually(lambda: double.logs.refusals)  # the quota is learned
                double.do(lambda: [double.logs.write(uid, 0, line) for line in lines[10:]])
                double.do(lambda: finish_job(double, "job", 1))
                found += [line.text async for line in stream]

    assert lines == found
    assert 0 == sum(fault.times for fault in double.faults)
    assert 0 == double.logs.empty_pages
