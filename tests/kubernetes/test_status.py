"""From records to descriptions: states, reasons, causes, restarts, rows; and objects of any content."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import MalformedHandleError
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.schedulers.kubernetes.request import make_request
from asyncsched.schedulers.kubernetes.status import Native, describe_app, needs_events, pods_of, results_of
from asyncsched.schedulers.kubernetes.status_jobs import (
    JobRecord,
    Kind,
    PodGroupRecord,
    event_record,
    job_record,
    jobs_of_app,
    pod_group_record,
)
from asyncsched.schedulers.kubernetes.status_pods import PodRecord, pod_record
from asyncsched.schedulers.kubernetes.status_reasons import why_failed, why_job_waits, why_waiting
from asyncsched.schedulers.kubernetes.status_replicas import is_in
from asyncsched.schedulers.kubernetes.status_rows import in_doubt, list_row, rows_of, told_by_jobs, told_by_tables
from asyncsched.schedulers.kubernetes.status_states import VOLCANO_PHASES
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs import AppDef, AppState, FailureCause, RetryPolicy, Role, macros
from tests.kubernetes._objects import (
    APP,
    CREATED,
    ended,
    event,
    indexed,
    job,
    over,
    pending,
    pod,
    read,
    running,
    up,
    volcano,
    waiting,
)

LATER = "2026-11-22T12:05:00Z"
BEGAN = datetime.fromisoformat(CREATED).timestamp()
TIMED = [{"event": "PodPending", "action": "TerminateJob", "timeout": "5s"}]
"""What a pending_timeout is, in a Volcano job."""


def app(replicas: int = 2, **more: Any) -> AppDef:
    return AppDef("train", [Role("main", "alpine", entrypoint="sh", num_replicas=replicas, **more)], {"team": "x"})


def described(job: JobRecord | list[JobRecord], *pods: PodRecord, **more: Any) -> DescribeAppResponse:
    found = describe_app(job if isinstance(job, list) else [job], pods, **more)
    assert found is not None
    return found


def states(found: DescribeAppResponse) -> list[AppState]:
    return [replica.state for replica in found.replicas]


S, F, C, R, P = AppState.SUCCEEDED, AppState.FAILED, AppState.CANCELLED, AppState.RUNNING, AppState.PENDING


# Ids and names


@pytest.mark.parametrize("bad", ["", "x", "a:b:c", "A:b", "a:", ":b", "a:b/c", "a" * 64 + ":b", "a:B"])
def test_malformed_ids_are_refused(bad: str) -> None:
    with pytest.raises(MalformedHandleError, match="<namespace>:<name>"):
        names.split_app_id(bad)


def test_ids_go_round() -> None:
    assert ("default", "x-1") == names.split_app_id(names.app_id("default", "x-1"))


@given(st.text(max_size=90), st.lists(st.tuples(st.text(min_size=1, max_size=90), st.integers(1, 5000)), max_size=6))
def test_whatever_apps_are_called_their_pods_have_names(name: str, roles: list[tuple[str, int]]) -> None:
    job = names.unique_name(name)
    tasks = names.task_names(job, roles)

    assert names.is_dns_label(job)
    assert job[0].isalpha()  # a Service's name begins with a letter
    assert len(set(tasks)) == len(roles)
    for task, (role, replicas) in zip(tasks, roles, strict=True):
        assert names.is_dns_label(f"{job}-{task}-{replicas - 1}")
        assert names.is_dns_label(task)
        assert tasks == names.task_names(job, roles)  # whoever describes the app makes them again
        del role


def test_a_keys_name_has_nothing_of_the_app() -> None:
    assert names.derived_name("order-42", "me") == names.derived_name("order-42", "me")
    assert names.derived_name("order-42", "me") != names.derived_name("order-42", "you")
    assert names.derived_name("order-42", "me").startswith("order-42-")


# States


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("", AppState.SUBMITTED),
        ("Pending", P),
        ("Running", R),
        ("Restarting", R),
        ("Completing", R),
        ("Completed", S),
        ("Terminating", P),
        ("Terminated", F),
        ("Failed", F),
        ("Aborting", R),
        ("Aborted", C),
        ("Dreaming", AppState.UNKNOWN),
    ],
)
def test_every_phase_of_volcano(phase: str, state: AppState) -> None:
    assert state is described(volcano(phase, app())).state
    assert {"Dreaming"} >= {phase} - VOLCANO_PHASES.keys()


@pytest.mark.parametrize(
    ("conditions", "more", "state"),
    [
        ((), {}, AppState.SUBMITTED),
        ((), {"status": {"active": 2}}, P),
        ((), {"status": {"active": 2, "ready": 1}}, R),
        (("SuccessCriteriaMet",), {"status": {"succeeded": 2}}, R),
        (("SuccessCriteriaMet", "Complete"), {"status": {"succeeded": 2}}, S),
        (("FailureTarget",), {"status": {"terminating": 1}}, P),
        (("FailureTarget", "Failed"), {"status": {"failed": 3}}, F),
        (("Suspended",), {"suspend": True}, P),
        (("Suspended",), {"suspend": True, "annotations": {names.CANCELLED: "x"}}, C),
        (("Suspended",), {"suspend": True, "annotations": {names.CANCELLED: "x"}, "status": {"terminating": 1}}, R),
        (("Suspended",), {"suspend": True, "annotations": {names.UNSCHEDULED: "x"}}, F),
        (("Complete",), {"suspend": True, "annotations": {names.CANCELLED: "x"}}, S),
    ],
)
def test_every_condition_of_a_job(conditions: tuple[str, ...], more: dict[str, Any], state: AppState) -> None:
    assert state is described(indexed(app(), *conditions, **more)).state


def test_a_failed_replica_does_not_end_the_others() -> None:
    found = described(volcano("Running", app()), over(3), up(replica=1))

    assert (R, [F, R]) == (found.state, states(found))
    assert "main/0: exit code 3" == found.msg
    assert [3, None] == [replica.exit_code for replica in found.replicas]
    assert found.cause is None


def test_the_status_that_volcano_wipes_is_told_by_the_pods() -> None:
    found = described(volcano("Failed", app(), status={"retryCount": 1}), over(3), over(0, replica=1))

    assert (F, [F, S], FailureCause.EXIT) == (found.state, states(found), found.cause)
    assert 0 == found.num_restarts  # it counts once more when it gives up
    assert datetime(2026, 11, 22, 12, 2, tzinfo=UTC) == found.finished_at
    assert ["main"] == [role.name for role in found.roles]


def test_siblings_that_the_service_ended_have_not_failed() -> None:
    gone = described(indexed(app(3), "FailureTarget", "Failed", status={"failed": 3}), over(3, replica=1))
    there = described(volcano("Failed", app()), over(3), over(143, replica=1, deleted=LATER, container=ended(143)))

    assert [C, F, C] == states(gone)
    assert [F, C] == states(there)
    assert "ended because another replica failed" == there.replicas[1].reason
    assert (FailureCause.EXIT, "main/1: exit code 3") == (gone.cause, gone.msg)


@pytest.mark.parametrize("phase", ["Aborting", "Aborted"])
def test_a_cancelled_app_runs_until_its_pods_are_gone(phase: str) -> None:
    going = described(volcano(phase, app()), over(0), up(replica=1, deleted=LATER))
    killed = described(volcano(phase, app()), over(0), over(137, replica=1, deleted=LATER))
    gone = described(volcano("Aborted", app()), over(0))

    assert (R, "cancelling") == (going.state, going.msg)
    assert C is killed.replicas[1].state
    assert (C, [S, C], FailureCause.CANCELLED) == (gone.state, states(gone), gone.cause)


def test_a_replica_without_a_pod_is_not_made_again_by_a_job_that_ends() -> None:
    failing = described(indexed(app(), "FailureTarget", status={"startTime": LATER}), over(3))
    cancelling = described(volcano("Aborting", app()), up())

    assert (R, [F, C]) == (failing.state, states(failing))
    assert (R, [R, C]) == (cancelling.state, states(cancelling))
    assert ["ended because another replica failed", "its pod is gone"] == [
        found.replicas[1].reason for found in (failing, cancelling)
    ]


def test_one_failed_before_the_cancel_keeps_its_failure() -> None:
    found = described(volcano("Aborted", app()), over(3))

    assert (C, [F, C]) == (found.state, states(found))


def test_a_suspended_job_is_kueues_or_not_released_or_suspended() -> None:
    queued = indexed(app(), "Suspended", suspend=True, labels={names.KUEUE_QUEUE: "team-a"})
    half = [indexed(two(), suspend=True), indexed(two(), role=1, status={"ready": 1, "active": 1})]
    stopped = indexed(app(), "Suspended", suspend=True, status={"startTime": LATER})

    assert (P, "waiting in the queue team-a for Kueue to admit it") == (described(queued).state, described(queued).msg)
    found = described(half, up("two", owner="job-1"))
    assert (P, True) == (found.state, found.msg.startswith("not released"))
    assert (P, "suspended") == (described(stopped).state, described(stopped).msg)


def two() -> AppDef:
    return AppDef("train", [Role("one", "a", entrypoint="x"), Role("two", "b", entrypoint="y", num_replicas=2)])


@pytest.mark.parametrize(
    ("first", "second", "state"),
    [
        (("Complete",), ("Complete",), S),
        (("Complete",), ("Failed",), F),
        (("Failed",), (), R),
        (("Complete",), (), R),
        ((), (), AppState.PENDING),
    ],
)
def test_several_jobs_are_one_app(first: tuple[str, ...], second: tuple[str, ...], state: AppState) -> None:
    jobs = [indexed(two(), *second, role=1), indexed(two(), *first, status={"startTime": LATER})]
    found = described(jobs)

    assert (state, f"default:{APP}") == (found.state, found.app_id)
    assert [("one", 1), ("two", 2)] == [(role.role, len(role.replicas)) for role in found.roles_statuses]
    assert describe_app(jobs[:1]) is None  # the one that the app is named after is gone


def test_a_cancel_of_several_jobs_is_never_a_failure() -> None:
    cancelled: dict[str, Any] = {"suspend": True, "annotations": {names.CANCELLED: "now"}}
    jobs = [indexed(two(), "Suspended", **cancelled), indexed(two(), "Failed", role=1, **cancelled)]

    assert C is described(jobs).state


def test_a_role_whose_job_is_not_there_yet_is_pending() -> None:
    found = described(indexed(two(), "Complete", status={"startTime": LATER}))

    assert (R, ["one", "two"]) == (found.state, [role.role for role in found.roles_statuses])
    assert [P, P] == states(found)[1:]


def test_only_our_container_decides() -> None:
    sidecar = {"name": "proxy", "state": {"running": {}}}
    kept = [read(pod(replica=k, phase="Running", containerStatuses=[sidecar, ended(0)])) for k in (0, 1)]
    failed = read(pod(replica=1, phase="Running", containerStatuses=[ended(1), sidecar]))

    for kind in ("volcano", "job"):

        def make(mine: AppDef, kind: str = kind) -> JobRecord:
            return volcano("Running", mine) if kind == "volcano" else indexed(mine, status={"active": 2, "ready": 2})

        assert (S, [S, S]) == (described(make(app()), *kept).state, states(described(make(app()), *kept)))
        assert F is described(make(app()), kept[0], failed).state
        assert R is described(make(app()), kept[0], up(replica=1)).state
        assert R is described(make(app(max_retries=1)), kept[0], failed).state  # it may be started again


@pytest.mark.parametrize(
    ("mine", "more", "expected"),
    [
        ({"min_replicas": 1}, {}, S),
        ({"min_replicas": 2}, {}, F),
        ({}, {"min_available": 1}, S),
        ({"min_replicas": 1}, {"on_failure": "stop"}, F),
        ({}, {}, F),
    ],
)
def test_between_the_end_of_its_containers_and_that_of_its_job_an_app_is_told_as_volcano_will(
    mine: dict[str, Any], more: dict[str, Any], expected: AppState
) -> None:
    """A node tells of a pod's end a moment after that of its container, and Volcano's controller later still."""
    elastic = app(3, **mine)
    for role in elastic.roles:
        role.image = role.image or "alpine"
    options = KubernetesOpts(queue="q", **more)
    made = make_request(elastic, "default:train-x1", options, kind="volcano", session="s", version="1")
    record = volcano("Running", elastic, **made.resource["spec"])
    pods = [read(pod(replica=k, phase="Running", containerStatuses=[ended(code)])) for k, code in enumerate((0, 3, 3))]

    assert expected is described(record, *pods).state


@pytest.mark.parametrize(("codes", "expected"), [((0, 3, 0, 0), S), ((0, 3, 0, 3), F), ((3, 3, 0, 0), F)])
def test_each_task_of_a_job_needs_its_own_least_number_also_where_each_replica_is_a_task(
    codes: tuple[int, ...], expected: AppState
) -> None:
    elastic = Role("main", "alpine", entrypoint="sh", num_replicas=2, min_replicas=1)
    ranked = Role("rank", "alpine", entrypoint="sh", num_replicas=2, env={"RANK": macros.replica_id})
    mine = AppDef("train", [elastic, ranked])
    made = make_request(mine, "default:train-x1", KubernetesOpts(queue="q"), kind="volcano", session="s", version="1")
    record = volcano("Running", mine, **made.resource["spec"])
    places = [("main", 0), ("main", 1), ("rank", 0), ("rank", 1)]
    pods = [
        read(pod(task, k, phase="Running", containerStatuses=[ended(code)]))
        for (task, k), code in zip(places, codes, strict=True)
    ]

    assert ["main", "rank-0", "rank-1"] == [name for name, _ in record.tasks]
    assert expected is described(record, *pods).state


def test_more_than_a_thousand_replicas_that_are_tasks_of_their_own_are_all_told() -> None:
    mine = app(1200, env={"RANK": macros.replica_id})
    made = make_request(mine, "default:train-x1", KubernetesOpts(queue="q"), kind="volcano", session="s", version="1")

    assert 1200 == len(described(volcano("Running", mine, **made.resource["spec"])).replicas)


def test_pods_of_an_earlier_job_of_the_name_are_not_its_own() -> None:
    found = described(volcano("Pending", app(1)), over(3, owner="another"))

    assert [P] == states(found)


def test_the_newest_pod_of_a_replica_counts() -> None:
    first = over(1, uid="a", annotations={"batch.kubernetes.io/job-index-failure-count": "0"})
    second = up(uid="b", created=LATER, annotations={"batch.kubernetes.io/job-index-failure-count": "1"})
    found = described(indexed(app(1, max_retries=2), status={"active": 1, "ready": 1}), second, first)

    assert ([R], 1, 1) == (states(found), found.replicas[0].num_restarts, found.num_restarts)
    assert isinstance(found.native, Native)
    assert ["a", "b"] == [each.uid for each in found.native.pods]


# Restarts


@pytest.mark.parametrize(
    ("policy", "replicas", "told"),
    [
        (RetryPolicy.APPLICATION, 2, 2),
        (RetryPolicy.REPLICA, 1, 2),
        (RetryPolicy.REPLICA, 2, None),
    ],
)
def test_restarts_of_volcano(policy: RetryPolicy, replicas: int, told: int | None) -> None:
    mine = app(replicas, max_retries=2, retry_policy=policy)
    found = described(
        volcano("Failed", mine, maxRetry=3, status={"retryCount": 3}), *(over(1, replica=k) for k in range(replicas))
    )

    assert (2, told) == (found.num_restarts, found.replicas[0].num_restarts)


@pytest.mark.parametrize(
    ("job", "state"),
    [
        (volcano("Running", app(1, max_retries=1), maxRetry=2), P),
        (volcano("Restarting", app(1, max_retries=1), maxRetry=2, status={"retryCount": 1}), P),
        (volcano("Restarting", app(1, max_retries=1), maxRetry=2, status={"retryCount": 2}), F),
        (volcano("Running", app(1)), F),
        (indexed(app(1, max_retries=1), status={"active": 1, "failed": 1}), P),
        (indexed(app(1, max_retries=1), status={"failed": 2, "failedIndexes": "0"}), F),
        (indexed(app(1, max_retries=1), "FailureTarget", status={"failed": 2}), F),
    ],
)
def test_what_will_be_started_again_has_not_failed(job: JobRecord, state: AppState) -> None:
    found = described(job, over(3))

    assert [state] == states(found)
    wanted = "waiting to restart after exit code 3" if state is P else "exit code 3"
    assert wanted == found.replicas[0].reason


@pytest.mark.parametrize(
    ("indexes", "inside", "outside"),
    [("1,3-5", (1, 3, 5), (0, 2, 6)), ("", (), (0,)), ("7", (7,), (6, 8)), ("x,-,9-,4-2,3", (3,), (4, 9))],
)
def test_lists_of_indexes(indexes: str, inside: tuple[int, ...], outside: tuple[int, ...]) -> None:
    assert all(is_in(indexes, each) for each in inside)
    assert not any(is_in(indexes, each) for each in outside)


# Reasons and causes


@pytest.mark.parametrize(
    ("record", "text", "cause"),
    [
        (over(3), "exit code 3", FailureCause.EXIT),
        (over(137, container=ended(137, "OOMKilled")), "out of memory: killed, exit code 137", FailureCause.OOM),
        (over(1, container=ended(1, "OOMKilled")), "out of memory: killed, exit code 1", FailureCause.OOM),
        (over(139), "killed by SIGSEGV, exit code 139", FailureCause.SIGNAL),
        (over(137), "killed by SIGKILL, exit code 137", FailureCause.SIGNAL),
        (over(143, reason="DeadlineExceeded", message="too long"), "DeadlineExceeded: too long", FailureCause.TIMEOUT),
        (over(137, reason="Evicted", message="low on disk"), "Evicted: low on disk", FailureCause.NODE),
        (over(3, reason="Evicted", message="low on disk"), "exit code 3", FailureCause.EXIT),
        (
            over(143, conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]),
            "PreemptionByScheduler",
            FailureCause.PREEMPTED,
        ),
        (
            over(143, conditions=[{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}]),
            "killed by SIGTERM, exit code 143",
            FailureCause.SIGNAL,
        ),
        (
            over(137, conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]),
            "DeletionByTaintManager",
            FailureCause.NODE,
        ),
        (
            over(128, container=ended(128, "StartError", message='exec: "nosuch": executable file not found in $PATH')),
            'StartError: exec: "nosuch": executable file not found in $PATH',
            FailureCause.IMAGE,
        ),
        (
            over(128, container=ended(128, "ContainerCannotRun", message="no such device")),
            "ContainerCannotRun: no such device",
            FailureCause.CONFIG,
        ),
        (
            over(137, container=ended(137, "ContainerStatusUnknown")),
            "its node did not report how it ended",
            FailureCause.NODE,
        ),
        (
            read(pod(phase="Failed", reason="OutOfcpu", message="Node didn't have enough resource: cpu")),
            "OutOfcpu: Node didn't have enough resource: cpu",
            FailureCause.NODE,
        ),
        (read(pod(phase="Failed", reason="Strange")), "Strange", FailureCause.UNKNOWN),
        (
            read(
                pod(
                    phase="Failed",
                    containerStatuses=[waiting("PodInitializing")],
                    initContainerStatuses=[{**ended(2, message="line 1\nno such host\n"), "name": "fetch"}],
                )
            ),
            "init container fetch: exit code 2: line 1\nno such host",
            FailureCause.EXIT,
        ),
    ],
)
def test_why_a_pod_failed(record: PodRecord, text: str, cause: FailureCause) -> None:
    assert (text, cause) == why_failed(record)


@pytest.mark.parametrize(
    ("record", "events", "text", "cause"),
    [
        (pending(container=waiting()), [], "", None),
        (
            pending(container=waiting("ErrImagePull", "not found")),
            [],
            "ErrImagePull: not found",
            FailureCause.IMAGE,
        ),
        (pending(container=waiting("ImagePullBackOff")), [], "ImagePullBackOff", FailureCause.IMAGE),
        (
            pending(container=waiting("ImagePullBackOff", 'Back-off pulling image "x": ErrImagePull: not found')),
            [],
            "ErrImagePull: not found",
            FailureCause.IMAGE,
        ),
        (
            pending(container=waiting()),
            [
                event(
                    "pod-main-0", "FailedMount", 'MountVolume.SetUp failed for "x-svc": failed to sync configmap cache'
                )
            ],
            "",
            None,
        ),
        (
            pending(
                container=waiting("PodInitializing"),
                initContainerStatuses=[
                    {
                        "name": "proxy",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                        "lastState": ended(1, message="no route to host")["state"],
                    }
                ],
            ),
            [],
            "init container proxy: exit code 1: no route to host",
            FailureCause.EXIT,
        ),
        (
            pending(container=waiting("CreateContainerConfigError", 'secret "x" not found')),
            [],
            'CreateContainerConfigError: secret "x" not found',
            FailureCause.CONFIG,
        ),
        (
            pending(
                node="",
                conditions=[
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes fit"}
                ],
            ),
            [
                event("pod-main-0", "NotTriggerScaleUp", "max size reached"),
                event("pod-main-0", "FailedScheduling", "x"),
            ],
            "0/1 nodes fit: max size reached",
            FailureCause.UNSCHEDULABLE,
        ),
        (
            pending(
                node="",
                conditions=[
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes fit"}
                ],
            ),
            [
                event("pod-main-0", "NotTriggerScaleUp", "max size reached"),
                event("pod-main-0", "TriggeredScaleUp", "1->2", at=LATER),
            ],
            "waiting for a new node: 1->2",
            None,
        ),
        (
            pending(container=waiting()),
            [
                event("pod-main-0", "FailedMount", "secret not found"),
                event("pod-main-0", "Pulled", "image", at=LATER),
                event("another", "FailedMount", "of another pod", at=LATER),
            ],
            "FailedMount: secret not found",
            FailureCause.CONFIG,
        ),
        (
            pending(
                node="",
                conditions=[
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "pod group is not ready, 1 Pending, 1 Releasing, 2 minAvailable",
                    }
                ],
            ),
            [],
            "",
            None,
        ),
        (pending(container=waiting()), [event("pod-main-0", "Killing", "Stopping container")], "", None),
        (
            pending(
                initContainerStatuses=[
                    {"name": "fetch", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}
                ]
            ),
            [],
            "init container fetch: ImagePullBackOff: no",
            FailureCause.IMAGE,
        ),
        (
            pending(conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]),
            [],
            "EvictionByEvictionAPI",
            FailureCause.PREEMPTED,
        ),
    ],
)
def test_why_a_pod_waits(record: PodRecord, events: list[Any], text: str, cause: FailureCause | None) -> None:
    assert (text, cause) == why_waiting(record, events)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ('0/1 nodes are available: claim "x" not found. not found', '0/1 nodes are available: claim "x" not found'),
        (
            "0/1 nodes are available: pod has unbound claims. not found",
            "0/1 nodes are available: pod has unbound claims",
        ),
        ('0/1 nodes: claim "x" not found', '0/1 nodes: claim "x" not found'),
        ("0/1 nodes are available: 1 Insufficient cpu. preemption: none", None),
    ],
)
def test_what_the_scheduler_says_is_said_once(said: str, text: str | None) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}

    assert (text or said, FailureCause.UNSCHEDULABLE) == why_waiting(pending(node="", conditions=[condition]))


GANG = "0/0 tasks in gang unschedulable: pod group is not ready, 2 minAvailable"
GROUP = names.pod_group_name(APP, "job-0")
REFUSED = (
    'Error creating pods: [failed to create pod x-0, err: &errors.StatusError{ErrStatus:v1.Status{Status:"Failure", '
    'Message:"pods \\"x-0\\" is forbidden: exceeded quota: q, requested: pods=1", Reason:"Forbidden"}}]'
)


@pytest.mark.parametrize(
    ("job", "pods", "events", "text", "cause"),
    [
        (volcano("Pending", app()), 0, [], "", None),
        (
            volcano("Pending", app()),
            0,
            [
                event(
                    "pg", "Unschedulable", "resource in cluster is overused: overused cpu", kind="PodGroup", name=GROUP
                ),
                event("pg", "Unschedulable", GANG, at=LATER, kind="PodGroup", name=GROUP),
            ],
            "resource in cluster is overused: overused cpu",
            FailureCause.UNSCHEDULABLE,
        ),
        (
            volcano("Pending", app()),
            0,
            [event("pg", "Unschedulable", "queue resource quota insufficient: cpu", kind="PodGroup", name=GROUP)],
            "queue resource quota insufficient: cpu",
            FailureCause.QUOTA,
        ),
        (volcano("Pending", app()), 0, [event("pg", "Unschedulable", GANG, kind="PodGroup", name=GROUP)], "", None),
        (
            volcano("Pending", app()),
            0,
            [event("pg", "Unschedulable", "of another job", kind="PodGroup", name="other-job-1")],
            "",
            None,
        ),
        (
            volcano("Pending", app()),
            0,
            [event("job-0", "FailedCreate", REFUSED)],
            'its pods are refused: pods "x-0" is forbidden: exceeded quota: q, requested: pods=1',
            FailureCause.QUOTA,
        ),
        (
            indexed(app(), status={"active": 0}),
            0,
            [
                event(
                    "job-0", "FailedCreate", 'Error creating: pods "x" is forbidden: violates PodSecurity "restricted"'
                )
            ],
            'its pods are refused: pods "x" is forbidden: violates PodSecurity "restricted"',
            FailureCause.CONFIG,
        ),
        (volcano("Pending", app()), 2, [event("job-0", "FailedCreate", REFUSED)], "", None),
    ],
)
def test_why_a_job_has_no_pods(job: JobRecord, pods: int, events: list[Any], text: str, cause: Any) -> None:
    assert (text, cause) == why_job_waits(job, pods, None, events)
    found = described(job, *(pending(replica=k) for k in range(pods)), events=events)
    assert (text, cause) == (found.msg, found.cause)


def test_a_pod_group_that_says_it_is_scheduled_says_nothing() -> None:
    raw = {
        "metadata": {"name": GROUP, "uid": "pg", "namespace": "default"},
        "status": {
            "phase": "Inqueue",
            "conditions": [
                {"type": "Scheduled", "status": "True", "message": "tasks in gang are ready to be scheduled"},
                {"type": "Unschedulable", "status": "False", "message": "stale"},
            ],
        },
    }
    group = pod_group_record(raw)
    unfit = PodGroupRecord(namespace="default", name=GROUP, uid="pg", conditions=())

    assert isinstance(group, PodGroupRecord)
    assert "" == described(volcano("Pending", app()), pod_group=group).msg
    assert "" == described(volcano("Pending", app()), pod_group=unfit).msg


def test_over_its_time() -> None:
    late = described(
        volcano("Failed", app(1), status={"retryCount": 1}), over(143, reason="DeadlineExceeded", message="too long")
    )
    never = described(volcano("Terminated", app(1), policies=TIMED))
    neither = described(indexed(app(1), "Failed", annotations={names.UNSCHEDULED: "now"}))

    assert (F, FailureCause.TIMEOUT) == (late.state, late.cause)
    for found in (never, neither):
        assert (F, FailureCause.UNSCHEDULABLE) == (found.state, found.cause)
        assert "did not start within its pending_timeout" in found.msg


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ('pods "x-0" is forbidden: exceeded quota: q, requested: pods=1', FailureCause.QUOTA),
        ('pods "x-0" is forbidden: no PriorityClass with name nosuch was found', FailureCause.CONFIG),
        ('admission webhook "policy.example.org" denied the request: no team label', FailureCause.CONFIG),
    ],
)
def test_what_refused_the_pods_is_the_cause_of_the_end(said: str, cause: FailureCause, timed: bool) -> None:
    """Volcano gives up, and ends the job as if somebody had asked for it."""
    job = volcano("Terminated", app(), policies=TIMED if timed else [])
    events = [event("job-0", "FailedCreate", f"Error creating: {said}")]
    found = described(job, events=events)
    some = described(job, pending(container=waiting(), deleted=LATER), events=events)

    for told in (found, some):
        assert (F, cause, f"its pods are refused: {said}") == (told.state, told.cause, told.msg)
    assert [(C, cause)] * 2 == [(each.state, each.cause) for each in found.replicas]
    assert needs_events([job], [], BEGAN)


def test_an_end_that_nobody_explains_is_not_told_as_a_timeout() -> None:
    """Events stay for an hour; Volcano's job keeps nothing of them."""
    found = described(volcano("Terminated", app()))

    assert (F, FailureCause.UNKNOWN) == (found.state, found.cause)
    assert found.msg.startswith("Volcano ended it before all of its pods existed")
    began = described(volcano("Terminated", app()), over(3), over(143, replica=1))
    assert (FailureCause.EXIT, "main/0: exit code 3") == (began.cause, began.msg.partition(";")[0])


