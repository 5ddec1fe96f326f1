"""Supervisors that hang, lie or talk nonsense, and apps that go away while they are looked at."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from asyncsched.errors import AsyncSchedError, ConflictError, SchedulerError, UnavailableError
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.schedulers.local.client_connection import connect
from asyncsched.schedulers.local.supervisor.control import refuse
from asyncsched.specs import AppState
from tests._support import WITHIN, eventually, held_up
from tests.local._local import (
    ONE_LOOP,
    app,
    app_directory,
    ended,
    first,
    lives,
    read,
    read_state,
    shell,
    start_of,
    texts,
    write_state,
)

WAITS = "echo ready; exec sleep 1000"


async def test_a_supervisor_that_hangs_is_an_error_in_time(scheduler: LocalScheduler, home: Path) -> None:
    app_id = await scheduler.submit(app(shell(WAITS)))
    await first(scheduler, app_id)
    pid = read_state(home, app_id)["supervisor"]["pid"]
    async with LocalScheduler("another") as another:
        try:
            with held_up(pid):
                for each in (scheduler, another):
                    each.retry_for = 0.2
                    for asked in (each.describe(app_id), each.cancel(app_id)):
                        with pytest.raises(UnavailableError, match=r"took more than 0\.2 s"):
                            await asked
        finally:
            scheduler.retry_for = another.retry_for = 30.0

        found = await another.describe(app_id)
        assert found is not None


async def test_closing_does_not_wait_for_ever_for_a_supervisor_that_hangs(home: Path) -> None:
    async with LocalScheduler("session") as scheduler:
        app_id = await scheduler.submit(app(shell(WAITS)), {"grace_period": 0.2})
        scheduler.cleanup_timeout = 0.3
        record = read_state(home, app_id)
        with held_up(record["supervisor"]["pid"]):
            async with asyncio.timeout(WITHIN):
                await scheduler.close()

    # It hears of it when it goes on, and ends what it had to end.
    await eventually(lambda: not lives(record["replicas"][0]["pid"]))


@contextmanager
def _impostor(path: Path, answer: Callable[[socket.socket], None]) -> Iterator[None]:
    """Sit at a supervisor's socket and do something to all who come in."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def serve() -> None:
        while True:
            try:
                visitor, _ = listening.accept()
            except OSError:
                return
            with visitor:
                answer(visitor)

    thread = threading.Thread(target=serve, name="asyncio_impostor")
    thread.start()
    try:
        yield
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
        path.unlink()


NONSENSE = {
    "nothing": b"",
    "no JSON": b"nonsense\n",
    "no object": b"[1, 2]\n",
    "no answer": b'{"re":1}\n',
    "bytes": b"\xff\xfe\0\n",
    "an event of nothing": b'{"event":"app"}\n',
    "half a line": b'{"re":1,"supervi',
    "a refusal": b'{"re":1,"error":"internal","message":"KeyError"}\n',
}


