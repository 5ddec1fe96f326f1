"""Each thing that the monitor can do, by its keys and by what can be read."""

from __future__ import annotations

import asyncio

from asyncsched.errors import PermissionDeniedError
from asyncsched.runner.listed_apps import LOOK_EVERY
from asyncsched.specs import AppHandle
from asyncsched.testing import VirtualClock
from asyncsched.tui.app import INTERRUPTED
from tests._support import eventually
from tests.runner.rig import Rig
from tests.tui.rig import monitoring


async def several(rig: Rig, count: int = 4) -> list[AppHandle]:
    return [await rig.run(name=f"app{number}") for number in range(count)]


async def test_it_stays_when_nothing_runs_and_new_apps_appear(rig: Rig) -> None:
    clock = rig.runner.clock = VirtualClock()
    gone = await rig.run(name="past")
    rig.exit(gone)
    async with monitoring(rig, since_now=True) as seen:
        await clock.advance(1)
        assert "no apps" == seen.pane("head").splitlines()[0]
        new = await rig.run(name="new")

        async def is_found() -> bool:
            await clock.advance(LOOK_EVERY)
            return seen.app.table.view(new) is not None

        await eventually(is_found)
        await clock.advance(1)
        await seen.has("new")
        rig.exit(new)
        await eventually(lambda: (view := seen.app.table.view(new)) is not None and view.is_over)
        await clock.advance(1)

        assert "SUCCEEDED" in seen.rows[0]
        assert seen.app.is_running


async def test_columns_tell_age_replicas_and_the_last_line(rig: Rig) -> None:
    handle = await rig.run(name="train", replicas=4)
    rig.say(handle, "epoch 1")
    rig.say(handle, "epoch 2")
    service = rig.service(handle)
    for code, k in ((0, 1), (0, 2), (3, 3)):
        service.exit(handle.app_id, code, k=k)
    async with monitoring(rig) as seen:
        await seen.shows("main/3: exited with code 3: epoch 2")

        titles = seen.pane("table").splitlines()[0].split()
        assert ["APP", "STATE", "DONE/FAILED/OF", "AGE", "WHY,", "LAST", "LINE"] == titles
        assert "RUNNING     2/1/4" in seen.rows[0]
        age = seen.rows[0].split()[4]
        assert age[:-1].isdigit()
        assert age[-1] in "sm"


async def test_the_last_line_of_a_replica_that_has_failed_is_read_at_once(rig: Rig) -> None:
    clock = rig.runner.clock = VirtualClock()
    handle = await rig.run(name="train", replicas=2)
    service = rig.service(handle)
    service.say(handle.app_id, "all is well\n", k=0)
    async with monitoring(rig, [handle]) as seen:

        async def is_read(text: str) -> bool:
            await clock.advance(1)
            view = seen.app.table.view(handle)
            return view is not None and view.last_line == text

        await eventually(lambda: is_read("all is well"))
        service.say(handle.app_id, "no memory\n", k=1)
        service.exit(handle.app_id, 3, k=1)
        await eventually(lambda: (view := seen.app.table.view(handle)) and view.tally.failed)
        await eventually(lambda: is_read("no memory"))


async def test_names_are_ids_where_two_apps_have_the_same(rig: Rig) -> None:
    one, other, third = [await rig.run(name=name) for name in ("twin", "twin", "only")]
    async with monitoring(rig) as seen:
        await eventually(lambda: {one.app_id, other.app_id, "only"} == {*seen.names})
        await seen.press("slash", *"only", "enter", "c")
        await seen.shows("cancel only?", "over")
        assert third in seen.over


async def test_a_text_filters_while_it_is_typed(rig: Rig) -> None:
    await rig.run(name="train")
    await rig.run(name="eval")
    async with monitoring(rig) as seen:
        await eventually(lambda: 2 == len(seen.rows))
        await seen.press("slash")
        await seen.type("TRA")
        await seen.has("train")
        await seen.press("enter")

        assert "showing 1 of 2, with 'TRA', by attention" in seen.pane("head")
        assert "2 apps: 2 running" in seen.pane("head")
        await seen.press("q", "escape")  # a key again, and not a part of the text
        assert seen.app._exit


