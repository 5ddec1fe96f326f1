"""An error in at most six lines: what happened, why, and what to do; in a terminal and in a notebook."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from asyncsched.errors import AppStatusError, AsyncSchedError

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
_PACKAGE = os.path.dirname(__file__) + os.sep  # noqa: PTH120 - telling of an error should not load pathlib
_RED, _GREEN, _RESET = "\x1b[1;31m", "\x1b[32m", "\x1b[0m"


def error_lines(what: str, why: str, fix: str, tag: str = "", most: int = MOST_LINES) -> list[str]:
    """Return the lines that tell of an error.

    Args:
        what: What happened.
        why: Why, where it is known.
        fix: What can be done.
        tag: Who says so.
        most: How many lines there are at most.
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
    """Return which backend an error is of, and which kind it is; "" for one that is of no backend."""
    backend = getattr(error, "backend", None)
    if backend is None:
        return ""
    return f"[{backend}: {type(error).__name__}]" if backend else f"[{type(error).__name__}]"


def notebook_lines(error: AsyncSchedError) -> list[str]:
    """Return the line of the cell that an error comes from, and those that tell of it; at most six in all."""
    return _notebook_lines(error, error.__traceback__)


def group_lines(group: ExceptionGroup[AppStatusError]) -> list[str]:
    """Return the same for the errors of several apps: the first of them, and how many more there are."""
    first, *others = group.exceptions
    while isinstance(first, ExceptionGroup):  # `except*` puts what it has not caught into groups
        first, *others = [*first.exceptions, *others]
    more = [f"  and {len(others)} more: `error.exceptions` of this ExceptionGroup has them"] if others else []
    told = _notebook_lines(first, group.__traceback__, getattr(group, "__notes__", ()), MOST_LINES - len(more))
    return [*told, *more]


def let_notebook_show(*kinds: type[AsyncSchedError | ExceptionGroup[AppStatusError]]) -> None:
    """Let the notebook around us, if there is one, show errors of these kinds shortly.

    It asks no group how to, nor an error that is raised while a group is handled. A handler that is set already stays.
    """
    shell: Any = sys.modules["IPython"].get_ipython()
    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc(kinds, _show)


def _show(
    shell: Any,
    kind: type[BaseException],
    error: AsyncSchedError | ExceptionGroup[AppStatusError],
    _trace: object,
    **_more: object,
) -> list[str]:
    if isinstance(error, ExceptionGroup):
        lines = group_lines(error)
        shell._showtraceback(ExceptionGroup, error.message, lines)
    else:
        lines = error._render_traceback_()
        shell._showtraceback(kind, error, lines)
    return lines


def _notebook_lines(
    error: AsyncSchedError, trace: TracebackType | None, notes: Sequence[str] = (), most: int = MOST_LINES
) -> list[str]:
    where = _calling_line(trace)
    why = "\n".join([_why(error), *getattr(error, "__notes__", ()), *notes])
    told = error_lines(error.what, why, error.fix, tag_of(error), most - len(where))
    first, *others = map(_visible, told)
    return [*where, first.replace("error:", f"{_RED}error:{_RESET}", 1), *others]


def _why(error: AsyncSchedError) -> str:
    """Return why, in words: of a whole status, which some errors tell there, what counts."""
    status = getattr(error, "status", None)
    if status is None or "\n" not in error.why:
        return error.why
    about = f"{status.handle} is {status.state}" if status.handle else f"it is {status.state}"
    return f"{about}: {' '.join(status.msg.split())}" if status.msg else about


def _calling_line(trace: TracebackType | None) -> list[str]:
    """Return the last line before the call went into this package."""
    import linecache

    calling = None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(_PACKAGE):
            break
        calling, trace = trace, trace.tb_next
    if calling is None:
        return []
    line = linecache.getline(calling.tb_frame.f_code.co_filename, calling.tb_lineno).strip()
    return [f"{_GREEN}----> {calling.tb_lineno}{_RESET} {_visible(line)}"] if line else []


def _visible(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def quiet(error: BaseException, text: str, before: Callable[[], object] | None = None) -> None:
    """Let a notebook show an error, which nobody is to worry about, as this one line.

    Args:
        error: The error.
        text: The line.
        before: Is called before a notebook shows it.
    """

    def render() -> list[str]:
        if before is not None:
            before()
        return [text]

    error._render_traceback_ = render  # type: ignore[attr-defined]  # what IPython asks for
