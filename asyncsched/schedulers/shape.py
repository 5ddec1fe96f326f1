"""Check the types of apps and arguments, for callers without a type checker; messages say what was probably meant."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import cast

from asyncsched.errors import ConfigError, MalformedHandleError, UsageError
from asyncsched.logs.query import check_time
from asyncsched.specs.app import MISSING, AppDef, Resource, RetryPolicy, Role
from asyncsched.specs.dryrun import AppDryRunInfo
from asyncsched.specs.encodable import half_character
from asyncsched.specs.given import as_several, is_a, kind, unexpected, words
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.mounts import BindMount, DeviceMount, VolumeMount
from asyncsched.specs.secret import MASK
from asyncsched.specs.secret_text import replaced
from asyncsched.specs.state import AppState

__all__ = [
    "check_app_id",
    "check_app_ids",
    "check_dryrun",
    "check_group",
    "check_image",
    "check_name",
    "check_prune",
    "check_replicas",
    "check_role",
    "check_roles",
    "check_rows",
    "check_session",
    "check_workspace",
    "holds_arguments",
]


def check_roles(app: object) -> None:
    """Raise UsageError for a value that is not an app, and ConfigError if its roles are not a list of roles."""
    if not isinstance(app, AppDef):
        raise _not_an_app(app)
    who = f"app {app.name!r}"
    roles = cast("object", app.roles)
    if isinstance(roles, Role):
        raise _wrong("roles", who, "a list of roles", "one Role", fix="write roles=[Role(...)]")
    if not isinstance(roles, (list, tuple)):
        raise _wrong("roles", who, "a list of roles", kind(roles), fix="write roles=[Role(...)]")
    for number, role in enumerate(cast("list[object]", roles)):
        if not isinstance(role, Role):
            fix = "write Role(name, image, entrypoint=..., args=[...])"
            raise _wrong(f"roles[{number}]", who, "a Role", _foreign(role, Role), fix=fix)
        _check_resource(f"role {role.name!r}", role.resource)
    _check_mapping(who, "metadata", app.metadata)


def _wrong(parameter: str, who: str, wanted: str, got: str, *, why: str = "", fix: str = "") -> ConfigError:
    """Return the error for a parameter of an app or a role."""
    return ConfigError(f"{parameter} of {who} must be {wanted}, got {got}", why=why, fix=fix)


def _not_an_app(given: object) -> UsageError:
    fix = "write AppDef(name, roles=[Role(...)])"
    if isinstance(given, str):
        fix = "the name of a component is for run_component"
    elif isinstance(given, Role):
        fix = "write AppDef(name, roles=[role])"
    elif hasattr(given, "attempts") and hasattr(given, "app"):
        return UsageError(f"app must be an AppDef, got {kind(given)}", fix="it runs already; its app is job.app")
    elif hasattr(given, "request") and hasattr(given, "app_id"):
        fix = "use schedule(info) to launch a dry-run"
    elif is_a(given, list, tuple):
        fix = "launch them one by one"
    elif callable(given) and not isinstance(given, type):
        fix = "call it, and pass its result; or pass its name to run_component"
    error = unexpected("app", given, "an AppDef", fix)
    if type(given).__name__ == AppDef.__name__:
        error.why = f"its class is from {type(given).__module__}, not from asyncsched.specs"
    return error


def _foreign(value: object, wanted: type) -> str:
    same_name = type(value).__name__ == wanted.__name__
    return f"{kind(value)} of {type(value).__module__}" if same_name else kind(value)


def check_role(role: Role) -> None:
    """Raise ConfigError for a role with a field that is empty, of the wrong type, or surely a mistake."""
    who = f"role {role.name!r}"
    if not isinstance(cast("object", role.min_replicas), (int, type(None))):
        raise _wrong(
            "min_replicas",
            who,
            "a whole number",
            _shown(role.min_replicas),
            why="it is the third positional argument of Role",
            fix="name the arguments from there on: Role(name, image, entrypoint=..., args=[...])",
        )
    _check_entrypoint(who, role.entrypoint)
    _check_numbers(who, role)
    for name in ("image", "base_image"):
        text = getattr(role, name)
        if not isinstance(text, str) and not (name == "base_image" and text is None):
            raise _wrong(name, who, "a str", kind(text), fix='write image="" if the role needs none')
    _check_args(who, role.args)
    _check_env(who, role.env)
    _check_policy(who, role.retry_policy)
    _check_numbers_of(who, role.resource)
    for name in ("metadata", "port_map"):
        _check_mapping(who, name, getattr(role, name))
    for name, port in cast("Mapping[str, object]", role.port_map).items():
        if not _is_number(port, int):
            raise _wrong(f"port_map[{name!r}]", who, "a whole number", _shown(port))
    _check_mounts(who, role.mounts)


_MOST_BITS = 256
"""Longer numbers are not written into a message."""


def check_replicas(app: AppDef, most: int, backend: str) -> None:
    """Raise ConfigError for an app with more replicas than the backend takes; it is quick for any number."""
    fix = "use fewer replicas, or split the app"
    for role in app.roles:
        if role.num_replicas > most:
            what = f"num_replicas of role {role.name!r} must be at most {most} on {backend}"
            raise ConfigError(f"{what}, got {_count(role.num_replicas)}", fix=fix)
    if (replicas := sum(role.num_replicas for role in app.roles)) > most:
        raise ConfigError(f"app {app.name!r} must have at most {most} replicas on {backend}, got {replicas}", fix=fix)


def _count(number: int) -> str:
    """Return a number for a message; Python refuses to write one of thousands of digits."""
    return str(number) if number.bit_length() < _MOST_BITS else f"a number of {number.bit_length()} bits"


def check_image(role: Role) -> None:
    """Raise ConfigError for a role without an image, on a backend that needs one."""
    if not role.image.strip():
        raise ConfigError(f"the role {role.name!r} has no image", fix="name the image that it runs in")


def check_name(what: str, name: object) -> None:
    """Raise ConfigError for a name that is not a str, or is not valid in files, labels or terminals."""
    if not isinstance(name, str):
        raise _wrong("the name", what, "a str", repr(name))
    if half := half_character(name):
        raise _wrong(
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
    if limit is not None and not _is_number(limit, int):
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


def holds_arguments(program: str) -> bool:
    """Return whether a text is a whole command. A path may contain spaces; the name of a program in PATH does not."""
    first, *rest = program.split() or [""]
    return bool(rest) and "/" not in first


def _check_entrypoint(who: str, entrypoint: object) -> None:
    if not entrypoint or entrypoint == MISSING:
        raise ConfigError(f"{who} has no entrypoint: name the program that it runs")
    if not isinstance(entrypoint, str):
        raise _wrong("entrypoint", who, "a str", _shown(entrypoint), fix="put the program's arguments into args")
    if not holds_arguments(entrypoint):
        return
    program, *args = words(replaced(entrypoint, MASK))
    raise _wrong(
        "entrypoint",
        who,
        "only the program",
        repr(replaced(entrypoint, MASK)),
        why="no shell splits it into words",
        fix=f"write entrypoint={program!r}, args={args!r}; a path with a space begins with / or ./",
    )


def _check_numbers(who: str, role: Role) -> None:
    for name, least in (("num_replicas", 1), ("max_retries", 0)):
        number: object = getattr(role, name)
        if not _is_number(number, int) or cast("int", number) < least:
            raise _wrong(name, who, f"a whole number of at least {least}", _shown(number))


def _is_number(value: object, *types: type) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


def _check_args(who: str, args: object) -> None:
    if isinstance(args, str) or not isinstance(args, Iterable):
        shown = replaced(str(args), MASK)
        raise _wrong("args", who, "a list of str", repr(shown), fix=f"write args={words(shown)!r}")
    for number, arg in enumerate(cast("Iterable[object]", args)):
        if not isinstance(arg, str):
            raise _wrong(f"args[{number}]", who, "a str", repr(arg), fix=f"write {str(arg)!r}")


def _check_env(who: str, env: object) -> None:
    if not isinstance(env, Mapping):
        raise _wrong("env", who, "a dict of values by name", kind(env))
    for name, value in cast("Mapping[object, object]", env).items():
        if not isinstance(name, str) or not name or "=" in name:
            from asyncsched.specs.keeping import Keeper  # only a mistake needs it

            shown = Keeper(dict(cast("Mapping[object, object]", env))).name(name) if isinstance(name, str) else name
            raise _wrong("each name in env", who, "a non-empty str without =", repr(shown))
        if not isinstance(value, str):  # it may be a secret, so it is not shown
            raise _wrong(f"env[{name!r}]", who, "a str", f"a value of type {type(value).__name__}")


def _check_policy(who: str, policy: object) -> None:
    if policy not in [*RetryPolicy]:
        names = ", ".join(each.name for each in RetryPolicy)
        raise _wrong("retry_policy", who, f"one of {names}", _shown(policy), fix="write RetryPolicy.NAME")


def _check_resource(who: str, resource: object) -> None:
    if not isinstance(resource, Resource):
        fix = "write Resource(cpu=..., gpu=..., memMB=...)"
        if isinstance(resource, str):
            fix = f"write resource=specs.resource(h={resource!r}) for a named one"
        elif resource is None:
            fix = "leave it out if the role needs no resources"
        raise _wrong("resource", who, "a Resource", _foreign(resource, Resource), fix=fix)


def _check_numbers_of(who: str, resource: Resource) -> None:
    for name in ("cpu", "gpu", "memMB"):
        value: object = getattr(resource, name)
        if not _is_number(value, int, float):
            raise _wrong(f"resource.{name}", who, "a number", _shown(value))
    for name in ("capabilities", "devices"):
        _check_mapping(who, f"resource.{name}", getattr(resource, name))


def _check_mounts(who: str, mounts: object) -> None:
    fix = "write mounts=[BindMount(source, path)], or mounts=parse_mounts([...])"
    if is_a(mounts, str, Mapping) or not isinstance(mounts, Iterable):
        raise _wrong("mounts", who, "a list of mounts", kind(mounts), fix=fix)
    for number, mount in enumerate(cast("Iterable[object]", mounts)):
        if not isinstance(mount, (BindMount, VolumeMount, DeviceMount)):
            raise _wrong(f"mounts[{number}]", who, "a mount", kind(mount), fix=fix)


def _check_mapping(who: str, name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise _wrong(name, who, "a dict of values by name", kind(value))


def _shown(value: object) -> str:
    """Return a value for a message, without secrets."""
    if isinstance(value, str):
        return repr(replaced(value, MASK))
    if is_a(value, list, tuple) and all(isinstance(each, str) for each in cast("list[object]", value)):
        return repr([replaced(each, MASK) for each in cast("list[str]", value)])
    return kind(value)
