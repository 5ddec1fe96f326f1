"""From what a cluster and files tell to states: any bytes may stand there."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.schedulers.slurm.status import JOB_STATES, Evidence, describe_app, list_row
from asyncsched.schedulers.slurm.status_records import (
    OVER_MEMORY,
    PROLOG_FAILED,
    JobRow,
    ReplicaRun,
    SlurmAppRecord,
    SlurmReplicaRecord,
    make_separator,
    parse_events,
    parse_log,
    parse_record,
    parse_sacct,
    parse_squeue,
)
from asyncsched.specs import AppState, FailureCause

EVENTS = (
    b"start 0 n1 1700000000.25\nexit 0 3 1700000001.5\n"
    b"start 1 n2 1700000002,125\nnowhere 1 1700000002.5\nend 1 0 0.0 1700000003.5\n"
)
SECOND = 1_000_000_000
MARK = make_separator()


def record(replicas: int = 1, **more: Any) -> SlurmAppRecord:
    records = tuple(SlurmReplicaRecord("main", k, f"main-{k}") for k in range(replicas))
    return SlurmAppRecord("a-1", "s", "a", "d", 1, {}, records, **more)


def row(state: str, **more: Any) -> JobRow:
    return JobRow("7", state, name="a-1", **more)


def line(*fields: str) -> str:
    return MARK.join(fields) + MARK + "\n"


def test_the_starts_and_ends_of_a_replica_are_read() -> None:
    assert [
        ReplicaRun("n1", 1_700_000_000 * SECOND + 250_000_000, 3, 1_700_000_001 * SECOND + 500_000_000),
        ReplicaRun(
            "n2", 1_700_000_002 * SECOND + 125_000_000, 0, 1_700_000_003 * SECOND + 500_000_000, "0.0", is_nowhere=True
        ),
    ] == parse_events(EVENTS)


@pytest.mark.parametrize("size", range(len(EVENTS)))
def test_a_file_of_events_that_is_cut_at_any_byte_tells_what_was_whole(size: int) -> None:
    whole = parse_events(EVENTS)
    found = parse_events(EVENTS[:size])

    assert len(found) <= len(whole)
    for one, all_of_it in zip(found, whole, strict=False):
        begun = all_of_it._replace(code=None, ended_ns=None, round="")
        assert one in (all_of_it, begun, begun._replace(is_nowhere=False))


@given(st.binary() | st.binary().map(lambda data: EVENTS + data))
def test_no_file_of_events_is_too_strange(data: bytes) -> None:
    found = describe_app(record(), Evidence("7", [parse_events(data)]), row("RUNNING"))

    assert found.state in (AppState.RUNNING, AppState.SUCCEEDED, AppState.FAILED)


@given(st.text() | st.lists(st.text() | st.integers(min_value=0).map(str)).map(MARK.join))
def test_nothing_that_squeue_writes_is_too_strange(text: str) -> None:
    assert all(each.job_id.isdigit() for each in (*parse_squeue(text, MARK), *parse_sacct(text, MARK)))


ANY_NAME = st.text() | st.just("x\n13\x1fN/A\x1fCOMPLETED\x1f0\x1f0\x1f1700000000\x1fNone\x1fa-1\x1f\n")


@given(ANY_NAME, ANY_NAME)
def test_a_jobs_name_may_hold_anything(name: str, other: str) -> None:
    rows = [
        ("12", "N/A", "FAILED", "768", "2", "1700000000", "NonZeroExitCode"),
        ("13", "N/A", "PENDING", *"00000"),
    ]
    first, second = parse_squeue(line(*rows[0], name) + line(*rows[1][:7], other), MARK)

    assert ("12", "FAILED", 3, 0, 2, "NonZeroExitCode") == (*first[:5], first.reason)
    assert ("13", "PENDING", name, other) == (second.job_id, second.state, first.name, second.name)


def test_a_component_is_told_by_its_leader() -> None:
    text = "".join(line(job, "4", "RUNNING", "0", "0", "N/A", "None", "a") for job in ("4", "5", "6"))

    assert ["4"] == [each.job_id for each in parse_squeue(text, MARK)]


def test_a_job_that_nobody_has_cancelled_is_not_told_as_cancelled() -> None:
    """A controller that is started without its jobs has the accounts write so of all that had not ended."""
    rows = [("12", "CANCELLED", "0:0", "1700000000", "a-1"), ("13", "CANCELLED by 0", "0:0", "1700000000", "b-1")]

    assert ["13"] == [each.job_id for each in parse_sacct("".join(line(*fields) for fields in rows), MARK)]


def test_sacct_is_read() -> None:
    rows = [("12", "CANCELLED by 1000", "3:9", "1700000000", "a|b"), ("12.batch", "FAILED", "1:0", "1", "batch")]
    (found,) = parse_sacct("a warning\n" + "".join(line(*fields) for fields in rows), MARK)

    assert JobRow("12", "CANCELLED", 3, 9, ended_ns=1_700_000_000 * SECOND, name="a|b", is_past=True) == found


@given(
    st.binary()
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(
                st.sampled_from(["app_id", "session", "replicas", "role", "k", "stem", "note", "created_ns"]), x
            )
        ),
    ).map(lambda x: json.dumps(x).encode())
)
def test_no_record_is_too_strange(data: bytes) -> None:
    found = parse_record("a-1", data)

    assert found is None or "a-1" == list_row(describe_app(found, Evidence(), None)).app_id


@pytest.mark.parametrize(
    "wrong",
    [
        {"session": "a/b"},
        {"created_ns": 10**30},
        {"created_ns": -(10**30)},
        {"created_ns": float("inf")},
        {"created_ns": 253_402_300_799 * SECOND},
    ],
)
def test_a_record_that_cannot_be_listed_is_none(wrong: dict[str, object]) -> None:
    data = {"app_id": "a-1", "session": "s", "created_ns": 1_700_000_000 * SECOND, "replicas": []}
    found = parse_record("a-1", json.dumps(data).encode())

    assert found is not None
    assert "slurm://s/a-1" == list_row(describe_app(found, Evidence(), None)).app_handle
    assert parse_record("a-1", json.dumps({**data, **wrong}).encode()) is None


@pytest.mark.parametrize("stem", ["../x", "", "a/b", "a\0"])
def test_a_record_names_files_of_its_own_directory_alone(stem: str) -> None:
    data = {"app_id": "a-1", "replicas": [{"role": "main", "k": 0, "stem": stem}]}

    assert parse_record("a-1", json.dumps(data).encode()) is None


@pytest.mark.parametrize("state", sorted(JOB_STATES))
def test_every_state_has_a_meaning_without_any_file(state: str) -> None:
    means, cause = JOB_STATES[state]
    found = describe_app(record(2), Evidence("7", [[], []]), row(state))

    assert means == found.state
    if means.is_terminal():
        assert {means} == {replica.state for replica in found.replicas}
    if cause is not None:
        assert {cause} == {found.cause, *(replica.cause for replica in found.replicas)}


def test_an_unknown_state_is_unknown_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        assert AppState.UNKNOWN == describe_app(record(), Evidence("7"), row("BAFFLED")).state
    assert ["slurm reports an unknown state: 'BAFFLED'"] == caplog.messages


def test_an_unknown_state_of_the_accounts_is_unknown() -> None:
    assert AppState.UNKNOWN == describe_app(record(), Evidence("7"), row("BAFFLED", is_past=True)).state


@pytest.mark.parametrize("state", ["NODE_FAIL", "PREEMPTED", "BOOT_FAIL"])
def test_a_job_that_is_begun_again_waits(state: str) -> None:
    runs = [[ReplicaRun("n1", SECOND)]]
    found = describe_app(record(requeue=True), Evidence("7", runs, begun=1), row(state, restarts=2))

    assert (AppState.PENDING, [AppState.PENDING]) == (found.state, [each.state for each in found.replicas])


@pytest.mark.parametrize("state", ["NODE_FAIL", "PREEMPTED", "BOOT_FAIL"])
@pytest.mark.parametrize("restarts", [0, 1])
def test_a_job_that_the_cluster_does_not_begin_again_has_failed(state: str, restarts: int) -> None:
    """Whatever its submit has allowed: a partition may end jobs that give way."""
    found = Evidence("7", [[ReplicaRun("n1", SECOND)]], begun=restarts)
    told = describe_app(record(requeue=True), found, row(state, restarts=restarts))

    assert (AppState.FAILED, JOB_STATES[state][1]) == (told.state, told.cause)


OVER = ReplicaRun("n1", SECOND, 0, 2 * SECOND, "0.0")


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "PENDING", "NODE_FAIL", "FAILED", "CANCELLED", None])
@pytest.mark.parametrize(
    ("codes", "means"), [((0, 0), AppState.SUCCEEDED), ((0, 3), AppState.FAILED), ((127, 3), AppState.FAILED)]
)
def test_the_end_that_all_replicas_have_written_is_never_taken_back(
    state: str | None, codes: tuple[int, int], means: AppState
) -> None:
    """A controller that was killed takes a job that has just ended for one that runs, then its node for lost."""
    runs = [[OVER._replace(code=code)] for code in codes]
    found = describe_app(record(2, requeue=True), Evidence("7", runs), row(state) if state else None)

    assert (means, [*codes]) == (found.state, [each.exit_code for each in found.replicas])
    assert (FailureCause.EXIT if means is AppState.FAILED else None) == found.cause
    assert found.finished_at is not None


@pytest.mark.parametrize("found", [Evidence("7", log="srun: error: Job prolog failed"), Evidence("7", is_late=True)])
def test_what_was_said_before_an_app_has_succeeded_does_not_count(found: Evidence) -> None:
    """As of a round of all replicas before the last one."""
    none: list[ReplicaRun] = []
    for runs, job in (([[OVER]], None), ([[OVER]], row("FAILED")), ([none], row("COMPLETED"))):
        told = describe_app(record(), replace(found, runs=runs), job)

        assert AppState.SUCCEEDED == told.state


@pytest.mark.parametrize(("is_cancelled", "msg"), [(False, "cancelled: DependencyNeverSatisfied"), (True, "cancelled")])
def test_a_job_that_the_cluster_cancels_for_its_dependency_says_so(*, is_cancelled: bool, msg: str) -> None:
    found = Evidence("7", [[]], is_cancelled=is_cancelled)
    told = describe_app(record(), found, row("CANCELLED", reason="DependencyNeverSatisfied"))

    assert (AppState.CANCELLED, msg) == (told.state, told.msg)


def test_an_end_that_was_asked_for_is_never_taken_back() -> None:
    runs = [[OVER._replace(code=143, round="0.0-")], [OVER]]
    states = [
        describe_app(record(2), Evidence("7", runs, is_cancelled=is_cancelled), row("RUNNING")).state
        for is_cancelled in (True, False)
    ]

    assert [AppState.CANCELLED, AppState.RUNNING] == states


@pytest.mark.parametrize(
    "last",
    [
        OVER._replace(round=""),
        OVER._replace(code=3, round="0.0+"),
        OVER._replace(code=0, round="0.0-"),
        OVER._replace(code=137),
        OVER._replace(round="0.1"),
        OVER._replace(code=None),
    ],
)
def test_replicas_that_may_start_again_or_were_ended_leave_the_last_word_to_the_cluster(last: ReplicaRun) -> None:
    for state, means in (("RUNNING", AppState.RUNNING), ("TIMEOUT", AppState.FAILED)):
        found = describe_app(record(2), Evidence("7", [[OVER], [last]]), row(state))

        assert means == found.state
    assert (FailureCause.EXIT if last.round.endswith("+") else FailureCause.TIMEOUT) == found.cause


def test_no_exit_code_of_an_earlier_run_is_told_beside_success() -> None:
    runs = [[ReplicaRun("n1", SECOND, 5, 2 * SECOND)]]  # the next one is cut off
    found = describe_app(record(), Evidence("7", runs), row("COMPLETED"))

    assert (AppState.SUCCEEDED, None) == (found.state, found.replicas[0].exit_code)


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", None])
def test_a_job_that_has_not_got_past_its_prolog_says_so(state: str | None) -> None:
    found = Evidence("7", [[]], before="the prolog ended with 3", log="no\udcff licence")
    told = describe_app(record(), found, row(state) if state else None)

    assert (AppState.FAILED, FailureCause.CONFIG) == (told.state, told.cause)
    assert "main/0: the prolog ended with 3, so no replica was started: no? licence" == told.msg


@pytest.mark.parametrize("state", ["TIMEOUT", "NODE_FAIL", "CANCELLED"])
def test_a_job_that_was_ended_during_its_prolog_says_by_whom(state: str) -> None:
    told = describe_app(record(), Evidence("7", [[]], before="the prolog has ended"), row(state))

    assert JOB_STATES[state] == (told.state, told.cause)


def test_a_directory_that_is_not_there_is_told() -> None:
    told = describe_app(record(), Evidence("7", [[OVER._replace(code=1, is_nowhere=True)]]), row("FAILED"))

    assert (AppState.FAILED, FailureCause.CONFIG) == (told.state, told.cause)
    assert "main/0: exit code 1: the directory to start in is missing on its node" == told.msg


@pytest.mark.parametrize(
    ("runs", "is_cancelled", "state", "cause"),
    [
        ([[ReplicaRun("n", 1, 0, 2)], [ReplicaRun("n", 1, 0, 2)]], False, AppState.SUCCEEDED, None),
        ([[ReplicaRun("n", 1, 0, 2)], [ReplicaRun("n", 1, 0, 2)]], True, AppState.SUCCEEDED, None),
        ([[ReplicaRun("n", 1, 0, 2)], [ReplicaRun("n", 1, 3, 2)]], False, AppState.FAILED, FailureCause.EXIT),
        ([[ReplicaRun("n", 1, 0, 2)], [ReplicaRun("n", 1, 139, 2)]], False, AppState.FAILED, FailureCause.SIGNAL),
        ([[ReplicaRun("n", 1, 0, 2)], [ReplicaRun("n", 1)]], False, AppState.FAILED, FailureCause.UNKNOWN),
        ([[ReplicaRun("n", 1)], [ReplicaRun("n", 1, 143, 2)]], True, AppState.CANCELLED, FailureCause.CANCELLED),
        ([[], []], True, AppState.CANCELLED, FailureCause.CANCELLED),
    ],
)
def test_what_the_cluster_has_forgotten_is_told_by_the_files(
    runs: list[list[ReplicaRun]], is_cancelled: bool, state: AppState, cause: FailureCause | None
) -> None:
    found = describe_app(record(2), Evidence("7", runs, is_cancelled=is_cancelled), None)

    assert (state, cause) == (found.state, found.cause)


def test_a_replica_that_will_be_started_again_waits() -> None:
    runs = [[ReplicaRun("n", 1, 3, 2)], [ReplicaRun("n", 1, 3, 2), ReplicaRun("n", 3, 4, 4, "0.0")]]
    found = describe_app(record(2), Evidence("7", runs), row("RUNNING"))

    assert [AppState.PENDING, AppState.FAILED] == [each.state for each in found.replicas]
    assert "exit code 3, to be started again" == found.replicas[0].reason


def test_all_wait_that_are_started_again_for_one() -> None:
    ends = [(3, "0.0+"), (143, "0.0-"), (9, "0.0"), (0, "0.0")]
    runs = [[ReplicaRun("n", 1, code, 2, round_)] for code, round_ in ends]
    found = describe_app(record(4), Evidence("7", runs), row("RUNNING"))

    assert [AppState.PENDING] * 3 + [AppState.SUCCEEDED] == [each.state for each in found.replicas]


def test_a_failure_of_the_jobs_script_says_where_to_look() -> None:
    for log in ("\x00", "srun: error: what \udcff"):
        found = describe_app(record(), Evidence("7", log=log), row("FAILED", code=2, reason="NonZeroExitCode"))

        words = "main/0: FAILED (NonZeroExitCode): its script ended with 2:"
        assert f"{words} {log.replace(chr(0xDCFF), '?')}" == found.msg


def tells_nothing(data: bytes) -> bool:
    return not any(words.encode() in data for words in (OVER_MEMORY, *PROLOG_FAILED))


@given(st.binary().filter(tells_nothing))
def test_no_log_of_a_script_is_too_strange(data: bytes) -> None:
    assert len(parse_log(data)) <= 500
    assert "error: Exceeded job memory limit" == parse_log(
        data + b"\nerror: Exceeded job memory limit\nKilled\n" + data
    )


@pytest.mark.parametrize("job", [row("CANCELLED"), None])
@pytest.mark.parametrize("words", ["Error running slurm prolog: 3", "srun: error: launch failed: Job prolog failed"])
@pytest.mark.parametrize("runs", [[[]], [[ReplicaRun("n1", SECOND, 143, 2 * SECOND, "0.0-")]]])
@pytest.mark.parametrize(
    ("found", "state", "cause"),
    [
        (Evidence("7"), AppState.FAILED, FailureCause.NODE),
        (Evidence("7", is_cancelled=True), AppState.CANCELLED, FailureCause.CANCELLED),
    ],
)
def test_a_node_that_could_not_prepare_for_a_job_has_failed_it(
    job: JobRow | None, words: str, runs: list[list[ReplicaRun]], found: Evidence, state: AppState, cause: FailureCause
) -> None:
    log = parse_log(f"\n{words}\n\nmore\n".encode())
    told = describe_app(record(), replace(found, runs=runs, log=log), job)

    assert (state, cause) == (told.state, told.cause)
    assert [(state, cause)] == [(replica.state, replica.cause) for replica in told.replicas]


def test_the_failure_that_came_first_is_told() -> None:
    runs = [[ReplicaRun("n", 1, 143, 9 * SECOND)], [ReplicaRun("n", 1, 7, 5 * SECOND)]]
    found = describe_app(record(2), Evidence("7", runs), row("FAILED"))

    assert "main/1: exit code 7" == found.msg


def test_the_cause_is_that_of_the_failure_that_came_first() -> None:
    runs = [[ReplicaRun("n", 1, 3, 9 * SECOND)], [ReplicaRun("n", 1, 137, 5 * SECOND)]]
    found = describe_app(record(2), Evidence("7", runs), row("FAILED"))

    assert (FailureCause.SIGNAL, "main/1: killed by SIGKILL") == (found.cause, found.msg)


def test_a_submit_that_was_cut_off_has_failed() -> None:
    waits, cut = (describe_app(record(), Evidence(is_cut_off=each), None) for each in (False, True))

    assert (AppState.SUBMITTED, AppState.FAILED) == (waits.state, cut.state)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("QOSMaxJobsPerUserLimit", FailureCause.QUOTA),
        ("AssocMaxJobsLimit", FailureCause.QUOTA),
        ("InvalidQOS", FailureCause.UNSCHEDULABLE),
        ("InvalidAccount", FailureCause.UNSCHEDULABLE),
        ("Resources", None),
        ("launch failed requeued held", FailureCause.UNSCHEDULABLE),
    ],
)
def test_a_reason_to_wait_is_told(reason: str, cause: FailureCause | None) -> None:
    found = describe_app(record(), Evidence("7"), row("PENDING", reason=reason))

    assert (AppState.PENDING, reason, cause) == (found.state, found.msg, found.cause)
