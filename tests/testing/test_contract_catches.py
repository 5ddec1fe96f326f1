"""The contract suite fails on a backend that breaks one of its sentences."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from asyncsched.errors import AsyncSchedError, ConfigError, ConflictError, SchedulerError, UnknownAppError
from asyncsched.logs import LogLine, LogQuery, LogSource, QueueSource, label
from asyncsched.schedulers import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.hooks import TERMINAL
from asyncsched.schedulers.state_reports import Answers
from asyncsched.specs import (
    AppDef,
    AppDryRunInfo,
    AppState,
    JsonValue,
    ReplicaStatus,
    Role,
    SecretRef,
    Stream,
    make_unique,
)
from asyncsched.specs.dryrun import Made
from asyncsched.specs.result import read_result
from asyncsched.testing import FakeOptions, FakeRequest, FakeScheduler, FakeService, VirtualClock
from asyncsched.testing.contract import ContractRig, SchedulerContract
from asyncsched.testing.fake import MISSING_PROGRAM, NEVER_STARTS
from asyncsched.testing.fake_logs import FakePush
from tests._support import WITHIN

pytestmark = [
    pytest.mark.one_loop,
    pytest.mark.guard(left_over=False, reason="a broken backend, given up in the middle of a test, leaves things"),
]


class Described(FakeScheduler):
    """Describes apps otherwise than they are."""

    def twist(self, app: DescribeAppResponse) -> DescribeAppResponse | None:
        return app

    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        app = await super()._describe(app_id)
        return None if app is None else self.twist(app)

    async def _describe_many(self, app_ids: Sequence[str]) -> Answers:
        answers = dict(await super()._describe_many(app_ids))
        for app_id, app in answers.items():
            if isinstance(app, DescribeAppResponse):
                answers[app_id] = self.twist(app)
        return answers


class RaisesForTheUnknown(FakeScheduler):
    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        if app_id not in self.service.apps:
            raise UnknownAppError(app_id)
        return await super()._describe(app_id)


class HidesExitCodes(Described):
    def twist(self, app: DescribeAppResponse) -> DescribeAppResponse | None:
        for replica in app.replicas:
            replica.exit_code = None
        return app


class FailsAtTheFirstFailure(Described):
    def twist(self, app: DescribeAppResponse) -> DescribeAppResponse | None:
        if any(replica.state is AppState.FAILED for replica in app.replicas):
            app.state = AppState.FAILED
        return app


class TellsNoReason(Described):
    def twist(self, app: DescribeAppResponse) -> DescribeAppResponse | None:
        app.msg = ""
        for replica in app.replicas:
            replica.reason = ""
        return app


class TellsLocalTime(Described):
    def twist(self, app: DescribeAppResponse) -> DescribeAppResponse | None:
        for replica in app.replicas:
            if isinstance(replica.finished_at, datetime):
                replica.finished_at = replica.finished_at.replace(tzinfo=None)
        return app


class ForgetsTheName(Described):
    def twist(self, app: DescribeAppResponse) -> DescribeAppResponse | None:
        return dataclasses.replace(app, name="")


class CountsNoRestarts(Described):
    def twist(self, app: DescribeAppResponse) -> DescribeAppResponse | None:
        for replica in app.replicas:
            replica.num_restarts = 0
        return app


class ShowsSecrets(Described):
    def twist(self, app: DescribeAppResponse) -> DescribeAppResponse | None:
        env = self.service.apps[app.app_id].app.roles[0].env
        app.msg += "".join(env.values())
        return app


class KnowsItsOwnOnly(Described):
    def twist(self, app: DescribeAppResponse) -> DescribeAppResponse | None:
        return app if app.session == self.session_name else None


class DropsTheUnknown(FakeScheduler):
    async def _describe_many(self, app_ids: Sequence[str]) -> Answers:
        answers = await super()._describe_many(app_ids)
        return {app_id: answer for app_id, answer in answers.items() if answer is not None}


class EndsAsFailed(Described):
    def twist(self, app: DescribeAppResponse) -> DescribeAppResponse | None:
        if app.state is AppState.CANCELLED:
            app.state = AppState.FAILED
        return app


class CancelsWhatHasEnded(FakeScheduler):
    async def _cancel(self, app_id: str) -> None:
        if app_id in self.service.apps:
            self.service.cancel(app_id)


class CannotCancelTheUnknown(FakeScheduler):
    async def _cancel(self, app_id: str) -> None:
        self.service.cancel(app_id)


class DeletesWhatRuns(FakeScheduler):
    async def _delete(self, app_id: str) -> None:
        self.service.vanish(app_id)


class DeletesOnce(FakeScheduler):
    async def _delete(self, app_id: str) -> None:
        if not self.service.apps[app_id].ended:
            raise ConflictError("it still runs")
        self.service.vanish(app_id)


class DeletesNothing(FakeScheduler):
    async def _delete(self, app_id: str) -> None:
        if not self.service.apps[app_id].ended:
            raise ConflictError("it still runs")


class Listed(FakeScheduler):
    """Lists otherwise than it should."""

    def twist(self, rows: list[ListAppResponse]) -> list[ListAppResponse]:
        return rows

    async def _list(self) -> AsyncGenerator[ListAppResponse]:
        for row in self.twist([row async for row in super()._list()]):
            yield row


class ListsTheOldestFirst(Listed):
    def twist(self, rows: list[ListAppResponse]) -> list[ListAppResponse]:
        return rows[::-1]


class ListsItsOwnSession(Listed):
    def twist(self, rows: list[ListAppResponse]) -> list[ListAppResponse]:
        return [row for row in rows if row.session == self.session_name]


class ListsARowForEachReplica(Listed):
    def twist(self, rows: list[ListAppResponse]) -> list[ListAppResponse]:
        return [row for row in rows for _ in self.service.apps[row.app_id].replicas]


class SubmitsEachTime(FakeScheduler):
    async def _schedule(self, info: AppDryRunInfo[FakeRequest]) -> None:
        info.app_id = make_unique("again")
        await super()._schedule(info)


class IgnoresADifference(FakeScheduler):
    async def _schedule(self, info: AppDryRunInfo[FakeRequest]) -> None:
        if info.app_id not in self.service.apps:
            await super()._schedule(info)


class LeavesHalf(FakeScheduler):
    async def _schedule(self, info: AppDryRunInfo[FakeRequest]) -> None:
        try:
            await super()._schedule(info)
        except AsyncSchedError:
            self.service.launch(info.app_id, info.request.app, self.session_name, info.digest)
            raise


class LeavesWhatWasCancelled(FakeScheduler):
    async def _schedule(self, info: AppDryRunInfo[FakeRequest]) -> None:
        self.service.launch(info.app_id, info.request.app, self.session_name, info.digest)
        await self.service.call("commit")


class TellsWhatWasAskedFor(FakeScheduler):
    asked: AppDef | None = None

    async def _request(self, app: AppDef, options: FakeOptions, app_id: str) -> FakeRequest:
        self.asked = copy.deepcopy(app)
        return await super()._request(app, options, app_id)

    async def _schedule(self, info: AppDryRunInfo[FakeRequest]) -> None:
        info.app = self.asked
        await super()._schedule(info)


class TellsWhatRan(FakeScheduler):
    async def _schedule(self, info: AppDryRunInfo[FakeRequest]) -> None:
        info.app = info.request.app
        await super()._schedule(info)


class TellsTheRoleAsItIsNow(FakeScheduler):
    async def _dryrun(self, *args: Any, **more: Any) -> AppDryRunInfo[FakeRequest]:
        info = await super()._dryrun(*args, **more)
        assert info.made is not None
        assert info.app is not None
        info.made = Made(info.app, info.made.request)
        return info


class SubmitsAtDryRun(FakeScheduler):
    async def _request(self, app: AppDef, options: FakeOptions, app_id: str) -> FakeRequest:
        request = await super()._request(app, options, app_id)
        self.service.launch(app_id, request.app, self.session_name, "")
        return request


class MakesIdsOfItsOwn(FakeScheduler):
    def _app_id(self, app: AppDef, options: FakeOptions, key: str | None) -> str:
        return make_unique(app.name)


class IgnoresTheSession(FakeScheduler):
    def _app_id(self, app: AppDef, options: FakeOptions, key: str | None) -> str:
        return make_unique(app.name) if key is None else f"{app.name}-{key}"


class MakesPaths(FakeScheduler):
    def _app_id(self, app: AppDef, options: FakeOptions, key: str | None) -> str:
        return super()._app_id(app, options, key).replace("-", "/")


class SendsMasks(FakeScheduler):
    async def _request(self, app: AppDef, options: FakeOptions, app_id: str) -> FakeRequest:
        for role in app.roles:
            role.env = {name: str(value) for name, value in role.env.items()}
        return await super()._request(app, options, app_id)


class Logged(FakeScheduler):
    """Reads logs otherwise than they were written."""

    def twist(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        return lines

    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        twist = self.twist

        class Twisted(FakePush):
            def parse(self, data: bytes) -> Sequence[LogLine]:
                return twist(super().parse(data))

        return [Twisted(self.service, self.clock, app.app_id, replica, query) for replica in replicas]


def remade(lines: Sequence[LogLine], text: Any) -> list[LogLine]:
    return [made for line in lines for made in label([text(line)], line.source, line.ns)]


class StripsNewlines(Logged):
    def twist(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        return remade(lines, lambda line: line.text)


class StripsBlanks(Logged):
    def twist(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        return remade(lines, lambda line: f"{line.strip()}\n")


class SpeaksAscii(Logged):
    def twist(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        return remade(lines, lambda line: line.encode("ascii", "replace").decode())


class CutsLongLines(Logged):
    def twist(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        return remade(lines, lambda line: line if len(line) < 1024 else f"{line[:1023]}\n")


class LosesALine(Logged):
    def twist(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        return [line for line in lines if line.text != "line 17"]


class RepeatsALine(Logged):
    def twist(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        return [copy for line in lines for copy in ([line] * 2 if line.text == "line 17" else [line])]


class MixesUpTheOrder(Logged):
    def twist(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        return lines[::-1]


class MixesUpStreams(Logged):
    def twist(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        for line in lines:
            line.source = line.source._replace(stream=Stream.STDOUT)
        return lines


class KnowsNoAttempts(Logged):
    def twist(self, lines: Sequence[LogLine]) -> Sequence[LogLine]:
        for line in lines:
            line.source = line.source._replace(attempt=0)
        return lines


class ReadsAnotherReplica(FakeScheduler):
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        return await super()._log_sources(app, [dataclasses.replace(replica, id=0) for replica in replicas], query)


class NeverFollows(FakeScheduler):
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        return await super()._log_sources(app, replicas, query._replace(tail=False))


class AlwaysFollows(FakeScheduler):
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        return await super()._log_sources(app, replicas, query._replace(tail=True))


class NeverEnds(FakeScheduler):
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        return [*await super()._log_sources(app, replicas, query), QueueSource(role="main", replica=0)]


class ForgetsLogsOfTheCancelled(FakeScheduler):
    async def _cancel(self, app_id: str) -> None:
        await super()._cancel(app_id)
        self.service.purge(app_id)


class NeverTellsAnEnd(FakeScheduler):
    async def _describe_many(self, app_ids: Sequence[str]) -> Answers:
        answers = dict(await super()._describe_many(app_ids))
        for app_id, app in answers.items():
            if isinstance(app, DescribeAppResponse) and app.state.is_terminal():
                answers[app_id] = dataclasses.replace(app, state=AppState.RUNNING)
        return answers


class TellsNoCause(Described):
    def twist(self, app: DescribeAppResponse) -> DescribeAppResponse | None:
        for replica in app.replicas:
            replica.cause = None
        return dataclasses.replace(app, cause=None)


class TellsTheAppsCauseAlone(Described):
    def twist(self, app: DescribeAppResponse) -> DescribeAppResponse | None:
        for replica in app.replicas:
            replica.cause = None
        return app


class RunsOnOverItsTime(FakeScheduler):
    async def _request(self, app: AppDef, options: FakeOptions, app_id: str) -> FakeRequest:
        return await super()._request(app, dataclasses.replace(options, timeout=None), app_id)


class TakesAnyTime(FakeScheduler):
    async def _request(self, app: AppDef, options: FakeOptions, app_id: str) -> FakeRequest:
        options = dataclasses.replace(options, timeout=None, pending_timeout=None)
        return await super()._request(app, options, app_id)


class RefusesInOtherWords(FakeScheduler):
    async def _request(self, app: AppDef, options: FakeOptions, app_id: str) -> FakeRequest:
        if options.timeout is not None:
            raise ConfigError(f"timeout={options.timeout} is out of range")
        return await super()._request(app, options, app_id)


class RetriesWhatTookTooLong(Described):
    def twist(self, app: DescribeAppResponse) -> DescribeAppResponse | None:
        for replica in app.replicas:
            replica.num_restarts = 1
        return app


class WaitsForEver(FakeScheduler):
    async def _request(self, app: AppDef, options: FakeOptions, app_id: str) -> FakeRequest:
        return await super()._request(app, dataclasses.replace(options, pending_timeout=None), app_id)


class CancelsOneOfMany(FakeScheduler):
    async def _cancel_many(self, app_ids: Collection[str]) -> Mapping[str, SchedulerError | None]:
        await self._cancel(next(iter(app_ids)))
        return {}


class StopsAtTheUnknown(FakeScheduler):
    async def _cancel_many(self, app_ids: Collection[str]) -> Mapping[str, SchedulerError | None]:
        return {app_id: None if app_id in self.service.apps else SchedulerError("unknown") for app_id in app_ids}


class PrunesWhatRuns(FakeScheduler):
    async def _prune(self, older_than: timedelta, states: Collection[AppState]) -> list[str]:
        found = [*self.service.apps]
        for app_id in found:
            self.service.vanish(app_id)
        return found


class PrunesWhateverItsAge(FakeScheduler):
    async def _prune(self, older_than: timedelta, states: Collection[AppState]) -> list[str]:
        return await super()._prune(timedelta(0), states)


class PrunesWhateverItsEnd(FakeScheduler):
    async def _prune(self, older_than: timedelta, states: Collection[AppState]) -> list[str]:
        return await super()._prune(older_than, TERMINAL)


class KeepsResultsToItself(FakeScheduler):
    async def _results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        return None


class MakesResultsUp(FakeScheduler):
    async def _results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        return {(each.role, each.id): None for each in self.service.apps[app_id].replicas.values()}


class ReadsResultsOfAnySize(FakeScheduler):
    async def _results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        app = self.service.apps.get(app_id)
        found = {} if app is None else {key: each.result for key, each in app.replicas.items() if each.result}
        return {key: read_result(text) if len(text) < 1000 else text.decode() for key, text in found.items()}


class PassesOnTheNameOfASecret(FakeScheduler):
    takes_secret_refs = True

    async def _request(self, app: AppDef, options: FakeOptions, app_id: str) -> FakeRequest:
        for role in app.roles:
            role.env = {name: "".join(value) for name, value in role.env.items()}
        return await super()._request(app, options, app_id)


CAUGHT: list[tuple[type[FakeScheduler], str]] = [
    (RaisesForTheUnknown, "an_unknown_app_is_none_and_does_not_exist"),
    (HidesExitCodes, "success_is_described_in_full"),
    (FailsAtTheFirstFailure, "a_failure_names_its_code_and_leaves_the_others_running"),
    (TellsNoReason, "all_ended_with_a_failure_is_failed_and_says_why"),
    (TellsLocalTime, "success_is_described_in_full"),
    (ForgetsTheName, "submit_returns_an_id_that_describe_knows"),
    (CountsNoRestarts, "restarts_are_followed_and_counted"),
    (ShowsSecrets, "secrets_are_sent_but_never_shown"),
    (SendsMasks, "secrets_are_sent_but_never_shown"),
    (KnowsItsOwnOnly, "another_process_sees_the_same"),
    (DropsTheUnknown, "a_watch_of_an_unknown_app_is_one_event"),
    (EndsAsFailed, "cancel_ends_an_app_as_cancelled_for_everyone"),
    (CancelsWhatHasEnded, "cancel_does_nothing_to_the_unknown_and_the_finished"),
    (CannotCancelTheUnknown, "cancel_does_nothing_to_the_unknown_and_the_finished"),
    (DeletesWhatRuns, "delete_removes_what_has_ended_and_refuses_the_rest"),
    (DeletesOnce, "delete_removes_what_has_ended_and_refuses_the_rest"),
    (DeletesNothing, "delete_removes_what_has_ended_and_refuses_the_rest"),
    (ListsTheOldestFirst, "list_has_one_row_for_each_app_newest_first"),
    (ListsItsOwnSession, "list_tells_the_apps_of_all_sessions"),
    (ListsARowForEachReplica, "list_has_one_row_for_each_app_newest_first"),
    (SubmitsEachTime, "scheduling_one_dry_run_twice_submits_once"),
    (IgnoresADifference, "a_key_makes_a_submit_idempotent"),
    (MakesIdsOfItsOwn, "a_key_makes_a_submit_idempotent"),
    (IgnoresTheSession, "a_key_makes_a_submit_idempotent"),
    (LeavesHalf, "a_submit_that_fails_half_way_leaves_nothing"),
    (TellsWhatWasAskedFor, "an_app_whose_request_was_edited_is_not_submitted_again_as_it_was"),
    (TellsWhatWasAskedFor, "what_pre_proc_changes_is_not_told_as_what_ran"),
    (TellsWhatRan, "an_app_whose_request_was_edited_is_not_submitted_again_as_it_was"),
    (TellsTheRoleAsItIsNow, "what_pre_proc_changes_is_not_told_as_what_ran"),
    (SubmitsAtDryRun, "a_dry_run_changes_nothing"),
    (MakesPaths, "submit_returns_an_id_that_describe_knows"),
    (StripsNewlines, "every_line_of_every_replica_in_its_order"),
    (LosesALine, "every_line_of_every_replica_in_its_order"),
    (RepeatsALine, "every_line_of_every_replica_in_its_order"),
    (MixesUpTheOrder, "every_line_of_every_replica_in_its_order"),
    (ReadsAnotherReplica, "roles_and_replicas_are_chosen"),
    (StripsBlanks, "a_line_is_delivered_as_it_was_written"),
    (SpeaksAscii, "a_line_is_delivered_as_it_was_written"),
    (CutsLongLines, "a_line_is_delivered_as_it_was_written"),
    (MixesUpStreams, "streams_are_told_apart_or_refused"),
    (KnowsNoAttempts, "restarts_are_followed_and_counted"),
    (NeverFollows, "a_tail_waits_for_an_app_that_has_not_begun"),
    (AlwaysFollows, "a_tail_ends_with_the_app_and_a_read_with_what_is_there"),
    (NeverEnds, "way_1_plain_async_for"),
    (ForgetsLogsOfTheCancelled, "logs_stay_after_cancelling_or_are_told_to_be_gone"),
    (TellsNoCause, "a_cause_is_told_for_each_end"),
    (TellsTheAppsCauseAlone, "a_cause_is_told_for_each_end"),
    (TellsTheAppsCauseAlone, "over_its_time_an_app_is_failed_and_not_retried"),
    (TellsTheAppsCauseAlone, "an_app_that_never_starts_is_failed_in_time"),
    (RunsOnOverItsTime, "over_its_time_an_app_is_failed_and_not_retried"),
    (TakesAnyTime, "a_limit_of_time_that_cannot_be_kept_is_refused"),
    (RefusesInOtherWords, "a_limit_of_time_that_cannot_be_kept_is_refused"),
    (RetriesWhatTookTooLong, "over_its_time_an_app_is_failed_and_not_retried"),
    (WaitsForEver, "an_app_that_never_starts_is_failed_in_time"),
    (CancelsOneOfMany, "many_apps_are_cancelled_at_once"),
    (StopsAtTheUnknown, "many_apps_are_cancelled_at_once"),
    (PrunesWhatRuns, "prune_removes_what_ended_long_ago_and_nothing_that_runs"),
    (PrunesWhateverItsAge, "prune_removes_what_ended_long_ago_and_nothing_that_runs"),
    (PrunesWhateverItsEnd, "prune_removes_what_ended_long_ago_and_nothing_that_runs"),
    (KeepsResultsToItself, "results_are_read_where_that_can_be"),
    (MakesResultsUp, "results_are_read_where_that_can_be"),
    (ReadsResultsOfAnySize, "results_are_read_where_that_can_be"),
    (PassesOnTheNameOfASecret, "a_secret_of_the_service_is_filled_in_or_refused"),
    (NeverTellsAnEnd, "a_watch_begins_with_the_present_and_ends_at_the_end"),
]


def rig_of(faulty: type[FakeScheduler], clock: VirtualClock, *, patience: float = WITHIN) -> ContractRig:
    service = FakeService(clock, start_delay=0.01)
    secret = SecretRef("passwords", "database")
    service.secrets[secret] = "the value"
    return ContractRig(
        faulty("mine", service),
        another=lambda: faulty("other", service),
        patience=patience,
        long_sleep="sleep infinity",
        timeout=2.0,
        never_starts=AppDef("job", [Role("main", "i", entrypoint=NEVER_STARTS)]),
        reads_results=True,
        secret=(secret, "the value"),
        unstartable=AppDef("job", [Role("bad", "i", entrypoint=MISSING_PROGRAM)]),
    )


@pytest.mark.parametrize(("faulty", "sentence"), CAUGHT)
async def test_a_broken_sentence_is_noticed(faulty: type[FakeScheduler], sentence: str, clock: VirtualClock) -> None:
    test = getattr(SchedulerContract(), f"test_{sentence}")
    rig = rig_of(faulty, clock, patience=0.5)  # some faults are noticed by nothing but that it takes too long

    with pytest.raises((Exception, pytest.fail.Exception)):  # an assertion that fails, or what the fault leads to
        await test(rig)
    await rig.scheduler.close()


@pytest.mark.parametrize("sentence", sorted({sentence for _, sentence in CAUGHT}))
async def test_a_good_backend_is_not_blamed(sentence: str, clock: VirtualClock) -> None:
    rig = rig_of(FakeScheduler, clock)
    await getattr(SchedulerContract(), f"test_{sentence}")(rig)
    await rig.scheduler.close()


async def test_what_a_cancelled_submit_leaves_is_noticed_at_some_step(clock: VirtualClock) -> None:
    noticed = False
    for steps in (0, 1, 2, 3, 5, 8):
        rig = rig_of(LeavesWhatWasCancelled, clock)
        try:
            await SchedulerContract().test_a_cancelled_submit_leaves_nothing_or_an_app(rig, steps)
        except AssertionError:
            noticed = True
        await rig.scheduler.close()

    assert noticed
