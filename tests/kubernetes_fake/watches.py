"""Watches: changes of one kind as they happen, with bookmarks and with versions that are too old."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from tests.kubernetes_fake.errors import Json, StatusError, bad_request
from tests.kubernetes_fake.lists import Query, is_set, selected, shown
from tests.kubernetes_fake.resources import Resource
from tests.kubernetes_fake.store import Change

if TYPE_CHECKING:
    from tests.kubernetes_fake.cluster import FakeCluster


class Watch:
    """One watch. It is made when the request comes, so that nothing is missed, and read as its body is sent."""

    def __init__(
        self, cluster: FakeCluster, resource: Resource, namespace: str | None, query: Query, form: str
    ) -> None:
        self.cluster, self.resource, self.namespace, self.query, self.form = cluster, resource, namespace, query, form
        self.bookmarks = is_set(query, "allowWatchBookmarks")
        self.test = selected(resource, query)
        self.timeout = _seconds(query) or random.uniform(1800, 3600)
        self.first = self._first_events()
        self.changes: asyncio.Queue[Change | None] = asyncio.Queue()

    def _first_events(self) -> list[Json]:
        store, text = self.cluster.store, self.query.get("resourceVersion", "")
        initial = is_set(self.query, "sendInitialEvents")
        if "sendInitialEvents" in self.query and self.query.get("resourceVersionMatch") != "NotOlderThan":
            raise StatusError(
                422,
                "Invalid",
                'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires '
                "setting resourceVersionMatch to NotOlderThan",
            )
        if text and not text.isdecimal():
            raise bad_request(f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax')
        if initial or text in ("", "0"):
            found = [obj for obj in store.list(self.resource.short, self.namespace) if self.test(obj)]
            events = [self._event("ADDED", obj) for obj in found]
            if self.bookmarks and (initial or text == "0"):
                events.append(self._bookmark(end=initial))
            return events
        changed = store.since(self.resource.short, int(text))
        if changed is None:
            if self.cluster.pace.expired_as_status:
                raise StatusError(410, "Expired", self._too_old(text))
            return [{"type": "ERROR", "object": StatusError(410, "Expired", self._too_old(text)).body()}]
        return [event for each in changed if (event := self._of(each)) is not None]

    def _too_old(self, text: str) -> str:
        return f"too old resource version: {text} ({self.cluster.store.oldest.get(self.resource.short, 0)})"

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield what is sent, until the watch's time is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.timeout
        self.cluster.store.listeners.append(self._note)
        self.cluster.watches.add(self)
        try:
            for event in self.first:
                yield _line(event)
            if self.first and self.first[-1]["type"] == "ERROR":
                return
            # A last bookmark comes about two seconds before the end, of a watch that lives so long.
            bookmark = min(loop.time() + self.cluster.pace.bookmark, end - 2.0 if self.timeout > 4 else end + 1)
            while (left := min(bookmark if self.bookmarks else end, end) - loop.time()) > 0 or loop.time() < end:
                try:
                    async with asyncio.timeout(max(left, 0)):
                        change = await self.changes.get()
                except TimeoutError:
                    if self.bookmarks and loop.time() >= bookmark:
                        yield _line(self._bookmark())
                        bookmark = end + 1 if bookmark >= end - 2.0 else min(
                            loop.time() + self.cluster.pace.bookmark, end - 2.0
                        )  # fmt: skip
                    continue
                if change is None:
                    yield _line({"type": "ERROR", "object": StatusError(410, "Expired", self._too_old("1")).body()})
                    return
                if (told := self._of(change)) is not None:
                    yield _line(told)
        finally:
            self.cluster.store.listeners.remove(self._note)
            self.cluster.watches.discard(self)

    def expire(self) -> None:
        """Tell the client in the middle of the stream that its version is too old."""
        self.changes.put_nowait(None)

    def _note(self, change: Change) -> None:
        if change.kind == self.resource.short:
            self.changes.put_nowait(change)

    def _of(self, change: Change) -> Json | None:
        """Return a change as this watch sees it: what leaves its selection is deleted, to it."""
        if self.namespace and change.obj["metadata"].get("namespace", "") != self.namespace:
            return None
        before = change.before is not None and self.test(change.before)
        after = change.after is not None and self.test(change.after)
        if after:
            assert change.after is not None
            return self._event("MODIFIED" if before else "ADDED", change.after)
        if not before:
            return None
        assert change.before is not None
        last = change.before
        if change.after is not None:  # the version is that of the change
            version = change.after["metadata"]["resourceVersion"]
            last = {**last, "metadata": {**last["metadata"], "resourceVersion": version}}
        return self._event("DELETED", last)

    def _event(self, kind: str, obj: Json) -> Json:
        return {"type": kind, "object": shown(self.form, self.resource, obj, self.query)}

    def _bookmark(self, *, end: bool = False) -> Json:
        meta: Json = {"resourceVersion": str(self.cluster.store.version), "creationTimestamp": None}
        if end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj = {"kind": self.resource.kind, "apiVersion": self.resource.api_version, "metadata": meta}
        return {"type": "BOOKMARK", "object": obj}


def _seconds(query: Query) -> float:
    text = query.get("timeoutSeconds", "")
    if not text:
        return 0.0
    try:
        return float(int(text))
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _line(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


Listener = Callable[[Change], None]
