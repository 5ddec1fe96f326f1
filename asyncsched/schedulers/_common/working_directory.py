"""The submitter's working directory."""

from __future__ import annotations

from pathlib import Path

from asyncsched.errors import ConfigError

__all__ = ["working_directory"]


def working_directory() -> str:
    """Return the submitter's working directory; raise ConfigError if it was removed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError as error:
        raise ConfigError(
            "the working directory no longer exists", why="it was removed", fix="change to another one"
        ) from error
