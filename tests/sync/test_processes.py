"""How a process ends that uses the facade: at its exit, by Ctrl-C, after a fork. Never by hanging."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BEGIN = """
from tests.sync.rig import Rig
rig = Rig()
handle = rig.run()
runner = rig.runner
"""


def start(script: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", BEGIN + textwrap.dedent(script)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # what it has forked holds its output open
        out, err = process.communicate(timeout=10)
        pytest.fail(f"it hung; so far it said: {out}{err}")
    return process.returncode, out, err


ENDS = {
    "never closed": "runner.status(handle)",
    "an iterator is open": "lines = runner.log_lines(handle, should_tail=True); rig.say(handle, 'x\\n'); next(lines)",
    "dropped": "del rig, runner",
    "never used": "from asyncsched.sync import SyncRunner; other = SyncRunner('other')",
    "closed twice": "runner.close(); runner.close()",
    "a daemon thread is in a call": """
        import contextlib, threading
        def wait():
            with contextlib.suppress(RuntimeError):
                runner.wait(handle)
        threading.Thread(target=wait, daemon=True).start()
        while not runner.statistics().watches: pass
    """,
    "a daemon thread reads a flood": """
        import contextlib, threading
        rig.say(handle, "x\\n" * 300_000)
        lines = runner.log_lines(handle, should_tail=True)
        next(lines)
        def read():
            with contextlib.suppress(RuntimeError):
                for _ in lines: pass
        threading.Thread(target=read, daemon=True).start()
    """,
    "an exception": "raise SystemExit(0)",
    "held by a module that is torn down late": "import sys; sys.kept = runner",
}


@pytest.mark.parametrize("script", ENDS.values(), ids=ENDS.keys())
def test_the_interpreter_exits(script: str) -> None:
    assert (0, "", "") == finish(start(script))


def test_the_exit_ends_local_processes_without_a_word(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    script = f"""
        import os
        os.environ["ASYNCSCHED_HOME"] = {str(tmp_path / "home")!r}
        from asyncsched import AppDef, Role
        from asyncsched.sync import SyncRunner
        work = "trap 'echo x > {ended}; exit' TERM; echo ready; while :; do sleep 0.1; done"
        forgotten = SyncRunner("forgotten")
        job = forgotten.run(AppDef("job", [Role("main", "", entrypoint="sh", args=["-c", work])]), "local_cwd")
        print(next(forgotten.log_lines(job, should_tail=True)).text)
    """

    assert (0, "ready\n", "") == finish(start(script))
    assert "x\n" == ended.read_text()


def test_the_exit_closes_what_is_open() -> None:
    script = """
        close = rig.runner._wrapped.close
        async def closing():
            await close()
            print("closed")
        rig.runner._bridge._thread._aclose = closing
    """

    assert (0, "closed\n", "") == finish(start(script))


def test_ctrl_c_ends_the_coroutine_and_not_only_the_wait() -> None:
    process = start("""
        import threading, time
        def told():
            while not runner.statistics().watches: time.sleep(0.001)
            print("waiting")
        threading.Thread(target=told, daemon=True).start()
        try:
            runner.wait(handle)
        except KeyboardInterrupt:
            print("interrupted", runner.statistics().watches, runner.status(handle).state)
    """)
    assert process.stdout is not None
    assert "waiting\n" == process.stdout.readline()
    process.send_signal(signal.SIGINT)

    assert (0, "interrupted 0 RUNNING\n", "") == finish(process)


def test_ctrl_c_is_heard_though_it_did_not_end_the_wait() -> None:
    # What arrives just before the wait does not end it: neither does what another thread gets.
    process = start("""
        import signal, threading
        def press():
            while not runner.statistics().watches: pass
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        threading.Thread(target=press, daemon=True).start()
        try:
            runner.wait(handle)
        except KeyboardInterrupt:
            print("interrupted")
    """)

    assert (0, "interrupted\n", "") == finish(process)


def test_ctrl_c_before_the_coroutine_has_begun_is_heard_at_once() -> None:
    process = start("""
        from asyncsched import _bridge
        _bridge.CLEANUP_TIMEOUT = 1000.0
        loop = runner._bridge._thread._loop
        give = loop.call_soon_threadsafe
        def interrupted(*args):
            loop.call_soon_threadsafe = give
            raise KeyboardInterrupt
        loop.call_soon_threadsafe = interrupted
        try:
            runner.wait(handle)
        except KeyboardInterrupt:
            print("interrupted")
    """)

    assert (0, "interrupted\n", "") == finish(process)


def test_ctrl_c_waits_until_what_was_half_made_is_removed() -> None:
    process = start("""
        from tests.sync.rig import app
        rig.do(lambda: (rig.service.slow("commit", 60), rig.service.slow("remove", 0.2)))
        rig.do(lambda: rig.service.on_call("commit", lambda: print("sent")))
        before = set(rig.service.apps)
        try:
            runner.run(app(), "fake")
        except KeyboardInterrupt:
            print("left:", set(rig.service.apps) - before)
    """)
    assert process.stdout is not None
    assert "sent\n" == process.stdout.readline()
    process.send_signal(signal.SIGINT)

    assert (0, "left: set()\n", "") == finish(process)


def test_a_handle_that_came_too_late_is_told_with_the_interrupt() -> None:
    process = start("""
        import asyncio, os, signal
        from tests.sync.rig import app
        async def run():
            os.kill(os.getpid(), signal.SIGINT)  # the main thread is woken when this thread has gone on
            return await rig.runner._wrapped.run(app(), "fake")
        class Stubborn:
            def __await__(self):
                task = asyncio.ensure_future(run())
                while not task.done():
                    try:
                        yield from asyncio.shield(task).__await__()
                    except asyncio.CancelledError:
                        pass
                return task.result()
        async def call():
            return await Stubborn()
        try:
            runner._bridge.call(call)
        except KeyboardInterrupt as error:
            print(error.__notes__[0].startswith("The call had succeeded when it was interrupted: fake://me/job-"))
    """)

    assert (0, "True\n", "") == finish(process)


def test_an_interrupted_next_loses_nothing() -> None:
    process = start("""
        import threading, time
        def told():
            while not runner._bridge._thread._calls: time.sleep(0.001)
            print("waiting")
        lines = runner.log_lines(handle, should_tail=True)
        rig.say(handle, "one\\n")
        next(lines)
        threading.Thread(target=told, daemon=True).start()
        try:
            next(lines)
        except KeyboardInterrupt:
            rig.say(handle, "two\\nthree\\n")
            rig.exit(handle)
            print(*lines, sep="", end="")
    """)
    assert process.stdout is not None
    assert "waiting\n" == process.stdout.readline()
    process.send_signal(signal.SIGINT)

    assert (0, "two\nthree\n", "") == finish(process)


def test_a_forked_child_is_told_so_and_exits() -> None:
    script = """
        import os, sys
        lines = runner.log_lines(handle, should_tail=True)
        rig.say(handle, "one\\n")
        next(lines)
        child = os.fork()
        if not child:
            for use in (lambda: runner.status(handle), lambda: next(lines), lambda: runner.log_lines(handle)):
                try:
                    use()
                except RuntimeError as error:
                    print(error)
            runner.close()
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), runner.status(handle).state)
    """
    code, out, err = finish(start(script))
    told = "this object belongs to the parent process: its thread was not forked; "
    told_object = f"{told}make one after fork, or pass a factory instead of a scheduler\n"
    told_stream = f"{told}make one after fork\n"

    assert (0, told_object + told_stream + told_object + "3 RUNNING\n", "") == (code, out, err)


def test_a_forked_child_may_make_its_own() -> None:
    script = """
        import os, sys
        child = os.fork()
        if not child:
            with Rig().runner as own:
                print(*own.scheduler_backends())
            sys.exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """

    assert (0, "fake\n0\n", "") == finish(start(script))


FORK = """
import os, sys
from asyncsched.sync import SyncRunner, SyncScheduler, create_scheduler
from asyncsched.testing import FakeScheduler

