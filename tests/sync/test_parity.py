"""Every public coroutine and generator of Runner and Scheduler has its blocking twin."""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncGenerator

import pytest

from asyncsched.runner import Runner
from asyncsched.schedulers import Scheduler
from asyncsched.sync import SyncRunner, SyncScheduler

PAIRS = [(Runner, SyncRunner), (Scheduler, SyncScheduler)]


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
        assert getattr(original, name) is getattr(facade, name).__wrapped__, name


def test_log_iter_has_the_documents_signature() -> None:
    parameters = inspect.signature(SyncScheduler.log_iter).parameters

    assert ["self", "app_id", "role_name", "k", "regex", "since", "until", "should_tail", "streams"] == [*parameters]
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
        "Runner.log_lines",
        "Runner.watch",
        "Scheduler.list_iter",
        "Scheduler.log_iter",
        "Scheduler.watch",
    } == generators


def _gives_a_generator(method: typing.Callable[..., object]) -> bool:
    if inspect.isasyncgenfunction(method):
        return True
    name = str(inspect.signature(method).return_annotation)
    found = getattr(inspect.getmodule(method), name, None)
    return inspect.isclass(found) and issubclass(found, AsyncGenerator)
