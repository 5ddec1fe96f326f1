"""TorchX's Runner on asyncsched, as programs use it: threads, forks, a running loop, readers of a closed runner."""

from __future__ import annotations

import pytest

from tests.torchx._program import TorchX
from tests.torchx.conftest import NIGHTLY_AND_HEAVY

pytestmark = [pytest.mark.slow, NIGHTLY_AND_HEAVY]

BEGIN = """
import logging, os, sys, threading, time, warnings
from concurrent.futures import ThreadPoolExecutor
from torchx.runner import get_runner
from torchx.specs import AppDef, Resource, Role

def app(program, replicas=1):
    return AppDef("job", [Role("main", "", entrypoint="sh", args=["-c", program], num_replicas=replicas,
                               resource=Resource(1, 0, 64))])
"""


def run(torchx: TorchX, program: str) -> str:
    done = torchx.python(BEGIN + program)

    assert 0 == done.code, done.err
    assert "Traceback" not in done.err, done.err
    return done.out


def test_twenty_threads_on_a_fresh_runner_lose_no_app(torchx: TorchX) -> None:
    program = """
together = threading.Barrier(20)
with get_runner() as runner, ThreadPoolExecutor(20) as pool:
    def submit(k):
        together.wait()
        handle = runner.run(app(f"sleep 0.3; echo hello {k}"), "local_cwd")
        import gc; gc.collect()
        runner.wait(handle, wait_interval=0.1)
        return runner.status(handle).state.name, list(runner.log_lines(handle, "main"))
    print(sorted(pool.map(submit, range(20))) == sorted(("SUCCEEDED", [f"hello {k}\\n"]) for k in range(20)))
"""
    assert "True\n" == run(torchx, program)


def test_a_runner_works_after_a_fork(torchx: TorchX) -> None:
    program = """
runner = get_runner()
before = runner.run(app("echo before; exec sleep 3600"), "local_cwd")
next(iter(runner.log_lines(before, "main", should_tail=True)))
pid = os.fork()
if pid == 0:
    try:
        mine = runner.run(app("echo child"), "local_cwd")
        state = runner.wait(mine, wait_interval=0.1).state.name
        assert (state, ["child\\n"]) == ("SUCCEEDED", list(runner.log_lines(mine, "main"))), state
        assert "RUNNING" == runner.status(before).state.name
        runner.close()
        os._exit(0)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(1)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(code, runner.status(before).state.name)
runner.cancel(before)
print(runner.status(before).state.name)
runner.close()
"""
    assert "0 RUNNING\nCANCELLED\n" == run(torchx, program)


def test_it_works_inside_a_running_loop(torchx: TorchX) -> None:
    program = """
import asyncio
async def main():
    with get_runner() as runner:
        handle = runner.run(app("echo inside", 2), "local_cwd")
        print(runner.wait(handle, wait_interval=0.1).state.name, *runner.log_lines(handle, "main", 1), end="")
asyncio.run(main())
"""
    assert "SUCCEEDED inside\n" == run(torchx, program)


def test_readers_end_when_the_runner_is_closed(torchx: TorchX) -> None:
    program = """
runner = get_runner()
handle = runner.run(app("echo first; exec sleep 3600", 3), "local_cwd")
read, first, all_read = [], threading.Barrier(4), []
def follow(k):
    lines = runner.log_lines(handle, "main", k, should_tail=True)
    all_read.append(next(iter(lines)))
    first.wait()
    all_read.extend(lines)
threads = [threading.Thread(target=follow, args=(k,)) for k in range(3)]
for thread in threads:
    thread.start()
first.wait()
runner.close()
runner.close()
for thread in threads:
    thread.join()
print(all_read, [*runner._scheduler("local_cwd").log_iter(handle.rpartition("/")[2], "main")])
"""
    assert f"{['first' + chr(10)] * 3} []\n" == run(torchx, program)


