"""The code of the backend's page is run as it stands, and its table of run options is complete."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from asyncsched.schedulers.docker import DockerOpts
from tests.services.dockerd import Dockerd, busybox_tar, import_image
from tests.test_project_docs import blocks, run_block

PAGE = Path(__file__).parents[2] / "docs/backends/docker.md"


@pytest.mark.service("dockerd")
@pytest.mark.guard(loop_step=False, blocking=False, reason="a page's blocks import and define as users do")
async def test_its_code_runs(docker_host: str, dockerd: Dockerd) -> None:
    import_image(dockerd.api, "busybox:latest", busybox_tar())
    names: dict[str, Any] = {}
    for _, text, line in blocks(PAGE, "python"):
        printed = await run_block(text, PAGE, line, names)

    assert ["greeter 0 hello from 0", "greeter 1 hello from 1"] == sorted(printed.splitlines())


def test_its_options_are_those_there_are() -> None:
    section = PAGE.read_text().partition("## Run options")[2].partition("\n## ")[0]

    assert [field.name for field in fields(DockerOpts)] == re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
