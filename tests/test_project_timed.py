"""What a run says of steps near their budget, and what ``--timed`` and ``--repeat`` run."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests._timed import KEPT
from tests.test_project_guard import run_pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STEPS = """
import asyncio
from pathlib import Path
import pytest
from tests._steps import PIECE, STEP_LIMIT, _piece

FACTOR = 1.0


def burn(budgets):
    for _ in range(int(STEP_LIMIT / PIECE * budgets * FACTOR)):
        _piece()


@pytest.fixture(autouse=True)
async def told(request):
    with open("ran", "a") as file:
        print(request.node.name, file=file)


@pytest.fixture(scope="module")
def shared():
    with open("ran", "a") as file:
        print("shared", file=file)


async def test_short(shared):
    burn(0.1)


async def test_near(shared):
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(burn, 0.75)
    await asyncio.sleep(0.01)


@pytest.mark.guard(loop_step=False, reason="to be allowed")
async def test_waived():
    burn(3)


def test_plain():
    burn(3)
"""

ASYNCIO = ("--loops", "asyncio")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_steps.py").write_text(STEPS)
    return tmp_path


def ran(folder: Path) -> Counter[str]:
    """Return how often each test ran since this was asked."""
    path = folder / "ran"
    found = Counter(path.read_text().split()) if path.exists() else Counter()
    path.unlink(missing_ok=True)
    return found


def kept(folder: Path) -> list[str]:
    path = folder / KEPT
    return sorted(json.loads(path.read_text())) if path.exists() else []


NEAR = "test_steps.py::test_near"


def run_until_kept(folder: Path, *names: str, loops: tuple[str, ...] = ASYNCIO) -> str:
    """Run the tests; again where the machine's speed has changed in the middle of the step that is measured."""
    for _ in range(20):
        ran(folder)
        output = run_pytest(folder, *loops)
        if kept(folder) == [*(names or [NEAR])]:
            break
    return output


def test_a_run_names_each_test_with_a_step_near_its_budget(folder: Path) -> None:
    output = run_until_kept(folder)

    _, _, told = output.partition("longest steps of at least half of their budget")
    (line,) = [line for line in told.splitlines() if "::" in line]
    assert re.fullmatch(rf"[0-9.]+ {re.escape(NEAR)}: [0-9.]+ ms of [0-9.]+ ms of CPU time .*: callback burn", line)
    assert [NEAR] == kept(folder)
    assert 0.01 <= json.loads((folder / KEPT).read_text())[NEAR]["seconds"]  # which it sleeps


def test_timed_runs_these_alone_and_as_often_as_asked(folder: Path) -> None:
    run_until_kept(folder)
    ran(folder)

    output = run_pytest(folder, *ASYNCIO, "--timed", "--repeat", "3")

    assert {"test_near": 3, "shared": 1} == ran(folder)
    assert "3 passed, 3 deselected" in output
    assert [NEAR] == kept(folder)


def test_repeat_runs_each_test_again_with_its_fixtures_anew(folder: Path) -> None:
    run_pytest(folder, *ASYNCIO, "--repeat", "2", "-k", "test_short or test_waived")

    assert {"test_waived": 2, "test_short": 2, "shared": 1} == ran(folder)


def test_nothing_is_timed_before_a_run(folder: Path) -> None:
    assert "4 deselected" in run_pytest(folder, *ASYNCIO, "--timed")


def test_several_processes_keep_what_they_saw_and_a_later_run_replaces_it(folder: Path) -> None:
    both = [NEAR, f"{NEAR}[asyncio]", f"{NEAR}[uvloop]"]
    run_until_kept(folder)
    run_until_kept(folder, *both, loops=())

    assert both == kept(folder)

    (folder / "test_steps.py").write_text(STEPS.replace("FACTOR = 1.0", "FACTOR = 0.1"))
    run_pytest(folder)

    assert [NEAR] == kept(folder)


def test_time_in_code_of_a_test_is_not_told_where_it_is_known(folder: Path) -> None:
    run_pytest(folder, *ASYNCIO)

    assert "longest steps" not in run_pytest(folder, *ASYNCIO, "--timed")
