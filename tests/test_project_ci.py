"""`.ci/run`: the Kubernetes cluster is built first, and what came of that decides about the run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the same `.ci/run`, whose build and tests only tell that they ran."""
    folder = tmp_path / "beside" / "project"
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci")
    for name in ("tests/services/kubernetes/build", "tests/run"):
        script = folder / name
        script.parent.mkdir(parents=True, exist_ok=True)
        word = script.name.upper()
        script.write_text(f'#!/bin/sh\necho {script.name} "$@" ${{ASYNCSCHED_GOMODULES:-}}\nexit ${{{word}:-0}}\n')
        script.chmod(0o755)
    return folder


def ci(project: Path, *arguments: str, **more: str) -> tuple[int, list[str]]:
    kept = {name: value for name, value in os.environ.items() if name != "ASYNCSCHED_GOMODULES"}
    done = subprocess.run(
        [project / ".ci" / "run", *arguments], env={**kept, **more}, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines()


def test_the_cluster_is_built_before_the_tests_run(project: Path) -> None:
    assert (0, ["build", "run --fast"]) == ci(project, "--fast")


def test_a_folder_of_modules_beside_the_project_is_used(project: Path) -> None:
    (project.parent / "shared" / "gomodules").mkdir(parents=True)

    assert (0, ["build ../shared/gomodules", "run ../shared/gomodules"]) == ci(project)
    assert (0, ["build /mine", "run /mine"]) == ci(project, ASYNCSCHED_GOMODULES="/mine")


@pytest.mark.parametrize(("built", "ran"), [(0, 1), (3, 0), (3, 1)])
def test_what_cannot_be_built_here_leaves_the_verdict_to_the_tests(project: Path, built: int, ran: int) -> None:
    assert (ran, ["build", "run"]) == ci(project, BUILD=str(built), RUN=str(ran))


@pytest.mark.parametrize(
    ("built", "why"),
    [(1, "failed (exit code 1)"), (2, "failed (exit code 2)"), (124, "was ended after 45 minutes")],
)
def test_a_build_that_fails_for_another_reason_is_a_failure(project: Path, built: int, why: str) -> None:
    told = ["build", "run", f"the build of the Kubernetes cluster {why}"]

    assert (1, told) == ci(project, BUILD=str(built))
