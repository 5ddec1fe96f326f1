"""Sweeps from the command line, and groups named there."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests._support import eventually_blocking
from tests.cli._cli import Cli

BETWEEN = """
import asyncio
from pathlib import Path
from asyncsched import AppDef, Role, Runner

def sh(script):
    return AppDef("a", [Role("main", entrypoint="sh", args=["-c", script])])

async def main():
    async with Runner("own") as runner, runner.group("local_cwd", {"detach": True}, key="rp") as group:
        await group.start(sh("exit 0"), name="x")
        Path("ended").touch()
        while not Path("go").exists():
            await asyncio.sleep(0.05)
        job = group.start(sh("exit 0"), name="y")
    assert not job.attempts, job

asyncio.run(main())
"""

MANY = ",".join(map(str, range(1001)))

COMPONENT = """
from asyncsched import AppDef, Role

def gated(n: int) -> AppDef:
    \"\"\"Wait for a file.

    Args:
        n: A number.
    \"\"\"
    script = f"touch ran-{n}; until [ -e go ]; do sleep 0.05; done"
    return AppDef("gated", [Role("main", entrypoint="sh", args=["-c", script])])
"""


@pytest.mark.slow
def test_a_matrix_is_a_group_that_other_processes_find(local: Cli) -> None:
    matrix = ("--matrix", "msg=a,b", "--matrix", "num_replicas=1,2")
    sweep = ("run", *matrix, "--limit", "2", "--group", "words", "utils.echo")
    done = local(*sweep)
    names = sorted(line.split("  ")[1] for line in done.lines)

    assert 0 == done.code, done.err
    assert [f"msg={msg},num_replicas={count}" for msg in "ab" for count in "12"] == names
    assert done.err.endswith("words: 4/4 done, 0 failed, 0 running, 0 waiting\n")
    assert 4 == local("list", "--group", "words").out.count("SUCCEEDED")
    assert sorted("aaabbb") == sorted(line.split(" ")[1] for line in local("log", "--group", "words").lines)
    assert 4 == len(local("wait", "--group", "words").lines)
    assert 0 == local("cancel", "--group", "words").code
    again = local(*sweep)
    assert sorted(done.lines) == sorted(again.lines)
    assert 4 == local("list").out.count("SUCCEEDED")
    assert "no app belongs to the group 'other'" in local("wait", "--group", "other").err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "--limit", "2", "utils.echo"), "--limit, --group and --yes need --matrix"),
        (("run", "--matrix", "msg", "utils.echo"), "--matrix must be NAME=VALUE,VALUE,..., got 'msg'"),
        (("run", "--matrix", "msg=a", "--dryrun", "utils.echo"), "leave out --dryrun"),
        (("run", "--matrix", "msg=a", "--", "echo"), "--matrix needs a component, whose arguments it sets"),
        (("run", "--matrix", "msg=a,b,a", "utils.echo"), "--matrix names msg=a twice"),
        (("run", "--matrix", "msg=a,b", "utils.echo", "--msg", "c"), "msg is given by --matrix and as an argument"),
        (("run", "--matrix", "msg=a,b", "utils.echo", "--msg=c"), "msg is given by --matrix and as an argument"),
        (("run", "--matrix", f"msg={MANY}", "utils.echo"), "--matrix makes 1,001 jobs"),
        (("cancel",), "missing argument 'APP...'"),
    ],
)
def test_what_does_not_fit_is_told(local: Cli, words: tuple[str, ...], told: str) -> None:
    done = local(*words)

    assert 2 == done.code
    assert told in done.err


@contextmanager
def sweep(local: Cli, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run six jobs, two at a time, which wait for a file; begin once two run."""
    (local.folder / "gated.py").write_text(COMPONENT)
    matrix = ("run", "-s", "local_cwd", "--matrix", "n=1,2,3,4,5,6", "--limit", "2", *words, "gated.py:gated")
    with local.start(*matrix) as running:
        try:
            eventually_blocking(lambda: len(list(local.folder.glob("ran-*"))) == 2)
            yield running
        finally:
            (local.folder / "go").touch()
            running.kill()


@pytest.mark.slow
def test_a_group_that_another_process_cancels_launches_nothing_more(local: Cli) -> None:
    with sweep(local, "--group", "cy") as running:
        cancelled = local("cancel", "--group", "cy")
        out, err = running.communicate(timeout=60)

    assert f"cy: process {running.pid}, which starts its jobs, was told to stop starting them" in cancelled.err
    assert 2 == len(list(local.folder.glob("ran-*")))
    assert 2 == cancelled.err.count("cancel requested")
    assert "0/6 done" in err
    assert 3 == running.returncode, out


@pytest.mark.slow
def test_a_script_between_two_attempts_is_told_as_well(local: Cli) -> None:
    (local.folder / "between.py").write_text(BETWEEN)
    with subprocess.Popen([sys.executable, "between.py"], cwd=local.folder, env=local.env) as running:
        try:
            eventually_blocking((local.folder / "ended").exists)
            cancelled = local("cancel", "--group", "rp")
            (local.folder / "go").touch()
            assert 0 == running.wait(60)
        finally:
            running.kill()

    assert f"rp: process {running.pid}, which starts its jobs, was told to stop starting them" in cancelled.err
    assert 0 == cancelled.code


@pytest.mark.slow
def test_a_second_script_of_a_group_says_only_that_there_is_one(local: Cli) -> None:
    with sweep(local, "--group", "cy"):
        second = local("run", "-s", "local_cwd", "--matrix", "n=1,2", "--group", "cy", "gated.py:gated")

    assert "the group 'cy' is run already" in second.err
    assert "0/0" not in second.err


@pytest.mark.slow
def test_a_sweep_that_is_interrupted_says_how_far_it_is(local: Cli) -> None:
    with sweep(local) as running:
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)

    assert "0/6 done, 0 failed, 6 cancelled, 0 running, 0 waiting" in err
    assert 2 == len(list(local.folder.glob("ran-*")))


@pytest.mark.slow
def test_a_group_is_monitored(local: Cli) -> None:
    assert 0 == local("run", "--matrix", "msg=a,b", "--group", "words", "utils.echo").code

    done = local("monitor", "--group", "words")

    assert (0, 2) == (done.code, done.out.count("SUCCEEDED")), done.err


@pytest.mark.slow
def test_schedulers_that_are_not_set_up_are_silent_about_groups(broken: Cli) -> None:
    broken.schedulers = ["local_cwd", "unset", "absent"]
    assert 0 == broken("run", "-s", "local_cwd", "--matrix", "msg=a,b", "--group", "words", "utils.echo").code
    for verb in ("list", "log", "wait", "cancel", "monitor"):
        done = broken(verb, "--group", "words")
        assert (0, False) == (done.code, "error" in done.err), (verb, done.err)


TRAINER = """
from asyncsched import AppDef, Role

def trainer(lr: float, seed: int) -> AppDef:
    \"\"\"Train.

    Args:
        lr: The rate.
        seed: Where chance begins.
    \"\"\"
    return AppDef("train", [Role("main", entrypoint="echo", args=[f"rate {lr}"])])
"""


@pytest.mark.slow
def test_the_commands_of_the_page_run(local: Cli) -> None:
    page = (Path(__file__).parents[2] / "docs/many-jobs.md").read_text()
    (block,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (local.folder / "train.py").write_text(TRAINER)
    for line in block.splitlines():
        program, *words = shlex.split(line)
        done = local(*words)
        assert ("asyncsched", 0) == (program, done.code), (line, done.err)
