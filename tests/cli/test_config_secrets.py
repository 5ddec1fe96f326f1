"""Ordinary mistakes in a configuration file: no message repeats the secret that stands in the wrong place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsched.cli.command_config import check_commands, component_defaults
from asyncsched.components import get_component
from asyncsched.errors import AsyncSchedError
from asyncsched.runner.config import Config, load_config, run_options
from asyncsched.schedulers.local.options import LocalOpts
from asyncsched.specs import runopts

Check = Callable[[Config], object]


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Config]:
    def load(text: str, name: str = "asyncsched.toml") -> Config:
        (tmp_path / name).write_text(text)
        return load_config(tmp_path, {"HOME": str(tmp_path / "home")})

    return load


def of_commands(config: Config) -> None:
    check_commands(config, {})


def of_local(config: Config) -> None:
    run_options(config, "local_cwd", runopts.of(LocalOpts))


def of_component(config: Config) -> None:
    component_defaults(config, get_component("dist.ddp"))


@pytest.mark.parametrize(
    ("section", "setting", "check", "told"),
    [
        ("command.run", 'env = {API_TOKEN = "hunter2"}', of_commands, "dict[str, str] is not a list of strings"),
        ("command.run", 'env = [{API_TOKEN = "hunter2"}]', of_commands, "list[dict] is not a list of strings"),
        ("command.run", 'replicas = ["hunter2", 2]', of_commands, "list[str | int] is not a single value"),
        ("command.run", 'replicas = "API_TOKEN=hunter2"', of_commands, "a text with `=` is not a valid whole number"),
        ("command.run", 'replicas = "token: hunter2"', of_commands, "'token: ***' is not a valid whole number"),
        ("command.wait", 'timeout = "API_TOKEN=hunter2"', of_commands, "a text with `=` is not a time"),
        ("command.list", 'since = "API_TOKEN=hunter2"', of_commands, "a text with `=` is not a time"),
        ("command.log", 'streams = "API_TOKEN=hunter2"', of_commands, "a text with `=` is not one of"),
        ("command.log", 'timestamps = "API_TOKEN=hunter2"', of_commands, "a text with `=` is not a valid boolean"),
        ("scheduler.local_cwd", 'env = {API_TOKEN = ["hunter2"]}', of_local, "but was: dict[str, list]"),
        ("scheduler.local_cwd", 'env = ["API_TOKEN=hunter2"]', of_local, "but was: list[str]"),
        ("scheduler.local_cwd", 'env = "API_TOKEN=hunter2"', of_local, "but was: a text with `=` (str)"),
        ("scheduler.local_cwd", 'env = "API_TOKEN:hunter2"', of_local, "but was: a text with `:` (str)"),
        ("scheduler.local_cwd", 'grace_period = "API_TOKEN=hunter2"', of_local, "but was: a text with `=` (str)"),
        ('component."dist.ddp"', 'env = {API_TOKEN = ["hunter2"]}', of_component, "got dict[str, list]"),
        ('component."dist.ddp"', 'env = [{API_TOKEN = "hunter2"}]', of_component, "got list[dict]"),
        ('component."dist.ddp"', 'cpu = "API_TOKEN=hunter2"', of_component, "got a text with `=`"),
    ],
)
def test_what_a_wrong_value_holds_is_not_told(
    load: Callable[..., Config], section: str, setting: str, check: Check, told: str
) -> None:
    with pytest.raises(AsyncSchedError) as error:
        check(load(f"[{section}]\n{setting}\n"))

    assert told in str(error.value)
    assert "(from ./asyncsched.toml:2)" in str(error.value)
    assert "hunter2" not in f"{error.value} {error.value!r}"


@pytest.mark.parametrize(
    ("section", "setting", "check", "told"),
    [
        ("command.run", "replicas = -5", of_commands, "-5 is not in the range"),
        ("command.run", 'replicas = "two"', of_commands, "'two' is not a valid whole number"),
        ("scheduler.local_cwd", 'grace_period = "long"', of_local, "but was: 'long' (str)"),
        ('component."dist.ddp"', 'cpu = "two"', of_component, "got 'two'"),
    ],
)
def test_a_plain_wrong_value_is_told(
    load: Callable[..., Config], section: str, setting: str, check: Check, told: str
) -> None:
    with pytest.raises(AsyncSchedError) as error:
        check(load(f"[{section}]\n{setting}\n"))

    assert told in str(error.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("API_TOKEN = hunter2\n", "line 1 is before the first [section]"),
        ("[local_cwd]\nAPI_TOKEN hunter2\n", "line 2 is neither `name = value` nor a [section]"),
        ("[local_cwd]\na hunter2\nb hunter2\n", "line 2 is neither `name = value` nor a [section], and 1 more"),
        ("[local_cwd]\nenv = T:hunter2%(nosuch)s\n", "it refers to nosuch, which there is not"),
        ("[local_cwd]\nenv = T:hunter2%(env)s\n", "its references refer to themselves, or to too many others"),
        ("[local_cwd]\nenv = T:%hunter2\n", "a % is followed by neither % nor (name)s"),
        ("[local_cwd]\nenv = T:hunter2\nenv = T:hunter2\n", "option 'env' in section 'local_cwd' already exists"),
    ],
)
def test_what_cannot_be_read_is_not_told(load: Callable[..., Config], text: str, why: str) -> None:
    with pytest.raises(AsyncSchedError) as error:
        load(text, ".torchxconfig").scheduler("local_cwd")

    assert why in str(error.value)
    assert "hunter2" not in f"{error.value} {error.value.__cause__}"
