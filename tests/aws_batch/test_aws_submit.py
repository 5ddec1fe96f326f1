"""Submitting: exactly one job, whatever happens on the way; definitions that are shared or go with their app."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest

from asyncsched.errors import (
    AsyncSchedError,
    ConfigError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    SchedulerError,
    ThrottledError,
    UnavailableError,
    UsageError,
)
from asyncsched.schedulers._common.rate_limit import RateLimits
from asyncsched.schedulers.aws_batch import AWSBatchScheduler, BatchJob
from asyncsched.specs import AppDryRunInfo, AppState, Resource
from tests.aws_batch.conftest import QUEUE, Virtual, app
from tests.aws_emulator.cloud import Cloud

CFG = {"queue": QUEUE}


def jobs(cloud: Cloud) -> list[str]:
    return [job.name for job in cloud.jobs]


async def test_the_app_id_is_fixed_at_the_dry_run_and_other_forms_are_understood(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    info = await scheduler.submit_dryrun(app(), CFG)
    fixed = info.app_id
    app_id = await scheduler.schedule(info)
    job = virtual.cloud.jobs[0]

    assert f"{QUEUE}:{job.name}" == fixed == app_id == info.app_id
    assert fixed == (await scheduler.list())[0].app_id
    other = virtual.scheduler()
    forms = (app_id, job.id, job.name, job.arn, f"{app_id}#0", f"{QUEUE}:{job.id}", f"{QUEUE}:{job.id}#0")
    for form in forms:
        found = await other.describe(form)
        assert (app_id, job.id) == (found and (found.app_id, found.native_id)), form
    for unknown in (f"{QUEUE}:nobody", "nowhere:nobody", "nobody", "11111111-2222-3333-4444-555555555555"):
        assert await other.describe(unknown) is None
    for wrong in ("", "a/b", ":x", f"{QUEUE}:", "arn:aws:batch:x"):
        with pytest.raises(ValueError, match="<queue>:<jobName>"):
            await other.describe(wrong)


@pytest.mark.parametrize("edit", [{"name": "another"}, {"queue": "another"}])
async def test_a_request_that_was_edited_keeps_its_name_and_queue(virtual: Virtual, edit: dict[str, str]) -> None:
    scheduler = virtual.scheduler()
    info = await scheduler.submit_dryrun(app(), CFG)
    for name, value in edit.items():
        setattr(info.request, name, value)

    with pytest.raises(UsageError, match="dry-run again"):
        await scheduler.schedule(info)

    assert [] == virtual.cloud.jobs


async def test_a_key_of_a_deleted_app_whose_new_submit_is_lost_on_the_way_makes_a_new_job(virtual: Virtual) -> None:
    """The deleted job still has the name by which the lost one is looked for."""
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(app(["exit", 0]), CFG, key="order")
    _ = [event async for event in scheduler.watch([app_id])]
    await scheduler.delete(app_id)
    virtual.cloud.traffic.fail("SubmitJob", "unavailable")

    assert app_id == await scheduler.submit(app(["exit", 0]), CFG, key="order")
    assert 2 == len(virtual.cloud.jobs)
    found = await scheduler.describe(app_id)
    assert virtual.cloud.jobs[-1].id == (found and found.native_id)


async def test_an_app_depends_on_others_by_their_ids(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    first = await scheduler.submit(app(["sleep", 5]), CFG)
    job = virtual.cloud.jobs[0]
    await virtual.scheduler().submit(app(), {**CFG, "depends_on": [first, job.id]})

    assert [{"jobId": job.id}] * 2 == virtual.cloud.jobs[1].depends_on
    with pytest.raises(NotFoundError, match="depends_on names"):
        await scheduler.submit(app(), {**CFG, "depends_on": [f"{QUEUE}:nobody"]})


@pytest.mark.parametrize("kind", ["cut_after", "cut", "error", "unavailable", "garbage", "throttle"])
@pytest.mark.parametrize("times", [1, 2])
async def test_a_submit_whose_answer_is_lost_makes_exactly_one_job(virtual: Virtual, kind: str, times: int) -> None:
    scheduler = virtual.scheduler()
    virtual.cloud.traffic.fail("SubmitJob", kind, times=times)

    app_id = await scheduler.submit(app(), CFG)

    assert [app_id.partition(":")[2]] == [job.name for job in virtual.cloud.jobs]
    assert AppState.SUCCEEDED == [event async for event in scheduler.watch([app_id])][-1].state


async def test_thirty_seconds_of_refusals_delay_a_submit_and_no_more(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    fault = virtual.cloud.traffic.fail("*", "throttle", times=1_000_000)
    virtual.clock.call_later(30, lambda: setattr(fault, "times", 0))

    await scheduler.submit(app(), CFG)

    assert 1 == len(virtual.cloud.jobs)


async def test_a_service_that_stays_away_is_told_and_nothing_is_left(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    virtual.cloud.traffic.fail("SubmitJob", "unavailable", times=1_000_000)

    with pytest.raises(UnavailableError, match="SubmitJob"):
        await scheduler.submit(app(), CFG)

    assert [] == virtual.cloud.jobs


async def test_two_hundred_calls_meet_a_limit_of_twenty_a_second_and_none_fails(virtual: Virtual) -> None:
    """The limit is the account's: several schedulers share one `RateLimits`."""
    virtual.cloud.traffic.throttle(DescribeJobs=(20, 20))
    limits = RateLimits()
    schedulers = [virtual.scheduler(limits=limits) for _ in range(4)]
    app_id = await schedulers[0].submit(app(["sleep", 1000]), CFG)

    found = await asyncio.gather(*(schedulers[n % 4].describe(app_id) for n in range(200)))

    assert 200 == len([each for each in found if each is not None])
    assert 0 == virtual.cloud.traffic.throttled.total()


