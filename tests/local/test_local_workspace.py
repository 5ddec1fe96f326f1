"""Apps that run in a copy of a workspace."""

from __future__ import annotations

import asyncio
import copy
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from asyncsched.errors import ConfigError, ConflictError, SchedulerError, WorkspaceError
from asyncsched.schedulers.local import LocalDirectoryImageProvider, LocalScheduler
from asyncsched.specs import AppDef, Role, Stream
from asyncsched.sync import SyncRunner
from asyncsched.testing.contract import texts
from tests._support import eventually
from tests.workspace._trees import look, plant

REWRITE = """
find . -type d -exec chmod 755 {} +
find . -type f -o -type l | while read -r each; do echo overwritten > "$each"; chmod 777 "$each"; done
echo new > new
rm -rf package
"""


def job(script: str, name: str = "main", **more: object) -> Role:
    return Role(name, "", entrypoint="sh", args=["-c", script])


def apps_of(home: Path) -> list[str]:
    return sorted(each.name for each in (home / "apps").iterdir())


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = plant(tmp_path / "workspace")
    (root / "broken").unlink()  # writing through it would make a file elsewhere
    (root / "whole").symlink_to(root / "package/module.py")
    (root / "package/module.py").chmod(0o444)
    return root


async def test_a_job_that_rewrites_everything_leaves_the_workspace_as_it_was(
    scheduler: LocalScheduler, workspace: Path, home: Path
) -> None:
    before = look(workspace)
    app = AppDef("job", [job(f"pwd; cat package/module.py; ./run.sh; {REWRITE}")])
    kept = copy.deepcopy(app)
    app_id = await scheduler.submit(app, workspace=str(workspace))
    lines = texts([line async for line in scheduler.log_iter(app_id, should_tail=True)])

    assert [str(home / "apps" / app_id / "workspace"), "x = 1", "hello"] == lines[:3]
    assert before == look(workspace)
    assert kept == app
    found = home / "apps" / app_id / "workspace"
    assert ("overwritten\n", False) == ((found / "secret").read_text(), (found / "package").exists())
    await scheduler.delete(app_id)
    assert [] == apps_of(home)


