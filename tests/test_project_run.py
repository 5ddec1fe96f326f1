"""`tests/run`: its parts run side by side, what fails or hangs fails the run, and the sum is right."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests._heavy import ROOMS
from tests._parts import Ended, InterruptError, Limits, Part, side_by_side
from tests._run import _BUSY, SILENCE_OF_HEAVY, _alone
from tests._shared import DOCKER_DAEMONS, _may_bring_up
from tests._support import eventually_blocking
from tests._timed import KEPT

ROOT = Path(__file__).parents[1]

FOR_EVER = """
import time
def the_place_where_it_hangs(said):
    print(said, flush=True)
    while True: time.sleep(1)
"""


def python(name: str, code: str, *arguments: object) -> Part:
    return Part(name=name, command=[sys.executable, "-X", "faulthandler", "-c", code, *map(str, arguments)])


def run(*parts: Part, limits: Limits | None = None, write: Callable[[str], object] | None = None) -> list[Ended]:
    return asyncio.run(side_by_side(parts, limits=limits, write=write or (lambda line: None)))


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_part_that_fails_is_named_with_its_exit_code() -> None:
    good, bad = run(python("good", "print('x')"), python("bad", "raise SystemExit(3)"))

    assert ("good", 0, "") == (good.part.name, good.code, good.why)
    assert ("bad", 3, "exit code 3") == (bad.part.name, bad.code, bad.why)


def test_lines_are_shown_as_they_come_after_the_name_of_their_part(tmp_path: Path) -> None:
    answers = (
        "import os, sys, time\nprint('one', flush=True)\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.005)\n"
    )
    shown: list[str] = []

    def show(line: str) -> None:
        shown.append(line)
        if "one" in line:  # it prints the rest only once this line has been seen
            (tmp_path / line.split(maxsplit=1)[0].strip("[]")).touch()

    run(
        python("a", answers + "print('two'); print('no end', end='')", tmp_path / "a"),
        python("longer", answers + "print(); print('two')", tmp_path / "longer"),
        write=show,
    )

    assert ["[a     ] one\n", "[a     ] two\n", "[a     ] no end\n"] == [line for line in shown if "[a" in line]
    assert ["[longer] one\n", "[longer]\n", "[longer] two\n"] == [line for line in shown if "[l" in line]


@pytest.mark.parametrize(
    ("limit", "why"), [("silence", "has printed nothing for 0.1 s"), ("total", "has run for 0.1 s")]
)
def test_a_part_that_hangs_shows_its_stacks_and_ends_with_its_children(limit: str, why: str) -> None:
    child = "import subprocess\nchild = subprocess.Popen(['sh', '-c', \"trap '' TERM INT; sleep 60\"])\n"
    limits = Limits(stacks=60)
    shown: list[str] = []

    def show(line: str) -> None:
        shown.append(line)
        setattr(limits, limit, 0.1)  # once it has begun to hang, however long its start took

    (hung,) = run(python("hung", FOR_EVER + child + "the_place_where_it_hangs(child.pid)"), limits=limits, write=show)

    assert (why, -signal.SIGABRT) == (hung.why, hung.code)
    assert any("the_place_where_it_hangs" in line for line in shown)
    eventually_blocking(lambda: is_gone(int(shown[0].split()[1])))


def test_a_part_that_hangs_in_a_terminal_shows_its_stacks_and_ends(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    ended = _alone(python("hangs", f"{FOR_EVER}\nthe_place_where_it_hangs('here')"), Limits(total=5))

    assert (-signal.SIGABRT, "has run for 5 s") == (ended.code, ended.why)
    assert "the_place_where_it_hangs" in capfd.readouterr().err


def test_a_part_that_goes_on_printing_has_longer_than_a_silent_one_as_the_pages_say() -> None:
    page = " ".join((ROOT / "docs/contributing.md").read_text().split())
    told = re.search(r"A part that prints nothing for (\d+) minutes, or runs for (\d+),", page)
    assert told is not None
    limits = Limits()

    assert [limits.silence, limits.total] == [60 * int(minutes) for minutes in told.groups()]
    assert limits.silence < SILENCE_OF_HEAVY < limits.total
    # The whole run takes 17 minutes alone, and a third of the machine beside four busy loops on two cores.
    assert limits.total > 3 * 17 * 60


def test_a_part_that_has_ended_is_not_waited_for_because_of_what_it_left_behind() -> None:
    leaves = "import subprocess\nprint(subprocess.Popen(['sleep', '60'], start_new_session=True).pid)"
    shown: list[str] = []
    (ended,) = run(python("leaves", leaves), limits=Limits(rest=0.1), write=shown.append)
    os.kill(int(shown[0].split()[1]), signal.SIGKILL)

    assert "" == ended.why


def test_an_interrupt_ends_all_parts() -> None:
    waits = "import os\n" + FOR_EVER + "the_place_where_it_hangs(os.getpid())"
    pids: list[int] = []

    def show(line: str) -> None:
        if re.fullmatch(r"\[\w+\] \d+\n", line):
            pids.append(int(line.split()[1]))
            if len(pids) == 2:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(InterruptError, match="SIGINT"):
        run(python("one", waits), python("two", waits), write=show)

    assert [True, True] == [is_gone(pid) for pid in pids]


ENDS_LATE = """
import signal, sys, time
from pathlib import Path
from tests._parts import Part
from tests._run import _alone
part = '''
import signal, sys, time
from pathlib import Path
try:
    print("begun", flush=True)
    while True: time.sleep(0.1)  # an interrupt just before signal.pause() would be missed
except KeyboardInterrupt:
    time.sleep(1)  # longer than subprocess waits by itself
    Path(sys.argv[1]).touch()
'''
sys.stdin.isatty = lambda: True
try:
    _alone(Part(name="ends late", command=[sys.executable, "-c", part, sys.argv[1]]))
