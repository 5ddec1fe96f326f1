"""The objects, with resource versions, and the window of changes that a watch can go back to."""

from __future__ import annotations

import copy
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tests.kubernetes_fake.errors import Json, already_exists, conflict, not_found
from tests.kubernetes_fake.resources import RESOURCES

Key = tuple[str, str, str]  # kind, namespace, name


class Change(NamedTuple):
    """One change of one object; objects are never changed in place once they are here."""

    version: int
    kind: str
    before: Json | None
    after: Json | None  # None: it is gone; `before` is its last state

    @property
    def obj(self) -> Json:
        obj = self.after if self.after is not None else self.before
        assert obj is not None
        return obj


class Store:
    """What etcd is to an API server. It belongs to one thread."""

    def __init__(self) -> None:
        self.version = 1000
        self.objects: dict[Key, Json] = {}
        self.window: deque[Change] = deque(maxlen=10_000)
        self.oldest: dict[str, int] = {}  # watches from before this version of a kind are told that it is too old
        self.listeners: list[Callable[[Change], None]] = []
        self._listed: dict[tuple[str, str | None], tuple[int, list[Json]]] = {}  # the last list, and its version

    # Reading

    def get(self, kind: str, namespace: str, name: str) -> Json:
        obj = self.objects.get((kind, namespace, name))
        if obj is None:
            raise not_found(RESOURCES[kind].qualified, name)
        return obj

    def find(self, kind: str, namespace: str, name: str) -> Json | None:
        return self.objects.get((kind, namespace, name))

    def list(self, kind: str, namespace: str | None = None) -> list[Json]:
        """Return the objects of a kind in the order of their names, as etcd does."""
        version, listed = self._listed.get((kind, namespace), (0, []))
        if version != self.version:
            keys = sorted(key for key in self.objects if key[0] == kind and namespace in (None, "", key[1]))
            listed = [self.objects[key] for key in keys]
            self._listed[kind, namespace] = self.version, listed
        return list(listed)

    def owned(self, uid: str) -> Iterator[tuple[str, Json]]:
        """Yield the objects that an owner's end takes with it."""
        for (kind, _, _), obj in list(self.objects.items()):
            if any(owner.get("uid") == uid for owner in obj["metadata"].get("ownerReferences", ())):
                yield kind, obj

    # Writing

    def create(self, kind: str, obj: Json) -> Json:
        made = copy.deepcopy(obj)
        resource = RESOURCES[kind]
        meta = made.setdefault("metadata", {})
        if not resource.namespaced:
            meta.pop("namespace", None)
        key = (kind, meta.get("namespace", ""), meta["name"])
        if key in self.objects:
            raise already_exists(resource.qualified, meta["name"])
        meta.update(uid=str(uuid.uuid4()), creationTimestamp=stamp())
        if kind in GENERATIONS:
            meta["generation"] = 1
        made = {"apiVersion": resource.api_version, "kind": resource.kind, **made}
        return self._put(key, None, made)

    def update(self, kind: str, obj: Json, change: Callable[[Json], Any]) -> Json:
        """Change an object as it is now; returns what it is then. A change that changes nothing is none."""
        meta = obj["metadata"]
        key = (kind, meta.get("namespace", ""), meta["name"])
        before = self.objects.get(key)
        if before is None or before["metadata"]["uid"] != meta["uid"]:
            raise not_found(RESOURCES[kind].qualified, meta["name"])
        after = copy.deepcopy(before)
        change(after)
        if after == before:
            return before
        if kind in GENERATIONS and after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] += 1
        return self._put(key, before, after)

    def replace(self, kind: str, obj: Json) -> Json:
        """Take what a client has sent in place of what is there."""
        meta = obj["metadata"]
        before = self.get(kind, meta.get("namespace", ""), meta["name"])
        if meta.get("resourceVersion", before["metadata"]["resourceVersion"]) != before["metadata"]["resourceVersion"]:
            raise conflict(RESOURCES[kind].qualified, meta["name"])
        kept = {key: before["metadata"][key] for key in ("uid", "creationTimestamp")}

        def change(after: Json) -> None:
            after.clear()
            after.update(copy.deepcopy(obj))
            after["metadata"].update(kept)
            after["metadata"].setdefault("generation", before["metadata"].get("generation", 1))

        return self.update(kind, before, change)

    def remove(self, kind: str, obj: Json) -> Json | None:
        meta = obj["metadata"]
        key = (kind, meta.get("namespace", ""), meta["name"])
        before = self.objects.get(key)
        if before is None or before["metadata"]["uid"] != meta["uid"]:
            return None
        del self.objects[key]
        self.version += 1
        last = copy.deepcopy(before)
        last["metadata"]["resourceVersion"] = str(self.version)
        self._tell(Change(self.version, kind, last, None))
        return last

    def _put(self, key: Key, before: Json | None, after: Json) -> Json:
        self.version += 1
        after["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = after
        self._tell(Change(self.version, key[0], before, after))
        return after

    def _tell(self, change: Change) -> None:
        self.window.append(change)
        for listener in list(self.listeners):
            listener(change)

    # Watching

    def since(self, kind: str, version: int) -> Sequence[Change] | None:
        """Return what changed after a version; None if that is not known any more."""
        if version < self.oldest.get(kind, 0):
            return None
        if len(self.window) == self.window.maxlen and version < self.window[0].version - 1:
            return None
        return [change for change in self.window if change.version > version and change.kind == kind]

    def compact(self, *kinds: str) -> None:
        """Forget what was before now: who goes back there is told that it is too old."""
        self.version += 1
        for kind in kinds or RESOURCES:
            self.oldest[kind] = self.version


GENERATIONS = frozenset({"pods", "jobs", "vcjobs", "podgroups"})


def stamp(at: float | None = None) -> str:
    """Return a time as the server writes it: whole seconds."""
    return datetime.fromtimestamp(time.time() if at is None else at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