CLOSING = """
import io
from torchx.cli.cmd_log import get_logs
from asyncsched.sync import SyncScheduler
runner = get_runner()
handle = runner.run(app("echo first; exec sleep 3600", 3), "local_cwd")
scheduler = runner._scheduler("local_cwd")
def closing_before(owner, name):
    call = getattr(owner, name)
    def closed_first(*args, **kwargs):
        runner.close()
        return call(*args, **kwargs)
    setattr(owner, name, closed_first)
moment = sys.argv[1]
if moment == "at once":
    runner.close()
elif moment == "status":
    closing_before(SyncScheduler, "describe")
elif moment == "log_iter":
    closing_before(scheduler, "log_iter")
elif moment == "open":
    closing_before(SyncScheduler, "log_iter")
get_logs(io.StringIO(), handle, None, should_tail=True, runner=runner)
print(runner.status(handle).state.name, runner.wait(handle, wait_interval=0.1).state.name)
"""


@pytest.mark.parametrize("moment", ["at once", "status", "log_iter", "open"])
def test_a_runner_may_be_closed_at_any_moment_of_reading_logs(torchx: TorchX, moment: str) -> None:
    done = torchx.python(BEGIN + CLOSING, moment)

    assert (0, "CANCELLED CANCELLED\n") == (done.code, done.out), done.err
    assert "Traceback" not in done.err, done.err


def test_no_thread_of_twenty_first_calls_outlives_the_runner(torchx: TorchX) -> None:
    program = """
together = threading.Barrier(20)
with get_runner() as runner, ThreadPoolExecutor(20) as pool:
    def submit(k):
        together.wait()
        return runner.run(app("exec sleep 3600"), "local_cwd")
    handles = [*pool.map(submit, range(20))]
with get_runner() as other:
    print({other.status(handle).state.name for handle in handles})
print([thread.name for thread in threading.enumerate()])
"""
    assert "{'CANCELLED'}\n['MainThread']\n" == run(torchx, program)


def test_runners_share_no_scheduler(torchx: TorchX) -> None:
    program = """
with get_runner() as kept:
    with get_runner() as first:
        same = first._scheduler("local_cwd") is kept._scheduler("local_cwd")
        handle = kept.run(app("sleep 1; echo done"), "local_cwd")
    print(same, kept.wait(handle, wait_interval=0.1).state.name)
"""
    assert "False SUCCEEDED\n" == run(torchx, program)


def test_a_replica_that_is_not_there_is_told_in_one_line(torchx: TorchX) -> None:
    handle = torchx("run", "-s", "local_cwd", "--workspace", "", "jobs.py:job", "--program", "echo hi").handle
    log = torchx("log", f"{handle}/main/99")

    assert 0 == log.code
    assert "Traceback" not in log.err
    assert 1 == log.err.count("has no replica 99: main has 1 (0 to 0)")


def test_lines_are_plain_texts_and_edited_requests_are_what_runs(torchx: TorchX) -> None:
    program = """
with get_runner() as runner:
    info = runner.dryrun(app("echo one; printf two"), "local_cwd")
    (replicas,) = info.request.role_params.values()
    replicas[0].args[-1] = "echo edited; printf 'no end'"
    handle = runner.schedule(info)
    assert handle == runner.schedule(info)
    runner.wait(handle, wait_interval=0.1)
    lines = [*runner.log_lines(handle, "main")]
    print({type(line) is str for line in lines}, lines)
"""
    assert "{True} ['edited\\n', 'no end\\n']\n" == run(torchx, program)


def test_a_role_s_hook_may_replace_the_dry_run(torchx: TorchX) -> None:
    program = """
from torchx.specs import AppDryRunInfo
class Hooked(Role):
    def pre_proc(self, scheduler, dryrun_info):
        (replicas,) = dryrun_info.request.role_params.values()
        replicas[0].args[-1] = "echo hooked by " + scheduler
        return AppDryRunInfo(dryrun_info.request, repr)
with get_runner() as runner:
    made = app("echo plain")
    made.roles = [Hooked(**vars(made.roles[0]))]
    handle = runner.run(made, "local_cwd")
    runner.wait(handle, wait_interval=0.1)
    print(*runner.log_lines(handle, "main"), end="")
"""
    assert "hooked by local_cwd\n" == run(torchx, program)


