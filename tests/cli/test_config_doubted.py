"""Wrong values in a file that others may have written: they are left out, and stop no command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest

from asyncsched.cli.command_config import check_commands, command_defaults
from asyncsched.cli.list import command as list_command
from asyncsched.errors import ConfigError
from asyncsched.runner.config import Config, load_config, run_options
from asyncsched.schedulers.local.options import LocalOpts
from asyncsched.specs import runopts
from tests.cli.test_config_trust import write

LEFT_OUT = ": it is left out, as others may have written it"


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Config]:
    def load(text: str, name: str = "asyncsched.toml", *, mode: int = 0o666) -> Config:
        write(tmp_path / name, text, mode=mode)
        return load_config(tmp_path, {"HOME": str(tmp_path / "home")})

    return load


@pytest.mark.parametrize("setting", ["limit = -5", "limit = []", 'since = "x"', "output = 1"])
def test_a_wrong_option_of_a_command(
    load: Callable[..., Config], caplog: pytest.LogCaptureFixture, setting: str
) -> None:
    text = f"[command.list]\n{setting}\n"
    with pytest.raises(ConfigError) as error:
        check_commands(load(text, mode=0o644), {})
    check_commands(load(text), {})

    assert [f"{error.value.what}{LEFT_OUT}"] == [record.message for record in caplog.records]
    assert "(from ./asyncsched.toml:2)" in error.value.what


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("asyncsched.toml", '[scheduler.local_cwd]\ngrace_period = "x"\ntimeout = 3.0\n'),
        ("asyncsched.toml", "[scheduler.local_cwd]\ngrace-period = 1\ntimeout = 3.0\n"),
        (".torchxconfig", "[local_cwd]\ngrace_period = x\ntimeout = 3.0\n"),
    ],
)
def test_a_wrong_run_option(
    load: Callable[..., Config], caplog: pytest.LogCaptureFixture, name: str, text: str
) -> None:
    opts = runopts.of(LocalOpts)
    if "grace-period" not in text:
        with pytest.raises(ConfigError, match=rf"grace_period.* \(from \./{name}:2\)"):
            run_options(load(text, name, mode=0o644), "local_cwd", opts)
    found = run_options(load(text, name), "local_cwd", opts)

    assert {"timeout": 3.0} == {option: setting.value for option, setting in found.items()}
    assert [True] == [record.message.endswith(f"(from ./{name}:2){LEFT_OUT}") for record in caplog.records]


def test_a_reference_to_nothing(load: Callable[..., Config]) -> None:
    text = "[local_cwd]\ngrace_period = %(nosuch)s\ntimeout = 3.0\n"
    with pytest.raises(ConfigError, match="cannot be read"):
        load(text, ".torchxconfig", mode=0o644).scheduler("local_cwd")
    config = load(text, ".torchxconfig")

    assert {"timeout"} == {*config.scheduler("local_cwd")}
    assert "is used without scheduler.local_cwd.grace_period: others may" in config.warnings[0]


def test_a_command_tells_it(
    load: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As a warning of its own, which the console prints without control characters."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    load("[command.list]\nlimit = -5\nname = 'x'\n")
    options = [param for param in list_command.params if isinstance(param, click.Option)]
    warnings: list[str] = []

    assert {"name": "x"} == command_defaults("list", options, warnings.append)
    assert [True, False] == [warning.startswith("warning: ./asyncsched.toml is used, ") for warning in warnings]
    assert warnings[1].startswith("warning: `limit` of the command list: ")
    assert warnings[1].endswith(f"(from ./asyncsched.toml:2){LEFT_OUT}")
    assert [] == caplog.records
