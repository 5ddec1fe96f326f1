"""The same job through TorchX's own command line, with its own scheduler and with asyncsched below it."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from benchmarks._alone import adopt_orphans
from benchmarks._aws import QUEUE, Emulator, emulator
from benchmarks._harness import LEAST_ROUNDS, Claim, Count, at_least, at_most, in_turns
from benchmarks._peer import installed

PLUGIN = Path(__file__).parents[1] / "asyncsched-torchx"
OURS = "torchx with the plugin"
THEIRS = "torchx alone"

NODES, SAID = 4, 9
HELP_ROUNDS = 21  # one start can take half as long again as the next
REPLICAS, LINES = 50, 401

COMPONENT = """
from torchx import specs

def job(program: str, image: str, replicas: int, entrypoint: str = "sh", first: str = "-c") -> specs.AppDef:
    '''Run a program.

    Args:
        program: what the entrypoint is given
        image: the image
        replicas: how many
        entrypoint: what runs it
        first: what stands before it
    '''
    role = specs.Role("main", image, entrypoint=entrypoint, args=[first, program], num_replicas=replicas)
    role.resource = specs.Resource(cpu=1, gpu=0, memMB=128)
    return specs.AppDef("bench", [role])
"""


class Cost(NamedTuple):
    """What one command has cost.

    Attributes:
        cpu: CPU seconds of the command and of all that it has started.
        lines: How many lines of replicas it has shown.
        calls: How many calls of AWS's services it has made.
    """

    cpu: float
    lines: int = 0
    calls: int = 0


def claims() -> Iterator[Claim]:
    """Run a job of 4 nodes on an emulated AWS, ask for help, and run 50 local replicas."""
    adopt_orphans()
    with tempfile.TemporaryDirectory() as folder, emulator() as aws:
        homes = {name: _home(Path(folder, name.replace(" ", "-")), plugin=name == OURS) for name in (THEIRS, OURS)}
        yield from _on_aws(homes, aws)
        asked = in_turns({name: partial(_run, home, "--help") for name, home in homes.items()}, HELP_ROUNDS)
        yield at_most("`torchx --help`: CPU", asked.ratio(OURS, THEIRS, _CPU), 1.2, detail=asked.told(1e3, "ms", _CPU))
        yield _locally(homes)


def _on_aws(homes: dict[str, Path], aws: Emulator) -> Iterator[Claim]:
    aws.set("pace", ingest=0.3, stop_children=2.0)
    taken = in_turns({name: _job_on_aws(home, aws) for name, home in homes.items()}, LEAST_ROUNDS)
    what = f"`run --wait --log` of {NODES} nodes on AWS Batch"
    shown = {name: [cost.lines for cost in taken.of[name]] for name in homes}
    told = f"of {NODES * SAID}; alone {min(shown[THEIRS])} to {max(shown[THEIRS])}"
    yield at_least(what, Count(number=min(shown[OURS]), of="lines, which are all"), NODES * SAID, detail=told)
    calls = attrgetter("calls")
    yield at_most(f"{what}: calls", taken.ratio(OURS, THEIRS, calls), 0.8, detail=taken.told(1, "calls", calls))
    yield at_most(f"{what}: CPU", taken.ratio(OURS, THEIRS, _CPU), 0.8, detail=taken.told(1, "s", _CPU))


def _job_on_aws(home: Path, aws: Emulator) -> Callable[[], Cost]:
    steps = json.dumps([*[["line", "hello"], ["sleep", 1.0]] * SAID])
    options = ["-cfg", f"queue={QUEUE}", "--workspace", "", "--wait", "--log"]
    program = ["--program", steps, "--image", "script", "--replicas", str(NODES), "--entrypoint", "play"]

    def measure() -> Cost:
        aws.calls()
        cost = _run(home, "run", "-s", "aws_batch", *options, "jobs.py:job", *program)
        return cost._replace(calls=sum(aws.calls().values()))

    return measure


def _locally(homes: dict[str, Path]) -> Claim:
    count = f"i=0; while [ $$i -lt {LINES} ]; do echo line $$i; i=$$((i+1)); done"
    line = ["run", "-s", "local_cwd", "jobs.py:job", "--program", count, "--image", "", "--replicas", str(REPLICAS)]
    shown = {name: _run(home, *line).lines for name, home in homes.items()}
    return at_least(
        f"{REPLICAS} local replicas of {LINES} lines",
        Count(number=shown[OURS], of="lines, which are all"),
        REPLICAS * LINES,
        detail=f"alone {shown[THEIRS]:,}",
    )


_CPU: Callable[[Cost], float] = attrgetter("cpu")


def _run(home: Path, *line: str) -> Cost:
    env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home), "PYTHONPATH": str(home / "packages")}
    before = _used()
    done = subprocess.run(
        [str(installed() / "bin/torchx"), *line], cwd=home, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"torchx {' '.join(line)}: {done.stderr}")
    return Cost(_used() - before, len(re.findall(r"^main/\d+ ", done.stdout + done.stderr, re.MULTILINE)))


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _home(folder: Path, *, plugin: bool) -> Path:
    """Make a home with a component, in which Python finds our packages behind TorchX's own, and the plugin or not."""
    packages = folder / "packages"
    packages.mkdir(parents=True)
    if plugin:
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        install = [*pip, "install", "--no-deps", "--target", str(packages), str(PLUGIN)]
        subprocess.run(install, check=True, stdout=sys.stderr)
    ours = sysconfig.get_paths()["purelib"]
    packages.joinpath("sitecustomize.py").write_text(f"import site\nsite.addsitedir({ours!r})\n")
    folder.joinpath("jobs.py").write_text(COMPONENT)
    return folder
