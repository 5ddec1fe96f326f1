"""The contract on limits, causes, bulk operations, results and secrets of the service."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from datetime import timedelta
from itertools import product

import pytest

from asyncsched.errors import ConfigError, RunOptionError
from asyncsched.specs.app import AppDef
from asyncsched.specs.result import LARGEST_RESULT, UnreadableResult
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.specs.state import AppState, FailureCause
from asyncsched.testing.contract.rig import ContractRig, echo

__all__ = ["EndContract"]


class EndContract:
    """Ends: of many apps at once, with a cause, and what remains."""

    async def test_a_cause_is_told_for_each_end(self, rig: ContractRig) -> None:
        failed = await rig.submit(rig.app("exit 3"))
        good = await rig.submit(rig.app(echo("x")))
        stopped = await rig.submit(rig.app(rig.long_sleep))
        await rig.running(stopped)
        await rig.scheduler.cancel(stopped)

        for app_id, cause in ((failed, FailureCause.EXIT), (good, None), (stopped, FailureCause.CANCELLED)):
            ended = await rig.ended(app_id)
            assert (cause, [cause]) == (ended.cause, [replica.cause for replica in ended.replicas])

    async def test_over_its_time_an_app_is_failed_and_not_retried(self, rig: ContractRig) -> None:
        if rig.timeout is None:
            pytest.skip("this backend has no timeout that a test can wait for")
        app = rig.app(rig.long_sleep, max_retries=1 if rig.restarts else 0)
        ended = await rig.ended(await rig.scheduler.submit(app, {**rig.cfg, "timeout": rig.timeout}))

        assert (AppState.FAILED, FailureCause.TIMEOUT) == (ended.state, ended.cause)
        assert [FailureCause.TIMEOUT] == [replica.cause for replica in ended.replicas]
        assert {0, None} >= {replica.num_restarts for replica in ended.replicas}

    async def test_a_limit_of_time_that_cannot_be_kept_is_refused(self, rig: ContractRig) -> None:
        options = {field.name for field in fields(rig.scheduler.options)} & {"timeout", "pending_timeout"}
        for option, seconds in product(options, (0.0, -1.0, float("inf"), float("nan"))):
            told = rf"{option} must be (more than|at least) \d+ and at most \d+ seconds, got {seconds!r}"
            with pytest.raises(RunOptionError, match=told) as caught:
                await rig.scheduler.submit_dryrun(rig.app(echo("x")), {**rig.cfg, option: seconds})
            assert option == caught.value.key

    async def test_an_app_that_never_starts_is_failed_in_time(self, rig: ContractRig) -> None:
        if rig.never_starts is None:
            pytest.skip("this backend has no pending_timeout, or no app that stays pending")
        cfg = {**rig.cfg, "pending_timeout": rig.pending_timeout}
        ended = await rig.ended(await rig.scheduler.submit(rig.never_starts, cfg))
        async with rig.another() as other:
            elsewhere = await other.describe(ended.app_id)

        assert elsewhere is not None
        for told in (ended, elsewhere):
            assert (AppState.FAILED, FailureCause.UNSCHEDULABLE) == (told.state, told.cause)
            assert {FailureCause.UNSCHEDULABLE} >= {replica.cause for replica in told.replicas}

    async def test_many_apps_are_cancelled_at_once(self, rig: ContractRig) -> None:
        running = [await rig.submit(rig.app(rig.long_sleep)) for _ in range(3)]
        done = await rig.submit(rig.app(echo("x")))
        await rig.ended(done)
        for app_id in running:
            await rig.running(app_id)
        wanted = [running[2], rig.unknown_id, done, *running[:2], running[2]]

        told = await rig.scheduler.cancel_many(wanted)

        assert dict.fromkeys(wanted) == told
        assert [*dict.fromkeys(wanted)] == [*told]
        ends = [(await rig.ended(app_id)).state for app_id in (*running, done)]
        assert [AppState.CANCELLED] * 3 + [AppState.SUCCEEDED] == ends
        assert {} == await rig.scheduler.cancel_many([])

    async def test_prune_removes_what_ended_long_ago_and_nothing_that_runs(self, rig: ContractRig) -> None:
        failed, good = await rig.submit(rig.app("exit 1")), await rig.submit(rig.app(echo("x")))
        runs = await rig.submit(rig.app(rig.long_sleep))
        await asyncio.gather(rig.ended(failed), rig.ended(good))
        await rig.running(runs)
        scheduler = rig.scheduler

        assert {failed, good, runs}.isdisjoint(await scheduler.prune(timedelta(days=1)))
        assert {failed} == {failed, good, runs} & {*await scheduler.prune(timedelta(0), {AppState.FAILED})}
        assert {good} == {failed, good, runs} & {*await scheduler.prune(timedelta(0))}
        described = await scheduler.describe_many([failed, good, runs])
        assert [None, None, AppState.RUNNING] == [app and app.state for app in described.values()]
        for wrong in ((timedelta(-1), {AppState.FAILED}), (timedelta(0), {AppState.RUNNING})):
            with pytest.raises(ValueError, match=r"older_than|states"):
                await scheduler.prune(*wrong)
        await scheduler.cancel(runs)

    async def test_results_are_read_where_that_can_be(self, rig: ContractRig) -> None:
        write = "echo '{}' > $ASYNCSCHED_RESULT_FILE"
        app = AppDef(
            "job",
            [
                rig.role(write.replace("{}", '{"loss": 0.5}'), "good", num_replicas=2),
                rig.role(write.replace("{}", "no json"), "bad"),
                rig.role(write.replace("{}", "1" * (LARGEST_RESULT + 1)), "large"),
                rig.role(echo("x"), "silent"),
            ],
        )
        if not rig.reads_results:
            app = rig.app(echo("x"))
        app_id = await rig.submit(app)
        await rig.ended(app_id)
        found = await rig.scheduler.results(app_id)

        assert await rig.scheduler.results(rig.unknown_id) is None
        if not rig.reads_results:
            assert found is None
            return
        assert found is not None
        assert [("bad", 0), ("good", 0), ("good", 1), ("large", 0)] == sorted(found)
        assert {"loss": 0.5} == found["good", 0] == found["good", 1]
        assert isinstance(found["bad", 0], UnreadableResult)
        assert isinstance(found["large", 0], UnreadableResult)

    async def test_a_secret_of_the_service_is_filled_in_or_refused(self, rig: ContractRig) -> None:
        ref, value = rig.secret or (SecretRef("a-secret", "a-key"), "")
        app = rig.app(echo("$PASS").replace("'", ""), env={"PASS": ref})
        if not rig.scheduler.takes_secret_refs:
            with pytest.raises(ConfigError, match="PASS of role 'main'"):
                await rig.scheduler.submit_dryrun(app, rig.cfg)
        elif rig.secret is None:
            info = await rig.scheduler.submit_dryrun(app, rig.cfg)
            assert "a-secret" in repr(info)
        else:
            info = await rig.scheduler.submit_dryrun(app, rig.cfg)
            assert value not in repr(info)
            app_id = await rig.scheduler.schedule(info)
            assert [value] == [line.text for line in await rig.lines(app_id, should_tail=True)]
