"""Check the types of an app, for callers without a type checker; messages say what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from asyncsched.errors import ConfigError, UsageError
from asyncsched.schedulers.arguments import is_number, wrong_value
from asyncsched.specs.app import MISSING, AppDef, Resource, RetryPolicy, Role
from asyncsched.specs.given import is_a, kind, unexpected, words
from asyncsched.specs.mounts import BindMount, DeviceMount, VolumeMount
from asyncsched.specs.secret import masked_text

__all__ = ["check_image", "check_replicas", "check_role", "check_roles", "holds_arguments"]


def check_roles(app: object) -> None:
    """Raise UsageError for a value that is not an app, and ConfigError if its roles are not a list of roles."""
    if not isinstance(app, AppDef):
        raise _not_an_app(app)
    who = f"app {app.name!r}"
    roles = cast("object", app.roles)
    if isinstance(roles, Role):
        raise wrong_value("roles", who, "a list of roles", "one Role", fix="write roles=[Role(...)]")
    if not isinstance(roles, (list, tuple)):
        raise wrong_value("roles", who, "a list of roles", kind(roles), fix="write roles=[Role(...)]")
    for number, role in enumerate(cast("list[object]", roles)):
        if not isinstance(role, Role):
            fix = "write Role(name, image, entrypoint=..., args=[...])"
            raise wrong_value(f"roles[{number}]", who, "a Role", _foreign(role, Role), fix=fix)
        _check_resource(f"role {role.name!r}", role.resource)
    _check_mapping(who, "metadata", app.metadata)


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
        raise wrong_value(
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
            raise wrong_value(name, who, "a str", kind(text), fix='write image="" if the role needs none')
    _check_args(who, role.args)
    _check_env(who, role.env)
    _check_policy(who, role.retry_policy)
    _check_numbers_of(who, role.resource)
    for name in ("metadata", "port_map"):
        _check_mapping(who, name, getattr(role, name))
    for name, port in cast("Mapping[str, object]", role.port_map).items():
        if not is_number(port, int):
            raise wrong_value(f"port_map[{name!r}]", who, "a whole number", _shown(port))
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


def holds_arguments(program: str) -> bool:
    """Return whether a text is a whole command. A path may contain spaces; the name of a program in PATH does not."""
    first, *rest = program.split() or [""]
    return bool(rest) and "/" not in first


def _check_entrypoint(who: str, entrypoint: object) -> None:
    if not entrypoint or entrypoint == MISSING:
        raise ConfigError(f"{who} has no entrypoint: name the program that it runs")
    if not isinstance(entrypoint, str):
        raise wrong_value("entrypoint", who, "a str", _shown(entrypoint), fix="put the program's arguments into args")
    if not holds_arguments(entrypoint):
        return
    program, *args = words(masked_text(entrypoint))
    raise wrong_value(
        "entrypoint",
        who,
        "only the program",
        repr(masked_text(entrypoint)),
        why="no shell splits it into words",
        fix=f"write entrypoint={program!r}, args={args!r}; a path with a space begins with / or ./",
    )


def _check_numbers(who: str, role: Role) -> None:
    for name, least in (("num_replicas", 1), ("max_retries", 0)):
        number: object = getattr(role, name)
        if not is_number(number, int) or cast("int", number) < least:
            raise wrong_value(name, who, f"a whole number of at least {least}", _shown(number))


def _check_args(who: str, args: object) -> None:
    if isinstance(args, str) or not isinstance(args, Iterable):
        shown = masked_text(str(args))
        raise wrong_value("args", who, "a list of str", repr(shown), fix=f"write args={words(shown)!r}")
    for number, arg in enumerate(cast("Iterable[object]", args)):
        if not isinstance(arg, str):
            raise wrong_value(f"args[{number}]", who, "a str", repr(arg), fix=f"write {str(arg)!r}")


def _check_env(who: str, env: object) -> None:
    if not isinstance(env, Mapping):
        raise wrong_value("env", who, "a dict of values by name", kind(env))
    for name, value in cast("Mapping[object, object]", env).items():
        if not isinstance(name, str) or not name or "=" in name:
            from asyncsched.specs.keeping import Keeper  # only a mistake needs it

            shown = Keeper(dict(cast("Mapping[object, object]", env))).name(name) if isinstance(name, str) else name
            raise wrong_value("each name in env", who, "a non-empty str without =", repr(shown))
        if not isinstance(value, str):  # it may be a secret, so it is not shown
            raise wrong_value(f"env[{name!r}]", who, "a str", f"a value of type {type(value).__name__}")


def _check_policy(who: str, policy: object) -> None:
    if policy not in [*RetryPolicy]:
        names = ", ".join(each.name for each in RetryPolicy)
        raise wrong_value("retry_policy", who, f"one of {names}", _shown(policy), fix="write RetryPolicy.NAME")


def _check_resource(who: str, resource: object) -> None:
    if not isinstance(resource, Resource):
        fix = "write Resource(cpu=..., gpu=..., memMB=...)"
        if isinstance(resource, str):
            fix = f"write resource=specs.resource(h={resource!r}) for a named one"
        elif resource is None:
            fix = "leave it out if the role needs no resources"
        raise wrong_value("resource", who, "a Resource", _foreign(resource, Resource), fix=fix)


def _check_numbers_of(who: str, resource: Resource) -> None:
    for name in ("cpu", "gpu", "memMB"):
        value: object = getattr(resource, name)
        if not is_number(value, int, float):
            raise wrong_value(f"resource.{name}", who, "a number", _shown(value))
    for name in ("capabilities", "devices"):
        _check_mapping(who, f"resource.{name}", getattr(resource, name))


def _check_mounts(who: str, mounts: object) -> None:
    fix = "write mounts=[BindMount(source, path)], or mounts=parse_mounts([...])"
    if is_a(mounts, str, Mapping) or not isinstance(mounts, Iterable):
        raise wrong_value("mounts", who, "a list of mounts", kind(mounts), fix=fix)
    for number, mount in enumerate(cast("Iterable[object]", mounts)):
        if not isinstance(mount, (BindMount, VolumeMount, DeviceMount)):
            raise wrong_value(f"mounts[{number}]", who, "a mount", kind(mount), fix=fix)


def _check_mapping(who: str, name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise wrong_value(name, who, "a dict of values by name", kind(value))


def _shown(value: object) -> str:
    """Return a value for a message, without secrets."""
    if isinstance(value, str):
        return repr(masked_text(value))
    if is_a(value, list, tuple) and all(isinstance(each, str) for each in cast("list[object]", value)):
        return repr([masked_text(each) for each in cast("list[str]", value)])
    return kind(value)
