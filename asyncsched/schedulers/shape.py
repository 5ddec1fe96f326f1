"""Whether what is to be run is an app: the mistakes that callers without types make, each told with what was meant."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import cast

from asyncsched.errors import ConfigError, MalformedHandleError, UsageError
from asyncsched.logs.query import check_time
from asyncsched.specs.app import MISSING, AppDef, Resource, RetryPolicy, Role
from asyncsched.specs.dryrun import AppDryRunInfo
from asyncsched.specs.encodable import half_character
from asyncsched.specs.given import as_several, is_a, kind, unexpected, words
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.keeping import Keeper
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
    "check_role",
    "check_roles",
    "check_rows",
    "check_session",
    "check_workspace",
]


def check_roles(app: object) -> None:
    """Raise UsageError for what is not an app, and ConfigError for an app whose roles are not a list of roles."""
    if not isinstance(app, AppDef):
        raise _not_an_app(app)
    roles = cast("object", app.roles)
    if isinstance(roles, Role):
        raise ConfigError(f"the roles of app {app.name!r} are one Role, not a list", fix="write roles=[Role(...)]")
    if not isinstance(roles, (list, tuple)):
        raise ConfigError(f"the roles of app {app.name!r} are {kind(roles)}, not a list", fix="write roles=[Role(...)]")
    for number, role in enumerate(cast("list[object]", roles)):
        if not isinstance(role, Role):
            raise ConfigError(
                f"role {number} of app {app.name!r} is {_foreign(role, Role)}, not a Role",
                fix="write Role(name, image, entrypoint=..., args=[...])",
            )
        _check_resource(f"role {role.name!r}", role.resource)
    _check_mapping(f"app {app.name!r}", "metadata", app.metadata)


def _not_an_app(given: object) -> UsageError:
    fix = "write AppDef(name, roles=[Role(...)])"
    if isinstance(given, str):
        fix = "the name of a component is for run_component"
    elif isinstance(given, Role):
        fix = "write AppDef(name, roles=[role])"
    elif hasattr(given, "attempts") and hasattr(given, "app"):
        return UsageError(f"app must be an AppDef, got {kind(given)}", fix="it is started already; its app is job.app")
    elif hasattr(given, "request") and hasattr(given, "app_id"):
        fix = "a dry-run is launched by schedule(info)"
    elif is_a(given, list, tuple):
        fix = "launch them one by one"
    elif callable(given) and not isinstance(given, type):
        fix = "call it, and give what it returns; run_component does so by its name"
    error = unexpected("app", given, "an AppDef", fix)
    if type(given).__name__ == AppDef.__name__:
        error.why = f"its class is that of {type(given).__module__}, and not of asyncsched.specs"
    return error


def _foreign(value: object, wanted: type) -> str:
    same_name = type(value).__name__ == wanted.__name__
    return f"{kind(value)} of {type(value).__module__}" if same_name else kind(value)


def check_role(role: Role) -> None:
    """Raise ConfigError for a role with a field that is empty, of another type, or that cannot be meant."""
    who = f"role {role.name!r}"
    if not isinstance(cast("object", role.min_replicas), (int, type(None))):
        raise ConfigError(
            f"{who} has min_replicas={_shown(role.min_replicas)}",
            why="min_replicas is a number, and the third positional argument of Role",
            fix="name the arguments from there on: Role(name, image, entrypoint=..., args=[...])",
        )
    _check_entrypoint(who, role.entrypoint)
    _check_numbers(who, role)
    for name in ("image", "base_image"):
        text = getattr(role, name)
        if not isinstance(text, str) and not (name == "base_image" and text is None):
            raise ConfigError(f"{who} has {name}={kind(text)}", fix='write a text; image="" where none is needed')
    _check_args(who, role.args)
    _check_env(who, role.env)
    _check_policy(who, role.retry_policy)
    _check_numbers_of(who, role.resource)
    for name in ("metadata", "port_map"):
        _check_mapping(who, name, getattr(role, name))
    for name, port in cast("Mapping[str, object]", role.port_map).items():
        if not _is_number(port, int):
            raise ConfigError(f"{who} has the port {name!r} with the number {_shown(port)}", fix="write a whole number")
    _check_mounts(who, role.mounts)


def check_image(role: Role) -> None:
    """Raise ConfigError for a role without an image, on a backend that needs one."""
    if not role.image.strip():
        raise ConfigError(f"the role {role.name!r} has no image", fix="name the image that it runs in")


def check_name(what: str, name: object) -> None:
    """Raise ConfigError for a name that is not text, or that no file, label or terminal can hold."""
    if not isinstance(name, str):
        raise ConfigError(f"{what} has the name {name!r}: write a text")
    if half := half_character(name):
        raise ConfigError(
            f"{what} has the name {name!r}",
            why=f"{half}: no service keeps it",
            fix="use text that UTF-8 can hold; in a shell, a UTF-8 locale such as LANG=C.UTF-8",
        )


def check_dryrun(given: object) -> None:
    """Raise UsageError for what is not a dry-run, where one is scheduled."""
    if not isinstance(given, AppDryRunInfo):
        fix = "a request that was made by hand is scheduled as AppDryRunInfo(request)"
        if isinstance(given, AppDef):
            fix = "launch an app by run(app), or submit(app) of its scheduler"
        elif isinstance(given, str):
            fix = "what has a handle or an id is launched already"
        raise unexpected("dryrun_info", given, "an AppDryRunInfo, as a dry-run returns it", fix)


def check_app_id(app_id: object) -> None:
    """Raise UsageError for what is not an app's id, such as its handle: to a scheduler it would be an unknown app."""
    if not isinstance(app_id, str):
        raise unexpected("app_id", app_id, "the id of one app", _id_of(app_id))
    if "://" in app_id:
        raise UsageError(
            f"app_id must be an app's id, got the handle {app_id!r}",
            fix="use handle.app_id, or a Runner, which takes handles",
        )