async def test_edits_after_the_submit_do_not_change_what_runs(
    scheduler: LocalScheduler, workspace: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    app = AppDef("job", [job(f"read go < {gate}; cat package/module.py")])
    app_id = await scheduler.submit(app, workspace=str(workspace))
    (workspace / "package/module.py").chmod(0o644)
    (workspace / "package/module.py").write_text("edited")
    await asyncio.to_thread(gate.write_text, "go\n")

    assert ["x = 1"] == texts([line async for line in scheduler.log_iter(app_id, should_tail=True)])


async def test_a_dry_run_copies_nothing_and_tells_the_hash(
    scheduler: LocalScheduler, workspace: Path, home: Path
) -> None:
    info = await scheduler.submit_dryrun(AppDef("job", [job("true")]), {}, str(workspace))

    assert not home.exists()
    assert info.plan is not None
    assert f"directory + workspace {info.plan.hashes['']}" == info.workspace
    assert f"# {info.workspace}" in repr(info)
    assert str(home / "apps" / info.app_id / "workspace") == info.request.role_params["main"][0].cwd


async def test_what_has_changed_since_its_dry_run_is_not_launched(
    scheduler: LocalScheduler, workspace: Path, home: Path
) -> None:
    info = await scheduler.submit_dryrun(AppDef("job", [job("cat secret")]), {}, str(workspace))
    (workspace / "secret").write_text("edited")

    with pytest.raises(WorkspaceError, match="has changed since its dry-run"):
        await scheduler.schedule(info)
    assert [] == apps_of(home)
    renewed = await info.renew()
    await scheduler.schedule(renewed)
    assert ["edited"] == texts([line async for line in scheduler.log_iter(renewed.app_id, should_tail=True)])


async def test_once_it_is_launched_its_workspace_may_change(
    scheduler: LocalScheduler, workspace: Path, home: Path
) -> None:
    info = await scheduler.submit_dryrun(AppDef("job", [job("cat secret")]), {}, str(workspace))
    first = await scheduler.schedule(info)
    (workspace / "secret").write_text("edited")

    assert first == await scheduler.schedule(info)
    assert [first] == apps_of(home)


async def test_a_key_is_for_one_state_of_the_workspace(scheduler: LocalScheduler, workspace: Path, home: Path) -> None:
    app = AppDef("job", [job("cat secret")])
    first, again = [await scheduler.submit(app, workspace=str(workspace), key="k") for _ in range(2)]
    (workspace / "secret").write_text("edited")

    assert first == again
    with pytest.raises(ConflictError):
        await scheduler.submit(app, workspace=str(workspace), key="k")
    with pytest.raises(ConflictError):
        await scheduler.submit(app, key="k")
    assert [first] == apps_of(home)


async def test_an_app_that_cannot_start_leaves_no_copy(scheduler: LocalScheduler, workspace: Path, home: Path) -> None:
    with pytest.raises(SchedulerError, match="no-such-program"):
        await scheduler.submit(AppDef("job", [Role("main", "", entrypoint="./no-such-program")]), {}, str(workspace))
    assert [] == apps_of(home)


@pytest.mark.parametrize("steps", [1, 5, 13, 34, 89])
async def test_a_cancelled_submit_leaves_no_copy(
    scheduler: LocalScheduler, workspace: Path, home: Path, steps: int
) -> None:
    await scheduler.warm_up()
    submitting = asyncio.create_task(scheduler.submit(AppDef("job", [job("true")]), {}, str(workspace)))
    for _ in range(steps):
        await asyncio.sleep(0)
    submitting.cancel()
    (outcome,) = await asyncio.gather(submitting, return_exceptions=True)

    assert ([] if isinstance(outcome, asyncio.CancelledError) else [outcome]) == apps_of(home)


async def test_replicas_share_the_copy_and_roles_may_be_called_as_they_like(
    scheduler: LocalScheduler, workspace: Path
) -> None:
    app = AppDef("job", [job("cat package/module.py", "workspace"), job("${img_root}/run.sh", "other")])
    app_id = await scheduler.submit(app, workspace=str(workspace))
    lines = [line async for line in scheduler.log_iter(app_id, should_tail=True)]

    assert {("workspace", "x = 1"), ("other", "hello")} == {(line.role, line.text) for line in lines}


async def test_what_a_killed_submitter_has_copied_is_removed(home: Path, workspace: Path) -> None:
    program = """
import asyncio, os, signal, sys
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.specs import AppDef, Role
async def main():
    async with LocalScheduler("s") as scheduler:
        info = await scheduler.submit_dryrun(AppDef("job", [Role("a", "", entrypoint="true")]), {}, sys.argv[1])
        await scheduler._builder().build(info.plan, info.app_id)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    command = [sys.executable, "-c", program, str(workspace)]
    done = await asyncio.to_thread(subprocess.run, command, check=False)
    (left,) = apps_of(home)
    os.utime(home / "apps" / left, (1, 1))
    async with LocalScheduler("s") as scheduler:
        app_id = await scheduler.submit(AppDef("job", [Role("a", "", entrypoint="true")]))
        # The first submit of a scheduler begins a clean-up, which may be at it just now.
        await scheduler.prune(timedelta(days=1))
        await eventually(lambda: [app_id] == apps_of(home))

        assert -signal.SIGKILL == done.returncode


async def test_a_workspace_beside_an_image_provider_is_refused(home: Path, workspace: Path) -> None:
    async with LocalScheduler("s", LocalDirectoryImageProvider) as scheduler:
        with pytest.raises(ConfigError, match="a workspace cannot be combined with an image provider"):
            await scheduler.submit(AppDef("job", [job("true")]), {}, str(workspace))


async def test_the_way_to_the_state_directory_is_no_part_of_a_workspace(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(workspace / "not/there/yet"))
    async with LocalScheduler("s") as scheduler:
        app_id = await scheduler.submit(AppDef("job", [job("ls -d not || true")]), {}, str(workspace))

        assert [] == texts([line async for line in scheduler.log_iter(app_id, streams=Stream.STDOUT, should_tail=True)])


async def test_what_is_passed_over_is_told(
    scheduler: LocalScheduler, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(12):
        os.mkfifo(workspace / f"pipe{number}")
    await scheduler.submit_dryrun(AppDef("job", [job("true")]), {}, str(workspace))

    assert f"the workspace {workspace} is copied without pipe0: it is a named pipe" == caplog.messages[0]
    assert f"the workspace {workspace} is copied without 2 others" == caplog.messages[-1]


def test_code_that_cannot_await(workspace: Path, home: Path) -> None:
    with SyncRunner("s") as runner:
        handle = runner.run(AppDef("job", [job("cat package/module.py")]), "local_cwd", workspace=str(workspace))

        assert ["x = 1"] == [line.text for line in runner.log_lines(handle, should_tail=True)]


async def test_a_workspace_that_is_not_there_is_refused(scheduler: LocalScheduler, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="cannot read the workspace"):
        await scheduler.submit(AppDef("job", [job("true")]), {}, str(tmp_path / "missing"))


async def test_a_directory_that_its_job_has_locked_is_removed(
    scheduler: LocalScheduler, workspace: Path, home: Path
) -> None:
    app_id = await scheduler.submit(
        AppDef("job", [job("mkdir -p a/b/c; chmod 0 a/b a; rm -f secret")]), {}, str(workspace)
    )
    assert [] == [line async for line in scheduler.log_iter(app_id, should_tail=True)]
    await scheduler.delete(app_id)

    assert [] == apps_of(home)
