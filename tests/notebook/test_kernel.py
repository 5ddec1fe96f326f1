"""A runner in a notebook, through a real kernel."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.notebook.kernel import Cell, Kernel, kernel

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
BEGIN = """
from asyncsched import AppDef, Role, Runner
from asyncsched.testing import FakeScheduler
fake = FakeScheduler("me")
service = fake.service
service.start_delay = None
app = AppDef("job", [Role("main", "image", entrypoint="work", num_replicas=2)])
runner = Runner("me", {"fake": fake})
handle = await runner.run(app, "fake")
service.start(handle.app_id)
"""


@pytest.fixture(scope="module")
def notebook() -> Generator[Kernel]:
    with kernel(**{**os.environ, "PYTHONPATH": str(ROOT)}) as started:
        yield started


@pytest.fixture
def begun(notebook: Kernel) -> Kernel:
    notebook.run(BEGIN)
    return notebook


def test_a_runner_opened_in_one_cell_works_and_closes_in_another(begun: Kernel) -> None:
    begun.run("lines = runner.log_lines(handle, should_tail=True)")
    begun.run("service.say(handle.app_id, 'one\\n', k=0)")

    assert "one\n" == begun.run("print(await anext(lines), end='')").text
    begun.run("service.exit(handle.app_id)")
    assert "SUCCEEDED\n" == begun.run("print((await runner.wait(handle)).state)").text
    begun.run("await runner.close()")
    left = "import asyncio; print([t.get_name() for t in asyncio.all_tasks() if 'asyncsched' in repr(t.get_coro())])"
    assert "[]\n" == begun.run(left).text


def test_a_bare_handle_shows_its_card(begun: Kernel) -> None:
    card = begun.run("handle").html

    assert "fake://me/job-" in card
    assert "SUBMITTED" in card
    begun.run("status = await runner.status(handle)")
    assert "RUNNING" in begun.run("handle").html
    assert "2 RUNNING" in begun.run("status").html
    assert "dry-run of" in begun.run("await runner.dryrun(app, 'fake')").html
    assert "fake://me/job-" in begun.run("await runner.list()").html


def test_the_stop_button_detaches(begun: Kernel) -> None:
    waiting = begun.start("print('waiting', flush=True)\nawait runner.wait(handle)")
    begun.until(lambda: waiting.text)
    begun.interrupt()
    begun.finish(waiting)

    assert waiting.error.startswith(("CancelledError", "KeyboardInterrupt"))
    assert "0 RUNNING\n" == begun.run("print(runner.statistics().watches, (await runner.status(handle)).state)").text
    begun.run("service.exit(handle.app_id)")
    assert "SUCCEEDED\n" == begun.run("print((await runner.wait(handle)).state)").text


def test_the_stop_button_in_a_log_loses_no_line(begun: Kernel) -> None:
    begun.run("lines = runner.log_lines(handle, should_tail=True)")
    reading = begun.start("print('reading', flush=True)\nasync for line in lines:\n    print(line, end='')")
    begun.until(lambda: reading.text)
    begun.interrupt()
    begun.finish(reading)
    begun.run("service.say(handle.app_id, 'one\\ntwo\\n', k=0); service.exit(handle.app_id)")

    assert "['one', 'two']\n" == begun.run("print([line.text async for line in lines])").text


def test_output_of_a_task_in_the_background(begun: Kernel) -> None:
    begun.run("""
import asyncio
async def follow():
    async for event in runner.watch([handle]):
        print(event.state, flush=True)
following = asyncio.create_task(follow())
await asyncio.sleep(0)
""")
    cell = begun.run("service.exit(handle.app_id)\nawait following")
    said = "".join(each.text for each in begun._cells.values())

    assert "" == cell.error
    assert "RUNNING\nSUCCEEDED\n" in said


def _has_both(display: dict[str, str]) -> bool:
    return all(state in display.get("text/html", "") for state in ("RUNNING", "PENDING"))


def test_monitor_is_one_table_that_updates_itself(begun: Kernel, tmp_path: Path) -> None:
    begun.run(f"""
import asyncio
from pathlib import Path
other = await runner.run(app, 'fake')
async def end():
    while not Path({str(tmp_path / "go")!r}).exists():
        await asyncio.sleep(0.01)
    service.exit(handle.app_id)
    await asyncio.sleep(0.3)
    service.exit(other.app_id)
