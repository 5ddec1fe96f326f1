"""From what a cluster and files tell to states: any bytes may stand there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.schedulers.slurm.status import JOB_STATES, Evidence, describe_app
from asyncsched.schedulers.slurm.status_records import (
    SEPARATOR,
    AppRecord,
    Attempt,
    JobRow,
    ReplicaRecord,
    parse_events,
    parse_record,
    parse_sacct,
    parse_squeue,
)
from asyncsched.specs import AppState, FailureCause

EVENTS = b"start 0 n1 1700000000.25\nexit 0 3 1700000001.5\nstart 1 n2 1700000002,125\nexit 1 0 1700000003.5\n"
SECOND = 1_000_000_000


def record(*retries: int, **more: Any) -> AppRecord:
    replicas = tuple(ReplicaRecord("main", k, f"main-{k}", each) for k, each in enumerate(retries or (0,)))
    return AppRecord("a-1", "s", "a", "d", 1, {}, replicas, **more)


def row(state: str, **more: Any) -> JobRow:
    return JobRow("7", state, name="a-1", **more)


def line(*fields: str) -> str:
    return SEPARATOR.join(fields) + SEPARATOR


def test_the_starts_and_ends_of_a_replica_are_read() -> None:
    assert [
        Attempt("n1", 1_700_000_000 * SECOND + 250_000_000, 3, 1_700_000_001 * SECOND + 500_000_000),
        Attempt("n2", 1_700_000_002 * SECOND + 125_000_000, 0, 1_700_000_003 * SECOND + 500_000_000),
    ] == parse_events(EVENTS)


@pytest.mark.parametrize("size", range(len(EVENTS)))
def test_a_file_of_events_that_is_cut_at_any_byte_tells_what_was_whole(size: int) -> None:
    whole = parse_events(EVENTS)
    found = parse_events(EVENTS[:size])

    assert len(found) <= len(whole)
    for one, all_of_it in zip(found, whole, strict=False):
        assert one in (all_of_it, all_of_it._replace(code=None, ended_ns=None))


@given(st.binary() | st.binary().map(lambda data: EVENTS + data))
def test_no_file_of_events_is_too_strange(data: bytes) -> None:
    found = describe_app(record(), Evidence("7", [parse_events(data)]), row("RUNNING"))

    assert AppState.RUNNING == found.state


@given(st.text())
def test_nothing_that_squeue_writes_is_too_strange(text: str) -> None:
    assert all(each.job_id.isdigit() for each in (*parse_squeue(text), *parse_sacct(text)))


@given(st.text(st.characters(exclude_characters="\n")))
def test_a_jobs_name_may_hold_anything(name: str) -> None:
    (found,) = parse_squeue(line("12", "N/A", "FAILED", "768", "2", "1700000000", "NonZeroExitCode", f"x{name}y"))

    assert ("12", "FAILED", 3, 0, 2, "NonZeroExitCode") == (*found[:5], found.reason)
    assert f"x{name}y".strip() == found.name


def test_a_component_is_told_by_its_leader() -> None:
    text = "\n".join(line(job, "4", "RUNNING", "0", "0", "N/A", "None", "a") for job in ("4", "5", "6"))

    assert ["4"] == [each.job_id for each in parse_squeue(text)]


def test_sacct_is_read() -> None:
    (found,) = parse_sacct("12|CANCELLED by 1000|3:9|1700000000|a|b\nnonsense\n12.batch|FAILED|1:0|1|batch\n")

    assert JobRow("12", "CANCELLED", 3, 9, ended_ns=1_700_000_000 * SECOND, name="a|b") == found


@given(
    st.binary()
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(st.sampled_from(["app_id", "replicas", "role", "k", "stem", "note", "created_ns"]), x)
        ),
    ).map(lambda x: json.dumps(x).encode())
)
def test_no_record_is_too_strange(data: bytes) -> None:
    found = parse_record("a-1", data)

    assert found is None or "a-1" == found.app_id


@pytest.mark.parametrize("stem", ["../x", "", "a/b", "a\0"])
def test_a_record_names_files_of_its_own_directory_alone(stem: str) -> None:
    data = {"app_id": "a-1", "replicas": [{"role": "main", "k": 0, "stem": stem}]}

    assert parse_record("a-1", json.dumps(data).encode()) is None


@pytest.mark.parametrize("state", sorted(JOB_STATES))
def test_every_state_has_a_meaning_without_any_file(state: str) -> None:
    meaning = JOB_STATES[state]
    found = describe_app(record(0, 0), Evidence("7", [[], []]), row(state))

    assert meaning.state == found.state
    if meaning.state.is_terminal():
        assert {meaning.state} == {replica.state for replica in found.replicas}
    if meaning.cause is not None:
        assert {meaning.cause} == {found.cause, *(replica.cause for replica in found.replicas)}


def test_an_unknown_state_is_unknown_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        assert AppState.UNKNOWN == describe_app(record(), Evidence("7"), row("BAFFLED")).state
    assert ["slurm tells a state that is not known here: 'BAFFLED'"] == caplog.messages


@pytest.mark.parametrize("state", ["NODE_FAIL", "PREEMPTED", "BOOT_FAIL"])
def test_a_job_that_is_begun_again_waits(state: str) -> None:
    found = describe_app(record(requeue=True), Evidence("7", [[Attempt("n1", SECOND)]]), row(state))

    assert (AppState.PENDING, [AppState.PENDING]) == (found.state, [each.state for each in found.replicas])


@pytest.mark.parametrize(
    ("runs", "is_cancelled", "state", "cause"),
    [
        ([[Attempt("n", 1, 0, 2)], [Attempt("n", 1, 0, 2)]], False, AppState.SUCCEEDED, None),
        ([[Attempt("n", 1, 0, 2)], [Attempt("n", 1, 0, 2)]], True, AppState.SUCCEEDED, None),
        ([[Attempt("n", 1, 0, 2)], [Attempt("n", 1, 3, 2)]], False, AppState.FAILED, FailureCause.EXIT),
        ([[Attempt("n", 1, 0, 2)], [Attempt("n", 1, 139, 2)]], False, AppState.FAILED, FailureCause.SIGNAL),
        ([[Attempt("n", 1, 0, 2)], [Attempt("n", 1)]], False, AppState.FAILED, FailureCause.UNKNOWN),
        ([[Attempt("n", 1)], [Attempt("n", 1, 143, 2)]], True, AppState.CANCELLED, FailureCause.CANCELLED),
        ([[], []], True, AppState.CANCELLED, FailureCause.CANCELLED),
    ],
)
def test_what_the_cluster_has_forgotten_is_told_by_the_files(
    runs: list[list[Attempt]], is_cancelled: bool, state: AppState, cause: FailureCause | None
) -> None:
    found = describe_app(record(0, 0), Evidence("7", runs, is_cancelled=is_cancelled), None)

    assert (state, cause) == (found.state, found.cause)


def test_a_replica_that_will_be_started_again_waits() -> None:
    runs = [[Attempt("n", 1, 3, 2)], [Attempt("n", 1, 3, 2), Attempt("n", 3, 4, 4)]]
    found = describe_app(record(1, 1), Evidence("7", runs), row("RUNNING"))

    assert [AppState.PENDING, AppState.FAILED] == [each.state for each in found.replicas]
    assert "exit code 3, to be started again" == found.replicas[0].reason


def test_a_failure_of_the_jobs_script_says_where_to_look() -> None:
    found = describe_app(record(), Evidence("7"), row("FAILED", code=2, reason="NonZeroExitCode"))

    assert "main/0: FAILED (NonZeroExitCode): its script ended with 2, see batch.log in its directory" == found.msg


def test_the_failure_that_came_first_is_told() -> None:
    runs = [[Attempt("n", 1, 143, 9 * SECOND)], [Attempt("n", 1, 7, 5 * SECOND)]]
    found = describe_app(record(0, 0), Evidence("7", runs), row("FAILED"))

    assert "main/1: exit code 7" == found.msg


def test_a_submit_that_was_cut_off_has_failed() -> None:
    waits, cut = (describe_app(record(), Evidence(is_cut_off=each), None) for each in (False, True))

    assert (AppState.SUBMITTED, AppState.FAILED) == (waits.state, cut.state)


@pytest.mark.parametrize(("reason", "cause"), [("QOSMaxJobsPerUserLimit", FailureCause.QUOTA), ("Resources", None)])
def test_a_reason_to_wait_is_told(reason: str, cause: FailureCause | None) -> None:
    found = describe_app(record(), Evidence("7"), row("PENDING", reason=reason))

    assert (AppState.PENDING, reason, cause) == (found.state, found.msg, found.cause)
