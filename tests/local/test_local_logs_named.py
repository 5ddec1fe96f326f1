"""A directory that the user names for the logs may be anything, and may go at any time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from asyncsched.errors import AsyncSchedError, InvalidRequestError, RunOptionError
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.specs import AppState
from tests.local._local import ONE_LOOP, app, app_directory, ended, first, python, read, shell, texts

pytestmark = ONE_LOOP


@pytest.mark.parametrize("where", ["/dev/null/logs", "/proc/logs"])
async def test_a_directory_that_cannot_be_made_is_an_error_and_nothing_runs(
    scheduler: LocalScheduler, tmp_path: Path, where: str
) -> None:
    with pytest.raises(InvalidRequestError, match=where):
        await scheduler.submit(app(shell(f"touch {tmp_path}/ran")), {"log_dir": where})

    assert not (tmp_path / "ran").exists()
    assert [] == await scheduler.list()


async def test_no_directory_is_none(scheduler: LocalScheduler, home: Path) -> None:
    info = await scheduler.submit_dryrun(app(shell("echo hello")), {"log_dir": ""})

    assert str(app_directory(home, info.app_id)) == info.request.log_dir


async def test_a_home_that_nobody_knows_is_no_directory(scheduler: LocalScheduler) -> None:
    with pytest.raises(RunOptionError, match="log_dir names an unknown home directory, got '~no-such-user/logs'"):
        await scheduler.submit_dryrun(app(shell("true")), {"log_dir": "~no-such-user/logs"})


async def test_a_replica_that_was_added_has_no_directory_of_its_own(scheduler: LocalScheduler, tmp_path: Path) -> None:
    info = await scheduler.submit_dryrun(app(shell("true")), {"log_dir": str(tmp_path)})
    info.request.role_params["main"] *= 2

    with pytest.raises(InvalidRequestError, match="has no log directory for main/1"):
        await scheduler.schedule(info)


async def test_a_relative_directory_lies_in_the_submitters(
    scheduler: LocalScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app_id = await scheduler.submit(app(shell("echo hello")), {"log_dir": "logs"})
    monkeypatch.chdir("/")

    assert ["hello"] == await texts(scheduler, app_id)
    assert "hello\n" == (tmp_path / "logs/session" / app_id / "main/0/stdout.log").read_text()


async def test_the_same_key_again_begins_a_new_log(scheduler: LocalScheduler, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    definition = app(shell(f"cat {tmp_path}/what"))
    for what in ("one\n" * 1000, "two\n"):
        (tmp_path / "what").write_text(what)
        app_id = await scheduler.submit(definition, {"log_dir": str(logs)}, key="again")
        await ended(scheduler, app_id)

        assert what == "".join(await read(scheduler, app_id))
        await scheduler.delete(app_id)

    assert (logs / "session" / app_id / "main/0/stdout.log").exists()


async def test_an_error_of_an_earlier_app_of_the_same_key_is_not_told_again(
    scheduler: LocalScheduler, tmp_path: Path
) -> None:
    definition = app(shell(f". {tmp_path}/what"))
    told: list[str] = []
    for what in ("echo one > $TORCHELASTIC_ERROR_FILE; exit 1", "exit 1", "echo two > $TORCHELASTIC_ERROR_FILE"):
        (tmp_path / "what").write_text(what)
        app_id = await scheduler.submit(definition, {"log_dir": str(tmp_path / "logs")}, key="again")
        told.append((await ended(scheduler, app_id)).structured_error_msg)
        await scheduler.delete(app_id)

    assert ["one\n", "<NONE>", "two\n"] == told


async def test_a_directory_that_is_removed_while_the_app_runs(scheduler: LocalScheduler, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    script = f"echo one; until [ -e {tmp_path}/go ]; do sleep 0.01; done; echo two"
    app_id = await scheduler.submit(app(shell(script)), {"log_dir": str(logs)})
    await first(scheduler, app_id)
    shutil.rmtree(logs)
    (tmp_path / "go").touch()

    assert AppState.SUCCEEDED is (await ended(scheduler, app_id)).state

    try:
        lines = await read(scheduler, app_id)
    except AsyncSchedError:
        return
    assert lines[-1].gap is not None


@pytest.mark.parametrize("limit", [1, 1000, 20_000])
async def test_the_least_that_may_be_kept(scheduler: LocalScheduler, limit: int) -> None:
    code = "for number in range(5_000): print('line', number, flush=number % 100 == 0)"
    app_id = await scheduler.submit(app(python(code)), {"max_log_bytes": limit})
    found = await ended(scheduler, app_id)

    lines = await read(scheduler, app_id)

    assert AppState.SUCCEEDED is found.state
    kept = [line.text for line in lines if line.gap is None]
    assert [f"line {number}" for number in range(5_000)][5_000 - len(kept) :] == kept
    assert lines[0].gap is not None
