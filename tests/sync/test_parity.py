"""Every public coroutine and generator of Runner and Scheduler has its blocking twin."""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncGenerator

import pytest

from asyncsched.runner import Job, JobGroup, Runner
from asyncsched.schedulers import Scheduler
from asyncsched.sync import BlockingIterator, BlockingWatch, SyncJob, SyncJobGroup, SyncRunner, SyncScheduler

PAIRS = [(Runner, SyncRunner), (Scheduler, SyncScheduler)]
OF_GROUPS: dict[str, object] = {"group": SyncJobGroup, "job": SyncJob, "run_all": list[SyncJob]}
GROUPS = [(JobGroup, SyncJobGroup), (Job, SyncJob)]


def methods(cls: type) -> list[str]:
    return sorted(name for name, value in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_"))


@pytest.mark.parametrize(("original", "facade"), PAIRS)
def test_every_public_method_has_a_twin(original: type, facade: type) -> None:
    assert methods(original) == methods(facade)


@pytest.mark.parametrize(("original", "facade"), PAIRS)
def test_no_twin_is_a_coroutine_and_all_are_documented(original: type, facade: type) -> None:
    for name in methods(facade):
        twin = getattr(facade, name)

        assert not inspect.iscoroutinefunction(twin)
        assert not inspect.isasyncgenfunction(twin)
        assert twin.__doc__


@pytest.mark.parametrize(("original", "facade"), PAIRS)
def test_each_twin_wraps_the_method_of_its_name(original: type, facade: type) -> None:
    # `log_iter` has the documents' signature; `scheduler` and `close` do something different.
    written_by_hand = {"log_iter", "scheduler", "close"}
    for name in {*methods(original)} - written_by_hand:
        # A twin with a return annotation of its own wraps a copy of the function.
        assert getattr(original, name).__code__ is getattr(facade, name).__wrapped__.__code__, name


@pytest.mark.parametrize(("original", "facade"), GROUPS)
def test_groups_and_jobs_have_the_same_names(original: type, facade: type) -> None:
    own = {name for name in dir(original) if not name.startswith("_")} - {"aclose", "own"}  # `own` is internal
    twins = {name for name in dir(facade) if not name.startswith("_")} - {"close"}

    assert own == twins - ({"wait"} if original is Job else set())


def test_log_iter_has_the_documents_signature() -> None:
    parameters = inspect.signature(SyncScheduler.log_iter).parameters

    ours = ["tail_lines", "attempts", "gaps"]
    theirs = ["self", "app_id", "role_name", "k", "regex", "since", "until", "should_tail", "streams"]

    assert [*theirs, *ours] == [*parameters]
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in ours)
    assert [*inspect.signature(Scheduler.log_iter).parameters] == [*parameters]
    assert (0, False) == (parameters["k"].default, parameters["should_tail"].default)


def test_every_generator_is_twinned_by_an_iterator() -> None:
    generators = {
        f"{original.__name__}.{name}"
        for original, _ in PAIRS
        for name in methods(original)
        if _gives_a_generator(getattr(original, name))
    }

    assert {
        "Runner.as_completed",
        "Runner.events",
        "Runner.log_lines",
        "Runner.watch",
        "Scheduler.list_iter",
        "Scheduler.log_iter",
        "Scheduler.watch",
    } == generators


@pytest.mark.parametrize(("original", "facade"), PAIRS)
def test_each_twin_is_annotated_with_what_it_returns_itself(original: type, facade: type) -> None:
    for name in methods(original):
        twin, method = getattr(facade, name), getattr(original, name)
        given = inspect.signature(twin).return_annotation
        if _gives_a_generator(method):
            assert (BlockingWatch if name == "watch" else BlockingIterator) is typing.get_origin(given) or isinstance(
                given, str
            )
            assert "Blocking" in str(given)
            assert given == twin.__annotations__["return"]
        elif name in OF_GROUPS:
            assert OF_GROUPS[name] == given == twin.__annotations__["return"]
        elif name != "scheduler":
            assert inspect.signature(method).return_annotation == given
            assert "Stream" not in str(given)
            assert "Generator" not in str(given)


def _gives_a_generator(method: typing.Callable[..., object]) -> bool:
    if inspect.isasyncgenfunction(method):
        return True
    name = str(inspect.signature(method).return_annotation)
    found = getattr(inspect.getmodule(method), name, None)
    return inspect.isclass(found) and issubclass(found, AsyncGenerator)
