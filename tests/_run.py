"""What `tests/run` does once the environment is there: which parts there are, and what came of them."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests import _parts, _results, _timed
from tests._heavy import ROOMS
from tests._parts import Ended, Limits, Part
from tests._results import Results
from tests._shared import EXPECTED, TOOK

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".pytest_cache" / "asyncsched-shared"
"""How long files took, for the next run: one file for each way to run them all."""

SHARED = "shared"
"""The directory in which the processes that share the tests take them."""

BUSY_LOOPS = 4
TIMED_MINUTES = 30
SILENCE_OF_HEAVY = 2400.0
"""Seconds for which a part of ``--all`` may print nothing: one heavy test may be silent for long."""

_DEBUGGERS = {"--pdb", "--trace"}
"""The options of pytest with which a person may think for as long as it takes."""

NO_TESTS = 5
"""pytest's exit code for a process for which no test was left."""

# It ends by itself, too, when the process that has started it is no more, even if that was before it came to look.
_BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n for _ in range(1_000_000): pass"


def main(arguments: Sequence[str]) -> int:
    """Run what the command line asks for; return the exit code."""
    parser = _parser()
    options, pytest_args = parser.parse_known_args(arguments)
    if options.timed and (single := [name for name in pytest_args if "::" in name and not name.startswith("-")]):
        # Processes share files; pytest would find no file here, and say that no test came near its budget.
        parser.error(f"--timed takes whole files, or -k, and not one test: {', '.join(single)}")
    how = _again if options.timed else _one_after_the_other if pytest_args else _at_once
    with tempfile.TemporaryDirectory(prefix="asyncsched-run-") as folder:
        try:
            return how(options, pytest_args, Path(folder))
        except (_parts.InterruptError, KeyboardInterrupt):
            print("\ninterrupted: all parts have ended")
            return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests/run", allow_abbrev=False, add_help=False)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--all", choices=ROOMS, metavar="ROOM", help=f"one of {', '.join(ROOMS)}")
    parser.add_argument("--timed", action="store_true")
    parser.add_argument("--repeat", type=int, default=1)
    return parser


def _pytest(options: argparse.Namespace, *more: str) -> list[str]:
    command = [sys.executable, "-m", "pytest"]
    if options.coverage:
        command = [sys.executable, "-m", "coverage", "run", "-m", "pytest"]
    if options.fast:
        command += ["-m", "not service and not slow", "--loops=asyncio", "--hypothesis-profile=quick"]
    if options.all:
        command += [f"--heavy={options.all}"]
    return [*command, *more]


def _checks(options: argparse.Namespace) -> list[str]:
    return [sys.executable, "-X", "faulthandler", "-m", "tests._checks", *(["--fast"] if options.fast else [])]


def _at_once(options: argparse.Namespace, _: Sequence[str], folder: Path) -> int:
    """Run lint and docs beside several processes that share the tests: both cores are busy until the end."""
    kept = KEPT / f"{options.all or ('fast' if options.fast else 'whole')}.json"
    tests = _sharing(_pytest(options), folder, _expected(kept))
    lint = [] if options.all else [Part(name="lint" if options.fast else "lint, docs", command=_checks(options))]
    limits = Limits()
    if options.all:
        limits.silence = SILENCE_OF_HEAVY
    ended = asyncio.run(_parts.side_by_side([*lint, *tests], limits=limits))
    _keep_seconds(folder / SHARED / TOOK, kept)
    if options.coverage:
        ended.append(_coverage())
    return tell(ended, _results_of(tests, folder), may_be_empty=options.all)


def _sharing(command: Sequence[str], folder: Path, expected: dict[str, float]) -> list[Part]:
    """Return processes that share the tests, two for each core: many tests wait for processes and clocks."""
    shared = folder / SHARED
    shared.mkdir()
    (shared / EXPECTED).write_text(json.dumps(expected))
    plain = ["-p", "no:cacheprovider", "-o", "console_output_style=classic", f"--shared={shared}"]
    names = [f"tests {number}" for number in range(1, 2 * len(os.sched_getaffinity(0)) + 1)]
    return [
        Part(
            name=name,
            command=[*command, *plain, f"--results={folder / name}"],
            passes=frozenset({0, NO_TESTS}),
        )
        for name in names
    ]


def _results_of(parts: Sequence[Part], folder: Path) -> dict[str, Results | None]:
    return {part.name: _results.read(folder / part.name) for part in parts}


def _one_after_the_other(options: argparse.Namespace, pytest_args: Sequence[str], folder: Path) -> int:
    """Run lint and docs, then the chosen tests."""
    lint = Part(name="lint" if options.fast else "lint, docs", command=_checks(options))
    tests = Part(name="tests", command=_pytest(options, f"--results={folder / 'tests'}", *pytest_args))
    ended = [_alone(part) for part in (lint, tests)]
    if options.coverage:
        ended.append(_coverage())
    return tell(ended, {"tests": _results.read(folder / "tests")})


