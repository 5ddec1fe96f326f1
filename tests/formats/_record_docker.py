"""Runs containers of every kind on a daemon of the tests' own, and freezes what the daemon tells of them."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.parse
from functools import partial
from pathlib import Path
from typing import Any

from asyncsched.schedulers import Scheduler, get_scheduler
from asyncsched.specs import AppDef, AppState, Resource, Role
from tests._support import eventually
from tests.formats._docker import KEYED, OPTIONS, told
from tests.formats._frozen import KEYS
from tests.formats._record_local import SECRET
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd, new_dockerd

FOREVER = "trap 'exit 0' TERM; while :; do sleep 0.05; done"


def shell(name: str, script: str, **more: Any) -> Role:
    return Role(name, BUSYBOX_IMAGE, entrypoint="sh", args=["-c", script], **more)


TRAINER = shell(
    "trainer",
    "echo rank ${replica_id}; exit ${replica_id}",
    num_replicas=2,
    env={"API_TOKEN": SECRET, "PLAIN": "value"},
    resource=Resource(cpu=1, gpu=0, memMB=64),
    port_map={"http": 8080},
)
APPS = {
    "finished": AppDef("finished", [TRAINER, shell("server", "exit 137")], metadata={"team": "paint"}),
    "retried": AppDef("retried", [shell("worker", "echo again; exit 3", max_retries=2)]),
    "cancelled": AppDef("cancelled", [shell("worker", FOREVER)]),
    "running": AppDef("running", [shell("worker", FOREVER, num_replicas=2)]),
}


async def record_docker(target: Path) -> None:
    """Write what the daemon tells of some apps, and what we make of it, to `target`."""
    target.mkdir(exist_ok=True)
    with new_dockerd() as daemon:
        os.environ["DOCKER_HOST"] = daemon.host
        try:
            async with get_scheduler("local_docker", "session") as scheduler:
                ids = await _run_all(scheduler)
                answers = _freeze(daemon)
                described = await told(scheduler, sorted(ids))
                for app_id in ids:
                    await scheduler.cancel(app_id)
        finally:
            del os.environ["DOCKER_HOST"]
    (target / "daemon.json").write_text(json.dumps(answers, indent=1) + "\n")
    (target / "told.json").write_text(json.dumps(described, indent=1) + "\n")


async def _run_all(scheduler: Scheduler) -> list[str]:
    ids = {name: await scheduler.submit(app, {}) for name, app in APPS.items()}
    info = await scheduler.submit_dryrun(KEYED, OPTIONS, key=KEYS)
    await scheduler.schedule(info)
    await eventually(lambda: _has_state(scheduler, ids["cancelled"], AppState.RUNNING), within=60)
    await scheduler.cancel(ids["cancelled"])
    for app_id in (ids["finished"], ids["retried"], ids["cancelled"], info.app_id):
        await eventually(partial(_has_ended, scheduler, app_id), within=60)
    return [*ids.values(), info.app_id]


async def _has_state(scheduler: Scheduler, app_id: str, state: AppState) -> bool:
    answer = await scheduler.describe(app_id)
    return answer is not None and answer.state is state


async def _has_ended(scheduler: Scheduler, app_id: str) -> bool:
    answer = await scheduler.describe(app_id)
    return answer is not None and answer.state.is_terminal()


def _freeze(daemon: Dockerd) -> dict[str, Any]:
    api = daemon.api
    filters = urllib.parse.quote(json.dumps({"label": ["asyncsched.app-id"]}))
    listed = api.json("GET", f"/containers/json?all=1&filters={filters}")
    inspected = {entry["Id"]: api.json("GET", f"/containers/{entry['Id']}/json") for entry in listed}
    for container in inspected.values():
        for name in ("LogPath", "HostnamePath", "HostsPath", "ResolvConfPath", "GraphDriver"):
            container.pop(name, None)  # where this daemon keeps things
        container["NetworkSettings"].pop("SandboxKey", None)
        container["Config"]["Env"] = [each.replace(SECRET, "***") for each in container["Config"]["Env"]]
    version = {
        key: api.json("GET", "/version")[key] for key in ("Version", "ApiVersion", "MinAPIVersion", "Os", "Arch")
    }
    return {"version": version, "containers": listed, "inspected": inspected}


if __name__ == "__main__":
    import sys

    asyncio.run(record_docker(Path(sys.argv[1]).absolute() / "docker"))
