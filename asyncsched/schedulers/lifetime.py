"""The rules of every operation of a scheduler: its loop, its timeout, and cleaning up after failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypedDict, TypeVar

from asyncsched._loops import AsyncOnly, one_loop
from asyncsched._tasks import outlast
from asyncsched.clock import Clock
from asyncsched.errors import ClosedError, LeftBehind, SchedulerError, UnavailableError
from asyncsched.schedulers.arguments import check_app_id, check_session
from asyncsched.schedulers.request_checks import check_tunable

__all__ = ["SchedulerBounds", "Tunables"]

ResultT = TypeVar("ResultT")

_log = logging.getLogger("asyncsched.schedulers")


class Tunables(TypedDict, total=False):
    """The parameters that every scheduler accepts; a backend passes them on to `Scheduler`."""

    request_timeout: float
    retry_for: float
    cleanup_timeout: float
    clock: Clock | None


class SchedulerBounds(AsyncOnly):
    """The identity of a scheduler, whether it is open, and helpers for timeouts and cleanup."""

    def __init__(
        self,
        backend: str,
        session_name: str,
        *,
        request_timeout: float = 30.0,
        retry_for: float = 60.0,
        cleanup_timeout: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        check_session(session_name)  # otherwise apps would run without a valid handle
        times = {"request_timeout": request_timeout, "retry_for": retry_for, "cleanup_timeout": cleanup_timeout}
        for name, value in times.items():
            check_tunable(name, value)
        self.backend = backend
        self.session_name = session_name
        self.request_timeout = request_timeout
        self.retry_for = retry_for
        self.cleanup_timeout = cleanup_timeout
        self.clock = Clock() if clock is None else clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "new" if self._loop is None else "open"
        return f"<{type(self).__name__} {self.backend} session={self.session_name!r} {state}>"

    def _enter(self) -> None:
        """Check that the scheduler is open and on its loop; called at the start of every operation."""
        self._check_open()
        self._loop = one_loop(self._loop, f"this {self.backend} scheduler")

    def _on(self, app_id: str) -> None:
        """Do the same for an operation on one app, and check the app's id."""
        self._enter()
        check_app_id(app_id)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"this {self.backend} scheduler is closed", fix="make a new one")

    async def _within(self, operation: str, work: Awaitable[ResultT]) -> ResultT:
        """Limit an operation to `retry_for` seconds."""
        timeout = self.clock.deadline(self.retry_for)
        try:
            async with timeout:
                return await work
        except TimeoutError as error:
            if not timeout.expired:
                raise
            failure = _last_failure(error)
            tried = (
                "" if failure is None else f"; the last try failed: {failure.what}: {failure.why}".removesuffix(": ")
            )
            raise UnavailableError(
                f"{self.backend} did not answer",
                why=f"{operation} took more than {self.retry_for:g} s{tried}",
                fix="try again, or raise `retry_for`",
                backend=self.backend,
                operation=operation,
            ) from failure or error

    @asynccontextmanager
    async def _or_removed(self, app_id: str, remove: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[None]:
        """Run a block that creates things; if it fails or is cancelled, `remove` them, then let the error continue."""
        try:
            yield
        except BaseException as error:
            left = await self._removed(remove)
            if left:
                note = LeftBehind(f"{self.backend}: parts of {app_id} may be left behind: {left}")
                note.app_id = app_id
                error.add_note(note)
                _log.warning("%s", note)
            raise

    async def _removed(self, remove: Callable[[], Coroutine[Any, Any, None]]) -> str:
        """Run `remove` to its end or timeout, even if cancelled; return why it failed, if it did."""
        removing = asyncio.create_task(remove())
        try:
            await outlast([removing], self.cleanup_timeout)
        except asyncio.CancelledError:
            pass  # the wait is complete, and the exception that is being raised says more
        if not removing.done():
            removing.cancel()
            return f"it did not end within {self.cleanup_timeout:g} s"
        return "" if (error := removing.exception()) is None else str(error) or repr(error)


def _last_failure(expired: TimeoutError) -> SchedulerError | None:
    """Return the last failure before a timeout, if any; `Backoff` stores it there."""
    cancelled = expired.__cause__
    failure = None if cancelled is None else cancelled.__cause__
    return failure if isinstance(failure, SchedulerError) else None
