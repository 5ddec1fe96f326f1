"""Freezes what supervisors and their clients say to each other: every request and every kind of answer."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asyncsched.errors import AsyncSchedError, ConflictError
from asyncsched.schedulers import get_scheduler
from asyncsched.specs import AppDef, Role
from tests._support import eventually
from tests.formats import _tee
from tests.formats._frozen import HOME
from tests.formats._record_local import NOON, PLACE, SLEEPS, STEP, Numbers, times_of

SMALL = {"copy_env": ["NOTHING"], "grace_period": 5.0}
QUICK = AppDef("quick", [Role("worker", "", entrypoint="/bin/sh", args=["-c", "echo out; exit 3"])])
LONG = AppDef("long", [Role("worker", "", entrypoint="/bin/sh", args=["-c", SLEEPS], num_replicas=2)])
ABSENT = AppDef("absent", [Role("worker", "", entrypoint="no-such-program")])


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


async def record_protocol(target: Path) -> None:
    """Record each conversation and write it to `target`."""
    target.mkdir(exist_ok=True)
    for name, converse in (("owner", _owner), ("visitor", _visitor), ("others", _others)):
        with tempfile.TemporaryDirectory(prefix="asyncsched-formats-") as folder:
            home, said = Path(folder, "home"), Path(folder, "said.jsonl")
            said.touch()
            interpreter = sys.executable
            wrapper = Path(folder, "python")
            wrapper.write_text(f'#!/bin/sh\nexec {interpreter} {_tee.__file__} "$@"\n')
            wrapper.chmod(0o700)
            with _environment(
                ASYNCSCHED_HOME=str(home),
                FORMATS_TRANSCRIPT=str(said),
                FORMATS_PYTHON=interpreter,
                PATH="/usr/bin:/bin",
            ):
                sys.executable = str(wrapper) if name == "owner" else interpreter
                os.chdir(folder)
                try:
                    await converse(home, said)
                finally:
                    sys.executable = interpreter
                    os.chdir("/")
            (target / f"{name}.jsonl").write_text(_normalised(said.read_text(), Path(folder)))


async def _owner(home: Path, said: Path) -> None:
    """What the one who has started a supervisor says: all that a scheduler does with apps of its own."""
    async with get_scheduler("local_cwd", "session") as scheduler, get_scheduler("local_cwd", "session") as again:
        info = await scheduler.submit_dryrun(QUICK, SMALL, key="quick")
        await scheduler.schedule(info)
        await again.schedule(info)  # "exists"
        other = await again.submit_dryrun(LONG, SMALL, key="quick")
        try:
            await again.schedule(other)
        except ConflictError:
            pass
        try:
            await scheduler.submit(ABSENT, SMALL)
        except AsyncSchedError:
            pass
        long = await scheduler.submit(LONG, SMALL)
        await eventually(lambda: len([*(home / "apps" / long).rglob("stdout.log")]) == 2)
        await scheduler.describe(long)
        await scheduler.cancel(long)
        async with scheduler.watch([long, info.app_id]) as watch:
            async for _ in watch:
                pass
        submitting = asyncio.ensure_future(scheduler.submit(LONG, SMALL))
        before = said.stat().st_size
        await eventually(lambda: '"submit"' in said.read_text()[before:])
        submitting.cancel()  # "kill" and "forget"
        await asyncio.wait([submitting])


async def _visitor(home: Path, said: Path) -> None:
    """What another process says to the supervisor of a detached app."""
    async with get_scheduler("local_cwd", "session") as starter:
        app_id = await starter.submit(LONG, SMALL | {"detach": True})
        killed = await starter.submit(LONG, SMALL | {"detach": True})
    for each in (app_id, killed):
        with _between(home, each, said):
            async with get_scheduler("local_cwd", "session") as scheduler:
                async with scheduler.watch([each]) as watch:
                    await anext(watch)
                    await scheduler.list()
                    await scheduler.describe(each)
                    await (scheduler.cancel(each) if each == app_id else scheduler.kill(each))
                    async for _ in watch:
                        pass


@contextmanager
def _between(home: Path, app_id: str, said: Path) -> Iterator[None]:
    """Listen to all who come in by the socket of an app's supervisor."""
    name = json.loads((home / "apps" / app_id / "state.json").read_text())["supervisor"]["socket"]
    path = home / "supervisors" / name
    behind = path.rename(path.with_name("behind"))
    here = os.open(path.parent, os.O_RDONLY)
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"/proc/self/fd/{here}/{name}")
    server.listen()

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            supervisor = socket.socket(socket.AF_UNIX)
            supervisor.connect(f"/proc/self/fd/{here}/{behind.name}")
            threading.Thread(target=_listen, args=(client, supervisor, said), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    path.unlink(missing_ok=True)
    behind.unlink(missing_ok=True)


def _listen(client: socket.socket, supervisor: socket.socket, said: Path) -> None:
    with client, supervisor, said.open("a") as transcript:
        _tee.pass_on(client, supervisor, transcript)


async def _others(home: Path, said: Path) -> None:
    """What a client of another release may say, and is told."""
    async with get_scheduler("local_cwd", "session") as starter:
        app_id = await starter.submit(LONG, SMALL)
        (path,) = (home / "supervisors").iterdir()
        reader, writer = await asyncio.open_unix_connection(str(path))
        requests: list[dict[str, Any]] = [
            {"op": "hello", "protocol": 99},
            {"op": "hello"},
            {"op": "dance"},
            {"op": "submit", "app": _spec(app_id)},
            {"op": "describe"},
            {"op": "describe", "app_ids": ["nobody"]},
            {"op": "cancel", "app_id": "nobody"},
            {"op": "kill", "app_id": "nobody"},
            {"op": "forget", "app_id": app_id},
            {"op": "forget", "app_id": "nobody"},
            {"op": "stop"},
        ]
        with said.open("a") as transcript:
            for number, request in enumerate(requests, 1):
                message = {**request, "n": number}
                writer.write(json.dumps(message).encode() + b"\n")
                answer = json.loads(await reader.readline())
                for who, what in (("client", message), ("supervisor", answer)):
                    transcript.write(json.dumps({"talk": "others", who: what}) + "\n")
        writer.close()


def _spec(app_id: str) -> dict[str, Any]:
    return {
        "app_id": app_id, "dir": app_id, "session": "", "name": "", "digest": "", "detach": False, "grace_period": 1.0,
        "merge_streams": False, "on_failure": "continue", "max_log_bytes": 1 << 20, "env": {}, "spec": {},
        "log_dir": "", "replicas": [],
    }  # fmt: skip


def _normalised(text: str, folder: Path) -> str:
    lines = [
        json.loads(line) for line in text.replace(f"{folder}/home", HOME).replace(str(folder), "@CWD@").splitlines()
    ]
    even = {ns: NOON + number * STEP for number, ns in enumerate(sorted(set(times_of(lines))))}
    pids = Numbers(1001)
    talks = [*dict.fromkeys(line["talk"] for line in lines if line["talk"])]
    for line in lines:
        line["talk"] = talks.index(line["talk"]) + 1 if line["talk"] else 0

    def made(value: Any) -> Any:
        if isinstance(value, list):
            return [made(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "boot_id" in value:
            return dict(PLACE)
        new = {key: made(item) for key, item in value.items()}
        for key, item in value.items():
            if key.endswith("_ns") and item is not None:
                new[key] = even[item]
            elif key in ("pid", "watcher_pid"):
                new[key] = pids(item)
        for key in ("start", "watcher_start"):
            if key in new:
                new[key] = 10 * new[key.replace("start", "pid")]
        if "socket" in new:
            new["socket"] = f"{new['pid']}-{new['start']}.sock"
        return new

    return "".join(json.dumps(made(line)) + "\n" for line in lines)


if __name__ == "__main__":
    asyncio.run(record_protocol(Path(sys.argv[1]).absolute() / "protocol"))
