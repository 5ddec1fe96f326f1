"""Values of a shape that nothing has: errors that name the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest

from asyncsched.cli.command_config import _defaults, check_commands
from asyncsched.cli.list import command as list_command
from asyncsched.errors import ConfigError
from asyncsched.runner.config import Config, load_config, run_options
from asyncsched.schedulers.local.options import LocalOpts
from asyncsched.schedulers.request_checks import check_seconds, check_tunable
from asyncsched.specs import runopts
from tests.cli._cli import Cli

VALUES = ("inf", "[]", "[[]]", "{}", "{ a = 1 }", "1979-05-27", "07:32:00")


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Config]:
    def load(text: str, name: str = "asyncsched.toml") -> Config:
        (tmp_path / name).write_text(text)
        return load_config(tmp_path, {"HOME": str(tmp_path / "home")})

    return load


@pytest.mark.parametrize("value", ["1", '"x"', "[]", "[{}]", "2030-12-31"])
def test_a_project_file_with_something_else_than_our_table(load: Callable[..., Config], value: str) -> None:
    with pytest.raises(ConfigError, match=r"`tool.asyncsched` is not a table \(from \./pyproject\.toml:2\)"):
        load(f"[tool]\nasyncsched = {value}\n", "pyproject.toml")

    assert [] == load(f"tool = {value}  # not asyncsched\n", "pyproject.toml").files


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("option", ["run.limit", "run.yes", "run.cpu", "list.since", "wait.timeout", "log.output"])
def test_an_option_of_a_command_of_another_shape(load: Callable[..., Config], option: str, value: str) -> None:
    command, _, name = option.partition(".")
    with pytest.raises(ConfigError, match=rf"`{name}` of the command {command}: .* \(from \./asyncsched\.toml:2\)"):
        check_commands(load(f"[command.{command}]\n{name} = {value}\n"), {})


def test_numbers_are_as_good_as_their_texts(load: Callable[..., Config]) -> None:
    check_commands(load("[command.wait]\ntimeout = 30\n[command.log]\ntail = 3\n[command.run]\nenv = [1]\n"), {})


@pytest.mark.parametrize(("value", "expected"), [("5.0", "5"), ("1e3", "1000")])
def test_a_whole_float_is_as_good_as_an_integer(tmp_path: Path, value: str, expected: str) -> None:
    (tmp_path / "asyncsched.toml").write_text(f"[command.list]\nlimit = {value}\nname = 5.0\n")
    config = load_config(tmp_path, {"HOME": str(tmp_path / "home")})
    options = [param for param in list_command.params if isinstance(param, click.Option)]

    assert {"limit": expected, "name": "5.0"} == _defaults(config, "list", options)


@pytest.mark.parametrize("value", ["5.5", "-5.0", "0.0", "inf", "nan"])
def test_other_floats_are_errors(load: Callable[..., Config], value: str) -> None:
    with pytest.raises(ConfigError, match=r"`limit` of the command list: .* \(from \./asyncsched\.toml:2\)"):
        check_commands(load(f"[command.list]\nlimit = {value}\n"), {})


@pytest.mark.parametrize(
    ("name", "header"),
    [("asyncsched.toml", "[scheduler.local_cwd]"), ("pyproject.toml", "[tool.asyncsched.command.run]")],
)
def test_an_integer_of_many_digits(load: Callable[..., Config], name: str, header: str) -> None:
    with pytest.raises(ConfigError, match=rf"^\./{name} cannot be read: an integer in it has too many digits$"):
        load(f"{header}\nlimit = 1{'0' * 5000}\n", name)
    for value in (f"0x{'f' * 90}", f"[0x{'f' * 20_000}]"):  # Python reads these, but does not print a long one
        with pytest.raises(ConfigError, match=rf"^`limit` .* of more than 100 digits \(from \./{name}:2\)$"):
            load(f"{header}\nlimit = {value}\n", name)


def test_only_the_beginning_of_a_wrong_value_is_shown(load: Callable[..., Config]) -> None:
    value, options = f'"{"x" * 5000}"', runopts.of(LocalOpts)
    config = load(f"[command.run]\ncpu = {value}\n[scheduler.local_cwd]\ngrace_period = {value}\n")
    with pytest.raises(ConfigError, match=r"`cpu` .* \(from \./asyncsched\.toml:2\)") as of_command:
        check_commands(config, {})
    with pytest.raises(ConfigError, match=r"grace_period, .* \(from \./asyncsched\.toml:4\)") as of_scheduler:
        run_options(config, "local_cwd", options)

    assert 400 > max(len(str(of_command.value)), len(str(of_scheduler.value)))


def test_an_integer_that_cannot_be_printed(load: Callable[..., Config]) -> None:
    for refused in (lambda value: check_seconds("timeout", value), lambda value: check_tunable("poll", value)):
        with pytest.raises(ConfigError, match="got an integer of too many digits"):
            refused(16**20_000)


def test_a_time_that_a_scheduler_refuses_is_told_with_its_line(cli: Cli) -> None:
    """Only the scheduler knows its bounds."""
    cli.schedulers = ["local_cwd"]
    (cli.folder / "asyncsched.toml").write_text("[scheduler.local_cwd]\ngrace_period = nan\n")
    run = ("run", "-s", "local_cwd", "--dryrun", "--", "true")
    configured, typed = cli(*run), cli(*run[:-3], "-cfg", "grace_period=inf", *run[-3:])

    assert (2, 2) == (configured.code, typed.code)
    assert "got nan (from ./asyncsched.toml:2)\n" in configured.err
    assert "got inf\n" in typed.err
