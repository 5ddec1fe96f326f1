"""The backend that docs/extending.md walks through, under the whole contract suite."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from asyncsched.errors import ConfigError
from asyncsched.schedulers.ending import Ending
from asyncsched.schedulers.hooks import SchedulerHooks
from asyncsched.specs import AppDef, AppState, FailureCause, Role, Stream
from asyncsched.testing.contract import ContractRig, SchedulerContract

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "docs/examples/spool.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("spool", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["spool"] = importlib.util.module_from_spec(spec)  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


spool: Any = load()


# part: rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncGenerator[ContractRig]:
    place = tmp_path / "spool"
    good = Role("good", "", entrypoint="sleep", args=["3600"])
    async with spool.SpoolScheduler("mine", place) as scheduler:
        scheduler.poll_interval = 0.05  # it is on this machine, where asking costs little
        yield ContractRig(
            scheduler,
            another=lambda: spool.SpoolScheduler("other", place),
            image="",
            tells_attempts=False,
            restarts=False,
            exact_times=False,
            timeout=0.5,
            unstartable=AppDef("half", [good, Role("bad", "", entrypoint="no-such-program")]),
        )
        for row in await scheduler.list():
            await scheduler.kill(row.app_id)


class TestSpool(SchedulerContract):
    """Every sentence of the contract."""


# part: more


async def test_a_replica_that_does_not_heed_term_is_killed(rig: ContractRig) -> None:
    app_id = await rig.submit(rig.app("trap '' TERM; echo ready; while :; do sleep 0.1; done"))
    await rig.read(rig.scheduler.log_iter(app_id, should_tail=True), 1)
    await rig.scheduler.cancel(app_id)
    asked = await rig.scheduler.describe(app_id)
    await rig.scheduler.kill(app_id)
    ended = await rig.ended(app_id)

    assert asked is not None
    assert (AppState.RUNNING, AppState.CANCELLED) == (asked.state, ended.state)
    assert [FailureCause.CANCELLED] == [replica.cause for replica in ended.replicas]


async def test_a_replica_whose_keeper_is_gone_has_failed(rig: ContractRig, tmp_path: Path) -> None:
    app_id = await rig.submit(rig.app("exec sleep 3600"))
    await rig.running(app_id)
    group, keeper, _ = (tmp_path / "spool" / app_id / "0.0" / "started").read_text().split()
    os.kill(int(keeper), signal.SIGKILL)
    os.killpg(int(group), signal.SIGKILL)
    ended = await rig.ended(app_id)

    assert (AppState.FAILED, FailureCause.NODE) == (ended.state, ended.cause)


async def test_both_streams_of_a_replica_end_with_it(rig: ContractRig) -> None:
    app_id = await rig.submit(rig.app("echo out; echo err >&2; sleep 0.5; echo last; echo least >&2"))
    lines = await rig.lines(app_id, should_tail=True)

    assert {Stream.STDOUT: ["out", "last"], Stream.STDERR: ["err", "least"]} == {
        stream: [line.text for line in lines if line.stream is stream] for stream in (Stream.STDOUT, Stream.STDERR)
    }


async def test_one_command_tells_of_all_apps(rig: ContractRig) -> None:
    app_ids = [await rig.submit(rig.app("exit 0")) for _ in range(5)]
    programs = vars(rig.scheduler)["_programs"]
    before = programs.started
    found = await rig.scheduler.describe_many(app_ids)

    assert [*app_ids] == [*found]
    assert 1 == programs.started - before


async def test_a_variable_that_a_shell_cannot_set_is_refused(rig: ContractRig) -> None:
    with pytest.raises(ConfigError, match="'A-B'"):
        await rig.scheduler.submit_dryrun(rig.app("exit 0", env={"A-B": "1"}))


def test_it_is_of_the_length_that_the_page_promises() -> None:
    lines = [line for line in SOURCE.read_text().splitlines() if line.strip()]

    assert len(lines) <= 250


def test_every_hook_is_on_the_page() -> None:
    page = (ROOT / "docs/extending.md").read_text()
    own = [
        *vars(SchedulerHooks),
        *SchedulerHooks.__annotations__,
        *(each for each in vars(Ending) if each not in ("_cancel_each", "_is_deleted")),
    ]
    hooks = {name for name in own if name in SchedulerHooks.__annotations__ or re.match(r"_[a-z]", name)}
    shown = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))

    assert hooks - {"_abc_impl"} == shown


def test_every_line_is_on_the_page() -> None:
    page = (ROOT / "docs/extending.md").read_text()
    marks = re.findall(r"^# part: (\w+)$", SOURCE.read_text(), re.MULTILINE)
    begun = re.findall(r'literalinclude} examples/spool.py\n:start-after: "# part: (\w+)"', page)
    ended = re.findall(r':end-before: "# part: (\w+)"', page.partition("## Testing the contract")[0])

    assert ["request", "answer", "status", "scheduler"] == begun == ended
    assert {*marks} - {"options"} == {*begun}
