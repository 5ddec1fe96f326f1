"""What it costs to follow the pods of a cluster that write a line a second each, over TLS."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from asyncsched.schedulers.kubernetes import KubernetesScheduler
from benchmarks._floods import percentile
from benchmarks._harness import LEAST_ROUNDS, Claim, Count, Rounds, at_most, in_turns_on_loop
from benchmarks._idle import until_idle
from benchmarks._kubernetes import CFG, NAMESPACE, Fake, fake, sleeping
from benchmarks._peer import Peer, peer
from tests.services.kubernetes.api import Api

REPLICAS = (10, 100, 1000)
SECONDS = 5.0
"""Of each round."""

PER_STREAM = 70 * 1024
"""Bytes that a stream may hold, among them the buffers of TLS."""

BEFORE = 3
"""Lines of each replica that come before anything is measured: the first one may have been there already."""

PATIENCE = 300
"""Seconds until every log has been heard of."""

MOST_OF_PEER = 100
"""With a thread for each of a thousand the peer keeps a core busy, and falls behind."""

OF_A_THREAD = 4.0
"""What a line may cost here of what it costs a thread that waits for it alone, as long as there are few of them."""

OURS = "asyncsched"
THE_PEER = "the peer's calls, in a thread for each"
BARE = "a bare loop over as many connections"
REQUEST = "GET {} HTTP/1.1\r\nHost: kubernetes\r\nAuthorization: Bearer {}\r\n\r\n"

PEER = """
import threading, time
from kubernetes import client, config, watch
api = client.CoreV1Api(config.new_client_from_config(config_file={kubeconfig!r}))
lines, delays = 0, []
def read(pod):
    global lines
    stream = watch.Watch().stream(
        api.read_namespaced_pod_log, name=pod, namespace="default", timestamps=True, tail_lines=1
    )
    for line in stream:
        lines += 1
        delays.append(time.time() - int(line.split()[-1]) / 1e9)
pods = {pods!r}
api.api_client.configuration.connection_pool_maxsize = len(pods)
api = client.CoreV1Api(client.ApiClient(api.api_client.configuration))
readers = [threading.Thread(target=read, args=(pod,), daemon=True) for pod in pods]
[reader.start() for reader in readers]
def measure():
    until = time.monotonic() + {patience}
    while lines < {before} * len(pods):
        if time.monotonic() > until:
            raise SystemExit(f"the peer had {{lines}} lines of {{len(pods)}} logs after {patience} s")
        time.sleep(0.1)
    delays.clear()
    before, used = lines, time.process_time()
    time.sleep({seconds})
    return [(time.process_time() - used) / max(lines - before, 1), *delays]
def finish():
    pass
"""


async def claims() -> AsyncIterator[Claim]:
    """Follow all replicas in one stream; then read as many logs over connections with nothing else done."""
    for replicas in REPLICAS:
        held = _Held()
        with fake() as cluster:
            async with KubernetesScheduler("bench", kubeconfig=cluster.kubeconfig) as scheduler:
                taken = await _measure(cluster, scheduler, replicas, held)
        name = f"{replicas} tails at 1 line/s"
        cost, delay = f"a line: {taken.told(1e6, 'us', _cost)}", taken.told(1e3, "ms", _delay)
        yield at_most(f"{name}: CPU for a line", taken.ratio(OURS, BARE, _cost), 5.9, detail=cost)
        yield at_most(f"{name}: time until a line is there (p95)", taken.ratio(OURS, BARE, _delay), 3.0, detail=delay)
        if replicas <= MOST_OF_PEER:
            yield at_most(f"{name}: CPU for a line", taken.ratio(OURS, THE_PEER, _cost), OF_A_THREAD, detail=cost)
        yield at_most(name, Count(number=held.threads, of="threads for them"), 0)
        if replicas == max(REPLICAS):
            yield at_most(name, Count(number=held.memory, of="bytes in all"), PER_STREAM * replicas)


@dataclass(slots=True)
class _Lines:
    """What came: how many lines of each replica, and how late each was."""

    heard: Counter[int] = field(default_factory=Counter[int])
    delays: list[float] = field(default_factory=list[float])

    def take(self, text: bytes | str, replica: int) -> None:
        self.heard[replica] += 1
        self.delays.append(time.time() - int(text.rpartition(b" " if isinstance(text, bytes) else " ")[2]) / 1e9)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Tail:
    """What one round has given."""

    cost: float
    delays: list[float]


def _cost(tail: _Tail) -> float:
    return tail.cost


def _delay(tail: _Tail) -> float:
    return percentile(tail.delays, 0.95)


class _Held:
    """What is held more than before, once in the first round: later ones have the other way's leavings, too."""

    def __init__(self) -> None:
        self.threads = self.memory = 0
        self._before: tuple[int, int] | None = None
        self._seen = False

    def begin(self) -> None:
        if self._before is None:
            self._before = threading.active_count(), _memory()

    def look(self) -> None:
        if not self._seen and self._before is not None:
            threads, memory = self._before
            self._seen, self.threads, self.memory = True, threading.active_count() - threads, _memory() - memory


