"""The reports of a backend to the feed: answers, and changes that the service pushes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from asyncsched.errors import AsyncSchedError, SchedulerError
from asyncsched.schedulers.responses import DescribeAppResponse

__all__ = ["Answers", "StatePort", "as_answer"]

Answers = Mapping[str, DescribeAppResponse | AsyncSchedError | None]
"""The answers of one call: for each app its description, None if it does not exist, or an error."""


if TYPE_CHECKING:

    class _Feed(Protocol):
        """The feed, as a port sees it."""

        @property
        def app_ids(self) -> Sequence[str]: ...

        @property
        def changes(self) -> int: ...

        def connected(self) -> None: ...

        def changed(self, app_ids: Sequence[str], /) -> None: ...

        def apply(self, app_id: str, response: DescribeAppResponse | None, /) -> None: ...


class StatePort:
    """The port through which a backend reports pushed changes."""

    def __init__(self, feed: _Feed) -> None:
        self._feed = feed
        self.on_add: Callable[[str], None] | None = None
        self.on_discard: Callable[[str], None] | None = None

    @property
    def app_ids(self) -> Sequence[str]:
        """The apps that are watched now."""
        return self._feed.app_ids

    @property
    def changes(self) -> int:
        """The number of their changes so far."""
        return self._feed.changes

    def connected(self) -> None:
        """Declare that changes are reported from now on; every app is then read once, so that no change is missed."""
        self._feed.connected()

    def changed(self, *app_ids: str) -> None:
        """Declare that these apps may have changed; changed apps are collected and read in one call."""
        self._feed.changed(app_ids)

    def publish(self, app_id: str, response: DescribeAppResponse | None) -> None:
        """Report an app's new description, None if it is gone."""
        self._feed.apply(app_id, response)


def as_answer(error: AsyncSchedError) -> AsyncSchedError:
    """Return an error as the answer for one app if a retry would not help; raise it otherwise."""
    if isinstance(error, SchedulerError) and error.retryable:
        raise error
    return error