ending = asyncio.create_task(end())
""")
    following = begun.start("await runner.monitor([handle, other])")
    begun.until(lambda: any(_has_both(display) for display in following.displays))
    (tmp_path / "go").touch()
    begun.finish(following)
    pages = [display["text/html"] for display in following.displays]

    assert "" == following.error
    assert "not known" in pages[0]
    assert 2 == pages[-1].count("<b>SUCCEEDED</b>")
    assert all("fake://me/job-" in page for page in pages)
    # An update replaces the cell's output: the last one is what a saved notebook holds.
    assert len(pages) <= 8


def test_a_stopped_monitor_detaches_and_says_so(begun: Kernel) -> None:
    following = begun.start("await runner.monitor(handle)")
    begun.until(lambda: any("RUNNING" in display.get("text/html", "") for display in following.displays))
    begun.interrupt()
    begun.finish(following)

    assert ["no longer followed; the apps keep running"] == plain(following)
    assert "no longer followed" not in following.html, "it is told once"
    assert "RUNNING\n" == begun.run("print((await runner.status(handle)).state)").text


@pytest.mark.parametrize("how", ["once", "again and again"])
def test_a_monitor_that_is_cancelled_at_any_await_leaves_nothing(begun: Kernel, how: str) -> None:
    walk = begun.run(f"""
from tests._cancelling import cancelled_at_each_await
service.exit(handle.app_id)
async for outcome in cancelled_at_each_await(lambda: runner.monitor(handle), how={how!r}):
    print(outcome.at, outcome.cancelled, runner.statistics().watches)
""")
    said = [line.split() for line in walk.text.splitlines()]

    assert len(said) > 1
    assert [[str(at), "True", "0"] for at in range(1, len(said) + 1)] == said
    assert any("no longer followed" in display.get("text/html", "") for display in walk.displays)


def test_it_works_where_the_user_has_applied_nest_asyncio(begun: Kernel) -> None:
    pytest.importorskip("nest_asyncio")
    begun.run("import nest_asyncio; nest_asyncio.apply()")
    begun.run("service.exit(handle.app_id)")

    assert "SUCCEEDED\n" == begun.run("print((await runner.wait(handle)).state)").text
    assert (
        "SUCCEEDED\n"
        == begun.run(
            "import asyncio; print(asyncio.get_event_loop().run_until_complete(runner.wait(handle)).state)"
        ).text
    )


def test_the_blocking_facade_works_in_a_notebook(notebook: Kernel) -> None:
    notebook.run("""
from asyncsched import AppDef, Role
from asyncsched.sync import SyncRunner
from asyncsched.testing import FakeScheduler
blocking = SyncRunner("me", {"fake": FakeScheduler("me")})
app = AppDef("job", [Role("main", "image", entrypoint="sh", args=["-c", "echo hello"])])
handle = blocking.run(app, "fake")
""")

    assert "hello\n" == notebook.run("print(*blocking.log_lines(handle, should_tail=True), sep='', end='')").text
    assert "<b>SUCCEEDED</b>" in notebook.run("blocking.wait(handle)").html
    notebook.run("blocking.close()")


def plain(cell: Cell) -> list[str]:
    """Return what a stopped or failed cell shows, without colours."""
    return [re.sub(r"\x1b\[[\d;]*m", "", line) for line in cell.traceback]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = 1\nawait runner.run(app, 'nowhere')", ["----> 2 await runner.run(app, 'nowhere')", "error: "]),
        ("Runner('a b/c')", ["----> 1 Runner('a b/c')", "error: "]),
        ("(await runner.wait(failed)).raise_for_status()", ["----> 1 (await runner.wait", "error: ", "  why: "]),
        ("await runner.wait('fake://me/nosuch', check=True)", ["----> 1 await runner.wait", "error: "]),
        (
            "await runner.wait(handle, timeout=0.01)",
            [
                "----> 1 await runner.wait",
                "error: fake://me/job-",
                "  why: it is RUNNING",
                "  fix: it is still running",
            ],
        ),
        (
            "import asyncio\nawait asyncio.wait_for(runner.status('bad'), 9)",
            ["----> 2 await asyncio.wait_for(runner.status('bad'), 9)", "error: 'bad' is not a handle"],
        ),
    ],
)
def test_an_error_is_the_line_of_the_cell_and_what_why_and_fix(begun: Kernel, code: str, expected: list[str]) -> None:
    begun.run("failed = await runner.run(app, 'fake'); service.start(failed.app_id); service.exit(failed.app_id, 1)")
    begun.run("status = await runner.status(handle)")  # a hundredth of a second may be too short for an answer
    cell = begun.finish(begun.start(code))
    told = plain(cell)

    assert cell.error
    assert len(told) <= 6, told
    assert all(len(line.splitlines()) == 1 for line in told)
    for begin, line in zip(expected, told, strict=False):
        assert line.startswith(begin)


# All of them fail, however quickly the first failure would end the others.
GROUP = """
async with runner.group("local_cwd", max_failures={count} - 1) as group:
    for number in range({count}):
        group.start(AppDef("job", [Role("main", entrypoint="sh", args=["-c", "exit 3"])]), name=f"n{{number}}")
    await group.wait()
