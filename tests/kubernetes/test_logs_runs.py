"""Which runs a replica has had, from the pods that are seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from asyncsched.schedulers.kubernetes.logs_runs import Lost, Run, Runs
from asyncsched.schedulers.kubernetes.status_pods import ContainerRecord, PodRecord

START = datetime(2026, 11, 22, tzinfo=UTC)
RUNNING = ContainerRecord(phase="running")
DONE = ContainerRecord(phase="terminated", exit_code=1)


def pod(uid: str, *, container: ContainerRecord | None = DONE, age: int = 0, **more: Any) -> PodRecord:
    more.setdefault("phase", "Running")
    at = START + timedelta(seconds=age)
    return PodRecord(
        namespace="d", app="a", name=f"p-{uid}", uid=uid, scheduled=True, created_at=at, container=container, **more
    )


def read(runs: Runs) -> list[tuple[str, int, int] | tuple[int, int, str]]:
    """Take all that there is to read: a run as its pod, number and attempt, what is lost as its attempts and why."""
    found: list[tuple[str, int, int] | tuple[int, int, str]] = []
    while (each := runs.next()) is not None:
        if isinstance(each, Run):
            found.append((each.pod.uid, each.number, each.attempt))
            runs.done(each)
        else:
            found.append((each.first, each.last, each.why))
    return found


def test_pods_are_read_in_the_order_in_which_they_were_made() -> None:
    runs = Runs()
    runs.update([pod("b", age=9), pod("a", age=1), pod("c", age=10, container=RUNNING)])

    assert [("a", 0, 0), ("b", 0, 1), ("c", 0, 2)] == read(runs)
    assert [] == read(runs)


def test_a_pod_that_comes_later_is_the_next_attempt_also_where_its_controller_tells_nothing() -> None:
    runs = Runs()
    runs.update([pod("a")])
    assert [("a", 0, 0)] == read(runs)
    runs.update([pod("b", age=5, container=RUNNING)])

    assert [("b", 0, 1)] == read(runs)


def test_attempts_that_the_controller_counts_and_nobody_saw_are_lost() -> None:
    runs = Runs()
    runs.update([pod("c", attempt=2)])

    assert [(0, 1, "deleted"), ("c", 0, 2)] == read(runs)
    runs.update([pod("f", age=9, attempt=5)])
    assert [(3, 4, "deleted"), ("f", 0, 5)] == read(runs)


def test_a_pod_that_is_gone_before_it_was_read_is_lost_if_it_has_run() -> None:
    runs = Runs()
    runs.update([pod("a", container=RUNNING)])
    runs.update([pod("b", age=1, container=ContainerRecord(reason="ContainerCreating"))])
    assert [(0, 0, "deleted"), ("b", 0, 1)] == read(runs)

    never = Runs()
    never.update([pod("a", container=ContainerRecord(reason="ContainerCreating"))])
    never.update([])
    assert [] == read(never)
    assert never.seen


def test_of_a_container_that_restarts_the_last_two_runs_can_be_read() -> None:
    runs = Runs()
    runs.update([pod("a", container=ContainerRecord(phase="running", restart_count=3), last=DONE)])

    assert [(0, 1, "restarted"), ("a", 2, 2), ("a", 3, 3)] == read(runs)


def test_a_run_knows_how_to_be_asked_for_and_whether_it_has_ended() -> None:
    runs = Runs()
    runs.update([pod("a", container=RUNNING)])
    run = runs.next()
    assert isinstance(run, Run)
    assert (False, False) == (run.is_previous, run.ended)

    runs.update([pod("a", container=ContainerRecord(phase="waiting", reason="CrashLoopBackOff"), last=DONE)])
    assert (False, True) == (runs.now(run).is_previous, runs.now(run).ended)
    runs.update([pod("a", container=ContainerRecord(phase="running", restart_count=1), last=DONE)])
    assert (True, True) == (runs.now(run).is_previous, runs.now(run).ended)
    runs.update([])
    assert (False, True) == (runs.now(run).is_previous, runs.now(run).ended)


def test_a_sidecar_does_not_keep_a_run_from_its_end() -> None:
    runs = Runs()
    runs.update([pod("a", container=DONE, phase="Running")])
    run = runs.next()

    assert isinstance(run, Run)
    assert run.ended


def test_pods_of_an_earlier_job_of_the_name_are_passed_over() -> None:
    runs = Runs()
    runs.update([pod("a", owner="old"), pod("b", owner="new", age=5)])

    assert [("b", 0, 0)] == read(runs)


def test_a_pod_that_has_ended_without_its_container_is_passed_over() -> None:
    runs = Runs()
    runs.update([pod("a", container=None, phase="Failed"), pod("b", age=1, container=RUNNING)])

    assert [("b", 0, 1)] == read(runs)


def test_a_pod_without_a_place_is_waited_for() -> None:
    runs = Runs()
    waiting = pod("a", container=None, phase="Pending")
    runs.update([PodRecord(namespace="d", app="a", name="p", uid="a", created_at=START)])
    assert runs.next() is None
    runs.update([waiting])

    assert isinstance(runs.next(), Run)


def test_what_is_lost_knows_when_the_next_pod_was_made() -> None:
    runs = Runs()
    runs.update([pod("c", attempt=1, age=7)])

    assert Lost(0, 0, "deleted", START + timedelta(seconds=7)) == runs.next()
