"""Schedulers are made in a thread, as their modules may have to be imported: once, whoever is cancelled meanwhile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from asyncsched.errors import ConfigError, MissingExtraError, UnknownSchedulerError
from asyncsched.runner import Runner
from asyncsched.schedulers import get_scheduler_factories
from asyncsched.specs import AppState, Stream
from asyncsched.testing import FakeScheduler
from tests._support import WITHIN, eventually
from tests.runner.rig import Rig, app

HANDLE = "cold://me/nosuchapp"


class Cold:
    """A factory that tells where and when it was called, and may be held up."""

    def __init__(self) -> None:
        self.called_in: list[threading.Thread] = []
        self.made: list[FakeScheduler] = []
        self.goes_on = threading.Event()
        self.goes_on.set()

    def __call__(self, session_name: str, **kwargs: object) -> FakeScheduler:
        self.called_in.append(threading.current_thread())
        assert self.goes_on.wait(WITHIN)
        self.made.append(FakeScheduler(session_name))
        return self.made[-1]


async def read(stream: Any) -> list[Any]:
    return [each async for each in stream]


FIRST_CALLS: dict[str, Callable[[Runner], Awaitable[object]]] = {
    "run": lambda runner: runner.run(app(), "cold"),
    "dryrun": lambda runner: runner.dryrun(app(), "cold"),
    "status": lambda runner: runner.status(HANDLE),
    "describe": lambda runner: runner.describe(HANDLE),
    "wait": lambda runner: runner.wait(HANDLE),
    "wait_all": lambda runner: runner.wait_all([HANDLE]),
    "as_completed": lambda runner: read(runner.as_completed([HANDLE])),
    "watch": lambda runner: read(runner.watch([HANDLE])),
    "log_lines": lambda runner: asyncio.gather(anext(runner.log_lines(HANDLE)), return_exceptions=True),
    "logs of two": lambda runner: asyncio.gather(anext(runner.log_lines([HANDLE] * 2)), return_exceptions=True),
    "cancel": lambda runner: runner.cancel(HANDLE),
    "delete": lambda runner: runner.delete(HANDLE),
    "list": lambda runner: runner.list(),
    "scheduler": lambda runner: runner.scheduler("cold"),
    "scheduler_run_opts": lambda runner: runner.scheduler_run_opts("cold"),
}


@pytest.mark.parametrize("name", FIRST_CALLS)
async def test_the_first_call_makes_it_in_a_thread(name: str) -> None:
    cold = Cold()
    async with Runner("me", {"cold": cold}) as runner:
        await FIRST_CALLS[name](runner)

    assert 1 == len(cold.called_in)
    assert threading.current_thread() not in cold.called_in
    assert "closed" in repr(cold.made[0])


async def test_all_who_need_it_at_once_wait_for_the_same_one() -> None:
    cold = Cold()
    async with Runner("me", {"cold": cold}) as runner:
        got = await asyncio.gather(*(runner.scheduler("cold") for _ in range(20)))

    assert {id(cold.made[0])} == {id(each) for each in got}
    assert 1 == len(cold.made)


async def test_one_that_is_made_slowly_is_waited_for_step_by_step() -> None:
    cold = Cold()
    cold.goes_on.clear()
    async with Runner("me", {"cold": cold}) as runner:
        events = runner.watch([HANDLE])
        for _ in range(5):  # as a monitor's steps do, which it interrupts to draw its table anew
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(events), 0.001)
        await eventually(lambda: cold.called_in)
        cold.goes_on.set()

        assert [AppState.UNKNOWN] == [event.state async for event in events]
    assert 1 == len(cold.made)


async def test_one_whose_caller_was_cancelled_is_closed_with_the_runner() -> None:
    cold = Cold()
    cold.goes_on.clear()
    runner = Runner("me", {"cold": cold})
    call = asyncio.create_task(runner.status(HANDLE))
    await eventually(lambda: cold.called_in)
    call.cancel()
    await asyncio.wait([call])
    closing = asyncio.create_task(runner.close())
    await asyncio.sleep(0)
    cold.goes_on.set()
    await closing

    assert call.cancelled()
    assert ["closed"] == [repr(each).split()[-1].rstrip(">") for each in cold.made]


async def test_what_cannot_be_made_is_told_and_tried_again() -> None:
    tries = 0

    def broken(session_name: str, **kwargs: object) -> FakeScheduler:
        nonlocal tries
        tries += 1
        raise MissingExtraError("broken needs a package", why="it is not installed", fix="install it")

    async with Runner("me", {"broken": broken}) as runner:
        for _ in range(2):
            with pytest.raises(MissingExtraError):
                await runner.status("broken://me/x")
        with pytest.raises(MissingExtraError):
            await anext(runner.log_lines("broken://me/x"))

    assert 3 == tries


async def test_a_watch_goes_on_with_the_apps_of_the_schedulers_that_can_be_used(rig: Rig) -> None:
    def broken(session_name: str, **kwargs: object) -> FakeScheduler:
        raise MissingExtraError("broken needs a package", why="it is not installed", fix="install it")

    handle = await rig.run("push")
    rig.exit(handle)
    async with Runner("me", {"broken": broken, **rig.schedulers}) as runner:
        events = runner.watch(["broken://me/x", handle, "broken://me/y"])
        with pytest.raises(MissingExtraError) as caught:
            await anext(events)
        rest = [(event.handle, event.state) async for event in events]

    assert ["This ended the watch of 2 app(s) of broken."] == caught.value.__notes__
    assert [(handle, AppState.SUCCEEDED)] == rest


async def test_streams_that_a_scheduler_cannot_separate_are_refused_when_it_is_there() -> None:
    refusal = r"(fake|combined) cannot separate stdout from stderr; got streams=stderr; use streams=Stream\.COMBINED"

    class Combined(FakeScheduler):
        log_streams = frozenset({Stream.COMBINED})

    async with Runner("me", {"combined": lambda session_name, **kwargs: Combined(session_name)}) as runner:
        lines = runner.log_lines("combined://me/x", streams=Stream.STDERR)
        with pytest.raises(ValueError, match=refusal):  # nothing could tell before
            await anext(lines)
        with pytest.raises(ValueError, match=refusal):
            runner.log_lines("combined://me/x", streams=Stream.STDERR)


async def test_parameters_are_given_by_scheduler() -> None:
    async with Runner("me", local_cwd={"cache_size": 7, "retry_for": 5.0}, local_docker={}) as runner:
        scheduler = await runner.scheduler("local_cwd")

        assert 5.0 == scheduler.retry_for


def test_a_flat_parameter_is_told_where_it_belongs() -> None:
    with pytest.raises(ConfigError, match=r"by scheduler, got region=\.\.\.") as caught:
        Runner("me", region="eu-west-1")  # type: ignore[arg-type]  # that is the mistake
    assert "SCHEDULER={'region': ...}" in caught.value.fix
    assert "eu-west-1" not in str(caught.value)


def test_parameters_that_are_no_mapping_are_told_what_they_have_to_be() -> None:
    with pytest.raises(ConfigError, match="aws_batch must be a mapping of parameters, got a value of") as caught:
        Runner("me", aws_batch="eu-west-1")  # type: ignore[arg-type]  # that is the mistake
    assert 'write aws_batch={"parameter": value}' == caught.value.fix


def test_an_unknown_parameter_is_told_with_its_scheduler_and_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="local_cwd has no parameter 'cash_size'") as caught:
        Runner("me", local_cwd={"cash_size": 7})
    assert "did you mean cache_size?" == caught.value.fix


@pytest.mark.parametrize("parameter", ["no_such_thing", "session_name", "self"])
@pytest.mark.parametrize("name", ["local_cwd", "local_docker", "aws_batch"])
def test_every_backend_refuses_an_unknown_parameter_in_the_same_words(name: str, parameter: str) -> None:
    told = f"{name} has no parameter '{parameter}'"
    wrong: dict[str, Any] = {name: {parameter: 1}}
    with pytest.raises(ConfigError, match=told) as caught:
        Runner("me", **wrong)
    assert "request_timeout" in caught.value.fix
    with pytest.raises(ConfigError, match=told):
        Runner("me", {name: get_scheduler_factories()[name]}, **wrong)


def test_the_sessions_name_is_no_parameter_of_a_callers_own_factory() -> None:
    with pytest.raises(ConfigError, match="cold has no parameter 'session_name'"):
        Runner("me", {"cold": Cold()}, cold={"session_name": "x"})


def test_looking_at_parameters_imports_no_backend() -> None:
    program = """
