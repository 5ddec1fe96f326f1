"""The checks of requests and options that all backends share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from asyncsched.errors import ConfigError, ConflictError, RunOptionError, UsageError
from asyncsched.specs.run_options import CfgVal
from asyncsched.specs.to_plain import brief

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "LONGEST_TIME",
    "TIMEOUTS",
    "as_mapping",
    "check_request",
    "check_same_app",
    "check_seconds",
    "check_tunable",
    "has_timeout",
    "other_app",
]

TIMEOUTS = frozenset({"timeout", "timeout_s", "max_run_duration", "time"})
"""The names of the option `timeout` in backends."""

LONGEST_TIME = 1e9
"""Thirty years, in seconds; timers do not support longer times."""


def as_mapping(options: object) -> dict[str, CfgVal]:
    """Return the run options of a backend's class as a mapping."""
    fields = dataclasses.fields(cast("DataclassInstance", options))
    return {field.name: getattr(options, field.name) for field in fields}


def other_app(app_id: str, backend: str) -> ConflictError:
    """Return the error for an id that belongs to an app with another digest."""
    return ConflictError(
        f"another app was submitted as {app_id}",
        why="its roles or options differ from those of this app",
        fix="use another key, or delete that app first",
        backend=backend,
        operation="submit",
    )


def check_same_app(named: str | None, app_id: str) -> None:
    """Raise UsageError for a request with another id than its dry-run, because the app could not be found."""
    if named not in (None, app_id):
        raise UsageError(
            f"the request has the app id {named}, but its dry-run has {app_id}",
            why="the dry-run fixes the id",
            fix="do not change the id in the request, or dry-run again",
        )


def has_timeout(cfg: Mapping[str, CfgVal]) -> bool:
    """Return whether these options limit how long an app runs."""
    return any(cfg.get(name) is not None for name in TIMEOUTS)


def check_seconds(option: str, value: float | None, *, least: float | None = None, most: float = LONGEST_TIME) -> None:
    """Raise RunOptionError for a time out of bounds; None means no limit.

    Args:
        option: The option's name.
        value: Its value.
        least: The shortest time; None for any above 0.
        most: The longest.
    """
    if value is None or (0 < value <= most if least is None else least <= value <= most):
        return
    bound = "more than 0" if least is None else f"at least {least:.0f}"
    raise RunOptionError(
        f"{option} must be {bound} and at most {most:.0f} seconds, got {brief(value)}",
        key=option,
        fix="write a number of seconds within these bounds, or leave it out",
    )


def check_tunable(name: str, value: object) -> None:
    """Raise ConfigError unless a scheduler's tunable is a number of seconds that timers support."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= LONGEST_TIME:
        raise ConfigError(
            f"{name} must be a number of seconds from 0 to {LONGEST_TIME:.0f}, got {brief(value)}",
            fix=f"write {name}=60.0, for example",
        )


def check_request(request: object, wanted: type, backend: str) -> None:
    """Raise UsageError for a request that was made for another backend."""
    if not isinstance(request, wanted):
        raise UsageError(
            f"{backend} needs a {wanted.__name__}, but this request is a {type(request).__name__}",
            fix="schedule it with the scheduler that it was made for, or dry-run the app again",
        )
