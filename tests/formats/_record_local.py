"""Runs local apps of every kind, and freezes the state directory that they leave."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from asyncsched.schedulers import get_scheduler
from asyncsched.specs import AppDef, Resource, Role
from tests._support import eventually
from tests.formats._frozen import HOME, KEYS

SECRET = "marker-of-a-secret"
NOON = 1_767_268_800_000_000_000
"""When the first thing happens, in ns: noon of the first day of 2026."""

STEP = 10_000_000
HOUR = 3_600_000_000_000
RECORD = struct.Struct("<QQIBBH")
"""Of an index, written down once more: whoever changes it breaks what is on the disks of users."""

PLACE = {"host": "frozen-host", "boot_id": "11111111-2222-3333-4444-555555555555", "pid_namespace": "pid:[4026531836]"}
ERROR = {"message": {"message": "RuntimeError: out of paint", "extraInfo": {"timestamp": "1767268800"}}}

TRAINER = """
echo "rank ${replica_id} says hello"; echo "and complains" >&2
[ "${replica_id}" = 0 ] && { printf 'no newline at the end'; exit 0; }
printf '%s' '@ERROR@' > "$TORCHELASTIC_ERROR_FILE"; exit 3
"""


def shell(name: str, script: str, **more: Any) -> Role:
    return Role(name, "", entrypoint="/bin/sh", args=["-c", script], **more)


def finished() -> AppDef:
    trainer = shell(
        "trainer",
        TRAINER.replace("@ERROR@", json.dumps(ERROR)),
        num_replicas=2,
        env={"API_TOKEN": SECRET, "PLAIN": "value"},
        resource=Resource(cpu=2, gpu=1, memMB=512),
        max_retries=1,
    )
    server = shell("server", "echo serving; kill -9 $$")
    return AppDef("finished", [trainer, server], metadata={"team": "paint", "api_key": SECRET})


SLEEPS = "trap 'echo ending; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
FLOOD = "i=0; while [ $i -lt 900 ]; do echo line $i of those that are many; i=$((i+1)); done"

APPS: Mapping[str, tuple[AppDef, dict[str, Any]]] = {
    "finished": (finished(), {}),
    "cancelled": (AppDef("cancelled", [shell("worker", SLEEPS, num_replicas=2)]), {"grace_period": 5.0}),
    "killed": (AppDef("killed", [shell("worker", f"trap '' TERM; {SLEEPS[SLEEPS.index('echo ready') :]}")]), {}),
    "merged": (AppDef("merged", [shell("worker", "echo out; echo err >&2; echo out again")]), {"merge_streams": True}),
    "rotated": (AppDef("rotated", [shell("worker", FLOOD)]), {"max_log_bytes": 16 << 10}),
    "stopped": (
        AppDef("stopped", [shell("worker", "sleep 0.2; exit 7"), shell("other", "exec sleep 3600")]),
        {"on_failure": "stop"},
    ),
    "kept": (AppDef("kept", [shell("worker", "echo out; echo err >&2")]), {"log_dir": "@LOGS@"}),
    "closed": (AppDef("closed", [shell("worker", "echo ready; exec sleep 3600")]), {"grace_period": 5.0}),
}
KEYED = AppDef("keyed", [shell("worker", "echo once", env={"API_TOKEN": SECRET})], metadata={"team": "paint"})
KEYED_OPTIONS = {"grace_period": 3.0, "env": {"COLOR": "red"}}
DETACHED = AppDef("detached", [shell("worker", SLEEPS, num_replicas=2)])


def option(options: Mapping[str, Any], logs: Path) -> dict[str, Any]:
    return {key: str(logs) if value == "@LOGS@" else value for key, value in options.items()}


async def record_home(target: Path) -> None:
    """Run everything in a directory of its own, and write what is left to `target`, normalised."""
    with tempfile.TemporaryDirectory(prefix="asyncsched-formats-") as name:
        home, logs = Path(name, "home"), Path(name, "home", "kept-logs")
        before = os.environ.get("ASYNCSCHED_HOME")
        os.environ["ASYNCSCHED_HOME"] = str(home)
        try:
            running, ended = await _run_all(home, logs)
        finally:
            os.environ.pop("ASYNCSCHED_HOME")
            if before is not None:
                os.environ["ASYNCSCHED_HOME"] = before
        shutil.rmtree(target, ignore_errors=True)
        _freeze(home, target / "home", running, ended)


async def _run_all(home: Path, logs: Path) -> tuple[bytes, bytes]:
    """Return the record of the detached app while it ran, and after its end."""
    async with get_scheduler("local_cwd", "session") as scheduler:
        ids = {name: await scheduler.submit(app, option(opts, logs)) for name, (app, opts) in APPS.items()}
        info = await scheduler.submit_dryrun(KEYED, KEYED_OPTIONS, key=KEYS)
        await scheduler.schedule(info)
        detached = await scheduler.submit(DETACHED, {"detach": True})
        for app_id in (ids["cancelled"], ids["killed"], ids["closed"], detached):
            await eventually(partial(_is_ready, home, app_id))
        running = (home / "apps" / detached / "state.json").read_bytes()
        log = {path: path.read_bytes() for path in (home / "apps" / detached).rglob("*") if path.is_file()}
        await scheduler.cancel(ids["cancelled"])
        await scheduler.kill(ids["killed"])  # not in the contract, but local's
        for name, app_id in ids.items():
            if name != "closed":
                await eventually(partial(_is_over, home, app_id))
        await eventually(lambda: _is_over(home, info.app_id))
    async with get_scheduler("local_cwd", "session") as scheduler:
        await scheduler.cancel(detached)
        ended = await eventually(lambda: _is_over(home, detached))
    for path, data in log.items():
        path.write_bytes(data)
    return running, ended


def _is_ready(home: Path, app_id: str) -> bool:
    logs = list((home / "apps" / app_id).rglob("stdout.log"))
    return bool(logs) and all(path.read_bytes() == b"ready\n" for path in logs)


def _is_over(home: Path, app_id: str) -> bytes:
    record = (home / "apps" / app_id / "state.json").read_bytes()
    return record if json.loads(record)["finished_ns"] is not None else b""


def _freeze(home: Path, target: Path, running: bytes, ended: bytes) -> None:
    shutil.copytree(home, target, ignore=lambda _, names: [each for each in names if each == "supervisors"])
    detached = json.loads(running)["app_id"]
    (target / "apps" / detached / "state.json").write_bytes(running)
    (target.parent / "detached-ended.json").write_bytes(ended)
    pids = Numbers(1001)
    for hour, app in enumerate(sorted((target / "apps").iterdir(), key=lambda path: path.name)):
        state = app / "state.json"
        more = [target.parent / "detached-ended.json"] if app.name == detached else []
        indexes = sorted(app.rglob("index*"))
        normalise([state, *more], indexes, home, pids, NOON + hour * HOUR)
        new = app.name.rpartition("-")[0] or app.name
        if json.loads(state.read_text())["name"] == "keyed":
            continue  # the id says what the key is
        rename(app, f"{new}-0123456789abc", [state, *more], target)
    check_no_secret(target.parent)


class Numbers:
    """Gives small numbers for those that the machine has given."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._known: dict[int, int] = {}

    def __call__(self, number: int) -> int:
        return self._known.setdefault(number, self._first + len(self._known))