def test_secrets_are_shown_when_that_is_asked_for(torchx: TorchX) -> None:
    program = """
from asyncsched import specs
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.torchx.answers import from_description
role = specs.Role("main", "", env={"TOKEN": specs.Secret("sesame")})
for reveal in (False, True):
    print(from_description(DescribeAppResponse("a", roles=[role]), reveal=reveal).roles[0].env)
"""
    assert "{'TOKEN': '***'}\n{'TOKEN': 'sesame'}\n" == run(torchx, program).replace("Secret('***')", "'***'")


def test_a_role_that_torchx_has_no_words_for_hides_no_state(torchx: TorchX) -> None:
    program = """
from asyncsched import specs
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.torchx.answers import from_description
roles = [specs.Role("odd", "", mounts=[specs.BindMount("/a", "/b")]), specs.Role("main", "", args=["${base_img_root}"])]
found = DescribeAppResponse("a", specs.AppState.RUNNING, msg="", roles=roles)
told = from_description(found)
print(told.state.name, told.msg, len(told.roles) in (1, 2))
"""
    assert "RUNNING <NONE> True\n" == run(torchx, program)


def test_a_scheduler_that_the_runner_forgets_ends_no_app(torchx: TorchX) -> None:
    program = """
import gc
from torchx.runner.api import Runner
from torchx.schedulers import get_scheduler_factories
make = get_scheduler_factories()["local_cwd"]
waits, submitted, calls = threading.Event(), threading.Event(), []
def factory(session_name, **parameters):
    calls.append(None)
    if len(calls) == 1:  # the thread that comes first gets its scheduler last, and the runner keeps that one
        waits.set()
        submitted.wait()
    return make(session_name, **parameters)
with Runner("session", {"local_cwd": factory}) as runner:
    late = threading.Thread(target=runner.scheduler_run_opts, args=("local_cwd",))
    late.start()
    waits.wait()
    handle = runner.run(app("echo begun; sleep 1; echo ended"), "local_cwd")
    submitted.set()
    late.join()
    gc.collect()
    print(len(calls), runner.wait(handle, wait_interval=0.1).state.name, *runner.log_lines(handle, "main"))
"""
    assert "2 SUCCEEDED begun\n ended\n\n" == run(torchx, program)


def test_a_list_looks_where_its_options_say(torchx: TorchX) -> None:
    program = """
from torchx.schedulers.api import ListAppResponse
from asyncsched.torchx.scheduler import AsyncSchedScheduler
from asyncsched.testing import FakeScheduler
made = []
def create(**parameters):
    made.append(parameters)
    return FakeScheduler("me")
for backend, cfg in [("gcp_batch", {"project": "p"}), ("kubernetes", {"namespace": "n"}), ("slurm", {"time": "1"})]:
    scheduler = AsyncSchedScheduler(backend, "me", create)
    assert [] == scheduler.list() == scheduler.list(cfg)
    scheduler.close()
print(made)
"""
    assert "[{}, {'project': 'p'}, {}, {'namespaces': 'n'}, {}]\n" == run(torchx, program)


def test_a_list_shows_the_apps_where_its_options_say(torchx: TorchX) -> None:
    program = """
from asyncsched import specs
from asyncsched.clock import Clock
from asyncsched.torchx.scheduler import AsyncSchedScheduler
from asyncsched.testing import FakeScheduler, FakeService
service = FakeService(Clock(), start_delay=None)
for app_id in ("p:us-central1:a", "p:europe-west1:b", "q:europe-west1:c", "europe-west1:d"):
    service.launch(app_id, specs.AppDef("x", [specs.Role("main", "", entrypoint="x")]), "old", "")
for backend, cfg in [
    ("gcp_batch", {"location": "europe-west1"}), ("aws_batch", {"queue": "europe-west1"}), ("slurm", {"queue": "p"}),
    ("gcp_batch", {"location": "us"}), ("gcp_batch", {"location": None}),
]:
    scheduler = AsyncSchedScheduler(backend, "me", lambda **_: FakeScheduler("me", service))
    print(*sorted(row.app_id[-1] for row in scheduler.list(cfg)))
    scheduler.close()
"""
    assert ["b c", "d", "a b c d", "", "a b c d"] == run(torchx, program).splitlines()
