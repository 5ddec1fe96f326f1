"""What tests use where one would sleep, a wait for a condition with a deadline; and processes that are held up."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar, cast, overload
from unittest import mock

T = TypeVar("T")

WITHIN = 60.0
"""The usual deadline in seconds: far more than anything needs on a loaded machine."""


@overload
async def eventually(condition: Callable[[], Awaitable[T]], *, within: float = WITHIN) -> T: ...


@overload
async def eventually(condition: Callable[[], T], *, within: float = WITHIN) -> T: ...


async def eventually(condition: Callable[[], T | Awaitable[T]], *, within: float = WITHIN) -> T:
    """Return the condition's first true value, or fail once the deadline has passed.

    Args:
        condition: A function, or a coroutine function, that is asked again and again.
        within: The deadline in seconds of real time, also under a virtual clock.

    Raises:
        AssertionError: If it did not become true; the message shows its last value.
    """
    deadline = time.monotonic() + within
    for pause in _pauses():
        value = condition()
        if inspect.isawaitable(value):
            value = await cast("Awaitable[T]", value)
        if value:
            return value
        _check(deadline, condition, value, within)
        await asyncio.sleep(pause)
    raise AssertionError("unreachable")


@contextlib.contextmanager
def held_import(name: str) -> Iterator[threading.Event]:
    """Hold up the import of a module in another thread until the block ends; the event is set when it has begun."""
    begun, may_end = threading.Event(), threading.Event()
    import_module = importlib.import_module

    def held(asked: str, package: str | None = None) -> object:
        if asked == name:
            begun.set()
            may_end.wait(WITHIN)
        return import_module(asked, package)

    with mock.patch.object(importlib, "import_module", held):
        try:
            yield begun
        finally:
            may_end.set()


async def all_accepted() -> None:
    """Wait for the connections that asyncio's servers on this loop are taking; call it right before closing one.

    Python leaks the socket of a connection whose server is closed at that moment.
    """
    while any(  # noqa: ASYNC110 - asyncio sets no event when it has taken a connection
        getattr(task.get_coro(), "__name__", "") == "_accept_connection2" for task in asyncio.all_tasks()
    ):
        await asyncio.sleep(0)


def eventually_blocking(condition: Callable[[], T], *, within: float = WITHIN) -> T:
    """Do what `eventually` does, in a test that runs no loop."""
    deadline = time.monotonic() + within
    for pause in _pauses():
        value = condition()
        if value:
            return value
        _check(deadline, condition, value, within)
        time.sleep(pause)
    raise AssertionError("unreachable")


def _pauses() -> Iterator[float]:
    # The first looks follow each other closely, so that what is quick costs no time.
    pause = 0.0
    while True:
        yield pause
        pause = min(0.02, pause + 0.001)


def _check(deadline: float, condition: Callable[[], Any], value: object, within: float) -> None:
    if time.monotonic() >= deadline:
        raise AssertionError(f"not true within {within:g} s: {_source(condition)} (its last value: {value!r})")


def _source(condition: Callable[[], Any]) -> str:
    try:
        return " ".join(inspect.getsource(condition).split())
    except (OSError, TypeError):
        return repr(condition)


@contextlib.contextmanager
def held_up(pid: int) -> Iterator[None]:
    """Stop a process for as long as the body takes, however that ends."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        go_on(pid)


def go_on(pid: int) -> None:
    """Let a stopped process go on, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