async def test_schedulers_that_do_not_know_of_each_other_slow_down(virtual: Virtual) -> None:
    virtual.cloud.traffic.throttle(DescribeJobs=(20, 20))
    schedulers = [virtual.scheduler() for _ in range(8)]
    app_id = await schedulers[0].submit(app(["sleep", 1000]), CFG)

    found = await asyncio.gather(*(schedulers[n % 8].describe(app_id) for n in range(400)))

    assert 400 == len([each for each in found if each is not None])


async def test_a_hundred_submits_of_one_app_register_one_definition(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()

    await asyncio.gather(*(scheduler.submit(app(["line", str(n)]), CFG) for n in range(100)))
    await virtual.scheduler().submit(app(["line", "another process"]), CFG)

    assert 101 == len(virtual.cloud.jobs)
    assert {"asx-app": 1} == {name: len(rows) for name, rows in virtual.cloud.definitions.revisions.items()}
    assert 1 == virtual.cloud.traffic.calls["RegisterJobDefinition"]


async def test_a_definition_that_somebody_deregistered_is_made_again(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    await scheduler.submit(app(), CFG)
    virtual.cloud.definitions.deregister("asx-app:1")

    await scheduler.submit(app(), CFG)

    assert ["INACTIVE", "ACTIVE"] == [row["status"] for row in virtual.cloud.definitions.revisions["asx-app"]]


async def test_a_definition_of_its_own_goes_when_the_app_is_over(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(app(), {**CFG, "definition": "per-app"})
    name = virtual.cloud.jobs[0].definition["jobDefinitionName"]
    assert f"asx-{virtual.cloud.jobs[0].name}" == name

    async for event in scheduler.watch([app_id]):
        states = [row["status"] for row in virtual.cloud.definitions.revisions[name]]
        assert ["ACTIVE"] == states or event.is_terminal()
    await virtual.clock.sleep(5)

    assert ["INACTIVE"] == [row["status"] for row in virtual.cloud.definitions.revisions[name]]
    await scheduler.describe(app_id)
    assert 1 == virtual.cloud.traffic.calls["DeregisterJobDefinition"]


async def test_a_key_gives_the_same_job_from_any_process_or_a_conflict(virtual: Virtual) -> None:
    one, other = virtual.scheduler(), virtual.scheduler()
    first = await one.submit(app(), CFG, key="order-42")

    assert first == await other.submit(app(), CFG, key="order-42") == await one.submit(app(), CFG, key="order-42")
    assert 1 == len(virtual.cloud.jobs)
    for scheduler in (one, virtual.scheduler()):
        with pytest.raises(ConflictError, match="its roles or options differ"):
            await scheduler.submit(app(["line", "something else"]), CFG, key="order-42")


async def test_a_fresh_submit_costs_two_calls_and_the_next_one(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    await scheduler.submit(app(), CFG)
    calls = virtual.cloud.traffic.calls
    assert {"DescribeJobDefinitions": 1, "RegisterJobDefinition": 1, "SubmitJob": 1} == dict(calls)

    calls.clear()
    await scheduler.submit(app(), CFG)
    assert {"SubmitJob": 1} == dict(calls)


@pytest.mark.parametrize(("nodes", "calls"), [(1, 1), (4, 1), (99, 1), (100, 2), (250, 3)])
async def test_describing_an_app_takes_one_call_for_a_hundred_ids(virtual: Virtual, nodes: int, calls: int) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(app(["sleep", 100], num_replicas=nodes), CFG)
    await virtual.clock.sleep(2)
    for reader, by_name in ((scheduler, {}), (virtual.scheduler(), {"ListJobs": 1})):
        virtual.cloud.traffic.calls.clear()
        found = await reader.describe(app_id)

        assert found is not None
        assert [AppState.RUNNING] * nodes == [replica.state for replica in found.replicas]
        assert {"DescribeJobs": calls, **by_name} == dict(virtual.cloud.traffic.calls)


async def refused(scheduler: AWSBatchScheduler, cfg: dict[str, Any]) -> AsyncSchedError:
    with pytest.raises(AsyncSchedError) as caught:
        await scheduler.submit(app(), cfg)
    return caught.value


async def test_refusals_say_what_why_and_what_to_do(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    virtual.cloud.fair_queues.add("fair")
    virtual.cloud.queues.add("fair")

    no_queue = await refused(scheduler, {"queue": "nowhere"})
    no_share = await refused(scheduler, {"queue": "fair"})
    share = await refused(scheduler, {**CFG, "share_id": "x"})
    virtual.cloud.traffic.fail("SubmitJob", "denied")
    denied = await refused(scheduler, CFG)

    assert isinstance(no_queue, NotFoundError)
    assert "the job queue nowhere does not exist" in str(no_queue)
    assert "describe-job-queues" in no_queue.fix
    for error in (no_share, share):
        assert isinstance(error, InvalidRequestError)
        assert "share_id" in error.fix
    assert isinstance(denied, PermissionDeniedError)
    assert "batch:SubmitJob" in denied.fix
    assert [] == virtual.cloud.jobs


async def test_a_throttled_call_that_never_gets_through_says_so(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    virtual.cloud.traffic.fail("DescribeJobs", "throttle", times=1_000_000)

    with pytest.raises((ThrottledError, UnavailableError), match=r"DescribeJobs|describe"):
        await scheduler.describe(f"{QUEUE}:11111111-2222-3333-4444-555555555555")


async def test_arrays_run_the_replica_again_and_again(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    steps: list[list[Any]] = [["line", "$AWS_BATCH_JOB_ARRAY_INDEX"], ["sleep", 3]]
    app_id = await scheduler.submit(app(*steps), {**CFG, "array_size": 5})

    lines = [line.text async for line in scheduler.log_iter(app_id, should_tail=True)]
    found = await scheduler.describe(app_id)

    assert ["0", "1", "2", "3", "4"] == sorted(lines)
    assert found is not None
    assert (AppState.SUCCEEDED, 5) == (found.state, len(found.replicas))


async def test_a_job_that_cannot_start_says_what_it_waits_for(virtual: Virtual) -> None:
    virtual.cloud.life.stuck[QUEUE] = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - no instance fits"
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(app(num_replicas=2), CFG)
    await virtual.clock.sleep(1)

    found = await scheduler.describe(app_id)

    assert found is not None
    assert AppState.PENDING == found.state
    assert "no instance fits; request less" in found.msg


@pytest.mark.slow
async def test_the_list_has_everything_newest_first_and_takes_pages_as_they_are_needed(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    virtual.cloud.queues.add("other")
    ids = []
    for number in range(250):
        ids.append(await scheduler.submit(app(["sleep", 1]), {"queue": QUEUE if number % 2 else "other"}))
        await virtual.clock.sleep(0.01)
    virtual.cloud.traffic.calls.clear()

    rows = await scheduler.list()
    all_calls = virtual.cloud.traffic.calls.total()
    virtual.cloud.traffic.calls.clear()
    first = await scheduler.list(limit=10)

    assert ids[::-1] == [row.app_id for row in rows]
    assert {("app", "session")} == {(row.name, row.session) for row in rows}
    # The queues; an empty one; and for each page of the others the list and the tags.
    assert 1 + 1 + 2 * (2 + 2) == all_calls
    assert ids[:-11:-1] == [row.app_id for row in first]
    assert 1 + 1 + 2 * 2 == virtual.cloud.traffic.calls.total()


async def test_managed_instances_run_tasks_that_are_read_like_any_other_job(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    steps: list[list[Any]] = [["line", "$AWS_BATCH_JOB_ATTEMPT $GREETING"], ["sleep", 3], ["exit", [3, 4]]]
    managed = {**CFG, "platform": "MANAGED_INSTANCES"}
    app_id = await scheduler.submit(app(*steps, env={"GREETING": "hello"}, max_retries=1), managed)

    lines = [line async for line in scheduler.log_iter(app_id, should_tail=True)]
    found = await virtual.scheduler().describe(app_id)

    assert ["MANAGED_INSTANCES"] == virtual.cloud.jobs[0].definition["platformCapabilities"]
    assert [(0, "1 hello"), (1, "2 hello")] == [(line.attempt, line.text) for line in lines]
    assert found is not None
    (replica,), (role,) = found.replicas, found.roles
    assert (AppState.FAILED, "main", 4, 1) == (replica.state, replica.role, replica.exit_code, replica.num_restarts)
    assert ("main", "script", "play", 1) == (role.name, role.image, role.entrypoint, role.max_retries)


# It gives up at the first failure after 60 seconds, and pauses for up to 10 seconds before the last try.
@pytest.mark.parametrize("away", [30, 80, 150])
async def test_a_submit_whose_fate_cannot_be_looked_up_is_not_sent_again(virtual: Virtual, away: float) -> None:
    scheduler = virtual.scheduler()
    virtual.cloud.traffic.fail("SubmitJob", "cut_after")
    fault = virtual.cloud.traffic.fail("ListJobs", "unavailable", times=1_000_000)
    virtual.clock.call_later(away, lambda: setattr(fault, "times", 0))

    outcome = (await asyncio.gather(scheduler.submit(app(), CFG), return_exceptions=True))[0]

    assert 1 == virtual.cloud.traffic.calls["SubmitJob"]
    (job,) = virtual.cloud.jobs
    if away < 60:
        assert f"{QUEUE}:{job.name}" == outcome
    else:
        assert isinstance(outcome, SchedulerError)
        assert not outcome.retryable
        assert f"{QUEUE}:{job.name}" in str(outcome)


async def test_credentials_that_have_just_expired_get_another_chance_to_be_renewed(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    for operation in ("RegisterJobDefinition", "SubmitJob", "DescribeJobs"):
        virtual.cloud.traffic.fail(operation, "expired")

    app_id = await scheduler.submit(app(), CFG)

    assert await scheduler.exists(app_id)
    assert 1 == len(virtual.cloud.jobs)


async def test_tags_leave_room_for_those_that_a_submit_and_a_delete_add(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    with pytest.raises(ConfigError, match="at most 48 tags, got 49"):
        await scheduler.submit(app(name="tagged"), {**CFG, "tags": {f"k{n}": "v" for n in range(45)}})

    app_id = await scheduler.submit(app(["line", "x"]), {**CFG, "tags": {f"k{n}": "v" for n in range(44)}})
    ended = [event async for event in scheduler.watch([app_id])][-1]
    await scheduler.delete(app_id)

    assert ended.is_terminal()
    assert not await scheduler.exists(app_id)


async def test_a_definition_of_its_own_is_not_left_behind_by_a_submit_that_is_refused(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    virtual.cloud.traffic.fail("SubmitJob", "denied")

    with pytest.raises(PermissionDeniedError):
        await scheduler.submit(app(), {**CFG, "definition": "per-app"})

    ((row,),) = virtual.cloud.definitions.revisions.values()
    assert "INACTIVE" == row["status"]


async def test_deleting_an_app_from_another_process_takes_its_own_definition_along(virtual: Virtual) -> None:
    app_id = await virtual.scheduler().submit(app(["line", "x"]), {**CFG, "definition": "per-app"})
    await virtual.clock.sleep(60)

    await virtual.scheduler().delete(app_id)

    ((row,),) = virtual.cloud.definitions.revisions.values()
    assert "INACTIVE" == row["status"]


@pytest.mark.parametrize(("size", "own"), [(1, False), (5_000, False), (12_000, True), (20_000, True)])
async def test_a_large_environment_arrives_although_overrides_are_limited(
    virtual: Virtual, size: int, own: bool
) -> None:
    """ECS takes 8192 characters of overrides, and a job with more of them fails when it is to start."""
    scheduler = virtual.scheduler()
    large = {f"V{n}": "x" * 1000 for n in range(size // 1000)}
    app_id = await scheduler.submit(app(["line", "ok"], ["sleep", 5], env={**large, "LAST": "1"}), CFG)

    states = [event.state async for event in scheduler.watch([app_id])]
    found = await scheduler.describe(app_id)

    assert AppState.SUCCEEDED == states[-1]
    assert found is not None
    assert large.keys() | {"LAST"} <= found.roles[0].env.keys()
    await virtual.clock.sleep(5)
    ((row,),) = virtual.cloud.definitions.revisions.values()
    assert own == (row["status"] == "INACTIVE")


async def test_a_cancelled_array_is_cancelled(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(app(["sleep", 500]), {**CFG, "array_size": 3})
    await virtual.clock.sleep(5)
    await scheduler.cancel(app_id)

    ended = [event async for event in scheduler.watch([app_id])][-1]

    assert AppState.CANCELLED == ended.state
    assert ended.current is not None
    assert [AppState.CANCELLED] * 3 == [replica.state for replica in ended.current.replicas]


async def test_a_name_is_found_behind_an_empty_page(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(app(), CFG)
    virtual.cloud.batch.sparse = True

    found = await virtual.scheduler().describe(f"{QUEUE}:{virtual.cloud.jobs[0].name}")

    assert app_id == getattr(found, "app_id", None)


async def test_a_list_goes_on_when_its_page_token_has_expired(virtual: Virtual) -> None:
    scheduler = virtual.scheduler()
    ids = [await scheduler.submit(app(["sleep", 1]), CFG) for _ in range(150)]
    rows = scheduler.list_iter()
    got = [(await anext(rows)).app_id for _ in range(20)]
    virtual.cloud.batch.expire_tokens()
    got += [row.app_id async for row in rows]

    assert ids[::-1] == got


@pytest.mark.parametrize(
    ("platform", "reason", "runs"),
    [
        ("EC2", "Host EC2 (instance i-1) terminated.", 3),
        ("EC2", "CannotStartContainerError: no such file", 1),
        ("FARGATE", "Your Spot Task was interrupted.", 3),
        ("FARGATE", "CannotStartContainerError: no such file", 1),
    ],
)
async def test_what_spot_takes_away_is_run_again(virtual: Virtual, platform: str, reason: str, runs: int) -> None:
    cfg: dict[str, Any] = {
        **CFG,
        "platform": platform,
        "execution_role_arn": "arn:aws:iam::1:role/x",
        "spot_retries": 2,
    }
    scheduler = virtual.scheduler()
    app_id = await scheduler.submit(app(["sleep", 2], ["fail", reason], resource=Resource(1, 0, 2048)), cfg)

    ended = [event async for event in scheduler.watch([app_id])][-1]

    assert AppState.FAILED == ended.state
    assert ended.current is not None
    assert runs - 1 == ended.current.num_restarts


@pytest.mark.parametrize(("option", "value"), [("timeout", 60.0), ("timeout_s", 60)])
async def test_a_submit_without_a_timeout_is_told(
    caplog: pytest.LogCaptureFixture, virtual: Virtual, option: str, value: float
) -> None:
    with caplog.at_level(logging.WARNING, "asyncsched"):
        await virtual.scheduler().submit(app(), {**CFG, option: value})
        assert [] == caplog.records
        await virtual.scheduler().submit(app(), CFG)

    assert ["aws_batch bills"] == [record.getMessage()[:15] for record in caplog.records]


@pytest.mark.parametrize(
    "definition",
    [
        {},
        {"type": "container"},
        {"type": "multinode", "containerProperties": {}},
        {"nodeProperties": {}},
        {"nodeProperties": {"numNodes": 2}},
        {"eksProperties": {}},
    ],
)
async def test_a_request_that_does_not_say_what_runs_is_refused(virtual: Virtual, definition: dict[str, Any]) -> None:
    request = BatchJob("by-hand", QUEUE, None, definition, {})

    with pytest.raises(InvalidRequestError, match="the job_def of the job by-hand does not say what to run") as caught:
        await virtual.scheduler().schedule(AppDryRunInfo(request, repr))
    assert caught.value.fix is not None
    assert "Properties" in caught.value.fix
    assert [] == jobs(virtual.cloud)


async def test_a_request_that_is_put_together_by_hand_is_launched_once(virtual: Virtual) -> None:
    def job(nodes: int = 0, **more: Any) -> AppDryRunInfo[BatchJob]:
        container = {"image": "script", "command": ["play", '[["sleep", 5]]'], **more}
        ranges = [{"targetNodes": f"0:{nodes - 1}", "container": container}]
        several = {"nodeProperties": {"numNodes": nodes, "mainNode": 0, "nodeRangeProperties": ranges}}
        definition: dict[str, Any] = several if nodes else {"containerProperties": container}
        return AppDryRunInfo(BatchJob(f"by-hand-{nodes}", QUEUE, None, definition, {}), repr)

    scheduler = virtual.scheduler()
    for nodes in (0, 2):
        made = job(nodes)
        app_id = await scheduler.schedule(made)
        assert f"{QUEUE}:by-hand-{nodes}" == app_id == await scheduler.schedule(job(nodes))
        found = await virtual.scheduler().describe(app_id)

        assert found is not None
        assert (f"by-hand-{nodes}", "session") == (found.name, found.session)
        assert job(nodes).request == made.request
        with pytest.raises(ConflictError):
            await virtual.scheduler().schedule(job(nodes, privileged=True))
    assert ["by-hand-0", "by-hand-2"] == jobs(virtual.cloud)
    assert [f"{QUEUE}:by-hand-2", f"{QUEUE}:by-hand-0"] == [row.app_id for row in await scheduler.list()]
    with pytest.raises(UsageError, match="aws_batch needs a BatchJob"):
        await scheduler.schedule(AppDryRunInfo(cast("Any", {}), repr))
