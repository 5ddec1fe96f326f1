"""Check the types of arguments, for callers without a type checker; messages say what was probably meant."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import cast

from asyncsched.errors import ConfigError, MalformedHandleError, UsageError
from asyncsched.logs.query import check_time
from asyncsched.specs.app import AppDef
from asyncsched.specs.dryrun import AppDryRunInfo
from asyncsched.specs.encodable import half_character
from asyncsched.specs.given import as_several, is_a, kind, unexpected
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.state import AppState

__all__ = [
    "check_app_id",
    "check_app_ids",
    "check_dryrun",
    "check_group",
    "check_name",
    "check_prune",
    "check_rows",
    "check_session",
    "check_workspace",
    "is_number",
    "wrong_value",
]


def wrong_value(parameter: str, who: str, wanted: str, got: str, *, why: str = "", fix: str = "") -> ConfigError:
    """Return the error for a value that a field of an app, or another parameter, cannot have."""
    return ConfigError(f"{parameter} of {who} must be {wanted}, got {got}", why=why, fix=fix)


def check_name(what: str, name: object) -> None:
    """Raise ConfigError for a name that is not a str, or is not valid in files, labels or terminals."""
    if not isinstance(name, str):
        raise wrong_value("the name", what, "a str", repr(name))
    if half := half_character(name):
        raise wrong_value(
            "the name",
            what,
            "text that UTF-8 can encode",
            repr(name),
            why=f"{half}: no service accepts it",
            fix="use text that UTF-8 can encode; in a shell, set a UTF-8 locale such as LANG=C.UTF-8",
        )


def check_dryrun(given: object) -> None:
    """Raise UsageError for a value that is not a dry-run."""
    if not isinstance(given, AppDryRunInfo):
        fix = "to schedule a request that you made by hand, pass AppDryRunInfo(request)"
        if isinstance(given, AppDef):
            fix = "launch an app with run(app), or with submit(app) of its scheduler"
        elif isinstance(given, str):
            fix = "an app with a handle or an id is launched already"
        raise unexpected("dryrun_info", given, "an AppDryRunInfo, as a dry-run returns it", fix)


def check_app_id(app_id: object) -> None:
    """Raise UsageError for a value that is not an app's id, such as a handle, which would be an unknown app."""
    if not isinstance(app_id, str):
        raise unexpected("app_id", app_id, "one app's id", _id_of(app_id))
    if "://" in app_id:
        raise UsageError(
            f"app_id must be an app's id, got the handle {app_id!r}",
            fix="use handle.app_id, or a Runner, which takes handles",
        )


def _id_of(given: object) -> str:
    if hasattr(given, "app_id"):
        return "use its app_id"
    return "describe_many, cancel_many and watch take several" if isinstance(given, Iterable) else ""


def check_app_ids(app_ids: object) -> list[str]:
    """Return the given ids, each once; raise UsageError for a single str, whose letters would be the ids."""
    if isinstance(app_ids, str):
        raise UsageError(f"app_ids must be an iterable of ids, got the str {app_ids!r}", fix=f"write [{app_ids!r}]")
    ids = as_several("app_ids", app_ids, "an app's id")
    for app_id in ids:
        check_app_id(app_id)
    return list(dict.fromkeys(ids))


def check_rows(states: object, since: object, limit: object) -> None:
    """Raise UsageError for wrong filters of a list of apps."""
    if states is not None:
        _check_states(states, AppState.RUNNING)
    check_time("since", since)
    if limit is not None and not is_number(limit, int):
        raise unexpected("limit", limit, "a whole number of at least 0")
    if limit is not None and cast("int", limit) < 0:
        raise UsageError(f"limit must be at least 0, got {limit}", fix="leave it out for all")


def check_prune(older_than: object, states: object) -> None:
    """Raise UsageError or ConfigError for wrong arguments of `prune`."""
    if not isinstance(older_than, timedelta):
        raise unexpected("older_than", older_than, "a timedelta", "write timedelta(days=7) for a week")
    if older_than < timedelta(0):
        raise ConfigError(f"older_than must be at least 0, got {older_than}")
    _check_states(states, AppState.FAILED)
    if running := [state.name for state in cast("Iterable[AppState]", states) if not state.is_terminal()]:
        raise ConfigError(f"states must be final states of an app, got {', '.join(running)}")


def _check_states(states: object, example: AppState) -> None:
    wanted = "a collection of AppState"
    if isinstance(states, (AppState, str)) or not isinstance(states, Iterable):
        meant = AppState.__members__.get(states.upper()) if isinstance(states, str) else states
        named = meant if isinstance(meant, AppState) else example
        raise unexpected("states", states, wanted, f"write states=[AppState.{named.name}]")
    for state in cast("Iterable[object]", states):
        if not isinstance(state, AppState):
            raise UsageError(
                f"states must be {wanted}, got one with {kind(state)}", fix=f"write AppState.{example.name}"
            )


def check_group(group: object) -> None:
    """Raise UsageError for a value that is not the key or name of a group."""
    if group is not None and not isinstance(group, str):
        fix = "write group=group.name" if isinstance(getattr(group, "name", None), str) else ""
        raise unexpected("group", group, "the key or name of a group, as a str", fix)


def check_workspace(workspace: object) -> None:
    """Raise UsageError for a workspace that is not a path or URL."""
    if not isinstance(workspace, (str, type(None))):
        fix = "write str(path)" if is_a(workspace, os.PathLike) else ""
        raise unexpected("workspace", workspace, "the path of a directory or a URL, as a str", fix)


def check_session(name: object) -> None:
    """Raise ConfigError for the name of a session that is not valid in a handle."""
    check_name("the session", name)
    text = cast("str", name)
    try:
        make_app_handle("scheduler", text, "app")
    except MalformedHandleError as error:
        raise MalformedHandleError(
            f"the session's name must not contain a slash, got {text!r}",
            why="a handle is scheduler://session/app_id",
            fix=f"write {text.replace('/', '-')!r}",
        ) from error


def is_number(value: object, *types: type) -> bool:
    """Return whether a value is a number of one of these types, and not a bool."""
    return isinstance(value, types) and not isinstance(value, bool)
