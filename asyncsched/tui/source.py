"""What a monitor shows, and what it asks for on behalf of who sits before it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from asyncsched.clock import Clock
from asyncsched.logs.stream import LogStream
from asyncsched.specs.handle import AppHandle
from asyncsched.views.live_table import LiveTable

__all__ = ["MonitorSource"]


class MonitorSource(Protocol):
    """Knows the apps of a monitor."""

    @property
    def clock(self) -> Clock:
        """What tells the time."""
        ...

    async def follow(self, table: LiveTable, changed: Callable[[], None], note: Callable[[str], None]) -> None:
        """Keep the table up to date until nothing will change any more; cancelling this touches no app.

        Args:
            table: What the apps are shown in.
            changed: Is called after each change.
            note: Is told what went wrong.
        """
        ...

    def need(self, handles: Collection[str]) -> None:
        """Look into these apps: they are seen, and so far only listed."""
        ...

    def log_lines(
        self,
        handles: Sequence[str],
        *,
        should_tail: bool = False,
        tail_lines: int | None = None,
        attempt: int | None = None,
        replicas: tuple[str, Sequence[int]] | None = None,
    ) -> LogStream:
        """Return the merged lines of apps; with `replicas` those of some replicas of one role."""
        ...

    async def cancel(self, handles: Sequence[str]) -> Mapping[AppHandle, Exception]:
        """Ask for the end of apps; return why some could not be cancelled."""
        ...

    async def describe(self, handle: str) -> str:
        """Return what an app is made of."""
        ...
