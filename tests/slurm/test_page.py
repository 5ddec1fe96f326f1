"""The code of the backend's page is run as it stands, and its table of run options is complete."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from asyncsched.schedulers.slurm import SlurmOpts
from asyncsched.schedulers.slurm.request_options import OURS
from asyncsched.schedulers.slurm.status import JOB_STATES
from tests.services.slurm import SlurmCluster
from tests.test_project_docs import blocks, run_block

PAGE = Path(__file__).parents[2] / "docs/backends/slurm.md"


@pytest.mark.service("slurm")
@pytest.mark.guard(loop_step=False, blocking=False, reason="a page's blocks import and define as users do")
async def test_its_code_runs(slurm_conf: SlurmCluster) -> None:
    names: dict[str, Any] = {}
    for _, text, line in blocks(PAGE, "python"):
        printed = await run_block(text, PAGE, line, names)

    assert ["greeter 0 hello from 0", "greeter 1 hello from 1"] == sorted(printed.splitlines())


def test_its_options_are_those_there_are() -> None:
    section = PAGE.read_text().partition("## Run options")[2].partition("\n## ")[0]

    assert [field.name for field in fields(SlurmOpts)] == re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)


def test_its_states_are_states_of_the_table() -> None:
    section = PAGE.read_text().partition("## States")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[A-Z].*?) \|", section, re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert told <= {*JOB_STATES}
    assert len(told) > 20


def test_its_refused_arguments_are_those_there_are() -> None:
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith("| `sbatch_args`"))

    assert [*OURS] == re.findall(r"`--([a-z-]+)`", row.partition("are refused")[2])
