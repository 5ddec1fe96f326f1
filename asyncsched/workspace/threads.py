"""Work in a thread that ends when its caller is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from asyncsched._tasks import outlast

__all__ = ["Check", "in_thread"]

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
        try:
            await outlast([working], LONGEST_STEP)
        finally:
            if working.done() and not working.cancelled():
                working.exception()  # it is known, and need not be told
        raise
