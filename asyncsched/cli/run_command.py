"""The app of ``asyncsched run -- COMMAND``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import click

from asyncsched.components.images import default_image
from asyncsched.errors import ConfigError
from asyncsched.schedulers.shape import holds_arguments
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.resources import resource
from asyncsched.specs.secret import MASK
from asyncsched.specs.secret_text import replaced

__all__ = ["app_of_command"]


def app_of_command(words: Sequence[str], shape: Mapping[str, Any]) -> AppDef:
    """Return an app with one role, which runs the command.

    Args:
        words: The program and its arguments.
        shape: The given options: replicas, image, name, cpu, memmb, gpu, env.
    """
    _check_program(words[0])
    name = shape.get("name") or _name_of(words[0])
    size = {key: shape.get(key) for key in ("cpu", "gpu")}
    role = Role(
        name=name,
        image=shape.get("image") or default_image(),
        entrypoint=words[0],
        args=[*words[1:]],
        env=dict(map(_pair, shape.get("env", ()))),
        num_replicas=shape.get("replicas", 1),
        resource=resource(**size, memMB=shape.get("memmb")),
    )
    return AppDef(name=name, roles=[role])


def _check_program(program: str) -> None:
    """Refuse a whole command in quotes."""
    if not holds_arguments(program):
        return
    shown = replaced(program, MASK)
    raise ConfigError(
        f"the program after -- must be one word, got {shown!r}",
        why="no shell splits it into words",
        fix=f"leave out the quotes (run -- {shown}), or run a shell (run -- sh -c '...')",
    )


def _name_of(program: str) -> str:
    """Return the program's name as far as an app may be called so."""
    return re.sub(r"[^a-z0-9-]+", "-", PurePath(program).stem.lower()).strip("-") or "command"


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--env {name} has no value; write --env NAME=VALUE")
    return name, value
