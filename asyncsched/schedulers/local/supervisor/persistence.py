"""Save the records of apps to the disk, and notify watchers."""

from __future__ import annotations

import time

from . import TYPE_CHECKING
from .bare import dumps
from .formats import TOLD_BYTES, TOLD_REPLICAS
from .pipe_reader import DISK_RETRY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from .app import App
    from .control import ControlConnection
    from .events import Loop

SAVE_EVERY = 0.02


class Persistence:
    """Saves each changed app and notifies its watchers; changes that come together are combined.

    Args:
        loop: The worker's loop; `publish` is to be called after each of its rounds.
        connections: The connections that may watch.
        on_last_word: Called with an ended app once its final record is on the disk.
        on_removed: Called with a running app whose directory was removed.
    """

    def __init__(
        self,
        loop: Loop,
        connections: Collection[ControlConnection],
        on_last_word: Callable[[App], None],
        on_removed: Callable[[App], None],
    ) -> None:
        self._loop = loop
        self._connections = connections
        self._on_last_word = on_last_word
        self._on_removed = on_removed
        self._changed: dict[str, App] = {}
        self._unsaved: dict[str, App] = {}
        self._told_at: dict[str, float] = {}
        self._has_timer = False

    @property
    def has_unsaved(self) -> bool:
        """Whether a record is not written yet."""
        return bool(self._unsaved)

    def app_changed(self, app: App) -> None:
        """Record a change."""
        self._changed[app.app_id] = app

    def publish(self) -> None:
        """Save changes and notify watchers, unless that was done a moment ago."""
        if not self._changed:
            return
        now = time.monotonic()
        for app_id, app in tuple(self._changed.items()):
            # Many replicas that end together are one change, but the app's end is reported at once.
            if app.is_over or now - self._told_at.get(app_id, 0.0) >= SAVE_EVERY:
                self._told_at[app_id] = now
                del self._changed[app_id]
                self._save(app)
                self._tell(app)
        if self._changed:
            self._wake_in(SAVE_EVERY)

    def _save(self, app: App) -> None:
        self._unsaved[app.app_id] = app
        try:
            app.save()
        except FileNotFoundError:
            if not app.is_over:
                self._on_removed(app)
        except OSError:
            self._wake_in(DISK_RETRY)  # the old record remains, so the app can still be found
            return
        self._unsaved.pop(app.app_id, None)
        if app.is_over:
            self._on_last_word(app)

    def _wake_in(self, delay: float) -> None:
        if not self._has_timer:
            self._has_timer = True
            self._loop.call_later(delay, self._wake)

    def _wake(self) -> None:
        # Changes are published after this round.
        self._has_timer = False
        for app in tuple(self._unsaved.values()):
            self._save(app)

    def _tell(self, app: App) -> None:
        watchers = [each for each in tuple(self._connections) if app.app_id in each.watched]
        event = _event(app) if watchers else b""
        for connection in watchers:
            if connection.is_behind:
                connection.send({"event": "app", "app_id": app.app_id})
            else:
                connection.send_line(event)
            if app.is_over:
                connection.watched.discard(app.app_id)

    def forget(self, app: App) -> None:
        """Drop an app."""
        for by_app in (self._changed, self._unsaved, self._told_at):
            by_app.pop(app.app_id, None)


def _event(app: App) -> bytes:
    """Return the message that an app has changed, with its record if that is small."""
    head = b'{"event":"app","app_id":' + dumps(app.app_id)
    record = app.encoded() if len(app.replicas) <= TOLD_REPLICAS else b""
    return head + b',"app":' + record + b"}\n" if 0 < len(record) <= TOLD_BYTES else head + b"}\n"
