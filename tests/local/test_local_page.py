"""The code of the backend's page is run as it stands, and its table of run options is complete."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from asyncsched.schedulers.local import LocalOpts
from tests.test_project_docs import blocks, run_block

PAGE = Path(__file__).parents[2] / "docs/backends/local.md"


@pytest.mark.guard(loop_step=False, blocking=False, reason="a page's blocks import and define as users do")
async def test_its_code_runs(home: Path) -> None:
    names: dict[str, Any] = {}
    printed = "".join([await run_block(text, PAGE, line, names) for _, text, line in blocks(PAGE, "python")])

    assert ["greeter 0 hello from 0", "greeter 1 hello from 1"] == sorted(printed.splitlines())


def test_its_options_are_those_there_are() -> None:
    section = PAGE.read_text().partition("## Run options")[2].partition("\n## ")[0]

    assert [field.name for field in fields(LocalOpts)] == re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
