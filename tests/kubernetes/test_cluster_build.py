"""The build of the tests' cluster: what cannot be had is told apart from what is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.kubernetes import build_modules

BUILD = Path(__file__).parents[1] / "services" / "kubernetes" / "build"


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder for PATH with nothing but a shell, and no Go."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sh").symlink_to("/bin/sh")
    return folder


def build(tools: Path, cache: Path, **more: str) -> tuple[int, str]:
    """Run the build with no program but these."""
    environment = {"PATH": str(tools), "HOME": str(cache), "XDG_CACHE_HOME": str(cache), **more}
    command = [sys.executable, "-m", "tests.services.kubernetes.build_cluster"]
    done = subprocess.run(command, cwd=BUILD.parents[3], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).splitlines()[-1]


def fake_go(tools: Path, script: str) -> None:
    (tools / "go").write_text(f"#!/bin/sh\n{script}\n")
    (tools / "go").chmod(0o755)


OLD = "echo go1.23.4"
NEW = 'if [ "$1" = env ]; then echo go1.26.0; exit; fi; echo "$SAYS" >&2; exit 1'


def test_without_go_it_cannot_be_had(tools: Path, tmp_path: Path) -> None:
    told = "the Kubernetes cluster cannot be built here: Go 1.24 or newer is needed on PATH, and there is none"

    assert (3, told) == build(tools, tmp_path)


def test_an_old_go_is_named(tools: Path, tmp_path: Path) -> None:
    fake_go(tools, OLD)
    code, told = build(tools, tmp_path)

    assert 3 == code
    assert told.endswith(f"and {tools}/go is go1.23.4")


def test_modules_that_no_proxy_has_cannot_be_had(tools: Path, tmp_path: Path) -> None:
    fake_go(tools, NEW)
    code, told = build(tools, tmp_path, SAYS="volcano.sh/apis@v1.14.1: 404 Not Found")

    assert 3 == code
    assert told.endswith(
        "the Go modules cannot be had (ASYNCSCHED_GOMODULES may name a folder of modules): "
        "volcano.sh/apis@v1.14.1: 404 Not Found"
    )


def test_a_module_that_is_not_what_it_was_is_a_failure(tools: Path, tmp_path: Path) -> None:
    fake_go(tools, NEW)

    assert 1 == build(tools, tmp_path, SAYS="verifying k8s.io/api: checksum mismatch")[0]


def test_the_folder_of_modules_is_asked_before_the_proxy(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_go(tools, 'if [ "$1 $2" = "env GOPROXY" ]; then echo https://proxy.example,direct; fi')
    monkeypatch.setenv("ASYNCSCHED_GOMODULES", str(tmp_path))
    environment = build_modules.environment(str(tools / "go"))

    assert f"file://{tmp_path},https://proxy.example,direct" == environment["GOPROXY"]
    assert "volcano.sh/apis" in environment["GONOSUMDB"].split(",")


def test_its_folder_is_told_and_lies_outside_the_tree(tmp_path: Path) -> None:
    told = subprocess.run(
        [BUILD, "--where"],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert Path(told.stdout.strip()).is_relative_to(tmp_path)