async def _measure(cluster: Fake, scheduler: KubernetesScheduler, replicas: int, held: _Held) -> Rounds[_Tail]:
    app_id = await scheduler.submit(sleeping(replicas), CFG)
    while cluster.ask("running")["running"] < replicas:  # noqa: ASYNC110 - it is another process that starts them
        await asyncio.sleep(0.2)
    api = Api(Path(cluster.kubeconfig))
    pods = api.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    token = api.config()["users"][0]["user"]["token"]
    paths = [
        f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}/log?follow=true&timestamps=true&tailLines=1"
        for pod in pods
    ]
    requests = [REQUEST.format(path, token).encode() for path in paths]
    cluster.ask("write")
    await until_idle(share=0.3)
    held.begin()
    measures: dict[str, Callable[[], Awaitable[_Tail]]] = {
        OURS: partial(_while, replicas, partial(_follow, scheduler, app_id), held),
        BARE: partial(_while, replicas, partial(_read_all, api, requests)),
    }
    with ExitStack() as stack:
        if replicas <= MOST_OF_PEER:
            names = [pod["metadata"]["name"] for pod in pods]
            script = PEER.format(
                kubeconfig=cluster.kubeconfig, pods=names, seconds=SECONDS, before=BEFORE, patience=PATIENCE
            )
            measures[THE_PEER] = partial(_peers, stack.enter_context(peer(script)))
        taken = await in_turns_on_loop(measures, LEAST_ROUNDS)
    cluster.ask("silence")
    return taken


async def _peers(theirs: Peer) -> _Tail:
    cost, *delays = await theirs.measure()
    return _Tail(cost, delays)


async def _while(replicas: int, read: Callable[[_Lines], Awaitable[None]], held: _Held | None = None) -> _Tail:
    """Read, and measure for a time once every replica is followed and what was there at first has come."""
    lines = _Lines()
    reading = asyncio.ensure_future(read(lines))
    try:
        async with asyncio.timeout(PATIENCE):
            while len(lines.heard) < replicas or min(lines.heard.values()) < BEFORE:
                if reading.done():
                    reading.result()
                await asyncio.sleep(0.1)
        if held is not None:
            held.look()
        lines.delays.clear()
        used = time.process_time()
        await asyncio.sleep(SECONDS)
        return _Tail((time.process_time() - used) / len(lines.delays), list(lines.delays))
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


async def _follow(scheduler: KubernetesScheduler, app_id: str, lines: _Lines) -> None:
    async with scheduler.log_iter(app_id, should_tail=True, tail_lines=1) as stream:
        async for line in stream:
            lines.take(line.text, line.source.replica)


async def _read_all(api: Api, requests: list[bytes], lines: _Lines) -> None:
    async with asyncio.TaskGroup() as group:
        for replica, request in enumerate(requests):
            group.create_task(_read(api, request, replica, lines))


async def _read(api: Api, request: bytes, replica: int, lines: _Lines) -> None:
    context: ssl.SSLContext = api.context
    reader, writer = await asyncio.open_connection(api.server.hostname, api.server.port, ssl=context)
    try:
        writer.write(request)
        while data := await reader.read(65536):
            for line in data.split(b"\n"):
                if b" tick " in line:
                    lines.take(line.rstrip(), replica)
    finally:
        writer.transport.abort()


def _memory() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
