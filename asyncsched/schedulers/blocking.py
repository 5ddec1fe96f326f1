"""`from_blocking`: make a scheduler from an object with plain methods, as in the TorchX documents."""

from __future__ import annotations

import inspect
from typing import Any, Unpack, cast

from asyncsched.errors import ConfigError
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.lifetime import Tunables

__all__ = ["from_blocking"]

_NEEDED = (("submit_dryrun", "_submit_dryrun"), ("schedule",), ("describe",), ("cancel", "_cancel_existing"))
_ALL = (*(name for names in _NEEDED for name in names), "log_iter", "list", "delete", "run_opts", "close")


def from_blocking(
    obj: object,
    *,
    backend: str | None = None,
    session_name: str | None = None,
    max_calls: int = 16,
    max_readers: int = 64,
    **tunables: Unpack[Tunables],
) -> Scheduler[Any, Any]:
    """Make a scheduler from an object with the plain methods of the TorchX documents, which are called in threads.

    The object has ``submit_dryrun(app, cfg)`` or ``_submit_dryrun``, ``schedule(info)``, ``describe(app_id)`` and
    ``cancel(app_id)`` or ``_cancel_existing``; ``log_iter``, ``list``, ``delete``, ``run_opts`` and ``close`` are used
    if it has them. Several threads call it at a time. ``run_opts`` is called here, and must not block.

    The object chooses an app's id when it schedules the app. So the id of a dry-run is provisional, and valid only in
    this scheduler; `schedule` and `submit` return the final id. `info.ignored` says so, and a `key` is refused. A call
    cannot be stopped: the app of a cancelled submit is cancelled as soon as its id is known. Described roles have only
    a name, an image and a number of replicas, and cannot be submitted again.

    Args:
        obj: The object.
        backend: The scheduler's name; the object's attribute `backend` by default.
        session_name: The session; the object's attribute `session_name` by default.
        max_calls: How many calls run at a time; others wait.
        max_readers: How many logs of replicas are read at a time; each occupies a thread until it ends.
        tunables: Parameters of every scheduler: `request_timeout`, `retry_for`, `cleanup_timeout`, `clock`.

    Raises:
        ConfigError: The object lacks a method or a name, has coroutines, or a limit is less than 1.
    """
    _check(obj)
    names = {"backend": backend, "session_name": session_name}
    for name, given in names.items():
        names[name] = given if given is not None else getattr(obj, name, None)
        if not isinstance(names[name], str) or not names[name]:
            raise ConfigError(f"the scheduler has no {name}", fix=f"pass from_blocking(..., {name}=...)")
    from asyncsched.schedulers.blocking_scheduler import BlockingScheduler  # imported late: only some programs need it

    return BlockingScheduler(
        obj, cast("str", names["backend"]), cast("str", names["session_name"]), max_calls, max_readers, **tunables
    )


def _check(obj: object) -> None:
    what = f"cannot make a scheduler from a {type(obj).__name__}"
    if isinstance(obj, Scheduler):
        raise ConfigError(what, why="it is a scheduler already", fix="use it as it is")
    if isinstance(obj, type):
        raise ConfigError(f"cannot make a scheduler from {obj.__name__}", why="it is a class", fix="pass an instance")
    for names in _NEEDED:
        if not any(callable(getattr(obj, name, None)) for name in names):
            raise ConfigError(what, why=f"it has no method {' or '.join(names)}")
    for name in _ALL:
        method = getattr(obj, name, None)
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            raise ConfigError(
                what, why=f"{name} is a coroutine", fix="use plain methods, or subclass Scheduler, where you can await"
            )
