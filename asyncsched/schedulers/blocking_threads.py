"""Run blocking calls, each in a separate thread, a limited number at a time.

They are daemon threads, not anyio's workers or the loop's pool, because a call of a foreign object may never return,
and would then keep the loop and the process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from asyncsched._tasks import outlast
from asyncsched.errors import ConfigError, UnavailableError

__all__ = ["CallThreads"]

ResultT = TypeVar("ResultT")

_log = logging.getLogger("asyncsched.schedulers")


class CallThreads:
    """Runs calls in threads. An abandoned call counts towards the limit until it returns.

    It belongs to the loop of its first call.

    Args:
        name: The name of the threads.
        limit: How many calls run at a time; others wait.
        parameter: The parameter that sets `limit`; if given, a warning about waiting calls is logged once.
    """

    def __init__(self, name: str, limit: int, *, parameter: str = "") -> None:
        if limit < 1:
            raise ConfigError(f"{parameter or 'limit'} must be at least 1, got {limit}")
        self._name = name
        self._limit = limit
        self._parameter = parameter
        self._turns = asyncio.Semaphore(limit)
        self._running: set[asyncio.Future[Any]] = set()

    @property
    def running(self) -> int:
        """The number of calls that have not returned."""
        return len(self._running)

    async def run(self, call: Callable[[], ResultT]) -> ResultT:
        """Return the result of `call`. If this is cancelled, the call continues without a caller.

        Raises:
            UnavailableError: No thread can be started.
        """
        return await asyncio.shield(await self.begin(call))

    async def begin(self, call: Callable[[], ResultT]) -> asyncio.Future[ResultT]:
        """Wait for a turn, start the call and return its future. If this is cancelled, nothing was called.

        Raises:
            UnavailableError: No thread can be started.
        """
        if self._turns.locked() and self._parameter:
            _log.warning(
                "%s: %d calls are running, which is the limit; others wait for one to return: raise %s",
                self._name,
                self._limit,
                self._parameter,
            )
            self._parameter = ""
        await self._turns.acquire()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[ResultT] = loop.create_future()
        context = contextvars.copy_context()

        def settle(result: ResultT | None, error: BaseException | None) -> None:
            self._turns.release()
            self._running.discard(ended)
            if error is None:
                ended.set_result(cast("ResultT", result))
            else:
                ended.set_exception(error)
                ended.exception()  # mark it as retrieved: the caller is gone

        def work() -> None:
            result, failure = None, None
            try:
                result = context.run(call)
            except BaseException as error:  # noqa: BLE001 - the future gets any error
                failure = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
            try:
                loop.call_soon_threadsafe(settle, result, failure)
            except RuntimeError:
                pass  # the loop is closed, so nobody waits

        try:
            threading.Thread(target=work, name=self._name, daemon=True).start()
        except RuntimeError as error:
            self._turns.release()
            raise UnavailableError(f"{self._name}: no thread can be started", why=str(error)) from error
        self._running.add(ended)
        return ended

    async def settle(self, timeout: float) -> int:
        """Wait for running calls, at most `timeout` seconds; return how many have not returned."""
        await outlast(list(self._running), timeout)
        return self.running