"""


@pytest.mark.parametrize("count", [1, 8])
def test_a_group_whose_jobs_failed_is_an_error_as_short_as_all_others(begun: Kernel, count: int) -> None:
    begun.run("runner = Runner('mine')")
    cell = begun.finish(begun.start(GROUP.format(count=count)))
    told = plain(cell)

    assert cell.error.startswith("ExceptionGroup: ")
    assert 3 <= len(told) <= 6, told
    assert "" == cell.text
    assert told[0].startswith("----> 1 async with runner.group"), told
    assert "FAILED" in "".join(told)
    assert (count > 1) == (" more: `error.exceptions` of this ExceptionGroup has them" in told[-1]), told
    begun.run("await runner.close()")


@pytest.mark.parametrize("several", [True, False])
def test_our_errors_in_a_group_of_the_users_own_are_as_short(begun: Kernel, several: bool) -> None:
    begun.run("import asyncio")
    count = 2 if several else 1
    code = f"async with asyncio.TaskGroup() as tg:\n    for _ in range({count}): tg.create_task(runner.status('bad'))"
    cell = begun.finish(begun.start(code))
    told = plain(cell)

    assert cell.error.startswith("ExceptionGroup: ")
    assert "" == cell.text
    assert told[0].startswith("----> 1 async with asyncio.TaskGroup()"), told
    assert told[1].startswith("error: 'bad' is not a handle"), told
    assert several == (" more: `error.exceptions` of this ExceptionGroup has them" in told[-1]), told
    assert 3 <= len(told) <= 6, told


def test_a_group_with_an_error_of_the_users_own_is_shown_in_full(begun: Kernel) -> None:
    begun.run("from asyncsched.errors import UsageError")
    cell = begun.finish(begun.start("raise ExceptionGroup('both', [UsageError('ours'), ValueError('mine')])"))

    assert "ExceptionGroup: both (2 sub-exceptions)" in cell.text
    assert "ValueError: mine" in cell.text
    assert "UsageError: ours" in cell.text


def test_a_failed_apps_error_says_why_in_the_words_of_its_card(begun: Kernel) -> None:
    begun.run("""
failed = await runner.run(app, 'fake')
service.start(failed.app_id)
service.exit(failed.app_id, 3, k=1)
service.exit(failed.app_id, 0, k=0)
""")
    cell = begun.finish(begun.start("status = await runner.wait(failed)\nstatus.raise_for_status()"))
    (why,) = [line for line in plain(cell) if line.startswith("  why: ")]

    assert why.endswith("is FAILED: 1 of 2 failed, main/1: exited with code 3"), why
    assert why.partition("FAILED: ")[2] in begun.run("status").html


DURING = """
try:
    async with runner.group("local_cwd") as group:
        group.start(AppDef("job", [Role("main", entrypoint="false")]), name="x")
except ExceptionGroup:
    await runner.status("bad")
"""


def test_an_error_that_is_raised_while_a_groups_is_handled_is_as_short(begun: Kernel) -> None:
    begun.run("runner = Runner('mine')")
    cell = begun.finish(begun.start(DURING.strip()))

    assert ("", '----> 5 await runner.status("bad")') == (cell.text, plain(cell)[0])
    assert cell.error.startswith("MalformedHandleError: 'bad' is not a handle")
    assert 3 == len(plain(cell))
    begun.run("await runner.close()")


@pytest.mark.parametrize(
    "code", ["await runner.monitor(handle)", "await runner.wait(handle)", "await runner.show_log(handle)"]
)
def test_a_stopped_cell_ends_with_one_quiet_line(begun: Kernel, code: str) -> None:
    cell = begun.start(f"print('begun', flush=True)\n{code}")
    begun.until(lambda: cell.text)
    begun.until(lambda: cell.displays or "wait" in code)
    begun.interrupt()
    begun.finish(cell)

    assert 1 == len(plain(cell))
    assert any(words in plain(cell)[0] for words in ("keep running", "runs on", "run on", "to go on"))


def test_a_shown_log_goes_on_from_its_last_line(begun: Kernel) -> None:
    begun.run("service.say(handle.app_id, 'one\\n', k=0)")
    following = begun.start("await runner.show_log(handle)")
    begun.until(lambda: any("main/0 | one" in display["text/plain"] for display in following.displays))
    begun.interrupt()
    begun.finish(following)
    assert ["no longer followed; run the cell again to go on"] == plain(following)
    assert "run the cell again to go on" not in following.html, "it is told once"

    begun.run("service.say(handle.app_id, 'two\\n', k=1); service.exit(handle.app_id)")
    again = begun.run("await runner.show_log([handle])")
    assert "main/0 | one\nmain/1 | two" == again.displays[-1]["text/plain"]
    assert "max-height" in again.html
    assert "run the cell again" not in again.html
    begun.run("await runner.close()")
