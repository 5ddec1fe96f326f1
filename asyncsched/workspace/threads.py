"""Run work in a thread that ends when its caller is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from asyncsched._tasks import outlast

__all__ = ["Check", "abandon", "in_thread"]

ResultT = TypeVar("ResultT")

Check = Callable[[], None]
"""Raises an exception in a thread whose caller has been cancelled."""

LONGEST_STEP = 60.0
"""Seconds that a cancelled caller waits for its thread, which may hang in a file system."""


class _StoppedError(Exception):
    """The caller has been cancelled."""


async def in_thread(work: Callable[[Check], ResultT]) -> ResultT:
    """Call `work` in a thread and return its result; when cancelled, wait until the thread has stopped.

    Args:
        work: Called with a check function, which it calls regularly and which raises after a cancellation.
    """
    stop = threading.Event()
    has_begun = False

    def check() -> None:
        if stop.is_set():
            raise _StoppedError

    def begin() -> ResultT:
        nonlocal has_begun
        has_begun = True
        check()
        return work(check)

    working = asyncio.ensure_future(asyncio.to_thread(begin))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        stop.set()
        if not has_begun:  # all threads of the pool may be busy; the work then ends as soon as it starts
            working.cancel()
        await _ended(working)
        raise


async def abandon(work: asyncio.Future[ResultT]) -> None:
    """Cancel a task of `in_thread` and wait until its thread has ended; its result is dropped."""
    work.cancel()
    await _ended(work)


async def _ended(work: asyncio.Future[ResultT]) -> None:
    try:
        await outlast([work], LONGEST_STEP)
    finally:
        if work.done() and not work.cancelled():
            work.exception()  # mark it as retrieved, so that asyncio does not log it
