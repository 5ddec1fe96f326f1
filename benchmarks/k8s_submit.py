"""What it costs to submit five thousand replicas, and two hundred apps at a time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

import aiohttp

from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.schedulers.kubernetes.request import to_wire
from asyncsched.specs import AppDef, Role
from benchmarks._harness import ROUNDS, Claim, Count, at_most, in_turns_on_loop
from benchmarks._kubernetes import Fake, fake
from tests.services.kubernetes.api import Api

REPLICAS = 5_000
APPS = 200
AT_ONCE = 32
"""Calls that ours has on their way at a time, and so the reference."""

LARGEST = 1_500_000
"""Bytes of an object that etcd keeps."""

LARGE, SMALL = "an app of 5,000 replicas", "an app of one replica"
OURS, BARE = "asyncsched", "a bare loop that posts the same bodies"
CFG = {"namespace": "default", "kind": "volcano", "queue": "default"}


async def claims() -> AsyncIterator[Claim]:
    """Make requests of any size, then send many to a server that only keeps them."""
    with fake(runs_pods=False) as cluster:
        async with KubernetesScheduler("bench", kubeconfig=cluster.kubeconfig) as scheduler:
            many, one = app(REPLICAS), app(1)
            await scheduler.submit_dryrun(one, CFG)  # finds the kinds, once
            built = await in_turns_on_loop(
                {LARGE: partial(_build, scheduler, many), SMALL: partial(_build, scheduler, one)}, ROUNDS
            )
            detail = built.told(1e3, "ms")
            yield at_most(f"CPU to build {LARGE}", built.ratio(LARGE, SMALL), 3.0, detail=detail)
            size = len(json.dumps(await _body(scheduler, many)))
            yield at_most(f"request of {LARGE}", Count(number=size, of="bytes"), LARGEST // 100)
            taken = await in_turns_on_loop(
                {OURS: partial(_submit, scheduler, one), BARE: partial(_post, cluster, await _body(scheduler, one))},
                ROUNDS,
            )
            name, detail = f"{APPS} submits at a time", taken.told(1, "s")
            yield at_most(f"{name}: time", taken.ratio(OURS, BARE), 3.0, detail=detail)
            calls = await _calls(cluster, scheduler, one)
            yield at_most(name, Count(number=calls, of="requests"), APPS)


def app(replicas: int) -> AppDef:
    """Return an app of one role."""
    role = Role("main", "none:1", entrypoint="python", args=["-m", "train", "--rank", "${replica_id}"])
    role.num_replicas = replicas
    return AppDef("bench", [role])


async def _build(scheduler: KubernetesScheduler, job: AppDef) -> float:
    began = time.process_time()
    await scheduler.submit_dryrun(job, CFG)
    return time.process_time() - began


async def _body(scheduler: KubernetesScheduler, job: AppDef) -> Mapping[str, Any]:
    info = await scheduler.submit_dryrun(job, CFG)
    return to_wire(info.request, info.app_id, info.digest).job


async def _submit(scheduler: KubernetesScheduler, job: AppDef) -> float:
    began = time.monotonic()
    await asyncio.gather(*(scheduler.submit(job, CFG) for _ in range(APPS)))
    return time.monotonic() - began


async def _post(cluster: Fake, body: Mapping[str, Any]) -> float:
    """Post as many bodies under names of their own."""
    import pathlib

    api = Api(pathlib.Path(cluster.kubeconfig))
    token = api.config()["users"][0]["user"]["token"]
    url = f"{api.server.geturl()}/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
    turns = asyncio.Semaphore(AT_ONCE)

    async def post(session: aiohttp.ClientSession, name: str) -> None:
        own = {**body, "metadata": {**body["metadata"], "name": name}}
        async with turns, session.post(url, json=own, ssl=api.context) as answer:
            assert 201 == answer.status, await answer.text()

    began = time.monotonic()
    names: Sequence[str] = [f"bare-{time.monotonic_ns()}-{number}" for number in range(APPS)]
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        await asyncio.gather(*(post(session, name) for name in names))
    return time.monotonic() - began


async def _calls(cluster: Fake, scheduler: KubernetesScheduler, job: AppDef) -> int:
    cluster.calls()
    await _submit(scheduler, job)
    return sum(cluster.calls().values())
