"""Convert what schedulers return to what a runner returns: handles for ids, statuses for responses."""

from __future__ import annotations

from asyncsched._typing import NamedTuple
from asyncsched.schedulers.responses import DescribeAppResponse, StateEvent
from asyncsched.specs.app import AppDef
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppState, AppStatus

__all__ = ["AppEvent", "app_def_of", "app_event", "status_of"]

GONE = "the scheduler no longer knows it"


class AppEvent(NamedTuple):
    """A state change of an app, or its current state when a watch begins.

    Attributes:
        handle: The app.
        previous: The status in the watch's previous event for this app; None at first.
        current: The app's status now; None if its scheduler never knew it. An app that disappeared before its end has
            the state UNKNOWN.
        gone: Whether its scheduler does not know the app, or no longer knows it.
    """

    handle: AppHandle
    previous: AppStatus | None = None
    current: AppStatus | None = None
    gone: bool = False

    @property
    def state(self) -> AppState:
        """The app's state; UNKNOWN if it disappeared before its end."""
        return AppState.UNKNOWN if self.current is None else self.current.state

    def is_terminal(self) -> bool:
        """Tell whether this is the app's last event: the app has ended, or its scheduler no longer knows it."""
        return self.gone or self.state.is_terminal()


def status_of(response: DescribeAppResponse, handle: AppHandle) -> AppStatus:
    """Return the status in a scheduler's response."""
    return AppStatus(
        state=response.state,
        num_restarts=response.num_restarts,
        msg=response.msg,
        structured_error_msg=response.structured_error_msg,
        ui_url=response.ui_url,
        roles=response.roles_statuses,
        handle=handle,
        cause=response.cause,
    )


def app_def_of(response: DescribeAppResponse) -> AppDef:
    """Return the app definition in a scheduler's response, as far as it is there."""
    name = response.name or response.app_id
    return AppDef(name=name, roles=response.roles, metadata=response.metadata)


def app_event(event: StateEvent, handle: AppHandle) -> AppEvent:
    """Return a scheduler's event as a runner's."""
    current = None if event.current is None else status_of(event.current, handle)
    if current is not None and event.gone and not current.is_terminal():
        current.msg = f"{GONE}; its last state was {current.state}" + (f": {current.msg}" if current.msg else "")
        current.state = AppState.UNKNOWN
    previous = None if event.previous is None else status_of(event.previous, handle)
    return AppEvent(handle=handle, previous=previous, current=current, gone=event.gone)
