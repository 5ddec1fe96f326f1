"""What is said over the sockets, and by whom."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsched.schedulers.local.supervisor import formats
from asyncsched.schedulers.local.supervisor.control import LONGEST_BACKLOG
from asyncsched.schedulers.local.supervisor.formats import LONGEST_MESSAGE
from asyncsched.schedulers.local.supervisor.host import start_time
from tests._support import eventually_blocking
from tests.local.supervisor._client import RefusedError, Supervisor, Talk, app, shell

WAITS = "exec sleep 1000"


@pytest.fixture
def visitor(supervisor: Supervisor) -> Iterator[Talk]:
    """Somebody else of the same user."""
    visitor = supervisor.visitor()
    yield visitor
    visitor.close()


def test_who_greets_learns_who_it_is(supervisor: Supervisor, visitor: Talk) -> None:
    answer = visitor.ask("hello", protocol=formats.PROTOCOL)

    assert (formats.PROTOCOL, supervisor.identity) == (answer["protocol"], answer["supervisor"])
    assert start_time(supervisor.pid) == answer["supervisor"]["start"]
    assert os.uname().nodename == answer["place"]["host"]


def test_another_protocol_is_named(visitor: Talk) -> None:
    answer = visitor.ask("hello", protocol=99)

    assert ("protocol", f"the supervisor uses protocol {formats.PROTOCOL}, not 99") == (
        answer["error"],
        answer["message"],
    )


def test_a_visitor_sees_and_cancels(supervisor: Supervisor, visitor: Talk) -> None:
    record = supervisor.submit(shell(WAITS))

    assert [record] == visitor.ask("describe", app_ids=["app", "another"])["apps"]
    assert visitor.ask("cancel", app_id="app")["known"]
    assert not visitor.ask("cancel", app_id="another")["known"]
    assert "cancel" == supervisor.until()["ended_by"]


def test_a_visitor_neither_submits_nor_stops(supervisor: Supervisor, visitor: Talk) -> None:
    assert "refused" == visitor.ask("submit", app=app(shell(WAITS)))["error"]
    visitor.ask("stop")

    assert 0 == supervisor.run(shell("exit 0"))["replicas"][0]["exit_code"]


def test_who_watches_is_told_of_changes(supervisor: Supervisor, visitor: Talk) -> None:
    supervisor.submit(shell(WAITS), app_id="one")
    supervisor.submit(shell(WAITS), app_id="two")
    visitor.ask("watch", app_ids=["two"])
    for app_id in ("one", "two"):
        supervisor.ask("kill", app_id=app_id)

    told = [visitor.hear()]
    while supervisor.saved("two")["finished_ns"] is None:
        told.append(visitor.hear())
    assert [("app", "two")] == [*{(each["event"], each["app_id"]) for each in told}]
    assert {"two"} == {each["app_id"] for each in told}


def test_two_who_cancel_at_once(supervisor: Supervisor, visitor: Talk) -> None:
    supervisor.submit(shell("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done"))
    supervisor.log().wait_for(b"ready\n")
    visitor.say({"n": 1, "op": "cancel", "app_id": "app"})
    supervisor.ask("cancel", app_id="app")

    assert [5] == [each["exit_code"] for each in supervisor.until()["replicas"]]
    assert visitor.hear()["known"]


def test_an_app_that_runs_is_not_forgotten(supervisor: Supervisor, visitor: Talk) -> None:
    supervisor.submit(shell(WAITS))

    assert "running" == visitor.ask("forget", app_id="app")["error"]
    assert "error" not in visitor.ask("forget", app_id="another")


@pytest.mark.parametrize("op", ["describe", "watch", "cancel", "kill", "forget", "no such thing", None, ["x"]])
def test_a_request_that_lacks_something_is_answered(visitor: Talk, op: object) -> None:
    visitor.say({"n": 7, "op": op})
    answer = visitor.hear()

    assert 7 == answer["re"]
    assert answer["error"] in ("internal", "unknown")


@pytest.mark.parametrize(
    "bad", [b"\n", b"{\n", b"[]\n", b"7\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"\0" * 100 + b"\n"]
)
def test_who_talks_nonsense_is_hung_up_on(supervisor: Supervisor, visitor: Talk, bad: bytes) -> None:
    visitor.sock.sendall(bad)
    visitor.wait_for_eof()

    assert 0 == supervisor.run(shell("exit 0"))["replicas"][0]["exit_code"]


def test_a_message_may_come_in_any_pieces(supervisor: Supervisor, visitor: Talk) -> None:
    message = json.dumps({"n": 1, "op": "describe", "app_ids": ["ä" * 1000]}).encode() + b"\n"
    for number in range(len(message)):
        visitor.sock.sendall(message[number : number + 1])

    assert {"re": 1, "apps": []} == visitor.hear()


def test_a_message_without_end_is_not_kept(supervisor: Supervisor, visitor: Talk) -> None:
    piece = b" " * (1 << 20)
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        for _ in range(2 * LONGEST_MESSAGE // len(piece)):
            visitor.sock.sendall(piece)

    assert 0 == supervisor.run(shell("exit 0"))["replicas"][0]["exit_code"]


def test_who_never_reads_is_let_go(supervisor: Supervisor, visitor: Talk) -> None:
    supervisor.submit(shell(WAITS), spec={"long": "x" * (1 << 20)})
    for _ in range(2 * LONGEST_BACKLOG >> 20):
        try:
            visitor.say({"n": 1, "op": "describe", "app_ids": ["app"]})
        except (BrokenPipeError, ConnectionResetError):
            break
    assert supervisor.describe()["finished_ns"] is None
    visitor.wait_for_eof()


@pytest.mark.slow
def test_a_long_answer_is_no_reason_to_hang_up(supervisor: Supervisor, visitor: Talk) -> None:
    for app_id in ("one", "two"):
        supervisor.submit(shell(WAITS), app_id=app_id, spec={"long": "x" * (3 * LONGEST_BACKLOG // 4)})

    for each in (supervisor, visitor):
        assert ["one", "two"] == [found["app_id"] for found in each.ask("describe", app_ids=["one", "two"])["apps"]]


def test_many_visitors_come_and_go(supervisor: Supervisor) -> None:
    before = supervisor.descriptors()
    visitors = [supervisor.visitor() for _ in range(100)]
    for each in visitors:
        each.ask("hello", protocol=formats.PROTOCOL)
        each.close()

    eventually_blocking(lambda: supervisor.descriptors() == before)


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
def test_another_user_is_not_let_in(leaves_nothing: None) -> None:
    # Not below the directories of pytest, which nobody else may enter.
    place = Path(tempfile.mkdtemp())
    try:
        with Supervisor(place / "home") as supervisor:
            path = supervisor.home / formats.SUPERVISORS / supervisor.identity["socket"]
            assert (0o700, 0o600) == (path.parent.stat().st_mode & 0o777, path.stat().st_mode & 0o777)
            for each in (place, supervisor.home, path.parent):
                each.chmod(0o755)
            path.chmod(0o666)
            code = f"""
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
sock = socket.socket(socket.AF_UNIX); sock.connect({str(path)!r})
try: sock.sendall(b'{{"op": "hello"}}'); sys.exit(len(sock.recv(1)))
except (ConnectionResetError, BrokenPipeError): pass
"""
            found = subprocess.run([sys.executable, "-S", "-c", code], check=False, timeout=60)

            assert 0 == found.returncode
    finally:
        shutil.rmtree(place)


def test_the_door_opens_again_when_there_are_descriptors(home: Path, leaves_nothing: None) -> None:
    with Supervisor(home, prefix=["/bin/sh", "-c", 'ulimit -n 40; exec "$@"', "sh"]) as supervisor:
        visitors: list[socket.socket] = []
        path = str(home / formats.SUPERVISORS / supervisor.identity["socket"])
        for _ in range(60):
            visitor = socket.socket(socket.AF_UNIX)
            visitor.connect(path)
            visitors.append(visitor)
        for visitor in visitors:
            visitor.close()
        late = supervisor.visitor()

        assert formats.PROTOCOL == late.ask("hello", protocol=formats.PROTOCOL)["protocol"]
        late.close()


@pytest.mark.parametrize("name", [formats.APPS, formats.SUPERVISORS])
def test_a_place_that_is_not_ours_is_told(home: Path, tmp_path: Path, name: str, leaves_nothing: None) -> None:
    home.mkdir(0o700)
    (home / name).symlink_to(tmp_path)
    with pytest.raises(RefusedError, match=f"in its state directory: {name}: Not a directory"):
        Supervisor(home)

    (home / name).unlink()
    (home / name).mkdir()
    (home / name).chmod(0o777)
    with pytest.raises(RefusedError, match=f"in its state directory: {name}: is writable by other users"):
        Supervisor(home)
    assert [] == list(home.glob("crash.*"))
