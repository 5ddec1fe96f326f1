"""The apps that there are, by a look from time to time: which have come, and which have gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from asyncsched.clock import Clock, wait_for_event
from asyncsched.errors import AsyncSchedError
from asyncsched.logs.loop_time import budget_of
from asyncsched.runner.results import AppList
from asyncsched.schedulers.responses import ListAppResponse
from asyncsched.specs.handle import AppHandle

__all__ = ["LOOK_EVERY", "ListedApps"]

LOOK_EVERY = 5.0
"""Seconds between two looks for new apps; more, where a look takes long."""

LONGEST_PAUSE = 60.0


class ListedApps:
    """What the latest looks have found.

    Args:
        look: Lists the apps that there are, newest first.
        clock: Tells the time of the pauses.
        every: Seconds between two looks.

    Attributes:
        rows: The app's row from the look that found it first, by handle.
        is_wanted: Whether there are looks; cleared, they wait until it is set.
    """

    def __init__(self, look: Callable[[], Awaitable[AppList]], clock: Clock, every: float = LOOK_EVERY) -> None:
        self.rows: dict[str, ListAppResponse] = {}
        self.is_wanted = asyncio.Event()
        self.is_wanted.set()
        self._look = look
        self._clock = clock
        self._every = every
        self._again = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._is_over = False

    def look_again(self) -> None:
        """Look now."""
        self.is_wanted.set()
        self._again.set()

    def rest(self) -> None:
        """Look no more until somebody asks for it, unless somebody does already."""
        if not self._waiting:
            self.is_wanted.clear()

    async def look_now(self) -> None:
        """Look now, and wait until what was found has been taken, or the look has failed.

        A look that has already begun does not count, because it may miss what has changed since. All who wait share
        the next one.

        Raises:
            AsyncSchedError: There are no more looks, because `keep_looking` has ended.
        """
        if self._is_over:
            raise _no_more()
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(taken)
        self.look_again()
        await taken

    async def keep_looking(
        self, take: Callable[[AppList], Awaitable[None]], failed: Callable[[Exception], None]
    ) -> None:
        """Look until this is cancelled.

        Args:
            take: Called with what a look has found.
            failed: Called for a look that failed: the next one may find more.
        """
        waiting: list[asyncio.Future[None]] = []
        self._is_over = False
        try:
            while True:
                await self.is_wanted.wait()
                self._again.clear()
                waiting, self._waiting = self._waiting, []
                took = await self._look_once(take, failed)
                for taken in waiting:
                    if not taken.done():
                        taken.set_result(None)
                await wait_for_event(self._again, self._clock, min(max(self._every, 5 * took), LONGEST_PAUSE))
        finally:
            self._is_over = True
            for taken in (*waiting, *self._waiting):
                if not taken.done():
                    taken.set_exception(_no_more())

    async def _look_once(
        self, take: Callable[[AppList], Awaitable[None]], failed: Callable[[Exception], None]
    ) -> float:
        """Look, and return how many seconds that took."""
        began = self._clock.monotonic()
        try:
            rows = await self._look()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            failed(AsyncSchedError("the look for apps was cancelled", why="a scheduler has cancelled its own call"))
        except Exception as error:  # noqa: BLE001 - a plugin's own, too
            failed(error)
        else:
            await take(rows)
        return self._clock.monotonic() - began

    async def update(
        self,
        found: Mapping[str, ListAppResponse],
        failed: Collection[str],
        new: Callable[[ListAppResponse], None],
        gone: Callable[[str], None],
        fixed: Collection[str] = (),
    ) -> None:
        """Compare with what was known.

        Args:
            found: The rows of a look, by handle.
            failed: The schedulers that gave none: their apps stay.
            new: Called for each row that was not known.
            gone: Called for each handle that is no longer found.
            fixed: Handles that stay in any case.
        """
        budget = budget_of(asyncio.get_running_loop())
        for handle, row in found.items():
            budget.begin()
            if handle not in self.rows:
                self.rows[handle] = row
                new(row)
            await budget.breathe()
        for handle in [*self.rows]:
            budget.begin()
            if handle not in found and handle not in fixed and AppHandle(handle).scheduler not in failed:
                del self.rows[handle]
                gone(handle)
            await budget.breathe()


def _no_more() -> AsyncSchedError:
    return AsyncSchedError("there are no more looks for apps", why="the task that made them has ended")
