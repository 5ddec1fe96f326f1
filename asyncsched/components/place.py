"""Name a place in the user's code: file and line."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from pathlib import Path

__all__ = ["place_of", "short_path", "where"]


def where(function: Callable[..., object]) -> tuple[str, int]:
    """Return the file and the line where a function begins."""
    code = inspect.unwrap(function).__code__
    return short_path(code.co_filename), code.co_firstlineno


def place_of(error: BaseException) -> str:
    """Return ``file:line`` of the innermost frame outside the standard library."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{short_path(error.filename)}:{error.lineno}"
    import sysconfig  # imported late: only an error needs it

    frames = traceback.extract_tb(error.__traceback__)
    standard = sysconfig.get_path("stdlib")
    own = [frame for frame in frames if not frame.filename.startswith(("<", standard))]
    return ":".join(f"{short_path(frame.filename)}:{frame.lineno}" for frame in (own or frames)[-1:])


def short_path(file: str) -> str:
    """Return a path relative to the working directory if it is below it, else unchanged."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file