def _again(options: argparse.Namespace, pytest_args: Sequence[str], folder: Path) -> int:
    """Run the tests that have steps near their budget again and again, beside loops that take most of the machine.

    They are shared, as in a whole run: a single process would get a fifth of the machine beside the loops.
    """
    files = _timed.files()
    chosen = pytest_args or files
    if not chosen:
        return tell([], {}, may_be_empty="--timed")
    more = ["--timed", f"--repeat={options.repeat}", f"--minutes={TIMED_MINUTES}", *chosen]
    tests = _sharing(_pytest(options, *more), folder, files)
    with _busy_loops():
        ended = asyncio.run(_parts.side_by_side(tests))
    return tell(ended, _results_of(tests, folder), may_be_empty="--timed")


@contextmanager
def _busy_loops() -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", _BUSY, str(os.getpid())]) for _ in range(BUSY_LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _alone(part: Part, limits: Limits | None = None) -> Ended:
    """Run one part; in a terminal it has the terminal itself, for colours and for a debugger."""
    if not sys.stdin.isatty():
        return asyncio.run(_parts.side_by_side([part], limits=limits))[0]
    started, limits = time.monotonic(), limits or Limits()
    total = math.inf if _DEBUGGERS.intersection(part.command) else limits.total
    # The terminal sends an interrupt to the part as well, which ends what it has started.
    with _interrupts_noted() as pressed, subprocess.Popen(part.command) as process:
        why = ""
        while not _ends_within(process, _parts.LOOK_AGAIN) and not pressed:
            if time.monotonic() - started > total:
                why = f"has run for {limits.total:g} s"
                process.send_signal(signal.SIGABRT)  # for its stacks
                _ends_within(process, limits.stacks)
                process.kill()
        asked = time.monotonic()
        while len(pressed) == 1 and time.monotonic() - asked < limits.ending:
            if _ends_within(process, _parts.LOOK_AGAIN):
                break
        process.kill()
    if pressed:
        raise KeyboardInterrupt
    code = process.returncode
    why = why or ("" if code in part.passes else f"exit code {code}")
    return Ended(part=part, code=code, seconds=time.monotonic() - started, why=why)


@contextmanager
def _interrupts_noted() -> Iterator[list[int]]:
    """Note interrupts and raise nothing: none is lost, and none leaves a process behind that is not known yet."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None


def _coverage() -> Ended:
    subprocess.run([sys.executable, "-m", "coverage", "combine", "-q"], check=False)
    return _alone(Part(name="coverage", command=[sys.executable, "-m", "coverage", "report", "--skip-covered"]))


def _expected(kept: Path) -> dict[str, float]:
    """Return how many seconds each file took when it ran last."""
    return dict(json.loads(kept.read_text())) if kept.exists() else {}


def _keep_seconds(took: Path, kept: Path) -> None:
    """Remember how long files took; what did not run this time keeps what is known."""
    with suppress(FileNotFoundError, PermissionError):
        new = dict(json.loads(line) for line in took.read_text().splitlines())
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(_expected(kept) | new, indent=1, sort_keys=True))


def tell(ended: Sequence[Ended], results: dict[str, Results | None], *, may_be_empty: str | None = None) -> int:
    """Print what came of everything, the sum last; return the exit code."""
    told = [result for result in results.values() if result is not None]
    whole = _results.add_up(told)
    print()
    for name in whole.failures:
        print(f"failed: {name}")
    for service, count in whole.missing.items():
        print(f"not there: {service} ({count} tests left out)")
    bad = {part.part.name: _why_it_failed(part, results) for part in ended}
    for part in ended:
        name, counts = part.part.name, results.get(part.part.name)
        verdict = f"FAILED, {bad[name]}" if bad[name] else "passed"
        print(f"{name}: {verdict}{f': {counts}' if counts else ''} ({part.seconds:.0f} s)")
    empty = not any((whole.passed, whole.failed, whole.skipped))
    if empty and not any(bad.values()):
        print(_nothing_ran(may_be_empty))
    print(whole, flush=True)
    return 1 if any(bad.values()) or (empty and not may_be_empty) else 0


def _why_it_failed(part: Ended, results: dict[str, Results | None]) -> str:
    name = part.part.name
    early = "it ended before its tests did" if name in results and results[name] is None else ""
    return ": ".join(filter(None, [part.why, early]))


def _nothing_ran(may_be_empty: str | None) -> str:
    if may_be_empty in ROOMS:
        return f"no test is marked heavy({may_be_empty!r}) yet ({ROOMS[may_be_empty]})"
    if may_be_empty:
        return "no test had a step near its budget when it last ran"
    return "no test ran"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
