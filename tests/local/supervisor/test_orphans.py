"""No orphans, ever: whoever of owner, watcher and worker dies, and how."""

from __future__ import annotations

import ast
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from asyncsched.schedulers.local.supervisor import formats
from asyncsched.schedulers.local.supervisor.host import is_alive
from asyncsched.schedulers.local.supervisor.identity_tags import end_marked
from tests._support import WITHIN, eventually_blocking, held_up
from tests.local.supervisor._client import Supervisor, Talk, marked, python, replica, shell, tree

REPLICAS, KINDS = 3, 7

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("leaves_nothing")]


class Owner:
    """A process that owns a supervisor with three trees."""

    def __init__(self, home: Path, token: str, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self.home = home
        self.token = token
        self.process = process
        self.identity: dict[str, Any] = json.loads(process.stdout.readline())

    def saved(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.home / formats.APPS / "app" / formats.STATE).read_bytes())
        return record

    def supervisor_lives(self) -> bool:
        identity = self.identity
        return is_alive(identity["pid"], identity["start"]) or is_alive(
            identity["watcher_pid"], identity["watcher_start"]
        )


@contextmanager
def owner(home: Path, how: str) -> Iterator[Owner]:
    token = f"token-{os.getpid()}-{time.monotonic_ns()}"
    command = [sys.executable, "-m", "tests.local.supervisor._owner", str(home), token, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            yield Owner(home, token, process)
        finally:
            process.kill()
            process.wait(WITHIN)
            left = marked(token)
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def test_the_processes_of_a_tree_are_all_there(home: Path) -> None:
    with owner(home, "wait") as it:
        # The daemon's first parent and the like are over soon; the owner itself has the word in its command line.
        eventually_blocking(lambda: REPLICAS * KINDS + 1 == len(marked(it.token)))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("how", ["wait", "no pidfd"])
def test_nothing_is_left_when_the_owner_is_killed(home: Path, how: str, number: int) -> None:
    with owner(home, how) as it:
        it.process.send_signal(number)
        it.process.wait(WITHIN)

        eventually_blocking(lambda: not marked(it.token))
        eventually_blocking(lambda: not it.supervisor_lives())
        assert "owner" == it.saved()["ended_by"]
        assert it.saved()["finished_ns"] is not None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_when_a_child_of_the_killed_owner_lives_on(home: Path, number: int) -> None:
    with owner(home, "child") as it:
        it.process.send_signal(number)
        it.process.wait(WITHIN)

        eventually_blocking(lambda: marked(it.token) == it.identity["children"])
        eventually_blocking(lambda: not it.supervisor_lives())
        assert "owner" == it.saved()["ended_by"]


@pytest.mark.parametrize("how", ["return", "error"])
def test_nothing_is_left_when_the_owner_ends(home: Path, how: str) -> None:
    with owner(home, how) as it:
        it.process.wait(WITHIN)

        eventually_blocking(lambda: not marked(it.token))
        eventually_blocking(lambda: not it.supervisor_lives())
        assert "owner" == it.saved()["ended_by"]


def test_who_obeys_is_gone_long_before_the_grace_period_is_over(home: Path) -> None:
    with owner(home, "obey") as it:
        it.process.kill()
        it.process.wait(WITHIN)

        eventually_blocking(lambda: not marked(it.token))


@pytest.mark.parametrize("victim", ["pid", "watcher_pid"])
def test_nothing_is_left_when_half_of_the_supervisor_is_killed(home: Path, victim: str) -> None:
    with owner(home, "wait") as it:
        os.kill(it.identity[victim], signal.SIGKILL)

        eventually_blocking(lambda: marked(it.token) == [it.process.pid])
        eventually_blocking(lambda: not it.supervisor_lives())
        record = it.saved()
        if victim == "pid":
            # Nobody is left to write: that it never ended, and that its supervisor is gone, says it all.
            assert record["finished_ns"] is None
            assert not is_alive(record["supervisor"]["pid"], record["supervisor"]["start"])
        else:
            assert "supervisor" == record["ended_by"]
            assert record["finished_ns"] is not None
        assert [] == list((home / formats.SUPERVISORS).iterdir())


def test_one_kill_of_a_group_does_not_take_both(home: Path) -> None:
    with owner(home, "wait") as it:
        assert os.getpgid(it.identity["pid"]) != os.getpgid(it.identity["watcher_pid"])


def test_first_processes_die_with_both_halves_of_the_supervisor_and_the_owner_can_end_the_rest(home: Path) -> None:
    with owner(home, "wait") as it:
        first = {each["pid"] for each in it.saved()["replicas"]}
        with held_up(it.identity["watcher_pid"]):  # so that it cannot sweep before it is killed
            os.kill(it.identity["pid"], signal.SIGKILL)
            os.kill(it.identity["watcher_pid"], signal.SIGKILL)
        eventually_blocking(lambda: not first & set(marked(it.token)))

        assert end_marked(it.identity["pid"], it.identity["start"])
        assert [it.process.pid] == marked(it.token)


def test_a_detached_app_outlives_its_submitter(home: Path) -> None:
    with owner(home, "detached") as it:
        it.process.kill()
        it.process.wait(WITHIN)
        visitor = _visit(it)

        (record,) = visitor.ask("describe", app_ids=["app"])["apps"]
        assert ("", None) == (record["ended_by"], record["finished_ns"])
        eventually_blocking(lambda: REPLICAS * KINDS == len(marked(it.token)))

        assert visitor.ask("cancel", app_id="app")["known"]
        visitor.wait_for_eof()
        visitor.close()
        assert [] == marked(it.token)
        assert "cancel" == it.saved()["ended_by"]
        eventually_blocking(lambda: not it.supervisor_lives())


def _visit(it: Owner) -> Talk:
    return Talk.to(it.home / formats.SUPERVISORS / it.identity["socket"])


def test_a_detached_supervisor_leaves_with_its_app(home: Path) -> None:
    with Supervisor(home, detached=True) as supervisor:
        supervisor.run(shell("exit 0"))
        supervisor.close()

        eventually_blocking(lambda: not supervisor.is_alive())
        assert [] == list((home / formats.SUPERVISORS).iterdir())


def test_a_detached_supervisor_that_got_no_app_leaves_with_its_owner(home: Path) -> None:
    with Supervisor(home, detached=True) as supervisor:
        supervisor.close()

        eventually_blocking(lambda: not supervisor.is_alive())


def test_a_tree_that_ignores_term_is_gone_after_one_grace_period(home: Path) -> None:
    token = f"token-{os.getpid()}-{time.monotonic_ns()}"
    with Supervisor(home) as supervisor:
        supervisor.submit(tree(token, "count"), grace_period=2.0)
        supervisor.log().wait_for_tree()
        began = time.monotonic()
        supervisor.ask("cancel", app_id="app")
        record = supervisor.until()

        assert 2.0 <= time.monotonic() - began
        assert 2 == supervisor.log().stdout.count(b"asked"), "each is asked once: there is one grace period"
        assert [] == marked(token)
        assert [-9] == [each["exit_code"] for each in record["replicas"]]


def test_kill_does_not_wait_for_the_grace_period(home: Path) -> None:
    token = f"token-{os.getpid()}-{time.monotonic_ns()}"
    with Supervisor(home) as supervisor:
        supervisor.submit(tree(token), grace_period=600.0)
        supervisor.log().wait_for_tree()
        supervisor.ask("cancel", app_id="app")
        assert supervisor.ask("kill", app_id="app")["known"]
        record = supervisor.until()

        assert [] == marked(token)
        assert "cancel" == record["ended_by"]


def test_a_supervisor_below_a_supervisor_ends_with_its_replica(home: Path, tmp_path: Path) -> None:
    token = f"token-{os.getpid()}-{time.monotonic_ns()}"
    inner = tmp_path / "inner"
    command = [sys.executable, "-m", "tests.local.supervisor._owner", str(inner), token, "wait"]
    with Supervisor(home) as supervisor:
        supervisor.submit(replica(*command, cwd=str(Path.cwd())), shell("exec sleep 1000", k=1))
        supervisor.log().wait_for(b"}\n")
        eventually_blocking(lambda: len(marked(token)) == 1 + REPLICAS * KINDS)
        os.kill(supervisor.describe()["replicas"][0]["pid"], signal.SIGKILL)

        eventually_blocking(lambda: supervisor.describe()["replicas"][0]["over"])
        assert [] == marked(token)
        supervisor.ask("kill", app_id="app")


def test_what_a_replica_leaves_behind_ends_with_it(home: Path) -> None:
    token = f"token-{os.getpid()}-{time.monotonic_ns()}"
    with Supervisor(home) as supervisor:
        supervisor.submit(tree(token), shell("read line", k=1))
        supervisor.log().wait_for_tree()
        os.kill(supervisor.describe()["replicas"][0]["pid"], signal.SIGKILL)
        record = supervisor.until()

        assert [] == marked(token)
        assert [-9, 1] == [each["exit_code"] for each in record["replicas"]]
        assert not record["ended_by"]


@pytest.mark.parametrize("how", ["killed", "cancelled"])
def test_what_a_replica_leaves_behind_does_not_wait_for_the_end_of_others(supervisor: Supervisor, how: str) -> None:
    token = f"token-{os.getpid()}-{time.monotonic_ns()}"
    supervisor.submit(shell("exec sleep 1000"), app_id="other")
    supervisor.submit(tree(token), grace_period=0.2)
    supervisor.log().wait_for_tree()
    if how == "killed":
        os.kill(supervisor.describe()["replicas"][0]["pid"], signal.SIGKILL)
    else:
        supervisor.ask("cancel", app_id="app")
    supervisor.until()

    assert [] == marked(token)
    assert not supervisor.describe("other")["replicas"][0]["over"]


def test_a_brand_limits_nobody(supervisor: Supervisor) -> None:
    code = "import resource; print({number: resource.getrlimit(number) for number in range(16)})"
    supervisor.run(python(code))

    found: dict[int, tuple[int, int]] = ast.literal_eval(supervisor.log().stdout.decode())
    ours = {number: resource.getrlimit(number) for number in range(16)}
    assert ours[resource.RLIMIT_RTTIME][1] == found[resource.RLIMIT_RTTIME][1]
    assert found.pop(resource.RLIMIT_RTTIME)[0] >> 62 == 1
    del ours[resource.RLIMIT_RTTIME]
    assert ours == found