def test_a_failure_outweighs_what_refused_the_pods_at_first() -> None:
    refused = event("job-0", "FailedCreate", "Error creating: exceeded quota: q")
    found = described(volcano("Terminated", app(), policies=TIMED), over(3), events=[refused])

    assert (FailureCause.EXIT, "main/0: exit code 3") == (found.cause, found.msg)


def test_the_best_known_cause_is_that_of_the_app() -> None:
    """Volcano has deleted the pod of the last failure; the one before it has told its exit code."""
    mine = app(3, max_retries=1, retry_policy=RetryPolicy.REPLICA)
    given_up = volcano("Failed", mine, maxRetry=2, status={"retryCount": 2})
    found = described(given_up, over(0, replica=1), over(3, replica=2))

    assert [FailureCause.UNKNOWN, None, FailureCause.EXIT] == [each.cause for each in found.replicas]
    assert FailureCause.EXIT == found.cause


def test_what_is_ended_before_it_began_has_never_run() -> None:
    by_volcano = described(volcano("Terminating", app(1)), pending(container=waiting(), deleted=LATER))
    by_job = described(indexed(app(1), "FailureTarget", annotations={names.UNSCHEDULED: "now"}))

    assert (P, P) == (by_volcano.state, by_job.state)
    assert R is described(volcano("Terminating", app()), over(3)).state


