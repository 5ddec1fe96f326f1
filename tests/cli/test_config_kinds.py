"""Something else than a file in the place of a configuration file, and files that are not text."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsched.errors import ConfigError
from asyncsched.runner.config import Config, load_config

OTHERS: dict[str, Callable[[Path], object]] = {
    "directory": lambda path: path.mkdir(),
    "fifo": os.mkfifo,
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "link loop": lambda path: path.symlink_to(path.name),
    "link to a directory": lambda path: path.symlink_to("."),
}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "home/.config/asyncsched").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def load(work: Path) -> Callable[..., Config]:
    return lambda **variables: load_config(work, {"HOME": str(work.parent / "home"), **variables})


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("is_trusted", [True, False])
def test_what_is_no_file_is_told(work: Path, load: Callable[..., Config], kind: str, is_trusted: bool) -> None:
    """It is not waited for either."""
    for path in (work / "asyncsched.toml", work / ".torchxconfig", work / "../home/.config/asyncsched/config.toml"):
        OTHERS[kind](path)
    config = load(**({"ASYNCSCHED_TRUST_CONFIG": str(work.parent)} if is_trusted else {}))

    assert [] == config.files
    assert [
        "./.torchxconfig is not used: it is not a regular file",
        "./asyncsched.toml is not used: it is not a regular file",
        "~/.config/asyncsched/config.toml is not used: it is not a regular file",
    ] == sorted(config.warnings)


@pytest.mark.parametrize("kind", OTHERS)
def test_what_may_not_be_about_us_is_passed_over(work: Path, load: Callable[..., Config], kind: str) -> None:
    OTHERS[kind](work / "pyproject.toml")
    OTHERS[kind](work / "../asyncsched.toml")

    assert ([], []) == (load().files, load().warnings)


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("variable", ["ASYNCSCHED_CONFIG", "TORCHXCONFIG"])
def test_what_a_variable_names_must_be_a_file(
    work: Path, load: Callable[..., Config], kind: str, variable: str
) -> None:
    OTHERS[kind](work / "named")
    with pytest.raises(ConfigError, match=f"no file named: {variable} names it"):
        load(**{variable: "named"})


@pytest.mark.parametrize(
    ("encoding", "table"),
    [
        ("latin-1", "[tool.asyncsched.command.run]"),
        ("latin-1", "[tool]\nasyncsched.command.run.cpu = 1"),
        ("utf-16", "[tool.asyncsched.command.run]"),
        ("utf-16-le", "[tool.asyncsched.command.run]"),
    ],
)
def test_a_project_file_that_is_not_utf_8(work: Path, load: Callable[..., Config], encoding: str, table: str) -> None:
    (work / "pyproject.toml").write_bytes(f'[project]\nname = "\u00e9"\n{table}\n'.encode(encoding))
    with pytest.raises(ConfigError, match=r"^\./pyproject\.toml cannot be read: "):
        load()
    (work / "pyproject.toml").write_bytes('[project]\nname = "asyncsched-\u00e9"\n'.encode(encoding))

    assert [] == load().files