import sys
from asyncsched.runner import Runner
from asyncsched.schedulers import get_scheduler_factories
try:
    Runner("me", aws_batch={"regoin": "x"}, local_docker={"request_timeout": 1.0})
except Exception as error:
    print(error)
backends = "asyncsched.schedulers.aws_batch", "asyncsched.schedulers.docker"
print([name for name in sys.modules if name.startswith(backends)])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "aws_batch has no parameter 'regoin'" in done.stdout
    assert "[]" == done.stdout.splitlines()[-1]


async def test_parameters_for_a_scheduler_that_nobody_knows_are_not_lost() -> None:
    async with Runner("me", local_cmd={"cache_size": 7}) as runner:
        with pytest.raises(UnknownSchedulerError, match="no scheduler is named 'local_cmd'") as caught:
            await runner.scheduler("local_cwd")
    assert "did you mean local_cwd?" == caught.value.fix
    with pytest.raises(UnknownSchedulerError, match="no scheduler is named 'other'"):
        Runner("me", {"cold": Cold()}, other={})


def test_parameters_for_a_scheduler_that_is_made_already_are_refused() -> None:
    with pytest.raises(ConfigError, match="fake is an existing scheduler"):
        Runner("me", {"fake": FakeScheduler("me")}, fake={"retry_for": 1.0})