def test_many_replicas_with_one_reason_are_one_sentence() -> None:
    found = described(volcano("Failed", app(40)), *(over(3, replica=k) for k in range(40)))

    assert "main/0 and 39 more: exit code 3" == found.msg
    several = described(volcano("Failed", app(6)), *(over(k + 1, replica=k) for k in range(6)))
    assert several.msg.endswith("; and 3 more")


# When PodGroup and events are worth a request


@pytest.mark.parametrize(
    ("job", "pods", "needed"),
    [
        (volcano("Running", app()), [up(), up(replica=1)], False),
        (volcano("Pending", app()), [], True),
        (volcano("Running", app()), [up()], True),
        (volcano("Pending", app()), [pending(container=waiting()), up(replica=1)], True),
        (volcano("Completed", app()), [], False),
        (volcano("Failed", app()), [over(1)], False),
        (indexed(app(), suspend=True), [], False),
    ],
)
def test_events_are_read_only_for_what_waits(job: JobRecord, pods: list[PodRecord], needed: bool) -> None:
    assert needed is needs_events([job], pods, BEGAN + 5)


@pytest.mark.parametrize("pods", [[], [pending()], [pending(), up(replica=1)]])
@pytest.mark.parametrize(("age", "needed"), [(0, False), (4.9, False), (5, True), (-3600, True)])
def test_events_are_not_read_for_what_has_waited_for_a_moment(
    pods: list[PodRecord], age: float, *, needed: bool
) -> None:
    assert needed is needs_events([volcano("Pending", app())], pods, BEGAN + age)


