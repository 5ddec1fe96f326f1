"""Many jobs are ended in as few calls as the service allows, which is one each, and at a pace of their own."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from asyncsched.schedulers.gcp_batch import GCPBatchScheduler
from asyncsched.schedulers.gcp_batch.client import RATES
from tests.gcp_double.control import running_job
from tests.gcp_double.server import PROJECT, Double

COUNT = 1000


@pytest.mark.slow
async def test_a_thousand_are_cancelled_with_one_call_each(double: Double, scheduler: GCPBatchScheduler) -> None:
    names = [f"job-{number}" for number in range(COUNT)]
    await asyncio.to_thread(lambda: [double.do(partial(running_job, double, name, 1)) for name in names])
    ids = [f"{PROJECT}:us-central1:{name}" for name in names]
    double.calls.clear()

    told = await scheduler.cancel_many(ids)

    assert dict.fromkeys(ids) == told
    assert COUNT == sum(double.calls.values()), double.calls


def test_cancels_do_not_wait_for_submits() -> None:
    assert {"jobs.create", "jobs.cancel"} <= RATES.keys()
