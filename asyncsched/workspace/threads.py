"""Work in a thread that ends when its caller is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from asyncsched._tasks import outlast

__all__ = ["Check", "abandon", "in_thread"]

ResultT = TypeVar("ResultT")

Check = Callable[[], None]
"""Raises in a thread whose caller has been cancelled."""

LONGEST_STEP = 60.0
"""Seconds that a cancelled caller waits for its thread, which may hang in a file system."""


class _StoppedError(Exception):
    """The caller has been cancelled."""


async def in_thread(work: Callable[[Check], ResultT]) -> ResultT:
    """Return what `work` returns, called in a thread; cancelled, the thread ends first, at its next check.

    Args:
        work: Is called with a function that it calls now and then.
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
        if not has_begun:  # every thread of the pool may be busy: it does nothing when its turn comes
            working.cancel()
        await _ended(working)
        raise


async def abandon(work: asyncio.Future[ResultT]) -> None:
    """Cancel a task of `in_thread`, and wait until its thread has ended; what has come of it is not told."""
    work.cancel()
    await _ended(work)


async def _ended(work: asyncio.Future[ResultT]) -> None:
    try:
        await outlast([work], LONGEST_STEP)
    finally:
        if work.done() and not work.cancelled():
            work.exception()  # it is known, and need not be told