async def test_escape_takes_the_filter_back(rig: Rig) -> None:
    await several(rig, 2)
    async with monitoring(rig) as seen:
        await eventually(lambda: 2 == len(seen.rows))
        await seen.press("slash", *"nosuch")
        await eventually(lambda: not seen.rows)
        await seen.press("escape")
        await eventually(lambda: 2 == len(seen.rows))
        await seen.press("f")
        await eventually(lambda: not seen.rows)
        await seen.press("escape")
        await eventually(lambda: 2 == len(seen.rows))


async def test_orders_take_turns_and_the_cursor_stays_on_its_app(rig: Rig) -> None:
    handles = await several(rig)
    rig.exit(handles[1], 1)
    async with monitoring(rig) as seen:
        await eventually(lambda: seen.names[:1] == ["app1"])
        await seen.press("j")
        chosen = seen.app.table.cursor
        for order in ("newest", "name", "failures", "last change", "attention"):
            await seen.press("s")
            assert f"by {order}" in seen.pane("head")
            assert chosen == seen.app.table.cursor
        await seen.press("s", "s")
        assert sorted(seen.names) == seen.names


async def test_only_what_has_failed_with_the_totals_kept(rig: Rig) -> None:
    handles = await several(rig)
    rig.exit(handles[2], 1)
    async with monitoring(rig) as seen:
        await seen.shows("1 failed", "head")
        await seen.press("f")
        await seen.has("app2")

        assert "4 apps: 1 failed, 3 running" in seen.pane("head")
        assert "showing 1 of 4, failed only" in seen.pane("head")
        await seen.press("f")
        assert 4 == len(seen.rows)


async def test_states_take_turns(rig: Rig) -> None:
    handles = [await rig.run(name="a"), await rig.run(name="b", started=False), await rig.run(name="c")]
    rig.exit(handles[2])
    shown: dict[str, list[str]] = {}
    async with monitoring(rig) as seen:
        await seen.shows("1 succeeded, 1 running, 1 pending", "head")
        for _ in range(7):
            shown[seen.app.table.states] = seen.names
            await seen.press("t")
        assert "all" == seen.app.table.states
    assert ["a"] == shown["running"]
    assert ["b"] == shown["waiting"]
    assert ["c"] == shown["succeeded"]
    assert [] == shown["failed"] == shown["cancelled"] == shown["not known"]


async def test_it_fits_a_narrow_terminal(rig: Rig) -> None:
    handle = await rig.run(name="a-long-name-of-an-app")
    rig.exit(handle, 1)
    async with monitoring(rig) as seen:
        await seen.shows("exited with code 1")
        await seen.pilot.resize_terminal(30, 8)
        await eventually(lambda: "? help  q leave  / filter" == seen.pane("foot").rstrip())

        await eventually(lambda: "FAILED" in seen.rows[0])
        panes = ("head", "table", "foot")
        await eventually(lambda: max(len(line) for pane in panes for line in seen.pane(pane).splitlines()) <= 30)


async def test_help_tells_the_keys(rig: Rig) -> None:
    async with monitoring(rig) as seen:
        await seen.press("question_mark")
        await seen.shows("cancel the selected apps, after a question", "over")
        await seen.press("escape")
        assert "" == seen.over


async def test_marked_apps_are_cancelled_after_a_question(rig: Rig) -> None:
    handles = await several(rig, 5)
    async with monitoring(rig) as seen:
        await eventually(lambda: 5 == len(seen.rows))
        await seen.press("m", "j", "m")
        marked = seen.app.table.chosen
        assert 2 == len(marked)
        assert ", 2 marked" in seen.pane("head")
        await seen.press("c")
        await seen.shows("cancel 2 apps?", "over")
        assert all(handle in seen.over for handle in marked)
        await seen.press("n")
        assert 0 == rig.push.calls["cancel"]
        await seen.press("c", "y")
        await seen.shows("cancel requested for 2 apps", "foot")
        await seen.shows("2 cancelled", "head")

        assert {*marked} == {h for h in handles if (view := seen.app.table.view(h)) and view.word == "CANCELLED"}
        assert ", 2 marked" not in seen.pane("head")


