"""The contract suite on an object with plain methods that `from_blocking` has made a scheduler of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from asyncsched._typing import override
from asyncsched.schedulers import from_blocking
from asyncsched.specs import AppState
from asyncsched.testing.contract import ContractRig, SchedulerContract
from tests.schedulers._plain import PlainScheduler

NO_NOTE = "an object keeps no note of what an app was made from"

CANNOT = {
    "test_scheduling_one_dry_run_twice_submits_once": "the id is told by schedule; tests/schedulers/test_blocking.py",
    "test_a_dry_run_that_was_made_by_hand_is_launched_by_its_requests_id": "no request is known to name its app",
    "test_a_key_makes_a_submit_idempotent": "a key is refused",
    "test_streams_are_told_apart_or_refused": "nobody knows what streams an object can tell apart",
    "test_a_cause_is_told_for_each_end": "the documents have no causes",
    "test_prune_removes_what_ended_long_ago_and_nothing_that_runs": "the documents have no times",
    "test_success_is_described_in_full": "the documents have no times",
    "test_all_ended_with_a_failure_is_failed_and_says_why": "the object tells no reason",
    "test_list_tells_the_apps_of_all_sessions": "an object knows no sessions",
    "test_a_described_app_can_be_submitted_again": NO_NOTE,
    "test_a_described_app_that_had_secrets_is_refused_until_they_are_filled_in": NO_NOTE,
    "test_an_app_whose_request_was_edited_is_not_submitted_again_as_it_was": NO_NOTE,
    "test_what_pre_proc_changes_is_not_told_as_what_ran": NO_NOTE,
    "test_a_dry_run_that_pre_proc_makes_anew_is_told_like_its_own": NO_NOTE,
}
"""What an object with plain methods cannot promise, and why."""


class TestPlain(SchedulerContract):
    @pytest.fixture(autouse=True)
    def can(self, request: pytest.FixtureRequest) -> None:
        if (why := CANNOT.get(request.function.__name__)) is not None:
            pytest.skip(why)

    @override
    @pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55])
    async def test_a_cancelled_submit_leaves_nothing_or_an_app(self, rig: ContractRig, steps: int) -> None:
        """The app's id is the one that schedule returns, which may have begun before it is cancelled."""
        task = asyncio.create_task(rig.submit(rig.app(rig.long_sleep)))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]

        if not isinstance(outcome, asyncio.CancelledError):
            assert isinstance(outcome, str)
            await rig.scheduler.cancel(outcome)
        for row in await rig.scheduler.list():
            await rig.until(row.app_id, lambda app: app.state is AppState.CANCELLED)

    @pytest.fixture
    async def rig(self) -> AsyncGenerator[ContractRig]:
        plain = PlainScheduler()
        scheduler = from_blocking(plain)
        yield ContractRig(
            scheduler,
            another=lambda: from_blocking(plain, session_name="other"),
            tells_streams=False,
            tells_attempts=False,
            restarts=False,
            exact_times=False,
        )
        await scheduler.close()
        plain.end()