def test_the_failure_that_ends_a_job_may_have_no_pod() -> None:
    mine = app(2, max_retries=1, retry_policy=RetryPolicy.REPLICA)
    given_up = volcano("Failed", mine, maxRetry=2, status={"retryCount": 2})
    last, all_gone = described(given_up, over(0)), described(given_up)

    assert [S, F] == states(last)
    assert "main/1: it failed again, and Volcano deleted its pod" == last.msg
    assert (F, [C, C]) == (all_gone.state, states(all_gone))
    assert "it failed again after 1 restart" == all_gone.msg


def test_what_the_runtime_says_is_no_result() -> None:
    failed = over(128, container=ended(128, "StartError", message="no such program"))

    assert {} == results_of(described(volcano("Failed", app(1)), failed))


def test_a_job_that_is_failing_says_so() -> None:
    found = described(indexed(app(), "FailureTarget", status={"terminating": 1}), over(3), up(replica=1))

    assert (R, "failing: main/0: exit code 3") == (found.state, found.msg)


def test_a_pod_that_failed_before_it_started_has_not_run() -> None:
    init = [{**ended(2), "name": "fetch"}]
    failed = over(2, container=waiting("PodInitializing"), initContainerStatuses=init)
    found = described(volcano("Pending", app(1)), failed)

    assert (P, F) == (found.state, found.replicas[0].state)
    assert ("main/0: init container fetch: exit code 2", FailureCause.EXIT) == (found.msg, found.cause)
    never = over(128, container=ended(128, "StartError", startedAt="1970-01-01T00:00:00Z"))
    assert described(volcano("Failed", app(1)), never).started_at is None


