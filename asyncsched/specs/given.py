"""Errors for wrong arguments: what was given, what is expected, and what the caller probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeGuard, cast

from asyncsched.errors import UsageError
from asyncsched.specs.to_plain import brief

__all__ = [
    "as_flat",
    "as_several",
    "is_a",
    "kind",
    "not_a_handle",
    "not_a_scheduler_name",
    "unexpected",
    "words",
]


def kind(value: object) -> str:
    """Describe a value for a message: ``None``, ``3``, ``a list``, ``an AppDef``."""
    if value is None or isinstance(value, (bool, int, float)):
        return brief(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__.lstrip("_")
    return f"{'an' if name[0] in 'AEIOUaeio' else 'a'} {name}"


def is_a(value: object, *kinds: type) -> bool:
    """Return whether a value is an instance of these types, without narrowing its type for type checkers."""
    return isinstance(value, kinds)


def unexpected(parameter: str, value: object, wanted: str, fix: str = "") -> UsageError:
    """Return the error for a value of the wrong type; it points out a forgotten ``await``.

    Args:
        parameter: The parameter's name.
        value: What was given.
        wanted: What the parameter takes.
        fix: What to write, unless only an ``await`` is missing.
    """
    what = f"{parameter} must be {wanted}, got {kind(value)}"
    if not _is_awaitable(value):
        return UsageError(what, fix=fix)
    name = getattr(value, "__name__", "")
    called = f"{name}(...)" if name else "it"
    return UsageError(what, why=f"{called if name else 'a result'} was not awaited", fix=f"write `await {called}`")


def not_a_handle(value: object, parameter: str = "handle") -> UsageError:
    """Return the error for a value that is not a handle."""
    if hasattr(value, "handle") and hasattr(value, "attempts"):  # a job: it is awaitable, but gives no handle
        return UsageError(f"{parameter} must be an app's handle, got {kind(value)}", fix="use its handle: job.handle")
    return unexpected(parameter, value, "one app's handle, such as 'local_cwd://me/job-x1'", _handle_of(value))


def _handle_of(value: object) -> str:
    """Return where to find the handle that the caller meant."""
    if isinstance(value, bytes):
        return "decode it to a str"
    if isinstance(value, Iterable):
        return "wait_all, status_all, cancel_all, watch and log_lines take several"
    if hasattr(value, "app_handle"):
        return "use its app_handle"
    if hasattr(value, "handle"):
        return "use its handle"
    if hasattr(value, "request"):
        return "launch it first: `handle = await runner.schedule(info)`"
    if hasattr(value, "roles"):
        return "launch it first: `handle = await runner.run(app)`"
    return "`run` returns it, and `list` shows the handles of existing apps"


def not_a_scheduler_name(value: object) -> UsageError:
    """Return the error for a value that is not a scheduler's name."""
    fix = "name one, such as 'local_cwd', or leave it out to use the default scheduler"
    if is_a(value, Mapping) or hasattr(value, "__dataclass_fields__"):
        fix = "pass run options as cfg=..."
    elif hasattr(value, "submit_dryrun"):
        fix = "pass its name, under which Runner(..., schedulers={'mine': scheduler}) registers it"
    return unexpected("scheduler", value, "a scheduler's name", fix)


def as_several(parameter: str, given: object, one: str) -> list[str]:
    """Return one string, or an iterable of strings, as a list; the items are not checked.

    Args:
        parameter: The parameter's name.
        given: What the caller gave.
        one: What each string is: ``a handle``.

    Raises:
        UsageError: It is neither.
    """
    if isinstance(given, str):
        return [given]
    if not _is_iterable(given):
        fix = "collect them first: `[each async for each in ...]`" if hasattr(given, "__aiter__") else ""
        raise unexpected(parameter, given, f"{one} or an iterable of them", fix)
    return cast("list[str]", list(given))


def as_flat(parameter: str, given: Iterable[object], one: str) -> list[str]:
    """Return the texts that positional arguments stand for: each argument is one text or an iterable of texts.

    The arguments and the error are those of `as_several`.
    """
    several = ([each] if isinstance(each, str) else as_several(parameter, each, one) for each in given)
    return [text for texts in several for text in texts]


def words(command: str) -> list[str]:
    """Split a command that was written as one string into the list that it should have been."""
    import shlex  # imported late: only a wrong call needs it

    try:
        return shlex.split(command)
    except ValueError:  # an open quote
        return command.split()


def _is_awaitable(value: object) -> bool:
    return hasattr(type(value), "__await__")


def _is_iterable(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, Iterable) and not isinstance(value, (bytes, type))
