"""Mirror the objects of one resource in one namespace with a list and a watch."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from asyncsched._streams import for_one
from asyncsched._tasks import outlast
from asyncsched.clock import Clock
from asyncsched.errors import AsyncSchedError, ClosedError, SchedulerError, UnavailableError
from asyncsched.logs.backoff import Backoff
from asyncsched.logs.loop_time import budget_of
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.errors import BACKEND, is_expired, status_failure, translate

__all__ = ["KeptObject", "Reflector"]

_log = logging.getLogger("asyncsched.schedulers.kubernetes")

WATCH_FOR = 300.0
"""Seconds after which the server ends a watch, so that connections spread over several API servers again."""
SILENCE = 150.0
"""Seconds without a byte after which a watch counts as dead: bookmarks arrive every minute."""
SHORTEST = 1.0
"""A watch that ends sooner than this (in seconds) without an event counts as failed, so the next one backs off."""
LARGEST_EVENT = 8 << 20
"""Most bytes of one event; etcd stores objects of up to 1.5 MB."""


class KeptObject(Protocol):
    """The data that a reflector keeps for an object."""

    @property
    def name(self) -> str:
        """The object's name."""
        ...


RecordT = TypeVar("RecordT", bound=KeptObject)


class Reflector(Generic[RecordT]):
    """Mirrors the asyncsched objects of one resource in one namespace with a list and a watch.

    It runs while it has subscribers. Each new version of an object replaces its record as a whole. After a broken
    connection a new list finds what was missed.

    Args:
        client: The client of the cluster.
        path: The path of the resource in the namespace.
        read: Converts an object to a record, or to None if asyncsched did not create the object.
        app_of: Returns the app name of a record.
        clock: The time source.

    Attributes:
        synced: Whether `snapshot` is current; False before the first list and while the server is unreachable.
        failure: The permanent refusal that ended the reflector, if any.
        lists: How many lists were started, for statistics.
        watches: How many watches were started, for statistics.
    """

    def __init__(
        self,
        client: KubeClient,
        path: str,
        read: Callable[[Mapping[str, Any]], RecordT | None],
        app_of: Callable[[RecordT], str],
        *,
        clock: Clock,
    ) -> None:
        self._client, self._path, self._read, self._app_of, self._clock = client, path, read, app_of, clock
        self.synced = False
        self.failure: AsyncSchedError | None = None
        self.lists = self.watches = 0
        self._apps: dict[str, dict[str, RecordT]] = {}
        self._records: dict[str, RecordT] = {}
        self._callbacks: dict[str, dict[object, Callable[[str], None]]] = {}
        self._version = ""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        state = "synced" if self.synced else "failed" if self.failure is not None else "not synced"
        return f"<Reflector of {self._path}: {len(self._records)} objects, {state}>"

    # For subscribers

    def subscribe(self, app: str, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call `callback` with the app's name after each change of its objects; return a function that unsubscribes.

        The callback also runs when the first list is complete, when the connection is lost or restored, and when
        `failure` is set.

        Args:
            app: The name of the app (the value of its label), or "" for all apps.
            callback: Must not block; reads `snapshot`.
        """
        key = object()
        self._callbacks.setdefault(app, {})[key] = callback
        if self._task is None:
            self._start()
        return lambda: self._unsubscribe(app, key)

    def snapshot(self, app: str) -> Sequence[RecordT]:
        """Return the records of an app, sorted by name."""
        there = self._apps.get(app, {})
        return [there[name] for name in sorted(there)]

    @property
    def apps(self) -> Iterable[str]:
        """The names of the apps that have objects in this resource."""
        return self._apps.keys()

    @property
    def is_running(self) -> bool:
        """Whether the reflector has subscribers and has not failed."""
        return self._task is not None and self.failure is None

    async def ready(self) -> None:
        """Wait until `synced`; the caller must be subscribed.

        Raises:
            SchedulerError: The server permanently refuses the list or the watch.
            ClosedError: The reflector was closed.
        """
        while not self.synced:
            if self.failure is not None:
                raise for_one(self.failure)
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        """Stop the reflector; pending `ready` calls raise ClosedError."""
        self._fail(ClosedError("the scheduler was closed during a watch"))
        self._stop()
        await outlast(list(self._ending), 10.0)

    # The task

    def _start(self) -> None:
        self.failure = None
        # The task serves several callers, so it must not inherit the context of the first one.
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name=f"kubernetes: watching {self._path}", context=contextvars.Context()
        )

    def _unsubscribe(self, app: str, key: object) -> None:
        callbacks = self._callbacks.get(app, {})
        callbacks.pop(key, None)
        if not callbacks:
            self._callbacks.pop(app, None)
        if not self._callbacks:
            self._stop()

    def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        self._apps, self._records, self._version, self.synced = {}, {}, "", False

    async def _run(self) -> None:
        before = [task for task in self._ending if task is not asyncio.current_task()]
        await outlast(before, 10.0)
        backoff = Backoff(self._clock, retry_for=float("inf"), shortest=0.2)
        try:
            while True:
                try:
                    if not self._version:
                        await self._list()
                    await self._watch(backoff)
                except SchedulerError as error:
                    await self._clock.sleep(self._retry_delay(error, backoff))
        except AsyncSchedError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - pending callers must get the error instead of waiting forever
            _log.exception("the watch of %s failed", self._path)
            broken = SchedulerError("the watch failed", why=repr(error), backend=BACKEND, operation="watch")
            broken.__cause__ = error
            self._fail(broken)

    def _retry_delay(self, error: SchedulerError, backoff: Backoff) -> float:
        """Return the seconds to wait before the next try; raise an error that is permanent."""
        expired = is_expired(error)
        if expired:
            self._version = ""
            _log.debug("the watch of %s has expired, listing again", self._path)
        pause = backoff.failed(error)
        if not expired and backoff.failures > 1 and self.synced:
            self.synced = False  # the records may be stale: callers that need the truth ask the server
            self._notify(self._callbacks)
        return 0.0 if expired and backoff.failures <= 1 else pause

    def _fail(self, error: AsyncSchedError) -> None:
        self.failure, self.synced = error, False
        self._notify(self._callbacks)

    # The list

    async def _list(self) -> None:
        self.lists += 1
        page = await self._client.items(
            self._path, self._read, query={"labelSelector": names.SELECTOR}, operation="watch"
        )
        changed = await self._replace(page.items)
        was_synced, self.synced, self._version = self.synced, True, page.resource_version
        self._notify([app for app in self._callbacks if not was_synced or not app or app in changed], changed)

    async def _replace(self, records: Sequence[RecordT]) -> set[str]:
        """Replace all records by those of a list; return the apps whose records differ."""
        budget = budget_of(asyncio.get_running_loop())
        budget.begin()
        old, new = self._records, {record.name: record for record in records}
        changed = {self._app_of(record) for name, record in old.items() if name not in new}
        apps: dict[str, dict[str, RecordT]] = {}
        for number, (name, record) in enumerate(new.items()):
            app = self._app_of(record)
            apps.setdefault(app, {})[name] = record
            if app not in changed and old.get(name) != record:
                changed.add(app)
            if number % 64 == 0:
                await budget.breathe()
        self._records, self._apps = new, apps
        return changed

    # The watch

    async def _watch(self, backoff: Backoff) -> None:
        self.watches += 1
        seconds = int(WATCH_FOR * random.uniform(0.8, 1.2))
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": names.SELECTOR,
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        began, got_event = self._clock.monotonic(), False
        async with self._client.stream(self._path, query, operation="watch") as stream:
            if not self.synced:
                self.synced = True
                self._notify(self._callbacks)
            rest = b""
            while chunk := await self._chunk(stream):
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > LARGEST_EVENT:
                    raise self._broken(f"an event is larger than {LARGEST_EVENT} bytes")
                await self._take(lines)
                got_event = True
                backoff.worked()
        if rest.strip():
            raise self._broken("it ended in the middle of an event")
        if not got_event and self._clock.monotonic() - began < SHORTEST:
            raise self._broken(f"it ended within {SHORTEST:g} s, without an event")

    async def _chunk(self, stream: Any) -> bytes:
        limit = self._clock.deadline(SILENCE)
        try:
            async with limit:
                data: bytes = await stream.read_chunk()
                return data
        except TimeoutError as error:
            raise self._broken(f"nothing was received for {SILENCE:g} s") from error

    async def _take(self, lines: Sequence[bytes]) -> None:
        budget = budget_of(asyncio.get_running_loop())
        budget.begin()
        for line in lines:
            if line.strip():
                self._event(line)
            await budget.breathe()

    def _event(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            kind, thing = event["type"], event["object"]
            version = thing.get("metadata", {}).get("resourceVersion")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self._broken(f"an event cannot be read: {type(error).__name__}") from error
        if kind == "ERROR":
            raise translate(status_failure(thing, 500), "watch")
        if kind != "BOOKMARK":
            self._apply(thing, is_gone=kind == "DELETED")
        if isinstance(version, str) and version:
            self._version = version

    def _apply(self, thing: Mapping[str, Any], *, is_gone: bool) -> None:
        record = self._read(thing)
        name = record.name if record is not None else str(thing.get("metadata", {}).get("name"))
        before = self._records.pop(name, None)
        apps: set[str] = set()
        if before is not None:
            apps.add(app := self._app_of(before))
            records = self._apps[app]
            records.pop(name, None)
            if not records:
                del self._apps[app]
        if record is not None and not is_gone:
            apps.add(app := self._app_of(record))
            self._records[name] = record
            self._apps.setdefault(app, {})[name] = record
        if is_gone or record != before:
            self._notify([app for app in ("", *apps) if app in self._callbacks], apps)

    def _broken(self, why: str) -> SchedulerError:
        return UnavailableError(f"the watch of {self._path} broke", why=why, backend=BACKEND, operation="watch")

    def _notify(self, subscribed: Iterable[str], changed: Iterable[str] = ()) -> None:
        """Call the subscribers of these apps; subscribers of "" get a call for each changed app."""
        self._changed.set()
        for app in list(subscribed):
            for callback in list(self._callbacks.get(app, {}).values()):
                for name in [app] if app else list(changed) or [""]:
                    callback(name)