def fork(use):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        use()
        sys.stdout.flush()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize(
    "make",
    [
        'create_scheduler("local_cwd", "me")',
        'SyncScheduler(lambda: FakeScheduler("me"))',
        'SyncRunner("me").scheduler("local_cwd")',
        'SyncRunner("me", {"fake": FakeScheduler}).scheduler("fake")',
    ],
)
def test_a_scheduler_that_was_made_by_a_factory_is_made_again_in_a_forked_child(make: str) -> None:
    script = f"""
        {FORK.replace(chr(10), chr(10) + " " * 8)}
        scheduler = {make}
        print(scheduler.describe("no-such-app"))

        def use():
            print(scheduler.describe("no-such-app"), scheduler.session_name)
            fork(lambda: print("deeper", scheduler.describe("no-such-app")))
            scheduler.close()

        fork(use)
        print(scheduler.describe("no-such-app"))
        scheduler.close()
    """

    assert (0, "None\nNone me\ndeeper None\n0\n0\nNone\n", "") == finish(start(script))


def test_a_runner_is_made_again_in_each_child_and_its_threads_share_it() -> None:
    script = f"""
        {FORK.replace(chr(10), chr(10) + " " * 8)}
        import threading
        own = SyncRunner("me", {{"fake": FakeScheduler}})
        print(*own.list("fake"))

        def use():
            gate, made = threading.Barrier(8), []
            def one():
                gate.wait()
                own.list("fake")
                made.append(own._wrapped)
            threads = [threading.Thread(target=one) for _ in range(8)]
            for each in threads: each.start()
            for each in threads: each.join()
            print(len(made), len(set(map(id, made))), [each.name for each in threading.enumerate()].count("asyncsched"))

        fork(use)
        fork(use)
        print(*own.list("fake"))
    """

    assert (0, "\n8 1 1\n0\n8 1 1\n0\n\n", "") == finish(start(script))


def test_what_was_not_used_before_a_fork_is_used_after_it() -> None:
    script = f"""
        {FORK.replace(chr(10), chr(10) + " " * 8)}
        scheduler = SyncScheduler(FakeScheduler("me"))
        fork(lambda: print(scheduler.describe("no-such-app")))
        print(scheduler.describe("no-such-app"))
    """

    assert (0, "None\n0\nNone\n", "") == finish(start(script))


def test_what_was_closed_before_a_fork_is_closed_after_it_and_the_other_way_round() -> None:
    script = f"""
        {FORK.replace(chr(10), chr(10) + " " * 8)}
        def tell():
            try:
                print(scheduler.describe("no-such-app"))
            except RuntimeError as error:
                print(error)

        scheduler = create_scheduler("local_cwd", "me")
        tell()
        fork(lambda: (scheduler.close(), tell()))
        tell()
        scheduler.close()
        fork(tell)
    """
    closed = "this object is closed; make a new one\n"

    assert (0, f"None\n{closed}0\nNone\n{closed}0\n", "") == finish(start(script))