def test_the_first_pod_ends_the_time_of_a_job_that_nobody_has_seen() -> None:
    assert P is described(volcano("", app(1)), pending(container=waiting())).state


# What belongs to an app


def test_what_was_submitted_is_told() -> None:
    found = described(volcano("Running", app(env={"A": "1", "A_TOKEN": "x"})), up())

    assert ("train", {"team": "x"}, "job-0") == (found.name, found.metadata, found.native_id)
    assert "" == found.session  # with a slash it could be in no handle
    assert {"A": "1"}.items() <= found.roles[0].env.items()
    assert datetime(2026, 11, 22, 12, tzinfo=UTC) == found.created_at
    assert datetime(2026, 11, 22, 12, 1, tzinfo=UTC) == found.started_at


def test_a_job_without_a_note_has_its_tasks_as_roles() -> None:
    raw = job("volcano", None, tasks=[{"name": "main", "replicas": 2}])
    found = job_record(raw, "volcano")
    assert found is not None

    assert [("main", 2)] == [(role.role, len(role.replicas)) for role in described(found, up()).roles_statuses]


def test_replicas_are_counted_by_what_the_job_has() -> None:
    mine = app(2)
    edited = volcano("Running", mine, tasks=[{"name": "main", "replicas": 3}])
    apart = volcano("Running", mine, tasks=[{"name": "main-0", "replicas": 1}, {"name": "main-1", "replicas": 1}])

    assert [3, 2] == [len(described(each).replicas) for each in (edited, apart)]


