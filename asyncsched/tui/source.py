"""The source of a monitor: the apps, their logs, and cancelling."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from asyncsched.clock import Clock
from asyncsched.logs.stream import LogStream
from asyncsched.specs.handle import AppHandle
from asyncsched.views.live_table import LiveTable

__all__ = ["MonitorSource"]


class MonitorSource(Protocol):
    """Provides the apps of a monitor."""

    @property
    def clock(self) -> Clock:
        """The clock for ages, pauses and deadlines."""
        ...

    async def follow(self, table: LiveTable, changed: Callable[[], None], note: Callable[[str], None]) -> None:
        """Keep the table up to date until no app can change any more. Cancelling it does not affect the apps.

        Args:
            table: Gets the apps.
            changed: Called after each change.
            note: Called with messages for the user, such as errors.
        """
        ...

    def need(self, handles: Collection[str]) -> None:
        """Describe these apps, which are visible, if they were only listed so far."""
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
        """Return the merged lines of apps; with `replicas` only those of some replicas of one role."""
        ...

    async def cancel(self, handles: Sequence[str]) -> Mapping[AppHandle, Exception]:
        """Cancel apps; return an error for each one that could not be cancelled."""
        ...

    async def describe(self, handle: str) -> str:
        """Return the definition of an app as text."""
        ...
