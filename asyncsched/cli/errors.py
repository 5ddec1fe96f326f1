"""Show an error in at most six lines (what happened, why, what to do), and choose the exit code."""

from __future__ import annotations

import sys

import click

from asyncsched import errors
from asyncsched._error_text import error_lines, tag_of
from asyncsched.cli.console import Console

__all__ = ["exit_code", "fail", "in_one_line", "render", "show_error", "worst"]

OK, FAILED, USAGE, CANCELLED, NOT_FOUND, UNREACHABLE, AUTHENTICATION = range(7)
OUR_FAULT = 70
TIMEOUT = 124
INTERRUPTED = 130


# The first match counts.
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
    """Return the exit code for an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), OUR_FAULT)


def worst(codes: list[int]) -> int:
    """Return the exit code for several results; an error takes precedence over the state of an app."""
    order = (OUR_FAULT, AUTHENTICATION, UNREACHABLE, USAGE, NOT_FOUND, TIMEOUT, FAILED, CANCELLED)
    return next((code for code in order if code in codes), OK)


def show_error(console: Console, error: BaseException) -> None:
    """Write an error to stderr, with its traceback if ``--debug`` is given."""
    if console.debug:
        import traceback

        console.say("".join(traceback.format_exception(error)).rstrip())
    for line in render(error):
        console.say(line)


def render(error: BaseException) -> list[str]:
    """Return an error as lines."""
    if isinstance(error, errors.AsyncSchedError):
        return error_lines(error.what, error.why, error.fix, tag_of(error))
    if isinstance(error, click.UsageError):
        what, _, hint = " ".join(error.format_message().split()).partition("; ")
        command = error.ctx.command_path if error.ctx else "asyncsched"
        return error_lines(_decapitalized(what), "", hint or f"see {command} --help")
    if isinstance(error, click.ClickException):
        return error_lines(error.format_message(), "", "")
    if exit_code(error) == OUR_FAULT:
        return error_lines(
            f"{type(error).__name__}: {error}", "this is a bug in asyncsched", "--debug shows the traceback"
        )
    return error_lines(str(error) or type(error).__name__, "\n".join(getattr(error, "__notes__", ())), "")


def in_one_line(error: BaseException) -> str:
    """Return an error as one line, to be shown together with other results."""
    text = " ".join((str(error) or type(error).__name__).split())
    tag = tag_of(error) if isinstance(error, errors.AsyncSchedError) else ""
    return f"error: {text}{f'  {tag}' if tag else ''}"


def _decapitalized(text: str) -> str:
    return text[:1].lower() + text[1:].rstrip(".")


def fail(console: Console, error: BaseException) -> int:
    """Report one failure among several results, and return its exit code."""
    if console.debug:
        show_error(console, error)
    else:
        sys.stdout.flush()
        console.say(in_one_line(error))
    return exit_code(error)
