"""What is shown of apps, computed once for every place that shows it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import escape

import pytest

from asyncsched.schedulers import DescribeAppResponse, ListAppResponse
from asyncsched.specs import AppState, AppStatus, FailureCause, ReplicaStatus, RoleStatus
from asyncsched.views.answers import described, listed
from asyncsched.views.apps import AppView, app_view, common_prefix
from asyncsched.views.cards import status_card, table
from asyncsched.views.endings import why_ended
from asyncsched.views.overview import overview, overview_of
from asyncsched.views.replicas import alike, first_failure, groups, numbers, rows, tally, why
from asyncsched.views.spans import ago, short, span
from asyncsched.views.summary import bar, failures, shared, summary
from asyncsched.views.text import text_table
from asyncsched.web.wire import row_of

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(minutes=5)
DONE, FAILED, RUNNING, PENDING = AppState.SUCCEEDED, AppState.FAILED, AppState.RUNNING, AppState.PENDING


def replica(k: int, state: AppState = RUNNING, role: str = "main", **more: object) -> ReplicaStatus:
    return ReplicaStatus(k, state, role, "host", **more)  # type: ignore[arg-type]  # its fields


def failed(k: int, code: int = 1, minute: int = 1) -> ReplicaStatus:
    over = START + timedelta(minutes=minute)
    why = f"exited with code {code}"
    return replica(k, FAILED, exit_code=code, reason=why, started_at=START, finished_at=over)


def status(*replicas: ReplicaStatus, state: AppState = RUNNING, msg: str = "") -> AppStatus:
    return AppStatus(state, msg=msg, roles=[RoleStatus("main", list(replicas))])


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([], ""),
        ([RUNNING] * 8, "8"),
        ([PENDING] * 8, "8"),
        ([RUNNING] * 3 + [PENDING] * 5, "3/8 running"),
        ([DONE] * 5 + [RUNNING] * 3, "5/8 done"),
        ([DONE] * 5 + [FAILED, RUNNING], "5/7 done, 1 failed"),
        ([FAILED, RUNNING], "1/2 failed"),
        ([FAILED, AppState.CANCELLED], "1/2 failed, 1 cancelled"),
    ],
)
def test_replicas_are_counted_in_few_words(states: list[AppState], expected: str) -> None:
    assert expected == str(tally(replica(k, state) for k, state in enumerate(states)))


def test_two_hundred_replicas_are_a_line_for_each_kind() -> None:
    replicas = [replica(k, DONE) for k in range(200)]
    replicas[17], replicas[31] = failed(17), failed(31)
    replicas[40] = replica(40, FAILED, signal=9, cause=FailureCause.OOM)

    told = [(group.name, group.state, group.why) for group in groups(replicas)]
    assert [
        ("main/17,31", FAILED, "exited with code 1"),
        ("main/40", FAILED, "signal SIGKILL, out of memory"),
        ("main/0-16,18-30,32-39,41-199", DONE, ""),
    ] == told


def test_groups_stand_role_by_role() -> None:
    several = [replica(0, DONE, "b"), replica(0, FAILED, "a"), replica(1, FAILED, "b")]

    assert ["b/1", "b/0", "a/0"] == [group.name for group in groups(several)]


def test_why_always_tells_the_exit_code_or_the_signal() -> None:
    assert "exit code 3, OOMKilled" == why(replica(0, FAILED, exit_code=3, reason="OOMKilled"))
    assert "exited with code 3" == why(replica(0, FAILED, exit_code=3, reason="exited with code 3"))
    assert "signal SIGKILL, gone" == why(replica(0, FAILED, signal=9, reason="gone"))
    assert "signal SIGTERM" == why(replica(0, FAILED, exit_code=-15))
    assert "signal 99" == why(replica(0, FAILED, signal=99))
    assert "killed by SIGKILL" == why(replica(0, FAILED, exit_code=-9, reason="killed by SIGKILL"))
    assert "exit code 137" == why(replica(0, FAILED, exit_code=137, signal=9))
    assert "killed by SIGKILL" == why(replica(0, FAILED, signal=9, reason="killed by SIGKILL"))
    assert "image" == why(replica(0, FAILED, cause=FailureCause.IMAGE))
    assert "" == why(replica(0, DONE, exit_code=0))


def test_numbers_are_written_as_the_command_line_takes_them() -> None:
    assert "" == numbers([])
    assert "0-3,7,9-10" == numbers([0, 1, 2, 3, 7, 9, 10])
    assert "0,2,…" == numbers(range(0, 100, 2), most=2)


def test_the_first_failure_is_the_earliest() -> None:
    assert first_failure([replica(0)]) is None
    late, early, unknown = failed(0, minute=3), failed(1, minute=1), replica(2, FAILED)
    assert early is first_failure([late, early, unknown])
    assert unknown is first_failure([unknown])


def test_a_strip_is_wrapped_and_equal_neighbours_are_one() -> None:
    replicas = [replica(k) for k in range(119)] + [failed(119)]

    assert [40, 40, 40] == [len(row) for row in rows(replicas, 200)]
    assert [40, 10] == [len(row) for row in rows(replicas, 50)]
    assert [("main/0-118", RUNNING), ("main/119", FAILED)] == [(run.name, run.state) for run in alike(replicas)]


def test_times() -> None:
    running = app_view("a://b/c", status(replica(0, started_at=START)))
    over = app_view("a://b/c", status(failed(0), state=FAILED))

    assert (timedelta(minutes=5), "running for 5 min 0 s") == (running.duration(NOW), running.age(NOW))
    assert (timedelta(minutes=1), "ran 1 min 0 s") == (over.duration(NOW), over.age(NOW))
    assert START + timedelta(minutes=1) == over.since
    waiting = described("a://b/c", DescribeAppResponse("c", PENDING, created_at=START))
    assert (None, "5 min 0 s old", START) == (waiting.duration(NOW), waiting.age(NOW), waiting.since)
    assert ("5m", "5m ago", "") == (short(NOW - START), ago(START, NOW), ago(None, NOW))
    assert ["59 s", "1 h 1 min", "2 d 1 h"] == [span(timedelta(seconds=s)) for s in (59, 3661, 176_400)]
    assert ["0s", "2h", "3d"] == [short(timedelta(seconds=s)) for s in (-5, 7300, 260_000)]


def test_an_only_replica_goes_without_its_name() -> None:
    msg = "main/0: exited with code 1"

    assert "exited with code 1" == app_view("x", status(failed(0), state=FAILED, msg=msg)).reason
    assert (
        "1 of 2 failed, main/0: exited with code 1"
        == app_view("x", status(failed(0), replica(1, DONE), state=FAILED, msg=msg)).reason
    )
    assert "no quota" == app_view("x", status(failed(0), state=FAILED, msg="main/0: no quota")).reason
    assert (
        "Insufficient gpu" == app_view("x", status(replica(0, PENDING), state=PENDING, msg="Insufficient\n gpu")).reason
    )
    assert "" == described("x", DescribeAppResponse("c", DONE)).reason


def test_a_list_tells_more_where_the_scheduler_was_asked() -> None:
    row = ListAppResponse("c", FAILED, "a://b/c", name="train", session="b", created_at=START)

    assert (0, "train") == (listed(row).tally.of, listed(row).name)
    answer = DescribeAppResponse("c", FAILED, roles_statuses=status(failed(0)).roles, finished_at=NOW)
    view = listed(row, answer)
    assert (1, "exited with code 1", NOW, START) == (view.tally.of, view.reason, view.finished_at, view.created_at)


def test_the_common_prefix_ends_with_a_slash() -> None:
    assert "a://b/" == common_prefix(["a://b/train-1", "a://b/train-2"])
    assert "a://" == common_prefix(["a://b1/x", "a://b2/x"])
    assert "" == common_prefix(["ab://b/x", "ac://b/x"])
    assert "a://b/" == common_prefix(["a://b/x"])
    assert "" == common_prefix([])


def test_a_summary_and_its_bar() -> None:
    states = [DONE] * 97 + [FAILED, RUNNING, None]

    assert "100 apps: 97 succeeded, 1 failed, 1 running, 1 not known" == summary(states)
    assert ("1 app: 1 pending", "no apps") == (summary([PENDING]), summary([]))
    assert [(DONE, 7), (FAILED, 1), (AppState.UNKNOWN, 1), (RUNNING, 1)] == bar(states, 10)
    assert [(DONE, 5), (FAILED, 5)] == bar({DONE: 3, FAILED: 3}, 10)
    assert [(DONE, 1), (FAILED, 1), (RUNNING, 1)] == bar([DONE, FAILED, RUNNING], 2)
    assert [] == bar([], 10)


def test_apps_that_failed_alike_are_one_failure() -> None:
    several = [
        app_view(
            f"a://b/x-{n}", status(failed(0, minute=9 - n), failed(1), state=FAILED, msg="main/0: exited with code 1")
        )
        for n in range(3)
    ]
    other = app_view("a://b/y", status(failed(0, code=2), state=FAILED))
    first, second = failures([other, *several, app_view("a://b/z", status(replica(0)))])

    assert ("exited with code 1", ["x-2", "x-1", "x-0"]) == (first.reason, [app.app_id for app in first.apps])
    assert START + timedelta(minutes=7) == first.since
    assert ("exited with code 2", ["y"]) == (second.reason, [app.app_id for app in second.apps])
    assert "" == first.last_line
    assert "boom" == failures([other.with_last_line("boom\n")])[0].last_line


OOM = replica(2, FAILED, exit_code=137, cause=FailureCause.OOM)


@pytest.mark.parametrize(
    ("replicas", "state", "msg", "expected"),
    [
        ([replica(0, DONE)], DONE, "", ""),
        ([failed(0)], FAILED, "main/0: exited with code 1", "exited with code 1"),
        ([failed(0)], FAILED, "over its time", "over its time"),
        ([failed(k) for k in range(199)] + [replica(199, DONE)], FAILED, "", "199 of 200 failed: exited with code 1"),
        ([failed(0), replica(1)], RUNNING, "", "1 of 2 failed, main/0: exited with code 1"),
        ([OOM, replica(3)], FAILED, "", "1 of 2 failed, main/2: exit code 137, out of memory"),
        (
            [failed(0, minute=2), failed(1, minute=2), failed(2, 7, minute=1)],
            FAILED,
            "main/0: exited with code 1",
            "3 of 3 failed, main/2 first: exited with code 7, 2 x exited with code 1",
        ),
        (
            [replica(k, FAILED, exit_code=1, reason=f"see node-{k}") for k in range(5)],
            FAILED,
            "",
            "5 of 5 failed: exit code 1",
        ),
        (
            [replica(k, FAILED, exit_code=k + 1) for k in range(5)],
            FAILED,
            "",
            "5 of 5 failed, main/0 first: exit code 1, exit code 2, exit code 3, 2 in other ways",
        ),
        ([failed(0), failed(1)], FAILED, "over its time", "2 of 2 failed: exited with code 1; over its time"),
        ([replica(0, FAILED), replica(1)], FAILED, "", "1 of 2 failed, main/0: for a reason that is not known"),
        ([replica(0, AppState.CANCELLED)], AppState.CANCELLED, "", ""),
        ([replica(0, PENDING, reason="no GPU")], PENDING, "", "no GPU"),
        ([replica(0), replica(1, PENDING, reason="no GPU")], PENDING, "", "main/1: no GPU"),
    ],
)
def test_why_an_app_failed_is_one_sentence_wherever_it_is_told(
    replicas: list[ReplicaStatus], state: AppState, msg: str, expected: str
) -> None:
    ended = status(*replicas, state=state, msg=msg)
    answer = DescribeAppResponse("c", state, msg=msg, roles_statuses=ended.roles)
    view = app_view("a://b/c", ended)

    assert [expected] * 3 == [why_ended(ended), view.reason, described("a://b/c", answer).reason]
    if expected:
        assert escape(expected) in table(overview_of([view]), NOW)
        assert expected in text_table([view], NOW)
        assert escape(expected) in status_card(ended, NOW)
        assert expected == row_of(view)["reason"]


def test_a_table_tells_equal_failures_once_and_counts_those_it_has_no_room_for() -> None:
    found = [(f"a://b/x-{n}", status(failed(0), state=FAILED, msg="main/0: no")) for n in range(5)]
    found += [("a://b/y", status(failed(0), state=FAILED, msg="main/0: other"))]
    found += [(f"a://b/z-{n}", status(replica(0))) for n in range(5)]
    shown = overview(found, most=3)

    assert [5, 1, 1] == [len(line.handles) for line in shown.lines]
    assert (4, {FAILED: 6, RUNNING: 5}) == (shown.others, shown.states)
    assert ["x-0", "y", "z-0"] == [line.view.app_id for line in shown.lines]


def test_a_table_of_as_many_reasons_as_apps() -> None:
    shown = overview([(f"a://b/x-{n}", status(state=FAILED, msg=f"{n}")) for n in range(500)], most=3)

    assert (3, 497) == (len(shown.lines), shown.others)


def test_columns_of_a_text_that_are_empty_are_left_out() -> None:
    views = [app_view("a://b/c", status(replica(0), state=PENDING)), app_view("a://b/d", None)]

    assert "APP      STATE      REPLICAS\na://b/c  PENDING    1\na://b/d  not known\nnote" == text_table(
        views, NOW, ["note"]
    )


def test_of_failures_in_many_ways_each_is_named_and_each_has_its_share() -> None:
    def seen(app: str, code: int) -> AppView:
        return app_view(f"a://b/{app}", status(failed(0, code), state=FAILED))

    sizes = {1: 10, 2: 5, 3: 3, 4: 1, 5: 1, 6: 1}
    found = failures(seen(f"x-{code}-{k}", code) for code, count in sizes.items() for k in range(count))
    named = {failure.reason: len(apps) for failure, apps in shared(found, 60)[0]}

    assert {f"exited with code {code}": count for code, count in sizes.items()} == named
    assert [5, 4, 3, 1, 1, 1] == [len(apps) for _, apps in shared(found, 15)[0]]
    told, left = shared(found, 4)
    assert ([1, 1, 1, 1], 2) == ([len(apps) for _, apps in told], len(left))


def test_what_is_told_once_of_apps_that_failed_alike_has_no_counts_and_names() -> None:
    one = app_view("a://b/one", status(failed(0), state=FAILED))
    two = app_view("a://b/two", status(failed(0), failed(1), state=FAILED, msg="main/1: exited with code 1"))
    (found,) = failures([one, two])

    assert ("exited with code 1", 2) == (found.reason, len(found.apps))
    assert ["out of time"] * 2 == [
        app_view("a://b/c", status(*several, state=FAILED, msg="out of time")).kind
        for several in ([failed(0)], [failed(0), failed(1, 2)])
    ]