def test_an_old_volcano_tells_the_index_in_the_name_only() -> None:
    raw = pod(replica=4, labels={"volcano.sh/job-name": APP})
    del raw["metadata"]["labels"]["volcano.sh/task-index"]

    assert 4 == read(raw).replica


def test_a_job_of_which_enough_has_succeeded_tells_what_has_failed() -> None:
    found = described(volcano("Completed", app(2)), over(0), over(3, replica=1))

    assert (AppState.SUCCEEDED, "main/1: exit code 3") == (found.state, found.msg)
    assert [AppState.SUCCEEDED, AppState.FAILED] == [each.state for each in found.replicas]


def test_results_are_what_the_kubelet_kept() -> None:
    found = described(
        volcano("Completed", app(3)),
        over(0, container=ended(0, message='{"loss": 1}')),
        over(0, replica=1),
        over(0, replica=2, container=ended(0, message="x" * 4096)),
    )
    results = results_of(found)

    assert {("main", 0), ("main", 2)} == results.keys()
    assert {"loss": 1} == results["main", 0]
    assert "larger than 4096 bytes" in str(results["main", 2])


def test_labels_alone_make_nothing_a_part_of_an_app() -> None:
    first, second = indexed(two()), indexed(two(), role=1)
    copy = replace(second, name="my-copy", uid="copy", owners=())
    stranger = replace(second, name="stranger", uid="stranger", owners=("somebody-else",))

    assert [first, second] == jobs_of_app([copy, first, stranger, second])
    assert [first] == jobs_of_app([first, replace(second, kind="volcano")])
    assert [] == jobs_of_app([second, copy])