@ONE_LOOP
@pytest.mark.parametrize("what", NONSENSE)
async def test_nonsense_from_a_supervisor_is_an_error(
    scheduler: LocalScheduler, home: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    app_id = await _led_by_an_impostor(scheduler, home)

    def answer(visitor: socket.socket) -> None:
        visitor.recv(4096)
        visitor.sendall(NONSENSE[what])

    monkeypatch.chdir(home)
    with _impostor(Path("supervisors/x.sock"), answer):
        async with LocalScheduler("another") as another:
            another.retry_for = 5.0
            try:
                found = await another.describe(app_id)
            except AsyncSchedError:
                return
            # It has said nothing that could be used: what is on the disk is all that is known.
            assert found is not None


async def _led_by_an_impostor(scheduler: LocalScheduler, home: Path) -> str:
    app_id = await scheduler.submit(app(shell("echo hello")))
    await ended(scheduler, app_id)
    record = read_state(home, app_id)
    record["finished_ns"] = None
    record["supervisor"] |= {"socket": "x.sock", "pid": os.getpid(), "start": start_of(os.getpid())}
    write_state(home, app_id, record)
    return app_id


@ONE_LOOP
async def test_a_supervisor_that_cannot_work_says_why() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        refusing = asyncio.create_task(
            asyncio.to_thread(refuse, theirs, "in its state directory: No space left on device", errno.ENOSPC)
        )
        connection = await connect(ours, lambda app_id, message: None, lambda: None)
        refusing.add_done_callback(lambda _: theirs.shutdown(socket.SHUT_RDWR))  # as its process ends then
        with pytest.raises(UnavailableError, match="cannot work") as caught:
            await connection.greet()
        await refusing
        connection.close()

    assert ("in its state directory: No space left on device", "start") == (caught.value.why, caught.value.operation)
    assert "free some disk space" in caught.value.fix


# Apps that go away


async def test_an_app_that_is_deleted_while_its_log_is_read(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(shell("for n in 1 2 3; do echo $n; done")))
    await ended(scheduler, app_id)
    lines = scheduler.log_iter(app_id, should_tail=True)
    assert "1\n" == await anext(lines)

    await scheduler.delete(app_id)

    async with asyncio.timeout(WITHIN):
        try:
            assert ["2\n", "3\n"] == [line async for line in lines if line.gap is None]
        except AsyncSchedError:
            pass
    with pytest.raises(LookupError):
        await read(scheduler, app_id)


async def test_an_app_that_is_deleted_elsewhere_while_it_is_watched(scheduler: LocalScheduler, home: Path) -> None:
    app_id = await scheduler.submit(app(shell(WAITS)))
    async with scheduler.watch([app_id]) as watch:
        assert AppState.RUNNING is (await anext(watch)).state
        async with LocalScheduler("another") as another:
            await another.kill(app_id)
            await ended(another, app_id)
            await another.delete(app_id)
        async with asyncio.timeout(WITHIN):
            last = [event async for event in watch][-1]

    assert last.gone or last.state is AppState.CANCELLED
    assert not app_directory(home, app_id).exists()


@ONE_LOOP
async def test_a_supervisor_that_does_not_know_what_is_asked_for(
    scheduler: LocalScheduler, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app_id = await _led_by_an_impostor(scheduler, home)

    def answer(visitor: socket.socket) -> None:
        with visitor.makefile("rwb") as file:
            for line in file:
                message = json.loads(line)
                known = {
                    "hello": {"protocol": message.get("protocol"), "supervisor": {}},
                    "describe": {"apps": [read_state(home, app_id)]},
                }
                refused = {"error": "unknown", "message": f"unknown operation {message['op']!r}"}
                said = {"re": message["n"], **known.get(message["op"], refused)}
                file.write(json.dumps(said, separators=(",", ":")).encode() + b"\n")
                file.flush()

    monkeypatch.chdir(home)
    with _impostor(Path("supervisors/x.sock"), answer):
        async with LocalScheduler("another") as another:
            found = await another.describe(app_id)
            assert found is not None
            with pytest.raises(SchedulerError, match="unknown operation 'cancel'"):
                await another.cancel(app_id)


@ONE_LOOP
async def test_a_start_that_was_cut_off_does_not_hold_its_key_back(home: Path) -> None:
    async with LocalScheduler("session") as scheduler:
        definition = app(shell("echo hello"))
        app_id = await scheduler.submit(definition, key="one")
        await ended(scheduler, app_id)
    # As if its supervisor had been killed before the gate was opened.
    record = read_state(home, app_id)
    write_state(home, app_id, {**record, "started_ns": None, "finished_ns": None, "digest": "another"})

    async with LocalScheduler("session") as scheduler:
        assert await scheduler.describe(app_id) is None
        assert [] == await scheduler.list()
        assert app_id == await scheduler.submit(definition, key="one")
        assert ["hello"] == await texts(scheduler, app_id)


@ONE_LOOP
async def test_a_directory_without_a_record_does_not_hold_a_key_back_for_long(home: Path) -> None:
    async with LocalScheduler("session") as scheduler:
        definition = app(shell("echo hello"))
        info = await scheduler.submit_dryrun(definition, key="one")
        left = app_directory(home, info.app_id)
        left.mkdir(parents=True, mode=0o700)
        for each in (home, left.parent):
            each.chmod(0o700)
        os.utime(left, (1, 1))

        assert info.app_id == await scheduler.submit(definition, key="one")
        assert ["hello"] == await texts(scheduler, info.app_id)
        with pytest.raises(ConflictError):
            await scheduler.submit(app(shell("echo another")), key="one")