except KeyboardInterrupt:
    print("ended" if Path(sys.argv[1]).exists() else "left", flush=True)
"""


def test_an_interrupt_in_a_terminal_waits_until_the_part_has_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDS_LATE, str(tmp_path / "ended")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as running:
        assert running.stdout is not None
        assert "begun\n" == running.stdout.readline()
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does

        assert "ended\n" == running.stdout.readline()


IN_THE_COLLECTOR = """
import gc, os, signal

def test_collects():
    def collected(phase, info):
        if phase == "stop" and not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)
    sent = []
    gc.callbacks.append(collected)
    while True: gc.collect()
"""


def test_an_interrupt_in_the_collector_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "test_collects.py").write_text(IN_THE_COLLECTOR)
    command = [sys.executable, "-m", "pytest", "-ptests._interrupts", "-pno:cacheprovider", "-oaddopts=", "--rootdir=."]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False, timeout=200
    )

    assert 2 == done.returncode, done.stdout
    assert "KeyboardInterrupt" in done.stdout


TESTS = {
    "test_good.py": """
        @pytest.mark.heavy("local")
        @pytest.mark.parametrize("n", range(3))
        def test_good(n): pass

        def test_light(): raise AssertionError("not heavy")

        @pytest.mark.heavy("aws")
        def test_hangs_on(): pass
    """,
    "room/test_mixed.py": """
        @pytest.mark.heavy("local")
        def test_bad(): raise AssertionError("bad")

        @pytest.mark.heavy("local")
        def test_missing(): unavailable("cluster", "not built")

        @pytest.mark.heavy("local")
        def test_missing_too(): unavailable("cluster", "not built")

        @pytest.fixture
        def broken():
            yield
            raise ValueError

        @pytest.mark.heavy("local")
        def test_error(broken): pass

        @pytest.mark.heavy("local")
        def test_bad_twice(broken): raise AssertionError("bad")
    """,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small project with the same test command."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "tests" / "room").mkdir(parents=True)
    for source in [*(ROOT / "tests").glob("_*.py")]:
        shutil.copy(source, folder / "tests")
    plugins = ["_at_most", "_heavy", "_services", "_results", "_shared", "_timed"]
    (folder / "tests" / "conftest.py").write_text(f"pytest_plugins = {[f'tests.{name}' for name in plugins]}\n")
    (folder / "pytest.ini").write_text("[pytest]\ntestpaths = tests\nmarkers =\n    slow\n    service\n")
    for name, text in TESTS.items():
        lines = "\n".join(line.removeprefix("        ") for line in text.splitlines())
        (folder / "tests" / name).write_text(f"import pytest\nfrom tests._services import unavailable\n{lines}")
    return folder


def run_tests(project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command there, on one core, so that two processes share the tests."""
    on_one = (
        f"import os, runpy; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}});"
        "runpy.run_module('tests._run', run_name='__main__', alter_sys=True)"
    )
    return subprocess.run(
        [sys.executable, "-c", on_one, *arguments],
        cwd=project,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(project), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_sum_is_that_of_all_parts(project: Path) -> None:
    done = run_tests(project, "--all=local")
    lines = done.stdout.splitlines()

    assert 1 == done.returncode, done.stdout + done.stderr
    assert "3 passed, 3 failed, 2 skipped" == lines[-1]
    assert [
        "failed: tests/room/test_mixed.py::test_bad",
        "failed: tests/room/test_mixed.py::test_bad_twice",
        "failed: tests/room/test_mixed.py::test_error",
        "not there: cluster: not built (2 tests left out)",
    ] == [line for line in lines if line.startswith(("failed: ", "not there: "))]
    told = [re.sub(r"\(\d+ s\)", "", line).strip() for line in lines if re.match(r"tests \d: ", line)]
    assert {"tests 1", "tests 2"} == {line.partition(":")[0] for line in told}
    # Either process may have taken one file, or both before the other one had begun.
    counts = [re.search(r"(\d+) passed, (\d+) failed, (\d+) skipped", line) for line in told]
    assert [3, 3, 2] == [sum(int(count[n]) for count in counts if count) for n in (1, 2, 3)]
    assert any("FAILED, exit code 1: " in line for line in told)
    assert any("[tests 1]" in line for line in lines)


@pytest.mark.slow
def test_in_continuous_integration_a_missing_service_is_a_failure(project: Path) -> None:
    assert "3 passed, 5 failed, 0 skipped" == run_tests(project, "--all=local", CI="true").stdout.splitlines()[-1]


@pytest.mark.slow
def test_one_room_at_a_time_and_a_room_without_heavy_tests_says_so(project: Path) -> None:
    one, none = run_tests(project, "--all=aws"), run_tests(project, "--all=slurm")

    assert (0, "1 passed, 0 failed, 0 skipped") == (one.returncode, one.stdout.splitlines()[-1])
    assert (0, "0 passed, 0 failed, 0 skipped") == (none.returncode, none.stdout.splitlines()[-1])
    assert f"no test is marked heavy('slurm') yet ({ROOMS['slurm']})" in none.stdout.splitlines()


@pytest.mark.slow
def test_a_process_that_dies_fails_the_run(project: Path) -> None:
    (project / "tests" / "test_dies.py").write_text(
        "import os, pytest\n@pytest.mark.heavy('web')\ndef test_dies(): os._exit(0)\n"
    )
    done = run_tests(project, "--all=web")

    assert 1 == done.returncode, done.stdout
    assert any(re.match(r"tests \d: FAILED, it ended before its tests did", line) for line in done.stdout.splitlines())


@pytest.mark.slow
def test_time_that_is_out_is_told(project: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--heavy=local", "--minutes=0"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)

    assert "after 0 minutes 8 tests remained, from tests/room/test_mixed.py::test_bad on" in done.stdout.splitlines()


@pytest.mark.slow
def test_timed_tests_are_shared_and_those_that_are_gone_are_not_missed(project: Path) -> None:
    near = project / "tests" / "room" / "test_near.py"
    near.write_text("def test_near(): pass\n\ndef test_short(): raise AssertionError('not near')\n")
    kept = project / KEPT
    kept.parent.mkdir(parents=True)
    names = ["tests/room/test_near.py::test_near", "tests/test_gone.py::test_it"]
    kept.write_text(json.dumps({name: {"seconds": 1.0} for name in names}))

    done = run_tests(project, "--timed")
    near.unlink()
    none = run_tests(project, "--timed")

    assert (0, "1 passed, 0 failed, 0 skipped") == (done.returncode, done.stdout.splitlines()[-1]), done.stdout
    assert {"[tests 1]", "[tests 2]"} == {*re.findall(r"^\[tests \d\]", done.stdout, re.MULTILINE)}
    assert (0, "0 passed, 0 failed, 0 skipped") == (none.returncode, none.stdout.splitlines()[-1])
    assert "no test had a step near its budget when it last ran" in none.stdout.splitlines()


def test_an_unknown_room_is_refused_with_those_that_there_are() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests._run", "--all=moon"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert 2 == done.returncode
    assert all(room in done.stderr for room in ROOMS)


def test_one_test_of_a_file_is_refused_where_whole_files_are_shared() -> None:
    one = "tests/room/test_near.py::test_near"
    done = subprocess.run(
        [sys.executable, "-m", "tests._run", "--timed", one], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (2, "") == (done.returncode, done.stdout)
    assert f"--timed takes whole files, or -k, and not one test: {one}" in done.stderr


def test_the_help_names_every_room() -> None:
    told = subprocess.run([ROOT / "tests" / "run", "--help"], capture_output=True, text=True, check=True).stdout

    assert all(room in told for room in ROOMS)


@pytest.mark.slow
def test_a_run_without_tests_is_a_failure(project: Path) -> None:
    done = run_tests(project, "-k", "nothing_has_this_name")

    assert 1 == done.returncode
    assert "tests: FAILED, exit code 5: 0 passed, 0 failed, 0 skipped" in done.stdout


def test_the_process_that_brings_up_the_cluster_brings_up_no_docker_daemon(tmp_path: Path) -> None:
    assert _may_bring_up("kubernetes", tmp_path)
    assert not _may_bring_up("docker", tmp_path)


def test_what_another_process_brings_up_is_left_to_it(tmp_path: Path) -> None:
    for mark in ("kubernetes", *(f"docker-{n}" for n in range(DOCKER_DAEMONS))):
        (tmp_path / mark).symlink_to(str(os.getppid()))

    assert [False, False] == [_may_bring_up(service, tmp_path) for service in ("kubernetes", "docker")]


def test_a_busy_loop_ends_if_the_run_has_ended_before_it_began() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()

    subprocess.run([sys.executable, "-c", _BUSY, str(gone.pid)], check=True, timeout=60)
