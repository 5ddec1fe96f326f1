"""The requests that the owner and other processes of the same user may send."""

from __future__ import annotations

from . import TYPE_CHECKING
from .app import App
from .between_fork_and_exec import errno_of
from .control import ControlConnection, answer_hello
from .launch import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from .control import Message
    from .worker import Worker

    Reply: TypeAlias = Callable[[Message], None]


class Handlers:
    """Answer requests.

    Args:
        worker: The worker that runs the apps.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._operations: dict[str, Callable[[ControlConnection, Message, Reply], None]] = {
            "hello": self._hello,
            "submit": self._submit,
            "describe": self._describe,
            "watch": self._watch,
            "cancel": self._cancel,
            "kill": self._kill,
            "forget": self._forget,
            "stop": self._stop,
        }

    def answer(self, connection: ControlConnection, message: Message) -> None:
        """Handle a request and answer it."""
        asked = message.get("n")
        operation = self._operations.get(str(message.get("op")))

        def reply(answer: Message) -> None:
            connection.send({"re": asked, **answer})

        if operation is None:
            reply({"error": "unknown", "message": f"unknown operation {message.get('op')!r}"})
            return
        try:
            operation(connection, message, reply)
        except Exception as error:  # noqa: BLE001 - one bad request must not end other apps
            why, ours = f"{type(error).__name__}: {error}", isinstance(error, OSError)
            reply(LaunchError(why, code="internal", errno=errno_of(error), ours=ours).told())

    def _hello(self, _from: ControlConnection, message: Message, reply: Reply) -> None:
        reply(answer_hello(message, supervisor=self._worker.identity, place=self._worker.place))

    def _submit(self, connection: ControlConnection, message: Message, reply: Reply) -> None:
        app = App(self._worker, message["app"])

        def done(error: LaunchError | None) -> None:
            if error is None:
                connection.watched.add(app.app_id)
                reply({"app": app.record()})
            else:
                reply(error.told())

        if connection is self._worker.owner:
            self._worker.start(app, done)
        else:
            reply({"error": "refused", "message": "a supervisor accepts apps only from its owner"})

    def _describe(self, _from: ControlConnection, message: Message, reply: Reply) -> None:
        apps = (self._worker.apps.get(app_id) for app_id in message["app_ids"])
        reply({"apps": [app.record() for app in apps if app is not None and app.started_ns is not None]})

    def _watch(self, connection: ControlConnection, message: Message, reply: Reply) -> None:
        connection.watched = set(message["app_ids"])
        reply({})

    def _cancel(self, _from: ControlConnection, message: Message, reply: Reply) -> None:
        self._end(message["app_id"], reply, grace=True)

    def _kill(self, _from: ControlConnection, message: Message, reply: Reply) -> None:
        """End an app at once, even during its grace period."""
        self._end(message["app_id"], reply, grace=False)

    def _end(self, app_id: str, reply: Reply, *, grace: bool) -> None:
        app = self._worker.apps.get(app_id)
        if app is not None and app.launch is not None:
            app.launch.abort(LaunchError("it was cancelled before it started"))
        elif app is not None:
            app.terminate("cancel", grace=grace)
        reply({"known": app is not None})

    def _forget(self, _from: ControlConnection, message: Message, reply: Reply) -> None:
        app = self._worker.apps.get(message["app_id"])
        if app is not None and not app.is_over:
            reply({"error": "running", "message": "the app has not ended"})
            return
        if app is not None:
            self._worker.discard(app)
        reply({})

    def _stop(self, connection: ControlConnection, _message: Message, reply: Reply) -> None:
        if connection is self._worker.owner:
            self._worker.end_all("close")
        reply({})
