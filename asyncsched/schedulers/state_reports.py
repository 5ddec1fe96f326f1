"""What a backend tells the feed: answers to what it was asked, and changes that it is told of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from asyncsched.errors import AsyncSchedError, SchedulerError
from asyncsched.schedulers.responses import DescribeAppResponse

__all__ = ["Answers", "StatePort", "as_answer"]

Answers = Mapping[str, DescribeAppResponse | AsyncSchedError | None]
"""What one call tells: of each app its state, None if it does not exist, or why it cannot be told."""


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
    """What a backend that is told of changes reports them through."""

    def __init__(self, feed: _Feed) -> None:
        self._feed = feed
        self.on_add: Callable[[str], None] | None = None
        self.on_discard: Callable[[str], None] | None = None

    @property
    def app_ids(self) -> Sequence[str]:
        """The apps that are watched at this moment."""
        return self._feed.app_ids

    @property
    def changes(self) -> int:
        """How many changes of them have been seen so far."""
        return self._feed.changes

    def connected(self) -> None:
        """Say that changes are reported from now on: every app is then asked for once, so that none is missed."""
        self._feed.connected()

    def changed(self, *app_ids: str) -> None:
        """Say that these apps may have changed; they are asked for, all that have gathered in one call."""
        self._feed.changed(app_ids)

    def publish(self, app_id: str, response: DescribeAppResponse | None) -> None:
        """Tell an app's new state, None if it is gone."""
        self._feed.apply(app_id, response)


def as_answer(error: AsyncSchedError) -> AsyncSchedError:
    """Return an error as the answer for one app, if asking again would not help; raise it otherwise."""
    if isinstance(error, SchedulerError) and error.retryable:
        raise error
    return error