def _id_of(given: object) -> str:
    if hasattr(given, "app_id"):
        return "use its app_id"
    return "describe_many, cancel_many and watch take many" if isinstance(given, Iterable) else ""


def check_app_ids(app_ids: object) -> list[str]:
    """Return the ids that were given, each once; raise UsageError for one text, whose letters would be the ids."""
    if isinstance(app_ids, str):
        raise UsageError(f"app_ids must be an iterable of ids, got the text {app_ids!r}", fix=f"write [{app_ids!r}]")
    ids = as_several("app_ids", app_ids, "an app's id")
    for app_id in ids:
        check_app_id(app_id)
    return list(dict.fromkeys(ids))


def check_rows(states: object, since: object, limit: object) -> None:
    """Raise UsageError for what no list of apps can be narrowed by."""
    wanted = "a collection of AppState"
    if isinstance(states, (AppState, str)):
        named = states if isinstance(states, AppState) else AppState.__members__.get(states.upper())
        raise unexpected(
            "states", states, wanted, f"write states=[AppState.{'RUNNING' if named is None else named.name}]"
        )
    if states is not None and not isinstance(states, Iterable):
        raise unexpected("states", states, wanted, "write states=[AppState.RUNNING]")
    for state in () if states is None else cast("Iterable[object]", states):
        if not isinstance(state, AppState):
            raise UsageError(f"states must be {wanted}, one is {kind(state)}", fix="write AppState.RUNNING")
    check_time("since", since)
    if limit is not None and not _is_number(limit, int):
        raise unexpected("limit", limit, "a whole number")
    if limit is not None and cast("int", limit) < 0:
        raise UsageError(f"limit must be at least 0, got {limit}", fix="leave it out for all")


def check_group(group: object) -> None:
    """Raise UsageError for what names no group."""
    if group is not None and not isinstance(group, str):
        fix = "write group=group.name" if isinstance(getattr(group, "name", None), str) else ""
        raise unexpected("group", group, "a group's key or name, as a text", fix)


def check_workspace(workspace: object) -> None:
    """Raise UsageError for what is no text that names a directory or a URL."""
    if not isinstance(workspace, (str, type(None))):
        fix = "write str(path)" if is_a(workspace, os.PathLike) else ""
        raise unexpected("workspace", workspace, "the path of a directory or a URL, as a text", fix)


def check_session(name: object) -> None:
    """Raise ConfigError for the name of a session that cannot stand in a handle: nobody could name its apps."""
    check_name("the session", name)
    text = cast("str", name)
    try:
        make_app_handle("scheduler", text, "app")
    except MalformedHandleError as error:
        raise MalformedHandleError(
            f"the session has the name {text!r}",
            why="a handle is scheduler://session/app_id, so that a session's name holds no slash",
            fix=f"write {text.replace('/', '-')!r}",
        ) from error


