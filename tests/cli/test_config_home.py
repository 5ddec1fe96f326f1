"""Configuration files in the home directory, which may be a folder that everybody writes to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsched.errors import ConfigError
from asyncsched.runner.config import Config, load_config
from tests.cli.test_config_trust import DOUBT, NOBODY, needs_root, used, write

FILES = {
    ".torchxconfig": "[local_cwd]\nenv = A:b\ngrace_period = 3.0\n",
    ".config/asyncsched/config.toml": '[scheduler.local_cwd]\nenv.A = "b"\ntimeout = 3.0\n',
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home/.config/asyncsched").mkdir(parents=True)
    (tmp_path / "home/work").mkdir()
    (tmp_path / "home").chmod(0o1777)
    return tmp_path / "home"


@pytest.fixture
def load(home: Path) -> Callable[..., Config]:
    return lambda start=None, **variables: load_config(start or home.parent, {"HOME": str(home), **variables})


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_others_may_write_is_not_used(home: Path, load: Callable[..., Config], name: str) -> None:
    file = write(home / name, FILES[name], mode=0o666)

    assert set() == used(load())
    for start, shown in ((home.parent, f"./home/{name}"), (home / "work", f"~/{name}")):
        shown = f"../{name}" if (start, name) == (home / "work", ".torchxconfig") else shown
        assert [f"{shown} is not used: {DOUBT}; ASYNCSCHED_TRUST_CONFIG={file} allows it"] == load(start).warnings
    for trusted in (file, file.parent, home):
        config = load(ASYNCSCHED_TRUST_CONFIG=str(trusted))

        assert ({"env"}, []) == (used(config) - {"grace_period", "timeout"}, config.warnings)


def test_the_home_as_working_directory(home: Path, load: Callable[..., Config]) -> None:
    write(home / ".torchxconfig", FILES[".torchxconfig"], mode=0o666)
    config = load(home)

    assert {"grace_period"} == used(config)
    assert 1 == len(config.warnings)
    assert config.warnings[0].startswith("./.torchxconfig is used without scheduler.local_cwd.env: ")


def test_a_home_by_another_name(home: Path, load: Callable[..., Config]) -> None:
    write(home / ".torchxconfig", FILES[".torchxconfig"])
    (home.parent / "alias").symlink_to(home)
    config = load(home / "work", HOME=str(home.parent / "alias"))

    assert {"env", "grace_period"} == used(config)
    assert 1 == len(config.files)


def test_a_home_that_does_not_exist(load: Callable[..., Config]) -> None:
    assert ([], []) == (load(HOME="/nonexistent").files, load(HOME="/nonexistent").warnings)


@pytest.mark.parametrize("name", ["asyncsched.toml", ".torchxconfig"])
def test_a_user_without_a_home(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Such as the user of a container that runs as any user: the search goes to the root."""

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    text = FILES[".torchxconfig"] if name == ".torchxconfig" else FILES[".config/asyncsched/config.toml"]
    home.chmod(0o755)
    write(home / name, text)
    monkeypatch.setattr(Path, "home", no_home)
    config = load_config(home / "work", {})

    assert ([f"../{name}"], []) == (config.files, config.warnings)
    write(home / ".config/asyncsched/config.toml", "[command.list]\nlimit = 1\n")
    config = load_config(home / "work", {"XDG_CONFIG_HOME": str(home / ".config")})

    assert ({f"../{name}", str(home / ".config/asyncsched/config.toml")}, []) == ({*config.files}, config.warnings)


@pytest.mark.parametrize("variable", ["ASYNCSCHED_TRUST_CONFIG", "ASYNCSCHED_CONFIG", "TORCHXCONFIG"])
def test_a_variable_with_an_unknown_home(load: Callable[..., Config], variable: str) -> None:
    with pytest.raises(ConfigError, match=rf"no file ~nosuch/x: {variable} names it, and there is no such home"):
        load(**{variable: "~nosuch/x"})


@needs_root
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_somebody_else(home: Path, load: Callable[..., Config], name: str) -> None:
    write(home / name, FILES[name], owner=NOBODY)

    assert set() == used(load())
    assert f"{name} is not used: it belongs to " in load().warnings[0]
    os.chown(home, NOBODY, -1)

    assert "env" in used(load())
    assert [] == load().warnings


@needs_root
def test_a_folder_of_somebody_else_in_the_home(home: Path, load: Callable[..., Config]) -> None:
    write(home / ".config/asyncsched/config.toml", FILES[".config/asyncsched/config.toml"])
    os.chown(home / ".config/asyncsched", NOBODY, -1)

    assert set() == used(load())
    assert "its folder belongs to " in load().warnings[0]
