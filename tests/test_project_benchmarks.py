"""The harness of the benchmarks; the figures themselves are no business of tests."""

from __future__ import annotations

import ast
import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import _alone, _clock
from benchmarks._harness import (
    LEAST_ROUNDS,
    Claim,
    Count,
    Ratio,
    at_least,
    at_most,
    in_turns,
    in_turns_on_loop,
    load,
    names,
    on_loop,
)
from benchmarks._noise import before_others, noise
from tests._support import WITHIN, eventually, eventually_blocking

ROOT = Path(__file__).parents[1]
TWO = Ratio(rounds=(1.0, 1.5, 2.0, 2.5, 30.0), reference="a bare loop")


def test_bounds_belong_to_what_holds() -> None:
    assert [False, True, True] == [at_most("x", TWO, bound).holds for bound in (1.9, 2.0, 2.1)]
    assert [True, True, False] == [at_least("x", TWO, bound).holds for bound in (1.9, 2.0, 2.1)]


def test_a_claim_says_bound_reference_and_the_spread() -> None:
    claim = at_most("a line", TWO, 1.5, detail="ours 3 us")

    assert "a line: at most 1.5 x a bare loop" == claim.text
    assert "DOES NOT HOLD: a line: at most 1.5 x a bare loop\n  min 1, median 2, max 30 of 5 rounds; ours 3 us" == str(
        claim
    )


def test_a_claim_of_a_count_says_what_was_counted() -> None:
    claim = at_most("describe", Count(number=1, of="requests"), 1)

    assert "holds: describe: at most 1 requests\n  1" == str(claim)


def test_nothing_but_ratios_and_counts_is_claimed() -> None:
    with pytest.raises(TypeError, match=r"a ratio or a count, not 12\.5"):
        at_most("a step in milliseconds", 12.5, 20)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"a count is a whole number, not 12\.5"):
        Count(number=12.5, of="ms")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="names its reference"):
        Ratio(rounds=TWO.rounds, reference="")
    with pytest.raises(ValueError, match="5 rounds at least, not 4"):
        Ratio(rounds=TWO.rounds[1:], reference="a bare loop")


def test_ours_and_reference_take_turns_and_each_round_is_a_ratio() -> None:
    order: list[str] = []
    figures = iter([2.0, 1.0, 9.0, 3.0, 4.0, 4.0, 1.0, 2.0, 5.0, 1.0])

    def measure(name: str) -> float:
        order.append(name)
        return next(figures)

    taken = in_turns({"ours": lambda: measure("a"), "a bare loop": lambda: measure("b")}, rounds=5)

    assert ["a", "b"] * 5 == order
    assert Ratio(rounds=(2.0, 3.0, 1.0, 0.5, 5.0), reference="a bare loop") == taken.ratio("ours", "a bare loop")
    best = Ratio(rounds=(0.5, 2.25, 1.0, 0.25, 1.25), reference="the best round of a bare loop")
    assert best == taken.ratio_to_highest("ours", "a bare loop")


async def test_turns_on_a_loop_await_what_is_a_coroutine() -> None:
    order: list[str] = []

    async def ours() -> tuple[str, float]:
        order.append("a")
        await asyncio.sleep(0)
        return "ours", 3.0

    def reference() -> tuple[str, float]:
        order.append("b")
        return "theirs", 2.0

    taken = await in_turns_on_loop({"ours": ours, "a bare loop": on_loop(reference)}, rounds=LEAST_ROUNDS)

    assert ["a", "b"] * LEAST_ROUNDS == order
    assert (1.5,) * LEAST_ROUNDS == taken.ratio("ours", "a bare loop", lambda pair: pair[1]).rounds