@pytest.mark.parametrize("owner", ["", "somebody-else"])
def test_a_pod_that_only_has_the_labels_is_no_replica(owner: str) -> None:
    mine = read(pod(phase="Running"))
    bare = replace(mine, name="bare", uid="bare", owner=owner)

    assert [mine] == pods_of([volcano("Running", app())], [bare, mine])


# Rows


def test_rows_are_newest_first_and_one_for_an_app() -> None:
    first, second = indexed(two(), "Complete"), indexed(two(), "Failed", role=1)
    raw = job("volcano", app(), status={"state": {"phase": "Running"}}, labels={names.APP: "other"})
    raw["metadata"] |= {"name": "other", "creationTimestamp": LATER}
    other = job_record(raw, "volcano")
    assert other is not None
    rows = rows_of(told_by_jobs([second, first, other]))

    assert [("default:other", R), (f"default:{APP}", F)] == [(row.app_id, row.state) for row in rows]
    assert "kubernetes:///default:other" == rows[0].app_handle
    assert list_row([second]) is None


def test_rows_of_tables() -> None:
    def row(kind: str, name: str, word: str, **annotations: str) -> dict[str, Any]:
        raw = job(kind, app(), labels={names.APP: name}, annotations={names.SESSION: "me", **annotations})
        raw["metadata"]["name"] = name
        return {"cells": [name, word, 1], "object": {"metadata": raw["metadata"]}}

    volcanos = {
        "columnDefinitions": [{"name": "Name"}, {"name": "STATUS"}, {"name": "AGE"}],
        "rows": [row("volcano", "a", "Running"), row("volcano", "b", "Aborted"), {"cells": None}, None],
    }
    jobs = {
        "columnDefinitions": [{"name": "Name"}, {"name": "Status"}, {"name": "Age"}],
        "rows": [row("job", "c", "Suspended", **{names.CANCELLED: "x"}), row("job", "d", "Complete")],
    }
    old = {"columnDefinitions": [{"name": "Name"}], "rows": [row("job", "e", "1/1")]}
    rows = rows_of(told_by_tables([("volcano", volcanos), ("job", jobs), ("job", old), ("job", None)]))

    assert {"a": R, "b": C, "c": C, "d": S, "e": AppState.UNKNOWN} == {row.app_id[-1]: row.state for row in rows}
    assert "kubernetes://me/default:a" == rows[0].app_handle


