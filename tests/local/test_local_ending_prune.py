"""Apps that ended long ago are removed, by age and by number; what runs, and what the user has named, is not."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path

from asyncsched.schedulers.local import LocalScheduler
from asyncsched.schedulers.local.ending import prune
from asyncsched.schedulers.local.supervisor.host import start_time
from tests._support import eventually
from tests.local._local import ONE_LOOP, app, app_directory, ended, first, read_state, shell, write_state

pytestmark = ONE_LOOP


async def test_old_apps_are_pruned_by_number_and_what_runs_or_was_named_is_not(
    scheduler: LocalScheduler, home: Path, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    done = [await scheduler.submit(app(shell(f"echo {n}")), {"log_dir": str(logs)}) for n in range(4)]
    for app_id in done:
        await ended(scheduler, app_id)
    runs = await scheduler.submit(app(shell("echo ready; exec sleep 1000")))
    detached = await scheduler.submit(app(shell("exec sleep 1000")), {"detach": True})
    await first(scheduler, runs)

    assert {*done[:2]} == {*await prune(scheduler._home, scheduler._apps, timedelta(0), keep=2)}

    assert {*done[2:], runs, detached} == {row.app_id for row in await scheduler.list()}
    assert [f"{n}\n" for n in range(4)] == [
        (logs / "session" / app_id / "main" / "0" / "stdout.log").read_text() for app_id in done
    ]
    assert {*done[2:]} == {*await scheduler.prune(timedelta(0))}
    await scheduler.kill(detached)
    await ended(scheduler, detached)


async def test_old_apps_are_pruned_by_age(home: Path) -> None:
    async with LocalScheduler("session", cache_size=1, keep_for=timedelta(days=2)) as scheduler:
        ids = [await scheduler.submit(app(shell("true"))) for _ in range(4)]
        for app_id in ids:
            await ended(scheduler, app_id)
        for age, app_id in zip([4, 3, 1, 0], ids, strict=True):
            _make_older(home, app_id, days=age)

        assert [] == [*await scheduler.prune(timedelta(days=5))]
        assert ids[:2] == sorted(await scheduler.prune(timedelta(days=2)), key=ids.index)

    # The first submit of another one, which keeps little, does so by itself.
    _make_older(home, ids[2], days=3)
    async with LocalScheduler("session", cache_size=1, keep_for=timedelta(days=2)) as scheduler:
        await scheduler.submit(app(shell("true")))
        await eventually(lambda: not app_directory(home, ids[2]).exists())
        assert app_directory(home, ids[3]).exists()


def _make_older(home: Path, app_id: str, *, days: int) -> None:
    record = read_state(home, app_id)
    day = 86400 * 10**9
    for each in (record, *record["replicas"]):
        for name in ("created_ns", "started_ns", "finished_ns"):
            if name in each:
                each[name] -= days * day
    write_state(home, app_id, record)
    when = time.time() - days * 86400
    os.utime(app_directory(home, app_id) / "state.json", (when, when))


async def test_drafts_of_those_that_were_killed_are_removed(scheduler: LocalScheduler, home: Path) -> None:
    app_id = await scheduler.submit(app(shell("true")))
    await ended(scheduler, app_id)
    own, start = os.getpid(), await asyncio.to_thread(start_time, os.getpid())
    # Nobody has the second identity: this process began at another moment.
    drafts = {f".{own}-{start}-0.alive": False, f".{own}-{start}1-0.killed": True, f".{own}-{start}1-1.new": False}
    for name in drafts:
        (home / "apps" / name / "some/logs").mkdir(parents=True)
        if not name.endswith("new"):
            os.utime(home / "apps" / name, (1, 1))
    await scheduler.prune(timedelta(days=1))

    assert drafts == {name: not (home / "apps" / name).exists() for name in drafts}
