"""What it costs to cancel many apps that another process has submitted."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from pathlib import Path

from asyncsched.schedulers.local import LocalScheduler
from asyncsched.schedulers.local.supervisor.control import answer_hello
from asyncsched.schedulers.local.supervisor.lines import encode
from tests.local._local import ONE_LOOP, Other, app, app_directory, ended, read_state, shell, start_of, write_state

pytestmark = ONE_LOOP

COUNT = 1000

CANCELS = """
    opened = []
    sys.addaudithook(lambda what, args: what == "open" and str(args[0]).endswith("state.json") and opened.append(1))
    async def main():
        async with LocalScheduler("another") as scheduler:
            told = await scheduler.cancel_many(sys.argv[1:])
            say(json.dumps([[app_id for app_id in told if told[app_id] is None], len(opened)]))
    asyncio.run(main())
"""
"""Cancels apps; tells which of them without an error, and how many records it has opened."""


class CountingSupervisor:
    """Leads all apps of a state directory, and counts what it is asked.

    Attributes:
        cancelled: The apps whose end it was asked for.
        asked: How often it was asked, by operation.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self.cancelled: list[str] = []
        self.asked: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            message = json.loads(line)
            self.asked[message["op"]] += 1
            writer.write(encode({"re": message["n"], **self._answer(message)}))
        writer.close()

    def _answer(self, message: dict[str, object]) -> dict[str, object]:
        match message:
            case {"op": "describe", "app_ids": [*app_ids]}:
                return {"apps": [read_state(self._home, str(app_id)) for app_id in app_ids]}
            case {"op": "cancel", "app_id": app_id}:
                self.cancelled.append(str(app_id))
                return {"known": True}
            case _:
                return answer_hello(message)


async def lead_by_us(scheduler: LocalScheduler, home: Path) -> list[str]:
    """Make the records of many apps that run under a supervisor of this process."""
    like = await scheduler.submit(app(shell("exit 0")))
    await ended(scheduler, like)
    record = read_state(home, like)
    record["finished_ns"] = None
    record["supervisor"] |= {"socket": "x.sock", "pid": os.getpid(), "start": start_of(os.getpid())}
    ids = [f"job-{number}" for number in range(COUNT)]
    for app_id in ids:
        app_directory(home, app_id).mkdir()
        write_state(home, app_id, {**record, "app_id": app_id})
    return ids


async def test_a_thousand_apps_are_asked_about_in_few_requests(scheduler: LocalScheduler, home: Path) -> None:
    ids = await lead_by_us(scheduler, home)
    supervisor = CountingSupervisor(home)
    path = home / "supervisors/x.sock"
    async with await asyncio.start_unix_server(supervisor.serve, path):
        with Other(CANCELS, *ids) as other:
            told, opened = json.loads(await other.heard())
    path.unlink(missing_ok=True)

    assert ids == told
    assert sorted(ids) == sorted(supervisor.cancelled)
    assert COUNT == opened, "each record is read once"
    # One greeting for each connection: each request that ends an app has one.
    assert {"hello": COUNT + 10, "describe": 10, "cancel": COUNT} == supervisor.asked
