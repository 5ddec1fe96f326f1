"""The workflows for the usual hosting: actionlint takes them, and each step is a script of this repository."""

from __future__ import annotations

import os
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCRIPTS = sorted(path for path in (ROOT / ".ci").iterdir() if path.is_file())


def jobs(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())["jobs"]
    return loaded


def commands() -> Iterator[str]:
    for workflow in WORKFLOWS:
        for job in jobs(workflow.name).values():
            yield from (step["run"] for step in job["steps"] if "run" in step)


def test_every_step_is_a_script_of_this_repository() -> None:
    scripts = {shlex.split(command.removeprefix("python "))[0] for command in commands()}

    assert {".ci/run", ".ci/lowest", ".ci/imports", ".ci/build", ".ci/try-wheels"} == scripts


@pytest.mark.parametrize("script", [pytest.param(path, id=path.name) for path in SCRIPTS])
def test_a_script_can_be_run_and_is_on_the_page(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert f"`.ci/{script.name}" in (ROOT / "docs" / "releasing.md").read_text()


def test_every_python_from_the_lowest_on_is_tried() -> None:
    assert ["3.11", "3.12", "3.13", "3.14"] == jobs("ci.yml")["tests"]["strategy"]["matrix"]["python"]


def test_publishing_needs_no_password_and_only_there_is_a_token() -> None:
    release = jobs("release.yml")

    assert {"id-token": "write"} == release["publish"]["permissions"]
    assert "permissions" not in release["build"]
    assert "secrets." not in "".join(path.read_text() for path in WORKFLOWS)


@pytest.mark.timeout(900)  # it may have to be built
def test_actionlint_takes_the_workflows() -> None:
    done = subprocess.run([ROOT / ".ci" / "lint-workflows"], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip(done.stdout.strip())

    assert (0, "") == (done.returncode, done.stdout)


def test_the_lowest_releases_are_those_of_all_that_users_install() -> None:
    done = subprocess.run([ROOT / ".ci" / "lowest", "--bounds"], capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    assert set(bounds()) == set(done.stdout.split())


def bounds() -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: needed for name, needed in project["optional-dependencies"].items() if name != "test"}
    for each in chain(project["dependencies"], *extras.values()):
        if not each.startswith("asyncsched["):
            name, bound = each.partition(",")[0].split(">=")
            yield f"{name}=={bound}"


def test_a_tag_that_is_not_the_version_is_refused() -> None:
    done = subprocess.run([ROOT / ".ci" / "build", "v99.0"], capture_output=True, text=True, check=False)

    assert 1 == done.returncode
    assert done.stderr.startswith("the tag is v99.0, and the version is ")
