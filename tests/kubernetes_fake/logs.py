"""The log of a container as API server and kubelet hand it out, with their texts where there is none."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.kubernetes_fake.containers import Container, Entry, Run
from tests.kubernetes_fake.errors import StatusError, bad_request
from tests.kubernetes_fake.kubelet import Pod
from tests.kubernetes_fake.lists import Query, is_set

if TYPE_CHECKING:
    from tests.kubernetes_fake.cluster import FakeCluster

WATCHER = b"failed to create fsnotify watcher: too many open files"
PIECE = 16 * 1024
"""Bytes of a line that the runtime keeps as one entry; before 1.31 each of them comes with a time."""
STREAMS = {"Stdout": "stdout", "Stderr": "stderr", "All": ""}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


class NoContent(Exception):  # noqa: N818 - an answer like another: 204
    """The pod has no place yet, and so no log."""


class LogRead:
    """One request of a log: refused when it is made, else read in pieces."""

    def __init__(self, cluster: FakeCluster, namespace: str, name: str, query: Query) -> None:
        self.cluster, self.query = cluster, query
        self.timestamps = is_set(query, "timestamps")
        self.follow = is_set(query, "follow")
        self.tail = _number(query, "tailLines")
        self.limit = _number(query, "limitBytes")
        self.since_ns = _since(query, name)
        self.stream = self._stream(name)
        pod = cluster.store.get("pods", namespace, name)
        self.pod = cluster.kubelet.pods[pod["metadata"]["uid"]]
        self.container = _container(self.pod, query.get("container", ""), name)
        if not self.pod.placed:
            raise NoContent
        if cluster.kubelet.down:
            raise StatusError(
                500,
                "",
                f'Get "https://10.244.7.1:10250/containerLogs/{namespace}/{name}/{self.container.name}'
                f'?follow={str(self.follow).lower()}": dial tcp 10.244.7.1:10250: connect: connection refused',
            )
        if name in cluster.kubelet.unknown:
            raise StatusError(
                404,
                "NotFound",
                f"the server could not find the requested resource ( pods/log {name})",
                details={"name": name, "kind": "pods/log"},
            )
        self.notice = b""
        self.run = self._run(name)

    def _stream(self, name: str) -> str:
        text, gate = self.query.get("stream"), self.cluster.stream_gate
        if text is None or gate == "old":
            return ""
        problem = ""
        if gate == "off":
            problem = "stream: Forbidden: may not be specified"
        elif text not in STREAMS:
            problem = f'stream: Unsupported value: "{text}": supported values: "Stdout", "Stderr", "All"'
        elif self.tail is not None and text != "All":
            problem = "stream: Forbidden: `tailLines` and specific `stream` are mutually exclusive for now"
        if problem:
            raise StatusError(422, "Invalid", f'PodLogOptions "{name}" is invalid: {problem}')
        return STREAMS[text]

    def _run(self, name: str) -> Run | None:
        container = self.container
        if is_set(self.query, "previous"):
            if len(container.runs) > 1 or (container.runs and container.waiting is not None):
                run = container.runs[-1] if container.waiting is not None else container.runs[-2]
                return self._unless_removed(run)
            raise bad_request(f'previous terminated container "{container.name}" in pod "{name}" not found')
        if container.run is None:
            reason = container.waiting[0] if container.waiting else "ContainerCreating"
            if "Image" in reason:
                reason = "trying and failing to pull image" if reason == "ImagePullBackOff" else "image can't be pulled"
            raise bad_request(f'container "{container.name}" in pod "{name}" is waiting to start: {reason}')
        return self._unless_removed(container.run)

    def _unless_removed(self, run: Run) -> Run | None:
        if run.no_file:
            path = f"/var/log/pods/{run.id}/0.log"
            missing = f"lstat {path}: no such file or directory"
            self.notice = f'failed to try resolving symlinks in path "{path}": {missing}'.encode()
            return None
        if run.removed:
            self.notice = f"unable to retrieve container logs for {run.id}".encode()
            return None
        return run

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield what is sent."""
        left = self.limit
        async for data in self._entries():
            if left is not None:
                data = data[:left]
                left -= len(data)
            if data:
                yield data
            if left == 0:
                return

    async def _entries(self) -> AsyncIterator[bytes]:
        run, kubelet = self.run, self.cluster.kubelet
        if run is None:
            yield self.notice
            return
        at = self._start(run)
        if block := b"".join(self._shown(each) for each in run.entries[at:]):
            yield block
        at = len(run.entries)
        if not self.follow:
            return
        if kubelet.watchers is not None and kubelet.following >= kubelet.watchers:
            yield WATCHER
            return
        kubelet.following += 1
        try:
            stopped = kubelet.stopped
            while not stopped.is_set():
                changed = run.changed
                if block := b"".join(self._shown(each) for each in run.entries[at:]):
                    at = len(run.entries)
                    yield block
                    continue
                if run.eof or self.pod.gone or (self.pod.ended is not None and self.container.process is None):
                    return
                await self._any(changed, stopped)
        finally:
            kubelet.following -= 1

    async def _any(self, *events: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            # The end of a pod is looked for as kubelet does: now and then.
            await asyncio.wait(waits, timeout=max(self.cluster.pace.eof, 0.02), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _start(self, run: Run) -> int:
        start = run.newest
        if self.tail is not None:
            start = max(len(run.entries) - self.tail, start)
        if self.since_ns is not None:
            while start < len(run.entries) and run.entries[start].ns < self.since_ns:
                start += 1
        return start

    def _shown(self, entry: Entry) -> bytes:
        if self.stream not in ("", entry.stream):
            return b""
        if not self.timestamps:
            return entry.data
        stamp = stamp_ns(entry.ns) + b" "
        if self.cluster.version >= (1, 31):
            return stamp + entry.data
        return b"".join(stamp + entry.data[at : at + PIECE] for at in range(0, len(entry.data), PIECE))


def stamp_ns(ns: int) -> bytes:
    """Return a time as kubelet writes it in front of a line."""
    second = datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{second}.{ns % 10**9:09d}Z".encode()


def _container(pod: Pod, wanted: str, name: str) -> Container:
    names = [each.name for each in pod.main]
    if not wanted:
        if len(names) > 1:
            raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")
        return pod.main[0]
    found = pod.container(wanted)
    if found is None:
        raise bad_request(f"container {wanted} is not valid for pod {name}")
    return found


def _number(query: Query, name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    if number < 0:
        raise StatusError(
            422,
            "Invalid",
            f'PodLogOptions "" is invalid: {name}: Invalid value: {number}: must be greater than or equal to 0',
        )
    return number


def _since(query: Query, name: str) -> int | None:
    seconds, text = _number(query, "sinceSeconds"), query.get("sinceTime")
    if seconds is not None and text is not None:
        raise StatusError(
            422,
            "Invalid",
            f'PodLogOptions "{name}" is invalid: [sinceSeconds: Forbidden: at most one of `sinceTime` or '
            "`sinceSeconds` may be specified]",
        )
    if seconds is not None:
        return time.time_ns() - seconds * 10**9
    if text is None:
        return None
    if not _TIME.fullmatch(text):
        raise bad_request(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse')
    # Whole seconds only: that is what the API server makes of it.
    when = datetime.fromisoformat(re.sub(r"\.\d+", "", text))
    return int(when.timestamp()) * 10**9
