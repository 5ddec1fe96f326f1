"""Values of a shape that nothing has: errors that name the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsched.cli.command_config import check_commands
from asyncsched.errors import ConfigError
from asyncsched.runner.config import Config, load_config

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