def normalise(records: Iterable[Path], indexes: Iterable[Path], home: Path, pids: Numbers, first: int) -> None:
    """Replace times by even steps in the same order, process numbers by small ones, and paths by a placeholder."""
    documents = {path: json.loads(path.read_text().replace(str(home), HOME)) for path in records}
    chunks = {path: list(RECORD.iter_unpack(path.read_bytes())) for path in indexes}
    times = {chunk[0] for found in chunks.values() for chunk in found}
    times |= set(times_of(list(documents.values())))
    even = {ns: first + number * STEP for number, ns in enumerate(sorted(times))}
    for path, document in documents.items():
        path.write_text(json.dumps(normalised(document, even, pids), indent=1) + "\n")
    for path, found in chunks.items():
        path.write_bytes(b"".join(RECORD.pack(even[ns], *rest) for ns, *rest in found))


def times_of(value: Any) -> Iterable[int]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from [item] if key.endswith("_ns") and item is not None else times_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from times_of(item)


def normalised(value: Any, even: Mapping[int, int], pids: Numbers) -> Any:
    """Return a document without what is different in every run."""
    if isinstance(value, list):
        return [normalised(item, even, pids) for item in value]
    if not isinstance(value, dict):
        return value
    if "boot_id" in value:
        return dict(PLACE)
    made = {key: normalised(item, even, pids) for key, item in value.items()}
    for key, item in value.items():
        if key.endswith("_ns") and item is not None:
            made[key] = even[item]
        elif key in ("pid", "watcher_pid"):
            made[key] = pids(item)
        elif key in ("start", "watcher_start"):
            made[key] = 10 * made[key.replace("start", "pid")]
    if "socket" in made:
        made["socket"] = (
            f"supervisors/{made['pid']}-{made['start']}.sock"
            if "/" in made["socket"]
            else (f"{made['pid']}-{made['start']}.sock")
        )
    return made


def rename(app: Path, name: str, records: Iterable[Path], target: Path) -> None:
    """Give an app an id that is the same in every run."""
    for path in [*records, *app.rglob("error.json")]:
        path.write_text(path.read_text().replace(app.name, name))
    kept = target / "kept-logs" / "session" / app.name
    if kept.exists():
        kept.rename(kept.with_name(name))
    app.rename(app.with_name(name))


def check_no_secret(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and SECRET.encode() in path.read_bytes():
            raise SystemExit(f"{path} holds a secret")


if __name__ == "__main__":
    import sys

    asyncio.run(record_home(Path(sys.argv[1]) / "local"))
