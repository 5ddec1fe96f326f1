"""Show an error in at most six lines: what happened, why, and what to do; and choose the exit code."""

from __future__ import annotations

import sys

import click

from asyncsched import errors
from asyncsched.cli.console import Console

__all__ = ["exit_code", "fail", "in_one_line", "render", "show_error", "worst"]

OK, FAILED, USAGE, CANCELLED, NOT_FOUND, UNREACHABLE, AUTHENTICATION = range(7)
OUR_FAULT = 70
TIMEOUT = 124
INTERRUPTED = 130

MOST_LINES = 6
_TAG_COLUMN = 62

# The first that fits counts.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (errors.ConfigError, USAGE),
    (errors.UnknownAppError, NOT_FOUND),
    (errors.UsageError, USAGE),
    (errors.WorkspaceError, USAGE),
    (errors.UnavailableError, UNREACHABLE),
    (errors.ThrottledError, UNREACHABLE),
    (errors.LogStreamError, UNREACHABLE),
    (errors.AuthError, AUTHENTICATION),
    (errors.PermissionDeniedError, AUTHENTICATION),
    (errors.NotFoundError, NOT_FOUND),
    (errors.SchedulerError, USAGE),
    (click.ClickException, USAGE),
    (TimeoutError, TIMEOUT),
    (KeyboardInterrupt, INTERRUPTED),
    (ValueError, USAGE),
    (OSError, USAGE),  # the machine's: a disk that is full, a folder that is gone
)


def exit_code(error: BaseException) -> int:
    """Return the exit code that tells of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), OUR_FAULT)


def worst(codes: list[int]) -> int:
    """Return the one exit code for several: an error counts more than how an app has ended."""
    order = (OUR_FAULT, AUTHENTICATION, UNREACHABLE, USAGE, NOT_FOUND, TIMEOUT, FAILED, CANCELLED)
    return next((code for code in order if code in codes), OK)


def show_error(console: Console, error: BaseException) -> None:
    """Write an error to stderr, with its traceback if that was asked for."""
    if console.debug:
        import traceback

        console.say("".join(traceback.format_exception(error)).rstrip())
    for line in render(error):
        console.say(line)


def render(error: BaseException) -> list[str]:
    """Return the lines that tell of an error."""
    if isinstance(error, errors.AsyncSchedError):
        return _lines(error.what, error.why, error.fix, _tag(error))
    if isinstance(error, click.UsageError):
        what, _, hint = " ".join(error.format_message().split()).partition("; ")
        command = error.ctx.command_path if error.ctx else "asyncsched"
        return _lines(_decapitalized(what), "", hint or f"see {command} --help")
    if isinstance(error, click.ClickException):
        return _lines(error.format_message(), "", "")
    if exit_code(error) == OUR_FAULT:
        return _lines(f"{type(error).__name__}: {error}", "this is a fault of asyncsched", "--debug shows where it is")
    return _lines(str(error) or type(error).__name__, "\n".join(getattr(error, "__notes__", ())), "")


def in_one_line(error: BaseException) -> str:
    """Return an error as one line, to stand beside what else was asked for."""
    text = " ".join((str(error) or type(error).__name__).split())
    tag = _tag(error) if isinstance(error, errors.AsyncSchedError) else ""
    return f"error: {text}{f'  {tag}' if tag else ''}"


def _tag(error: errors.AsyncSchedError) -> str:
    if not isinstance(error, errors.SchedulerError):
        return ""
    return f"[{error.backend}: {type(error).__name__}]" if error.backend else f"[{type(error).__name__}]"


def _lines(what: str, why: str, fix: str, tag: str = "") -> list[str]:
    first = f"error: {what}"
    if tag:
        first = f"{first:<{_TAG_COLUMN}} {tag}"
    if fix.startswith("did you mean") and not why and "\n" not in what:
        return [f"{first}    {fix}"]
    told, to_do = _block("", first, 2), _block("  fix: ", fix, 2)
    return [*told, *_block("  why: ", why, MOST_LINES - len(told) - len(to_do)), *to_do]


def _block(title: str, text: str, most: int) -> list[str]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > most:
        lines = [*lines[: most - 1], f"... and {len(lines) - most + 1} more"]
    return [f"{title if not index else ' ' * len(title)}{line}" for index, line in enumerate(lines)]


def _decapitalized(text: str) -> str:
    return text[:1].lower() + text[1:].rstrip(".")


def fail(console: Console, error: BaseException) -> int:
    """Tell of one failure among several answers, and return its exit code."""
    if console.debug:
        show_error(console, error)
    else:
        sys.stdout.flush()
        console.say(in_one_line(error))
    return exit_code(error)
