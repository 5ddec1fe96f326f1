"""Wrong calls: what a caller has given where something else is wanted, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeGuard, cast

from asyncsched.errors import UsageError

__all__ = ["as_flat", "as_several", "is_a", "kind", "not_a_handle", "not_a_scheduler_name", "unexpected", "words"]


def kind(value: object) -> str:
    """Return what a value is, as a message names it: ``None``, ``3``, ``a list``, ``an AppDef``."""
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__.lstrip("_")
    return f"{'an' if name[0] in 'AEIOUaeio' else 'a'} {name}"


def is_a(value: object, *kinds: type) -> bool:
    """Return whether a value is of one of these kinds; to a type checker it stays what it was."""
    return isinstance(value, kinds)


def unexpected(parameter: str, value: object, wanted: str, fix: str = "") -> UsageError:
    """Return the error for a value of another kind than a parameter takes; a forgotten ``await`` is named.

    Args:
        parameter: The parameter's name.
        value: What was given.
        wanted: What the parameter takes.
        fix: What to write, unless an ``await`` is all that is missing.
    """
    what = f"{parameter} must be {wanted}, got {kind(value)}"
    if not _is_awaitable(value):
        return UsageError(what, fix=fix)
    name = getattr(value, "__name__", "")
    called = f"{name}(...)" if name else "it"
    return UsageError(what, why=f"{called if name else 'a result'} was not awaited", fix=f"write `await {called}`")


def not_a_handle(value: object, parameter: str = "handle") -> UsageError:
    """Return the error for what is given in place of a handle."""
    if hasattr(value, "handle") and hasattr(value, "attempts"):  # a job: it is awaited, but that gives no handle
        return UsageError(f"{parameter} must be that of one app, got {kind(value)}", fix="use its handle: job.handle")
    return unexpected(parameter, value, "that of one app, such as 'local_cwd://me/job-x1'", _handle_of(value))


def _handle_of(value: object) -> str:
    """Say where the handle is that was meant."""
    if isinstance(value, bytes):
        return "write it as a text: decode it"
    if isinstance(value, Iterable):
        return "wait_all, status_all, cancel_all, watch and log_lines take many"
    if hasattr(value, "app_handle"):
        return "use its app_handle"
    if hasattr(value, "handle"):
        return "use its handle"
    if hasattr(value, "request"):
        return "launch it first: `handle = await runner.schedule(info)`"
    if hasattr(value, "roles"):
        return "launch it first: `handle = await runner.run(app)`"
    return "`run` returns it, and `list` shows those that there are"


def not_a_scheduler_name(value: object) -> UsageError:
    """Return the error for what is given in place of a scheduler's name."""
    fix = "name one, such as 'local_cwd', or leave it out for the default one"
    if is_a(value, Mapping) or hasattr(value, "__dataclass_fields__"):
        fix = "run options are given as cfg=..."
    elif hasattr(value, "submit_dryrun"):
        fix = "give its name: Runner(..., schedulers={'mine': scheduler}) makes it known under one"
    return unexpected("scheduler", value, "a scheduler's name", fix)


def as_several(parameter: str, given: object, one: str) -> list[str]:
    """Return what one text, or an iterable of texts, stands for; the texts themselves are not looked at.

    Args:
        parameter: The parameter's name.
        given: What the caller gave.
        one: What each text is: ``a handle``.

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
    """Return a command that was written as one text as the list that it should have been."""
    import shlex  # only a wrong call pays for it

    try:
        return shlex.split(command)
    except ValueError:  # an open quote
        return command.split()


def _is_awaitable(value: object) -> bool:
    return hasattr(type(value), "__await__")


def _is_iterable(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, Iterable) and not isinstance(value, (bytes, type))
