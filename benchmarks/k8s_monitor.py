"""What it costs to watch a thousand jobs, and to keep fifty thousand pods."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from asyncsched.schedulers.kubernetes import KubernetesScheduler, names
from asyncsched.specs import AppState
from benchmarks._floods import longest_step, percentile
from benchmarks._harness import LEAST_ROUNDS, Claim, Count, Rounds, at_most, in_turns_on_loop, on_loop
from benchmarks._kubernetes import NAMESPACE, Fake, fake
from benchmarks._reference import STEP, reference_work
from tests.services.kubernetes.api import Api

JOBS = 1_000
PODS = 50_000
FIRST, SPREAD = 5.0, 10.0
"""When the first job of a round ends, and over how many seconds the others do."""

EVERY = 1.0
"""Seconds between two sweeps of the loop that polls."""

PAGE = 500
JOBS_PATH = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
OURS = "asyncsched"
POLLING = f"a bare loop that lists the jobs every {EVERY:g} s"
PARSED = "json.loads of the same bodies"


async def claims() -> AsyncIterator[Claim]:
    """Watch jobs that end at random, then list many pods; the server only keeps what it was given."""
    with fake(runs_pods=False) as cluster:
        taken, most = await _monitored(cluster)
    name, detail = f"{JOBS} jobs that end over {SPREAD:g} s", taken.told(1, "s", _delay)
    yield at_most(f"{name}: time until an end is seen (p95)", taken.ratio(OURS, POLLING, _delay), 0.75, detail=detail)
    cpu = taken.told(1, "s", _cpu)
    yield at_most(f"{name}: CPU", taken.ratio(OURS, POLLING, _cpu), 5.0, detail=cpu)
    yield at_most(f"{name}", Count(number=most, of="requests"), 24)
    with fake(runs_pods=False) as cluster:
        async for claim in _many_pods(cluster):
            yield claim


class _Seen:
    """What one watch of all jobs has given."""

    def __init__(self, delays: Sequence[float], cpu: float) -> None:
        self.delays, self.cpu = delays, cpu


def _delay(seen: _Seen) -> float:
    return percentile(seen.delays, 0.95)


def _cpu(seen: _Seen) -> float:
    return seen.cpu


async def _monitored(cluster: Fake) -> tuple[Rounds[_Seen], int]:
    numbers = iter(range(0, 1_000_000, JOBS))
    most = 0

    async def ours() -> _Seen:
        nonlocal most
        ends = _jobs(cluster, next(numbers))
        async with KubernetesScheduler("bench", kubeconfig=cluster.kubeconfig) as scheduler:
            cluster.calls()
            began, seen = time.process_time(), dict[str, float]()
            async with scheduler.watch([f"{NAMESPACE}:{name}" for name in ends]) as watch:
                async for event in watch:
                    if event.is_terminal():
                        if event.state is not AppState.SUCCEEDED:
                            raise RuntimeError(f"{event.app_id} is over, and was not told as it ended: {event}")
                        seen[event.app_id.partition(":")[2]] = time.time()
        most = max(most, sum(cluster.calls().values()))
        return _Seen([seen[name] - when for name, when in ends.items()], time.process_time() - began)

    async def polling() -> _Seen:
        ends = _jobs(cluster, next(numbers))
        began, seen = time.process_time(), dict[str, float]()
        async with _session(cluster) as (session, url):
            while len(seen) < len(ends):
                async for page in _pages(session, f"{url}{JOBS_PATH}"):
                    for item in page["items"]:
                        if item["status"]["state"]["phase"] == "Completed":
                            seen.setdefault(item["metadata"]["name"], time.time())
                await asyncio.sleep(EVERY)
        return _Seen([seen[name] - when for name, when in ends.items()], time.process_time() - began)

    return await in_turns_on_loop({OURS: ours, POLLING: polling}, LEAST_ROUNDS), most


def _jobs(cluster: Fake, start: int) -> dict[str, float]:
    """Have a thousand running jobs in place of those that there were; return when each will end."""
    cluster.ask("drop", kind="vcjobs")
    cluster.ask("keep", kind="vcjobs", objects=JOBS, template=_job(), start=start)
    now = time.time()
    ends = {f"job-{number:06d}": now + FIRST + random.uniform(0, SPREAD) for number in range(start, start + JOBS)}
    ended = {"status": {"state": {"phase": "Completed"}, "succeeded": 1}}
    cluster.ask("change", kind="vcjobs", to=ended, times=list(ends.items()))
    return ends


async def _many_pods(cluster: Fake) -> AsyncIterator[Claim]:
    for start in range(0, PODS, 5_000):
        cluster.ask("keep", kind="pods", objects=5_000, template=_pod(), start=start)
    before = _memory()
    async with KubernetesScheduler("bench", kubeconfig=cluster.kubeconfig) as scheduler:
        pods = scheduler._reflectors.pods(NAMESPACE)
        with longest_step() as steps:
            end = pods.subscribe("", lambda _: None)
            await pods.ready()
        kept = (_memory() - before) // PODS
        listed = await in_turns_on_loop(
            {OURS: partial(_relist, scheduler), PARSED: partial(_parse, cluster)}, LEAST_ROUNDS
        )
        references = await in_turns_on_loop({STEP: on_loop(reference_work)}, LEAST_ROUNDS)
        longest = Rounds[float]({OURS: 0, STEP: 0})
        longest.of = {OURS: [max(steps)] * LEAST_ROUNDS, STEP: references.of[STEP]}
        end()
    name = f"{PODS} pods"
    yield at_most(f"{name}: a pod", Count(number=kept, of="bytes"), 4096)
    yield at_most(f"{name}: CPU to list them", listed.ratio(OURS, PARSED), 4.0, detail=listed.told(1, "s"))
    detail = longest.told(1e3, "ms")
    yield at_most(f"{name}: CPU of the longest step", longest.ratio(OURS, STEP), 1.0, detail=detail)


async def _relist(scheduler: KubernetesScheduler) -> float:
    """List them as the reflector does after a break."""
    began = time.process_time()
    await scheduler._reflectors.pods(NAMESPACE)._list()
    return time.process_time() - began


async def _parse(cluster: Fake) -> float:
    """List them and do no more than to parse."""
    began = time.process_time()
    async with _session(cluster) as (session, url):
        count = sum([len(page["items"]) async for page in _pages(session, f"{url}{PODS_PATH}")])
    assert count == PODS
    return time.process_time() - began


@asynccontextmanager
async def _session(cluster: Fake) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """A session with the user's token, and the server's URL."""
    api = Api(Path(cluster.kubeconfig))
    token = api.config()["users"][0]["user"]["token"]
    connector = aiohttp.TCPConnector(ssl=api.context)
    async with aiohttp.ClientSession(connector=connector, headers={"Authorization": f"Bearer {token}"}) as session:
        yield session, api.server.geturl()


async def _pages(session: aiohttp.ClientSession, url: str) -> AsyncIterator[Any]:
    token = ""
    while True:
        async with session.get(url, params={"limit": str(PAGE), "continue": token}) as answer:
            page = json.loads(await answer.read())
        yield page
        token = page["metadata"].get("continue", "")
        if not token:
            return


def _labels() -> dict[str, str]:
    return {
        "asyncsched/app": "job-NUMBER",
        "asyncsched/kind": "volcano",
        "asyncsched/session": "bench",
        "asyncsched/role": "main",
        "volcano.sh/job-name": "job-NUMBER",
        "volcano.sh/task-spec": "main",
        "volcano.sh/task-index": "0",
    }


def _job() -> dict[str, Any]:
    container = {"name": "main", "image": "none:1", "command": ["train"]}
    template = {"metadata": {"labels": _labels()}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "metadata": {
            "name": "job-NUMBER",
            "namespace": NAMESPACE,
            "labels": _labels(),
            "annotations": {names.APP_NAME: "job", names.REQUEST: "0" * 64},  # without it the job is somebody else's
        },
        "spec": {
            "minAvailable": 1,
            "queue": "default",
            "tasks": [{"name": "main", "replicas": 1, "template": template}],
        },
        "status": {"state": {"phase": "Running"}, "running": 1, "minAvailable": 1},
    }


def _pod() -> dict[str, Any]:
    """Return a pod of the size that they have on a cluster: about six kilobytes."""
    environment = [{"name": f"SETTING_{number}", "value": "x" * 60} for number in range(25)]
    container = {"name": "main", "image": "none:1", "command": ["train"], "env": environment}
    times = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": times}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    status = {
        "phase": "Running",
        "conditions": conditions,
        "hostIP": "10.0.0.1",
        "podIP": "10.244.1.2",
        "startTime": times,
        "containerStatuses": [
            {
                "name": "main",
                "ready": True,
                "restartCount": 0,
                "image": "none:1",
                "imageID": "sha256:" + "0" * 64,
                "containerID": "containerd://" + "NUMBER".ljust(64, "0"),
                "state": {"running": {"startedAt": times}},
            }
        ],
    }
    metadata = {
        "name": "job-NUMBER-main-0",
        "namespace": NAMESPACE,
        "labels": _labels(),
        "managedFields": [{"manager": "kubelet", "fieldsV1": {f"f:field{number}": {} for number in range(60)}}],
    }
    return {
        "metadata": metadata,
        "spec": {"nodeName": "node-1", "restartPolicy": "Never", "containers": [container]},
        "status": status,
    }


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