@pytest.mark.parametrize("name", names())
def test_a_benchmark_claims_through_the_harness(name: str) -> None:
    """What a claim may be is checked by its type, so all of them are made by `at_most` and `at_least`."""
    tree = ast.parse((ROOT / f"benchmarks/{name}.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    called = {node.func.id for node in calls if isinstance(node.func, ast.Name)}
    claims = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id in ("at_most", "at_least")]

    assert claims
    assert not called & {"Claim", "Ratio"}
    for claim in claims:
        told = "".join(str(node.value) for node in ast.walk(claim.args[0]) if isinstance(node, ast.Constant))
        assert not re.search(r"(most|least|within|than) [\d.]+ ?(s|ms|us|%|k|M|KiB)\b", told), told


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_every_benchmark_makes_claims(name: str) -> None:
    assert callable(load(name))


def test_claims_may_be_plain_or_on_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain() -> Iterator[Claim]:
        yield at_most("x", TWO, 2)

    async def on_a_loop() -> AsyncIterator[Claim]:
        yield at_most("x", TWO, 2)

    from benchmarks import imports

    for claims in (plain, on_a_loop):
        monkeypatch.setattr(imports, "claims", claims)

        assert [at_most("x", TWO, 2)] == list(load("imports")())


def test_a_claim_that_fails_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks import imports

    for bound, code, verdict in ((2.0, 0, "holds"), (1.0, 1, "DOES NOT HOLD")):
        monkeypatch.setattr(imports, "claims", lambda bound=bound: iter([at_most("x", TWO, bound)]))

        assert code == _alone.main("imports")
        assert [
            "imports",
            f"  {verdict}: x: at most {bound:g} x a bare loop",
            "    min 1, median 2, max 30 of 5 rounds",
        ] == capsys.readouterr().out.splitlines()


def _python(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)


def _read(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_exit_code_of_a_benchmark_is_passed_on() -> None:
    code = "import sys; from benchmarks import _alone; print(_alone.run([sys.executable, '-c', 'raise SystemExit(1)']))"
    with _python(code) as process:
        assert "1" == _read(process)


def test_what_a_benchmark_starts_is_compiled_once_as_an_installed_package_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    keeps = "import sys; sys.exit(sys.dont_write_bytecode)"
    with _python(
        f"import sys; from benchmarks import _alone; print(_alone.run([sys.executable, '-c', {keeps!r}]))"
    ) as it:
        assert "False" == _read(it)


def test_what_comes_before_others_is_as_it_was_afterwards() -> None:
    before = os.sched_getscheduler(0)
    with before_others():
        inside = subprocess.run(
            [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert inside.stdout == f"{os.sched_getscheduler(0)}\n"

    assert before == os.sched_getscheduler(0)


def test_a_benchmark_is_over_when_what_it_has_left_behind_is_gone() -> None:
    orphan = "import os; os.read(0, 1); os.write(1, b'orphan\\n')"
    leaves = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {orphan!r}])"
    code = f"import sys; from benchmarks import _alone; _alone.run([sys.executable, '-c', {leaves!r}]); print('over')"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        out, _ = process.communicate("x")

    assert ["orphan", "over"] == out.split()


def test_what_does_not_go_is_named_and_fails() -> None:
    leaves = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    code = (
        "import sys; from benchmarks import _alone; _alone.PATIENCE = 0.1;"
        f"print(_alone.run([sys.executable, '-c', {leaves!r}]), flush=True)"
    )
    with _python(code) as process:
        pid = _read(process)
        try:
            assert f"LEFT BEHIND after 0.1 s: {pid} (sleep)" == _read(process)
            assert "True" == _read(process)
        finally:
            os.kill(int(pid), signal.SIGKILL)


# An interrupt just before one long sleep would be missed.
SLEEPS = "import time\nwhile True: time.sleep(0.1)"


def test_a_benchmark_that_hangs_is_interrupted_and_fails() -> None:
    run = f"_alone.run([sys.executable, '-c', {SLEEPS!r}])"
    code = f"import sys; from benchmarks import _alone; _alone.LONGEST = 0.5; print(_alone.LONGEST, {run} != 0)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)

    assert ["  HANGS: no end after 0.5 s, SIGINT is sent", "0.5 True"] == done.stdout.splitlines()


def test_a_thread_waits_for_a_core_that_others_use() -> None:
    pinned = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}}); print(1, flush=True)"
    with _python(f"{pinned}\nwhile True: pass") as one, _python(f"{pinned}\nwhile True: pass") as other:
        try:
            assert "1" == _read(one) == _read(other)
            waits = _clock.Waits(one.pid)
            before = waits()
            eventually_blocking(lambda: waits() - before > 50_000_000)
        finally:
            one.kill()
            other.kill()


def test_what_threads_waited_for_a_core_since_the_last_arrival_does_not_make_a_message_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_clock, "time", SimpleNamespace(time_ns=iter([1000, 1100, 1200, 1300, 1400]).__next__))
    arrivals = _clock.Arrivals(iter([500, 500, 540, 590, 600]).__next__)
    for sent in (1010, 1130, 1150, 990):
        arrivals.take(sent)

    assert [90, 70 - 40, 150 - 90, 410 - 100] == arrivals.late


def test_noise_is_two_processes_that_end_with_it() -> None:
    with noise() as pids:
        assert 2 == len(pids)
        assert all(_runs(pid) for pid in pids)

    assert not any(_runs(pid) for pid in pids)


NOISY = f"""
import sys
from benchmarks import _alone
from benchmarks._noise import before_others, noise
with noise() as pids:
    print(*pids, flush=True)
    _alone.run([sys.executable, "-c", "print('begun', flush=True);" {SLEEPS!r}], others=pids)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_noise_and_benchmark_end_with_the_run_that_is_interrupted(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", NOISY], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    ) as process:
        pids = [int(pid) for pid in _read(process).split()]
        assert "begun" == _read(process)
        benchmark = _children(process.pid) - {*pids}
        process.send_signal(number)
        try:
            assert process.wait(WITHIN)
            await eventually(lambda: not any(_runs(pid) for pid in pids))
            if number != signal.SIGKILL:
                assert not any(_runs(pid) for pid in benchmark)
        finally:
            for pid in benchmark:
                if _runs(pid):
                    os.kill(pid, signal.SIGKILL)
            process.kill()


def _children(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_whole_run_gives_the_exit_code() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.run", "nosuch"], capture_output=True, text=True, cwd=ROOT, check=False
    )

    assert 2 == done.returncode
    assert "no such benchmark: nosuch" in done.stderr