def test_a_job_that_was_stopped_says_why_though_no_pod_is_left_to_tell() -> None:
    stopped = describe_app([volcano("Failed", app(), status={"retryCount": 1})])

    assert stopped is not None
    assert (F, "one of its pods was deleted, or failed and is gone") == (stopped.state, stopped.msg)


# Objects of any content

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(st.data())
def test_objects_of_any_content_are_read_or_passed_over(data: st.DataObject) -> None:
    raws = [_broken(data, pod(phase="Running", containerStatuses=[running()])), _broken(data, job("volcano", app()))]
    pods = [record for each in raws if (record := pod_record(each)) is not None]
    kinds: tuple[Kind, ...] = ("volcano", "job")
    jobs = [a_job for each in raws for kind in kinds if (a_job := job_record(each, kind)) is not None]
    events = [an_event for each in raws if (an_event := event_record(each)) is not None]
    group = pod_group_record(raws[0])

    for each in jobs:
        found = describe_app([each], pods, group, events)
        assert found is None or isinstance(found.state, AppState)
        needs_events([each], pods, BEGAN)
    rows_of(told_by_jobs(jobs), pods)
    told_by_tables([("volcano", data.draw(JSON))])
    rows = [{"object": raw, "cells": data.draw(JSON)} for raw in raws]
    named = [{"name": name} for name in ("STATUS", "minAvailable", data.draw(JSON))]
    table = told_by_tables([("volcano", {"columnDefinitions": named, "rows": rows})])
    in_doubt(table, pods, rows_of(table, pods))


def _broken(data: st.DataObject, raw: dict[str, Any]) -> Any:
    """Replace a few places of an object by anything."""
    for _ in range(data.draw(st.integers(1, 4))):
        owner: Any = raw
        while True:
            places = list(owner) if isinstance(owner, dict) else list(range(len(owner)))
            place = data.draw(st.sampled_from(places))
            inner = owner[place]
            if not isinstance(inner, (dict, list)) or not inner or data.draw(st.booleans()):
                owner[place] = data.draw(JSON)
                break
            owner = inner
    return raw


def noted(kind: Kind, note: str) -> JobRecord:
    raw = job(kind, app())
    raw["metadata"]["annotations"][names.ROLES] = note
    record = job_record(raw, kind)
    assert record is not None
    return record


@given(st.data())
def test_a_note_of_any_content_is_read_or_passed_over(data: st.DataObject) -> None:
    note = json.dumps(_broken(data, {"roles": [{"name": "main", "num_replicas": 2}, {"name": "more"}], "metadata": {}}))

    for kind in ("volcano", "job"):
        assert isinstance(described(noted(kind, note)).state, AppState)


@pytest.mark.parametrize("kind", ["volcano", "job"])
def test_a_note_with_more_replicas_than_there_can_be_costs_no_more_than_those(kind: Kind) -> None:
    note = json.dumps({"roles": [{"name": f"role-{k}", "num_replicas": 99_999} for k in range(500)]})

    assert 100_000 == len(described(noted(kind, note)).replicas)


def test_a_role_whose_replicas_are_tasks_of_their_own_has_as_many_as_there_are() -> None:
    tasks = [{"name": name, "replicas": 1} for name in ("main-0", "main-1", "main-01", "main-x", "main-7")]
    a_job = job_record(job("volcano", app(5), tasks=tasks), "volcano")

    assert a_job is not None
    assert 2 == len(described(a_job).replicas)


def test_hostile_numbers_and_texts() -> None:
    raw = pod(replica=0, labels={"volcano.sh/task-index": "9" * 400})
    assert pod_record(raw) is None
    note = json.dumps({"roles": [{"name": "main", "num_replicas": 10**18}]})
    hostile = job_record(
        job("volcano", None, annotations={names.ROLES: note}, tasks=[{"name": "x", "replicas": 10**8}]), "volcano"
    )
    assert hostile is not None
    assert len(described(hostile).replicas) <= 100_000