async def test_without_marks_it_is_the_app_under_the_cursor(rig: Rig) -> None:
    await several(rig, 2)
    async with monitoring(rig) as seen:
        await eventually(lambda: 2 == len(seen.rows))
        await seen.press("j")
        chosen = AppHandle(seen.app.table.chosen[0])
        name = chosen.app_id[:4]
        await seen.press("c")
        await seen.shows(f"cancel {name}?", "over")
        await seen.press("y")
        await seen.shows(f"cancel requested for {name}", "foot")
        await seen.shows("1 cancelled", "head")
        seen.app.table.put_cursor(chosen)
        await seen.press("c")

        await seen.shows("it has already ended", "foot")


async def test_marks_that_are_not_shown_are_told(rig: Rig) -> None:
    await rig.run(name="train")
    await rig.run(name="eval")
    async with monitoring(rig) as seen:
        await eventually(lambda: 2 == len(seen.rows))
        await seen.press("M", "slash", *"eval", "enter", "c")

        assert "1 marked app is not shown" in seen.over
        await seen.press("escape", "u")
        assert [handle for handle in seen.app.table.chosen if "eval" in handle] == seen.app.table.chosen


async def test_what_cannot_be_cancelled_is_told(rig: Rig) -> None:
    await several(rig, 1)
    rig.push.fail("cancel", *[PermissionDeniedError("the cluster is closed", backend="push")] * 20)
    async with monitoring(rig) as seen:
        await eventually(lambda: seen.rows)
        await seen.press("c", "y")
        await seen.shows("the cluster is closed", "foot")


async def test_an_app_is_described(rig: Rig) -> None:
    handle = await rig.run(name="train", env={"API_TOKEN": "hunter2"})
    async with monitoring(rig) as seen:
        await eventually(lambda: seen.rows)
        await seen.press("d")
        await seen.shows("entrypoint: work", "over")

        assert seen.over.startswith("── definition of train ──")
        assert handle in seen.over
        await seen.press("down", "pagedown", "pagedown")
        await seen.shows("***", "over")
        assert "hunter2" not in seen.over


async def test_space_peeks_at_the_last_twenty_lines(rig: Rig) -> None:
    handle = await rig.run()
    for number in range(50):
        rig.say(handle, f"line {number}")
    async with monitoring(rig) as seen:
        await eventually(lambda: seen.rows)
        await seen.press("space")
        await seen.shows("line 49", "over")

        assert [f"main/0 | line {number}" for number in range(30, 50)] == seen.over.splitlines()[1:-1]
        await seen.press("space")
        assert "" == seen.over


async def test_the_log_scrolls_back_and_tells_what_is_new(rig: Rig) -> None:
    handles = await several(rig, 2)
    for number in range(100):
        rig.say(handles[number % 2], f"line {number}")
    async with monitoring(rig) as seen:
        await eventually(lambda: 2 == len(seen.rows))
        await seen.press("M", "enter")
        await seen.shows("log of 2 apps: 100 lines", "log-title")
        assert seen.app.log_view is not None
        assert {"app0/0", "app1/0"} == {row.who for row in seen.app.log_view.rows()}
        await seen.press("pageup", "up")
        before = seen.pane("log")
        for number in range(214):
            rig.say(handles[0], f"more {number}")
        await seen.shows("+214 new", "log-title")
        assert before == seen.pane("log")
        await seen.press("end")
        assert "more 213" in seen.pane("log").splitlines()[-1]
        assert "new" not in seen.pane("log-title")
        await seen.press("home")
        assert "line 0" in seen.pane("log") or "line 1" in seen.pane("log")
        await seen.press("tab", "j", "tab", "q")
        assert seen.app.log_view is None
        assert seen.app.is_running


