"""Format an error in at most six lines (what happened, why, and what to do), for a terminal and for a notebook."""

from __future__ import annotations

import os
import sys
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from asyncsched.errors import AsyncSchedError

__all__ = [
    "MOST_LINES",
    "error_lines",
    "group_lines",
    "let_notebook_show",
    "notebook_lines",
    "quiet",
    "tag_of",
]

MOST_LINES = 6
_TAG_COLUMN = 62
_PACKAGE = os.path.dirname(__file__) + os.sep  # noqa: PTH120 - formatting an error should not import pathlib
_BOLD, _GREEN, _RESET = "\x1b[1m", "\x1b[32m", "\x1b[0m"
"""No red: notebooks show errors on red, and in the dark one cannot be read on the other."""
_BETWEEN = ("asyncio", "anyio", "contextlib", "concurrent")
"""Packages through which the user calls this one: their lines say nothing to him."""


def error_lines(what: str, why: str, fix: str, tag: str = "", most: int = MOST_LINES) -> list[str]:
    """Return the lines of an error message.

    Args:
        what: What happened.
        why: The reason, if known.
        fix: What can be done.
        tag: The source of the error.
        most: The maximum number of lines.
    """
    first = f"error: {what}"
    if tag:
        first = f"{first:<{_TAG_COLUMN}} {tag}"
    if fix.startswith("did you mean") and not why and "\n" not in what + fix:
        return [f"{first}    {fix}"]
    told, to_do = _block("", first, 2), _block("  fix: ", fix, min(2, most - 3))
    return [*told, *_block("  why: ", why, most - len(told) - len(to_do)), *to_do]


def _block(title: str, text: str, most: int) -> list[str]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > most:
        lines = [*lines[: most - 1], f"... and {len(lines) - most + 1} more"]
    return [f"{title if not index else ' ' * len(title)}{line}" for index, line in enumerate(lines)]


def tag_of(error: AsyncSchedError) -> str:
    """Return an error's backend and class; "" for one without a backend."""
    backend = getattr(error, "backend", None)
    if backend is None:
        return ""
    return f"[{backend}: {type(error).__name__}]" if backend else f"[{type(error).__name__}]"


def notebook_lines(error: AsyncSchedError) -> list[str]:
    """Return the notebook cell's line that an error comes from, and the error's lines; at most six in all."""
    return _notebook_lines(error, error.__traceback__)


def group_lines(group: ExceptionGroup[AsyncSchedError]) -> list[str]:
    """Return the same for a group of errors: the first one, and the number of the others."""
    first, *others = group.exceptions
    while isinstance(first, ExceptionGroup):  # `except*` wraps what it has not caught in groups
        first, *others = [*first.exceptions, *others]
    more = [f"  and {len(others)} more: `error.exceptions` of this ExceptionGroup has them"] if others else []
    told = _notebook_lines(first, group.__traceback__, getattr(group, "__notes__", ()), MOST_LINES - len(more))
    return [*told, *more]


def let_notebook_show(ours: type[AsyncSchedError]) -> None:
    """If this runs in a notebook, make it show groups of `ours`, the root of our errors, shortly.

    It has no method for that on groups, nor uses one for an error raised while a group is handled. A group with any
    other error is shown as ever, and a handler that the user has set is kept.
    """
    shell: Any = sys.modules["IPython"].get_ipython()
    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc((ours, ExceptionGroup), partial(_show, ours))


def _show(
    ours: type[AsyncSchedError],
    shell: Any,
    kind: type[BaseException],
    error: AsyncSchedError | ExceptionGroup[Exception],
    trace: TracebackType,
    **_more: object,
) -> list[str]:
    if not isinstance(error, ExceptionGroup):
        lines = error._render_traceback_()
        shell._showtraceback(kind, error, lines)
    elif _is_all(error, ours):
        lines = group_lines(error)
        shell._showtraceback(ExceptionGroup, error.message, lines)
    else:
        lines = []
        shell.showtraceback((kind, error, trace), running_compiled_code=True)
    return lines


def _is_all(
    group: ExceptionGroup[Exception], ours: type[AsyncSchedError]
) -> TypeGuard[ExceptionGroup[AsyncSchedError]]:
    """Tell whether all errors of a group, and of the groups in it, are of this class."""
    return group.split(ours)[1] is None


def _notebook_lines(
    error: AsyncSchedError, trace: TracebackType | None, notes: Sequence[str] = (), most: int = MOST_LINES
) -> list[str]:
    where = _calling_line(trace)
    noted = [note for note in getattr(error, "__notes__", ()) if "\n" not in note]  # a whole status is for tracebacks
    why = "\n".join([_why(error), *noted, *notes])
    told = error_lines(error.what, why, error.fix, tag_of(error), most - len(where))
    first, *others = map(_visible, told)
    return [*where, first.replace("error:", f"{_BOLD}error:{_RESET}", 1), *others]


def _why(error: AsyncSchedError) -> str:
    """Return the reason in words; some errors have a whole status instead."""
    status = getattr(error, "status", None)
    if status is None or "\n" not in error.why:
        return error.why
    return str(status._line())


def _calling_line(trace: TracebackType | None) -> list[str]:
    """Return the user's last line before the call into this package."""
    import linecache

    calling = None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(_PACKAGE):
            break
        if trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in _BETWEEN:
            calling = trace
        trace = trace.tb_next
    if calling is None:
        return []
    line = linecache.getline(calling.tb_frame.f_code.co_filename, calling.tb_lineno).strip()
    return [f"{_GREEN}----> {calling.tb_lineno}{_RESET} {_visible(line)}"] if line else []


def _visible(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def quiet(error: BaseException, text: str, before: Callable[[], object] | None = None) -> None:
    """Make a notebook show a harmless error as this one line.

    Args:
        error: The error.
        text: The line.
        before: Called before a notebook shows the error.
    """

    def render() -> list[str]:
        if before is not None:
            before()
        return [text]

    error._render_traceback_ = render  # type: ignore[attr-defined]  # IPython's hook
