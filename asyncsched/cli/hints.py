"""Add command line hints to the library's errors, which do not know about it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from shutil import which

import click

from asyncsched.errors import ComponentError, ConfigError

__all__ = ["no_component", "wrong_argument", "wrong_shape"]

_RUNS = {".py": "python", ".sh": "sh"}
"""The programs that run files that are not executable."""
_SHELL = "|&;<>$`*?(){}"


def no_component(error: ComponentError, words: Sequence[str], options: Sequence[str]) -> ComponentError:
    """Return the error for an unknown component, with the command that may have been meant.

    Args:
        error: The library's error.
        words: The name and the following words.
        options: The words before the name.
    """
    name = words[0]
    path = Path(name).expanduser()
    parts = _parts(name)
    if is_file := path.suffix in _RUNS and path.is_file() and (path.suffix == ".py" or not os.access(path, os.X_OK)):
        words = [_RUNS[path.suffix], *words]
    elif len(parts) > 1 and which(parts[0]) is not None:  # a line for a shell, as one word
        words = [*parts, *words[1:]]
    elif which(name) is None and (not name or any(mark in name for mark in ".:/")):
        return error
    hint = f"to run {'the file' if is_file else 'a command'}: {_as_command(words, options)}"
    if error.fix.startswith("did you mean"):
        hint = f"{error.fix}\n{hint}"
    elif not is_file and which(words[0]) is None:
        hint = f"asyncsched builtins lists all components (your own: path/file.py:function)\n{hint}"
    return _with_fix(error, hint)


def wrong_argument(error: ComponentError, component: str, run: click.Command) -> ComponentError:
    """Return the error for an invalid argument of a component, with a hint.

    Args:
        error: The library's error.
        component: The component's name.
        run: The command ``run``, whose options may be in the wrong place.
    """
    flag = error.what.rpartition(" ")[2]
    if error.fix and any(flag in param.opts for param in run.params) and "did you mean" not in error.fix:
        return _with_fix(error, f"{error.fix}; put options of asyncsched run before {component}")
    return error if error.fix else _with_fix(error, f"see asyncsched run {component} --help")


def wrong_shape(flags: Sequence[str], words: Sequence[str], options: Sequence[str]) -> ConfigError:
    """Return the error for options that are only for commands after ``--``, if there is no such command.

    Args:
        flags: The options.
        words: The component's name and the following words.
        options: The words before the name.
    """
    what = f"{', '.join(flags)} {'is' if len(flags) == 1 else 'are'} for a command after --"
    name = words[0] if words else "COMPONENT"
    if words and "." not in name and ":" not in name:
        return ConfigError(what, why=f"{name} was read as the name of a component", fix=_as_command(words, options))
    return ConfigError(what, why=f"{name} has its own arguments", fix=f"asyncsched run {name} --help shows them")


def _parts(name: str) -> list[str]:
    """Split a shell command line; one that needs a shell becomes ``sh -c LINE``."""
    if not any(mark.isspace() for mark in name):
        return [name]
    try:
        return ["sh", "-c", name] if {*name} & {*_SHELL} else shlex.split(name)
    except ValueError:  # an unclosed quote
        return [name]


def _as_command(words: Sequence[str], options: Sequence[str]) -> str:
    return shlex.join(["asyncsched", "run", *options, "--", *words])


def _with_fix(error: ComponentError, fix: str) -> ComponentError:
    told = ComponentError(error.what, why=error.why, fix=fix)
    told.__cause__ = error.__cause__
    return told