async def test_long_lines_are_read_to_their_ends(rig: Rig) -> None:
    handle = await rig.run(name="train", replicas=12)
    rig.service(handle).say(handle.app_id, f"begin{'-' * 300}end\n", k=3)
    rig.service(handle).say(handle.app_id, "short\n", k=11)
    async with monitoring(rig) as seen:
        await eventually(lambda: (view := seen.app.table.view(handle)) and len(view.replicas) == 12)
        await seen.press("enter")
        await seen.shows("2 lines", "log-title")
        assert [12, 12] == [line.index("| ") + 4 for line in seen.pane("log").splitlines()], "names are aligned"
        assert "end" not in seen.pane("log")
        await seen.press(*["right"] * 12)
        assert "from column 241" in seen.pane("log-title")
        assert "end" in seen.pane("log")
        assert "main/11 |" in seen.pane("log")
        await seen.press("left")
        assert "from column 221" in seen.pane("log-title")
        rig.service(handle).exit(handle.app_id, 1, k=3)
        await seen.shows("0/1/12")
        await seen.press("tab", "space")
        await seen.shows("begin", "over")
        assert "end" in seen.over


async def test_the_log_may_have_the_whole_screen(rig: Rig) -> None:
    handle = await rig.run()
    for number in range(50):
        rig.say(handle, f"line {number}")
    async with monitoring(rig) as seen:
        await eventually(lambda: seen.rows)
        await seen.press("z", "enter")
        await seen.shows("50 lines", "log-title")
        half = len(seen.pane("log").splitlines())
        await seen.press("z")
        await eventually(lambda: len(seen.pane("log").splitlines()) > 3 * half // 2)
        for back in ("tab", "q"):
            await seen.press(back)
            await eventually(lambda: seen.app.query_one("#table").size.height > 10)
            await seen.press("tab", "z")
        assert seen.app.log_view is None


async def test_the_log_keeps_so_many_lines_and_says_so(rig: Rig) -> None:
    handle = await rig.run()
    async with monitoring(rig) as seen:
        await eventually(lambda: seen.rows)
        await seen.press("enter")
        rig.say(handle, "line 0")
        await seen.shows("1 line", "log-title")  # what comes now is followed, and not a part of its beginning
        for number in range(1, 5200):
            rig.say(handle, f"line {number}")
            await asyncio.sleep(0)
        await seen.shows("the last 5,000 of 5,200 lines", "log-title")
        await seen.press("home")

        assert "main/0 | line 200" == seen.pane("log").splitlines()[0]


async def test_the_log_is_searched_with_a_count(rig: Rig) -> None:
    handle = await rig.run()
    for number in range(300):
        rig.say(handle, f"step {number} loss {number % 100}")
    async with monitoring(rig) as seen:
        await eventually(lambda: seen.rows)
        await seen.press("enter")
        await seen.shows("300 lines", "log-title")
        await seen.press("slash", *"LOSS", "space", *"42", "enter")
        assert "'loss 42' 3/3" in seen.pane("log-title")
        assert "step 242" in seen.pane("log")
        await seen.press("N")
        assert "'loss 42' 2/3" in seen.pane("log-title")
        assert "step 142" in seen.pane("log")
        await seen.press("n", "n")
        assert "'loss 42' 1/3" in seen.pane("log-title")
        await seen.press("slash", *"nowhere", "enter")
        assert "'nowhere' is not found" in seen.pane("log-title")


async def test_an_attempt_of_the_log_is_chosen(rig: Rig) -> None:
    handle = await rig.run(max_retries=1)
    rig.say(handle, "first try")
    rig.exit(handle, 1)
    service = rig.service(handle)
    await eventually(lambda: 1 == service.apps[handle.app_id].replicas["main", 0].attempt)
    service.start(handle.app_id)
    rig.say(handle, "second try")
    async with monitoring(rig) as seen:
        await eventually(lambda: (view := seen.app.table.view(handle)) and view.replicas)
        await seen.press("enter")
        await seen.shows("2 lines", "log-title")
        for attempt, text in ((0, "first try"), (1, "second try")):
            await seen.press("a")
            await seen.shows(f"attempt {attempt}: 1 line", "log-title")
            assert f"main/0 | {text}" == seen.pane("log")
        await seen.press("a")
        await seen.shows("2 lines", "log-title")


async def test_equal_replicas_are_one_row(rig: Rig) -> None:
    handle = await rig.run(replicas=200)
    service = rig.service(handle)
    for k in (17, 31):
        service.exit(handle.app_id, 1, k=k)
    async with monitoring(rig) as seen:
        await seen.shows("0/2/200")
        await seen.press("x")

        assert "main/17,31" in seen.rows[1]
        assert "FAILED      2 x" in seen.rows[1]
        assert "main/0-16,18-30,32-199" in seen.rows[2].replace("…", "") or "…" in seen.rows[2]
        assert "RUNNING     198 x" in seen.rows[2]
        assert 3 == len(seen.rows)
        await seen.press("x")
        assert 1 == len(seen.rows)


async def test_a_summary_has_a_bar(rig: Rig) -> None:
    handles = await several(rig)
    rig.exit(handles[0], 1)
    rig.exit(handles[1])
    async with monitoring(rig) as seen:
        await seen.shows("4 apps: 1 succeeded, 1 failed, 2 running  [" + "█" * 10 + "x" * 10 + "▒" * 20 + "]", "head")


async def test_what_has_no_row_is_counted(rig: Rig) -> None:
    handles = await several(rig, 7)
    rig.exit(handles[0], 1)
    async with monitoring(rig, most=3) as seen:
        await eventually(lambda: 3 == len(seen.rows))

        assert "showing 3 of 7" in seen.pane("head")
        assert "7 apps: 1 failed, 6 running" in seen.pane("head")


async def test_the_cursor_and_marks_stay_with_their_apps(rig: Rig) -> None:
    handles = await several(rig, 6)
    async with monitoring(rig) as seen:
        await eventually(lambda: 6 == len(seen.rows))
        await seen.press("j", "j", "m", "k")
        under, marked = seen.app.table.cursor, next(iter(seen.app.table.chosen))
        others = [handle for handle in handles if handle not in (under, marked)]
        for handle in others:
            rig.exit(handle, 1)
        await seen.shows("5 failed", "head")
        await eventually(lambda: {*seen.names[:5]} == {handle.app_id[:4] for handle in others})

        assert under == seen.app.table.cursor == marked
        (row,) = [row for row in seen.rows if row.startswith(">")]
        assert row.startswith(f">*{AppHandle(marked).app_id[:4]} ")


async def test_nothing_that_others_write_is_obeyed(rig: Rig) -> None:
    evil = "a\x1b]0;PWNED\x07\x1b[2J\x9b2J\u202eb"
    handle = await rig.run(name="job")
    rig.say(handle, evil)
    rig.service(handle).set_reason(handle.app_id, evil)
    async with monitoring(rig) as seen:
        await eventually(lambda: (view := seen.app.table.view(handle)) and view.last_line)
        await seen.press("enter")
        await seen.shows("1 line", "log-title")
        await seen.press("space")
        await eventually(lambda: seen.over)
        everything = [seen.pane(name) for name in ("head", "table", "log-title", "log", "foot")] + [seen.over]
    assert all(text.replace("\n", "").isprintable() for text in everything)


async def test_a_scheduler_that_fails_is_told_and_the_others_go_on(rig: Rig) -> None:
    await rig.run(name="here")
    await rig.run("polled", name="there")
    rig.polled.fail("list", *[PermissionDeniedError("the cluster is closed", backend="polled")] * 20)
    async with monitoring(rig) as seen:
        await seen.shows("error: the cluster is closed", "foot")
        await seen.has("here")
        await seen.press("j")
        assert "cluster" not in seen.pane("foot")


async def test_it_leaves_by_itself_where_that_is_wanted(rig: Rig) -> None:
    handle = await rig.run()
    async with monitoring(rig, [handle], leaves=True) as seen:
        await eventually(lambda: seen.rows)
        rig.exit(handle)
        await eventually(lambda: seen.app._exit)


async def test_named_apps_that_have_ended_stay_to_be_read(rig: Rig) -> None:
    handle = await rig.run()
    async with monitoring(rig, [handle]) as seen:
        await eventually(lambda: seen.rows)
        rig.exit(handle)
        await seen.shows("all apps have ended; press q to leave", "foot")
        assert "SUCCEEDED" in seen.rows[0]
        await seen.press("ctrl+c")
        assert INTERRUPTED == seen.app.return_value
