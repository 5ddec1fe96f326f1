"""The guard catches each kind of fault, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests._support import eventually, eventually_blocking

ROOT = Path(__file__).parents[1]

# Each of these breaks one rule, but for the first ones.
FAULTY = '''
import asyncio, os, socket, subprocess, sys, threading, time
import pytest
from pathlib import Path
from tests._blocking import OURS
from tests._support import eventually


KEPT = []


def ours(source, file="made_up.py", **names):
    """Run code as if it stood in a module of the package."""
    exec(compile(source, OURS + file, "exec"), names)


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def test_good(tmp_path):
    burn(0.005)
    await asyncio.sleep(0)
    await asyncio.to_thread(burn, 0.05)
    task = asyncio.create_task(asyncio.sleep(0.01))
    Path(__file__).read_text()
    end = threading.Thread(target=time.sleep, args=[0.05])
    ours("thread.start()", thread=end)


async def test_good_process():
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()


async def test_good_follow(tmp_path):
    (tmp_path / "log").write_bytes(b"line")
    ours("open(path, 'rb').close()", "logs/follow.py", path=tmp_path / "log")


async def test_long_step():
    burn(0.03)


async def test_long_callback():
    asyncio.get_running_loop().call_soon(burn, 0.03)
    await asyncio.sleep(0.05)


@pytest.mark.guard(loop_step=False, reason="to be allowed")
async def test_good_allowed():
    burn(0.03)


async def test_sleep():
    ours("time.sleep(0.001)", time=time)


async def test_open(tmp_path):
    ours("path.write_text('x')", path=tmp_path / "x")


async def test_fsync(tmp_path):
    with open(tmp_path / "x", "w") as file:
        ours("os.fsync(file)", os=os, file=file)


async def test_listdir(tmp_path):
    ours("os.listdir(path)", os=os, path=tmp_path)


async def test_connect():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        ours("client.connect(address)", client=client, address=server.getsockname())


async def test_wait_for_process():
    process = subprocess.Popen(["true"])
    ours("process.wait()", process=process)


async def test_wait_for_thread():
    ours("event.wait(0.001)", event=threading.Event())


async def test_task():
    asyncio.create_task(asyncio.sleep(3600), name="forgotten")


async def test_thread():
    threading.Thread(target=time.sleep, args=[1.5], name="forgotten").start()


async def test_child():
    KEPT.append(subprocess.Popen(["sleep", "1.5"]))


async def test_descriptor():
    KEPT.append(os.open(__file__, os.O_RDONLY))


async def test_socket():
    KEPT.append(socket.create_server(("127.0.0.1", 0)))


@pytest.mark.guard(loop_step=False)
async def test_no_reason():
    pass


def test_good_blocking_without_a_loop():
    ours("time.sleep(0.03)", time=time)


@pytest.mark.usefixtures("leaves_nothing")
def test_plain_thread():
    threading.Thread(target=time.sleep, args=[1.5], name="forgotten").start()
'''

EXPECTED = {
    "test_long_step": "ms of CPU time in one step: <Task",
    "test_long_callback": "ms of CPU time in one step: <function burn",
    "test_sleep": r"time\.sleep at .*/asyncsched/made_up\.py:1 in <module>",
    "test_open": r"a blocking call in the loop's thread: open",
    "test_fsync": r"os\.fsync",
    "test_listdir": r"os\.listdir",
    "test_connect": r"socket\.connect",
    "test_wait_for_process": r"Popen\.wait",
    "test_wait_for_thread": r"Condition\.wait",
    "test_task": "a task is left: .*forgotten",
    "test_thread": "a thread is left: .*forgotten",
    "test_child": r"a child process is left: \d+ \(sleep 1\.5\)",
    "test_descriptor": r"a descriptor is left: \d+ -> .*/test_faulty\.py",
    "test_socket": r"a descriptor is left: \d+ -> socket:",
    "test_no_reason": "guard needs a reason",
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Run the faulty tests under the guard, in a process of their own: what it said to each."""
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "test_faulty.py").write_text(FAULTY)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests._guard",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
    ]
    shorter = {"TESTS_LEFT_OVER_WITHIN": "0.3"}
    done = subprocess.run(
        [*command, "-rA", "--tb=short", str(folder)],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **shorter},
        capture_output=True,
        text=True,
        check=False,
    )
    title = re.compile(r"^_{2,} (?:ERROR at (?:setup|teardown) of )?(test_\S+) _{2,}$", re.MULTILINE)
    sections = title.split(done.stdout)
    told: dict[str, str] = dict(zip(sections[1::2], sections[2::2], strict=True))
    for name in re.findall(r"^PASSED .*::(test_\S+)$", done.stdout, flags=re.MULTILINE):
        told.setdefault(name, "")
    assert told, done.stdout + done.stderr
    return told


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("name", EXPECTED)
def test_each_kind_of_fault_is_told(verdicts: Mapping[str, str], name: str, loop: str) -> None:
    assert re.search(EXPECTED[name], verdicts[f"{name}[{loop}]"])


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_good_guests_are_left_alone(verdicts: Mapping[str, str], loop: str) -> None:
    good = {name: told for name, told in verdicts.items() if name.startswith("test_good") and loop in name}

    assert 4 == len(good)
    assert {""} == {*good.values()}


@pytest.mark.slow
def test_a_plain_test_is_judged_if_it_asks_for_it(verdicts: Mapping[str, str]) -> None:
    assert re.search("a thread is left: .*forgotten", verdicts["test_plain_thread"])
    assert verdicts["test_good_blocking_without_a_loop"] == ""


async def test_eventually_returns_the_first_true_value() -> None:
    values = iter([0, None, "", 7, 8])

    assert await eventually(lambda: next(values)) == 7


async def test_eventually_awaits_what_is_awaitable() -> None:
    async def ready() -> str:
        return "yes"

    assert await eventually(ready) == "yes"


async def test_eventually_says_what_it_waited_for() -> None:
    never_true = False

    with pytest.raises(AssertionError, match=r"within 0.01 s: .*never_true.* \(its last value: False\)"):
        await eventually(lambda: never_true, within=0.01)


def test_eventually_works_without_a_loop() -> None:
    values = iter([0, 5])

    assert eventually_blocking(lambda: next(values)) == 5
    with pytest.raises(AssertionError, match="not true within"):
        eventually_blocking(lambda: False, within=0.01)