def _check_entrypoint(who: str, entrypoint: object) -> None:
    if not entrypoint or entrypoint == MISSING:
        raise ConfigError(f"{who} has no entrypoint: name the program that it runs")
    if not isinstance(entrypoint, str):
        raise ConfigError(f"{who} has the entrypoint {_shown(entrypoint)}: it is one text, the rest are args")
    # A path may hold spaces; a program that is looked for by its name does not.
    if "/" in (entrypoint.split() or [""])[0] or len(entrypoint.split()) < 2:
        return
    program, *args = words(replaced(entrypoint, MASK))
    raise ConfigError(
        f"{who} has entrypoint={replaced(entrypoint, MASK)!r}",
        why="it is the program alone: no shell takes it apart",
        fix=f"write entrypoint={program!r}, args={args!r}; a path with a space begins with / or ./",
    )


def _check_numbers(who: str, role: Role) -> None:
    if not _is_number(role.num_replicas, int):
        raise ConfigError(f"{who} has {role.num_replicas!r} replicas: write a number")
    if role.num_replicas <= 0:
        raise ConfigError(f"{who} has {role.num_replicas} replicas: it needs at least one")
    if not _is_number(role.max_retries, int) or role.max_retries < 0:
        raise ConfigError(f"{who} has max_retries={role.max_retries!r}", fix="write a number, at least 0")


def _is_number(value: object, *types: type) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


def _check_args(who: str, args: object) -> None:
    if isinstance(args, str) or not isinstance(args, Iterable):
        shown = replaced(str(args), MASK)
        raise ConfigError(f"{who} has args={shown!r}: they are a list, such as {words(shown)!r}")
    for arg in cast("Iterable[object]", args):
        if not isinstance(arg, str):
            raise ConfigError(f"{who} has the argument {arg!r}: each is a text, write {str(arg)!r}")


def _check_env(who: str, env: object) -> None:
    if not isinstance(env, Mapping):
        raise ConfigError(f"{who} has an env that is {kind(env)}: it is a dict of texts by name")
    for name, value in cast("Mapping[object, object]", env).items():
        if not isinstance(name, str) or not name or "=" in name:
            shown = Keeper(dict(cast("Mapping[object, object]", env))).name(name) if isinstance(name, str) else name
            raise ConfigError(f"{who} has a variable in its env that is called {shown!r}: names are texts without =")
        if not isinstance(value, str):  # it may be a secret, and is not repeated
            a_type = type(value).__name__
            raise ConfigError(f"{who} sets the variable {name} to a value of type {a_type}: write it as a text")


def _check_policy(who: str, policy: object) -> None:
    if policy not in [*RetryPolicy]:
        names = ", ".join(each.name for each in RetryPolicy)
        raise ConfigError(f"{who} has retry_policy={_shown(policy)}", fix=f"write RetryPolicy.NAME, one of {names}")


def _check_resource(who: str, resource: object) -> None:
    if not isinstance(resource, Resource):
        fix = "write Resource(cpu=..., gpu=..., memMB=...)"
        if isinstance(resource, str):
            fix = f"write resource=specs.resource(h={resource!r}) for a named one"
        elif resource is None:
            fix = "leave it out where nothing is asked for"
        raise ConfigError(f"{who} has a resource that is {_foreign(resource, Resource)}, not a Resource", fix=fix)


def _check_numbers_of(who: str, resource: Resource) -> None:
    for name in ("cpu", "gpu", "memMB"):
        value: object = getattr(resource, name)
        if not _is_number(value, int, float):
            raise ConfigError(f"{who} has a resource with {name}={_shown(value)}", fix="write a number")
    for name in ("capabilities", "devices"):
        _check_mapping(f"the resource of {who}", name, getattr(resource, name))


def _check_mounts(who: str, mounts: object) -> None:
    fix = "write mounts=[BindMount(source, path)], or mounts=parse_mounts([...])"
    if is_a(mounts, str, Mapping) or not isinstance(mounts, Iterable):
        raise ConfigError(f"{who} has mounts that are {kind(mounts)}, not a list", fix=fix)
    for number, mount in enumerate(cast("Iterable[object]", mounts)):
        if not isinstance(mount, (BindMount, VolumeMount, DeviceMount)):
            raise ConfigError(f"{who} has a mount {number} that is {kind(mount)}", fix=fix)


def _check_mapping(who: str, name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{who} has {name} that are {kind(value)}", fix="write a dict: values by name")


def _shown(value: object) -> str:
    """Return a value as a message repeats it, without secrets."""
    if isinstance(value, str):
        return repr(replaced(value, MASK))
    if is_a(value, list, tuple) and all(isinstance(each, str) for each in cast("list[object]", value)):
        return repr([replaced(each, MASK) for each in cast("list[str]", value)])
    return kind(value)
