"""What programs keep of our Python values: handles, statuses as JSON, records of calls, ids and digests of keys."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from asyncsched import Runner
from asyncsched.schedulers import get_scheduler
from asyncsched.specs import (
    AppDef,
    AppHandle,
    AppState,
    AppStatus,
    BindMount,
    ReplicaStatus,
    Resource,
    Role,
    RoleStatus,
    VolumeMount,
    make_app_handle,
)
from tests.formats._frozen import KEYS

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

FULL = AppDef(
    "full",
    [
        Role(
            "trainer",
            "image:1",
            entrypoint="python",
            args=["-m", "train", "--id", "${app_id}"],
            env={"API_TOKEN": "marker-of-a-secret", "PLAIN": "value"},
            num_replicas=2,
            max_retries=3,
            resource=Resource(cpu=2, gpu=1, memMB=1024, capabilities={"arch": "x"}, devices={"vendor/efa": 1}),
            port_map={"http": 8080},
            metadata={"note": 1},
            mounts=[BindMount("/src", "/dst", read_only=True), VolumeMount("disk", "/data")],
        ),
        Role("reader", "image:2", entrypoint="cat"),
    ],
    metadata={"team": "paint"},
)
"""An app in which every field that enters the digest is used."""

OPTIONS: dict[str, dict[str, Any]] = {"local_cwd": {}, "local_docker": {}, "aws_batch": {"queue": "torchx"}}


def status() -> AppStatus:
    """A status in which every field says something."""
    ended = ReplicaStatus(
        0,
        AppState.FAILED,
        "trainer",
        "host",
        '{"message": {}}',
        exit_code=-9,
        signal=9,
        reason="killed by SIGKILL",
        num_restarts=2,
        started_at=NOON,
        finished_at=NOON + timedelta(seconds=1.5),
    )
    waits = ReplicaStatus(0, AppState.PENDING, "reader", "")
    roles = [RoleStatus("trainer", [ended]), RoleStatus("reader", [waits])]
    return AppStatus(AppState.RUNNING, 1, "trainer/0: killed", '{"message": {}}', "http://page", roles)


def values() -> dict[str, Any]:
    """Return what is kept of values that are made without a scheduler."""
    handles = ["local_cwd://session/app-1", "aws_batch:///queue:app", str(make_app_handle("local_docker", "me", "a"))]
    parsed = {each: AppHandle(each) for each in handles}
    return {
        "handles": {text: [each.scheduler, each.session, each.app_id] for text, each in parsed.items()},
        "states": {each.name: each.value for each in AppState},
        "status": status().to_json(),
        "status of one role": status().to_json(["reader"]),
    }


async def keyed() -> dict[str, dict[str, str]]:
    """Return the id and the digest by which an app with a key is known again, on each scheduler."""
    found: dict[str, dict[str, str]] = {}
    for name, options in OPTIONS.items():
        async with get_scheduler(name, "session") as scheduler:
            app = FULL if name == "local_cwd" else AppDef("app", [Role("main", "image:1", entrypoint="true")])
            info = await scheduler.submit_dryrun(app, options, key=KEYS)
            found[name] = {"app_id": info.app_id, "digest": info.digest}
    return found


async def records(home: Path) -> list[dict[str, Any]]:
    """Return the fields of the records that a runner's calls have left in the log."""
    told: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = told.append  # type: ignore[method-assign, assignment]  # the shortest handler there is
    logger = logging.getLogger("asyncsched.events")
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    os.environ["ASYNCSCHED_HOME"] = str(home)
    try:
        async with Runner("session") as runner:
            await runner.list("local_cwd")
            await runner.status("local_cwd://session/nobody")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    usual = logging.makeLogRecord({}).__dict__.keys() | {"message", "asctime", "taskName"}
    return [{key: value for key, value in each.__dict__.items() if key not in usual} for each in told]


async def everything(home: Path) -> dict[str, Any]:
    """Return all of this, as JSON has it."""
    found = {**values(), "keyed": await keyed(), "records": await records(home)}
    return dict(json.loads(json.dumps(found)))
