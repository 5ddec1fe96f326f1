"""What replicas leave as their results, and what others may have put in its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asyncsched.schedulers.local import LocalScheduler
from asyncsched.specs.result import LARGEST_RESULT, RESULT_FILE, UnreadableResult
from tests.local._local import ONE_LOOP, app, app_directory, ended, shell

pytestmark = ONE_LOOP

LEAVE = f"cat > ${RESULT_FILE}"


async def test_results_lie_beside_the_logs_where_these_were_named(scheduler: LocalScheduler, tmp_path: Path) -> None:
    named = app(shell(f"echo 1 | {LEAVE}", name="a/b", num_replicas=2))
    app_id = await scheduler.submit(named, {"log_dir": str(tmp_path / "logs")})
    await ended(scheduler, app_id)

    assert {("a/b", 0): 1, ("a/b", 1): 1} == await scheduler.results(app_id)
    assert 2 == len(list((tmp_path / "logs/session").rglob("result.json")))


async def test_the_place_of_an_edited_request_counts(scheduler: LocalScheduler, tmp_path: Path) -> None:
    info = await scheduler.submit_dryrun(app(shell(f"echo 1 | {LEAVE}")), {"log_dir": str(tmp_path / "logs")})
    info.request.role_log_dirs["main"] = [str(tmp_path / "elsewhere")]
    app_id = await scheduler.schedule(info)
    await ended(scheduler, app_id)

    assert {("main", 0): 1} == await scheduler.results(app_id)
    assert (tmp_path / "elsewhere/result.json").exists()


async def test_a_role_cannot_move_it(scheduler: LocalScheduler, tmp_path: Path) -> None:
    app_id = await scheduler.submit(app(shell(f"echo 1 | {LEAVE}", env={RESULT_FILE: str(tmp_path / "mine")})))
    await ended(scheduler, app_id)

    assert {("main", 0): 1} == await scheduler.results(app_id)


async def test_a_result_of_an_earlier_app_of_the_same_key_is_not_read_again(
    scheduler: LocalScheduler, tmp_path: Path
) -> None:
    definition = app(shell(f". {tmp_path}/what"))
    found: list[object] = []
    for what in (f"echo 1 | {LEAVE}", "true", f"echo 2 | {LEAVE}"):
        (tmp_path / "what").write_text(what)
        app_id = await scheduler.submit(definition, {"log_dir": str(tmp_path / "logs")}, key="again")
        await ended(scheduler, app_id)
        found.append(await scheduler.results(app_id))
        await scheduler.delete(app_id)

    assert [{("main", 0): 1}, {}, {("main", 0): 2}] == found


@pytest.mark.parametrize(
    "instead",
    [f"ln -s {{other}} ${RESULT_FILE}", f"mkfifo ${RESULT_FILE}", f"mkdir ${RESULT_FILE}", f"echo '{{{{' | {LEAVE}"],
)
async def test_what_is_not_a_plain_file_of_json_is_told(
    scheduler: LocalScheduler, tmp_path: Path, instead: str
) -> None:
    (tmp_path / "other").write_text('"private"')
    app_id = await scheduler.submit(app(shell(instead.format(other=tmp_path / "other"))))
    await ended(scheduler, app_id)

    assert isinstance((await scheduler.results(app_id) or {})["main", 0], UnreadableResult)


async def test_a_directory_in_place_of_a_link_is_not_left(scheduler: LocalScheduler, home: Path) -> None:
    app_id = await scheduler.submit(app(shell(f"echo 1 | {LEAVE}")))
    await ended(scheduler, app_id)
    directory = app_directory(home, app_id) / "main/0"
    directory.rename(directory.with_name("moved"))
    directory.symlink_to("moved")

    assert isinstance((await scheduler.results(app_id) or {})["main", 0], UnreadableResult)


@pytest.mark.parametrize("size", [LARGEST_RESULT, LARGEST_RESULT + 1])
async def test_one_may_have_so_many_bytes(scheduler: LocalScheduler, home: Path, size: int) -> None:
    app_id = await scheduler.submit(app(shell("true")))
    await ended(scheduler, app_id)
    text = "x" * (size - 2)
    (app_directory(home, app_id) / "main/0/result.json").write_text(json.dumps(text))
    found = (await scheduler.results(app_id) or {})["main", 0]

    assert text == found if size <= LARGEST_RESULT else isinstance(found, UnreadableResult)
