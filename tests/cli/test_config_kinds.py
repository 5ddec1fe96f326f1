"""Something else than a file in the place of a configuration file, and files that are not text."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsched.errors import ConfigError
from asyncsched.runner.config import Config, load_config
from tests.cli.test_config_trust import needs_root


def _link(path: Path) -> None:
    if not path.is_symlink():
        path.symlink_to("nowhere")


OTHERS: dict[str, Callable[[Path], object]] = {
    "directory": lambda path: path.mkdir(),
    "fifo": os.mkfifo,
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "link loop": lambda path: path.symlink_to(path.name),
    "link to a dangling link": lambda path: (path.symlink_to("next"), _link(path.parent / "next")),
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
    leads_nowhere = kind in {"dangling link", "link loop", "link to a dangling link"}
    why = "it links to a file that does not exist or cannot be reached" if leads_nowhere else "it is not a regular file"

    assert [] == config.files
    assert [
        f"./.torchxconfig is not used: {why}",
        f"./asyncsched.toml is not used: {why}",
        f"~/.config/asyncsched/config.toml is not used: {why}",
    ] == sorted(config.warnings)


@pytest.mark.parametrize("is_trusted", [True, False])
@pytest.mark.parametrize("steps", [1, 2])
def test_a_link_to_dev_null_switches_a_file_off(
    work: Path, load: Callable[..., Config], steps: int, is_trusted: bool
) -> None:
    for path in (work / "asyncsched.toml", work / ".torchxconfig", work / "../home/.config/asyncsched/config.toml"):
        path.symlink_to(os.devnull if steps == 1 else "off")
        if steps == 2 and not (path.parent / "off").is_symlink():
            (path.parent / "off").symlink_to(os.devnull)
    (work / "../home/.torchxconfig").symlink_to(os.devnull)
    config = load(**({"ASYNCSCHED_TRUST_CONFIG": f"{work.parent}:/dev"} if is_trusted else {}))

    assert ([], []) == (config.files, config.warnings)


@needs_root
def test_dev_null_by_another_name(work: Path, load: Callable[..., Config]) -> None:
    """Containers mount it on files."""
    try:
        for name, device in (("asyncsched.toml", Path(os.devnull).stat().st_rdev), (".torchxconfig", os.makedev(1, 5))):
            os.mknod(work / name, stat.S_IFCHR | 0o666, device)
    except PermissionError:
        pytest.skip("this root may not make devices")

    assert ["./.torchxconfig is not used: it is not a regular file"] == load().warnings


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
