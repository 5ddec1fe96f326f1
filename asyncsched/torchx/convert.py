"""Convert apps, roles and states between TorchX's classes and ours.

TorchX is not imported: its objects are read by the names of their fields, and its classes come from the module
``torchx.specs`` that the caller passes. TorchX 0.7 and its nightlies are both supported; 0.7 is recognised by
`Role.base_image`, which the nightlies do not have.

A value that only one side has is dropped: `Role.base_image` in a nightly, and `Resource.tags`, `Role.workspace` and
`Role.overrides` (which are resolved by reading the fields) here. A value that would mean something else on the other
side is refused.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Callable, Collection, Sequence
from types import ModuleType
from typing import Any, TypeVar, cast

from asyncsched import specs
from asyncsched.errors import ConfigError
from asyncsched.specs.app import NONE
from asyncsched.specs.not_kept import NOT_KEPT, NotKept
from asyncsched.specs.secret import Secret
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.torchx import templates

__all__ = [
    "adopt",
    "role_to_ours",
    "role_to_theirs",
    "state_to_ours",
    "state_to_theirs",
    "statuses_to_theirs",
    "structured_error",
    "to_ours",
    "to_theirs",
]

_log = logging.getLogger("asyncsched.torchx")

_MOUNTS: dict[str, type[specs.BindMount | specs.VolumeMount | specs.DeviceMount]] = {
    "BindMount": specs.BindMount,
    "VolumeMount": specs.VolumeMount,
    "DeviceMount": specs.DeviceMount,
}


def to_ours(app: Any) -> specs.AppDef:
    """Return TorchX's AppDef as ours, without changing it.

    What TorchX does with an app before it reaches a scheduler (`Role.pre_proc`, `Role.workspace`) is left to TorchX.
    For apps that TorchX never processes, use `adopt`.

    Args:
        app: An object of TorchX's class, or of a subclass.

    Raises:
        ConfigError: A text with macros, or a mount, cannot be converted; the message names the role.
    """
    return specs.AppDef(app.name, [role_to_ours(role) for role in app.roles], dict(app.metadata))


def adopt(app: Any) -> specs.AppDef:
    """Return TorchX's AppDef as ours, to run without TorchX: our dry-run calls its roles' `pre_proc`.

    Args:
        app: An object of TorchX's class, or of a subclass.

    Raises:
        ConfigError: As in `to_ours`, or a role has its own workspace.
    """
    for role in app.roles:
        if getattr(role, "workspace", None):
            raise ConfigError(
                f"role {role.name!r} has its own workspace, which is not supported",
                why=f"its workspace is {role.workspace!r}",
                fix="remove it, and pass the workspace to run",
            )
    roles = [_with_hook(role, role_to_ours(role)) for role in app.roles]
    return specs.AppDef(app.name, roles, dict(app.metadata))


def role_to_ours(role: Any) -> specs.Role:
    """Return TorchX's Role as ours.

    Raises:
        ConfigError: A text with macros, or a mount, cannot be converted; the message names the role.
    """
    texts = _Texts(
        role.name,
        is_old=_is_old(role.__class__),
        live=templates.as_ours,
        literal=templates.as_our_literal,
    )
    return specs.Role(
        name=role.name,
        image=role.image,
        min_replicas=role.min_replicas,
        base_image=getattr(role, "base_image", None),
        entrypoint=role.entrypoint,
        args=[texts.live(f"args[{number}]", arg) for number, arg in enumerate(role.args)],
        env={name: texts.live(f"env[{name!r}]", value) for name, value in role.env.items()},
        num_replicas=role.num_replicas,
        max_retries=role.max_retries,
        retry_policy=specs.RetryPolicy(getattr(role.retry_policy, "value", role.retry_policy)),
        resource=_like(specs.Resource, role.resource),
        port_map=dict(role.port_map),
        metadata=cast("dict[str, object]", texts.metadata(role.metadata)),
        mounts=[_mount(role.name, mount) for mount in role.mounts],
    )


def to_theirs(app: specs.AppDef, torchx_specs: ModuleType, *, reveal: bool = False) -> Any:
    """Return our AppDef as TorchX's.

    Args:
        app: The app.
        torchx_specs: The module ``torchx.specs``.
        reveal: Whether a `Secret` becomes its value. Otherwise it stays a `Secret`: it prints as ``***``, and is
            recognised when it comes back.

    Raises:
        ConfigError: A text with macros cannot be converted; the message names the role.
    """
    roles = [role_to_theirs(role, torchx_specs, reveal=reveal) for role in app.roles]
    metadata = {name: _told(value, reveal=reveal) for name, value in app.metadata.items()}
    return torchx_specs.AppDef(name=app.name, roles=roles, metadata=metadata)


def role_to_theirs(role: specs.Role, torchx_specs: ModuleType, *, reveal: bool = False) -> Any:
    """Return our Role as TorchX's; see `to_theirs`.

    A retry policy that this TorchX does not have becomes APPLICATION, with a warning.
    """
    kind = torchx_specs.Role
    texts = _Texts(role.name, is_old=_is_old(kind), live=templates.as_theirs, literal=templates.as_their_literal)
    args = [texts.live(f"args[{number}]", arg) for number, arg in enumerate(role.args)]
    env = {name: texts.live(f"env[{name!r}]", value) for name, value in role.env.items()}
    values: dict[str, Any] = {field.name: getattr(role, field.name) for field in dataclasses.fields(specs.Role)}
    values |= {
        "args": [_told(arg, reveal=reveal) for arg in args],
        "env": {name: _told(value, reveal=reveal) for name, value in env.items()},
        "retry_policy": _their_policy(role, torchx_specs),
        "resource": _like(torchx_specs.Resource, role.resource),
        "port_map": dict(role.port_map),
        "metadata": texts.metadata(role.metadata),
        "mounts": [_like(getattr(torchx_specs, type(mount).__name__), mount) for mount in role.mounts],
    }
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in values.items() if name in known})


def state_to_ours(state: Any) -> specs.AppState:
    """Return TorchX's AppState as ours; the numbers are the same."""
    return specs.AppState(int(state))


def state_to_theirs(state: specs.AppState, torchx_specs: ModuleType) -> Any:
    """Return our AppState as TorchX's."""
    return torchx_specs.AppState(int(state))


def statuses_to_theirs(statuses: list[specs.RoleStatus], torchx_specs: ModuleType) -> list[Any]:
    """Return our roles' states as TorchX's RoleStatus, with error files in the shape that TorchX prints."""
    return [
        torchx_specs.RoleStatus(
            role=status.role,
            replicas=[
                torchx_specs.ReplicaStatus(
                    id=replica.id,
                    state=state_to_theirs(replica.state, torchx_specs),
                    role=replica.role,
                    hostname=replica.hostname,
                    structured_error_msg=structured_error(replica.structured_error_msg, replica),
                )
                for replica in status.replicas
            ],
        )
        for status in statuses
    ]


def structured_error(message: str, replica: specs.ReplicaStatus | None = None) -> str:
    """Return an error file's text in torchelastic's format, which TorchX expects when it prints.

    Args:
        message: The text; it is returned unchanged if it has the format, and "" becomes ``<NONE>``.
        replica: The replica that wrote it; its end and its exit code are filled in.
    """
    if message in ("", NONE):
        return NONE
    if _is_torchelastic(message):
        return message
    ended = replica.finished_at if replica else None
    inner = {
        "message": message,
        "errorCode": replica.exit_code if replica else None,
        "extraInfo": {"timestamp": int(ended.timestamp()) if ended else 0},
    }
    return json.dumps({"message": inner})


def _is_torchelastic(message: str) -> bool:
    try:
        inner = json.loads(message)["message"]
        int(inner["extraInfo"]["timestamp"])
        return isinstance(inner["message"], str) and "errorCode" in inner
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return False


class _Texts:
    """Converts the texts of one role; its errors name the text.

    Args:
        role: The role's name.
        is_old: Whether this TorchX has the macro ``base_img_root``, and does not look into dicts in lists.
        live: Converts a text in which TorchX replaces macros.
        literal: Converts a text in which TorchX does not; asyncsched replaces macros in all texts.
    """

    def __init__(
        self, role: str, *, is_old: bool, live: Callable[[str, Collection[str]], str], literal: Callable[[str], str]
    ) -> None:
        self._role = role
        self._is_old = is_old
        self._live = live
        self._literal = literal

    def live(self, place: str, text: str) -> str:
        """Convert a text in which TorchX replaces macros."""
        names = templates.OLD_NAMES if self._is_old else templates.NAMES
        translated: str = self._translated(place, text, lambda value: self._live(value, names))
        return translated

    def metadata(self, value: object, *, is_live: bool = True) -> object:
        """Convert nested data: TorchX replaces macros in the values of dicts, and in lists inside a dict."""
        if isinstance(value, str):
            return self.live("metadata", value) if is_live else self._translated("metadata", value, self._literal)
        if isinstance(value, dict):
            pairs = cast("dict[object, object]", value)
            return {name: self._in_dict(item, is_live=is_live) for name, item in pairs.items()}
        if isinstance(value, (list, tuple)):
            items = [self.metadata(item, is_live=False) for item in cast("Sequence[object]", value)]
            return items if isinstance(value, list) else tuple(items)
        return value

    def _in_dict(self, value: object, *, is_live: bool) -> object:
        if not (is_live and isinstance(value, list)):
            return self.metadata(value, is_live=is_live)
        items = cast("list[object]", value)
        searched = str if self._is_old else (str, dict)
        return [self.metadata(item, is_live=isinstance(item, searched)) for item in items]

    def _translated(self, place: str, text: Any, translate: Callable[[str], str]) -> Any:
        # Other values than strings are refused when the app is submitted.
        if not isinstance(text, str) or isinstance(text, (SecretRef, NotKept)):
            return text
        try:
            return Secret(translate(text.reveal())) if isinstance(text, Secret) else translate(text)
        except ValueError as error:  # the text may be a secret, so the message does not contain it
            raise ConfigError(
                f"role {self._role!r}: {place} cannot be converted between TorchX's macros and asyncsched's",
                why=str(error),
                fix="build the text in the program, or in a shell",
            ) from None


class _Hooked(specs.Role):
    """A role whose `pre_proc` is that of a role of TorchX."""

    theirs: Any

    def pre_proc(self, scheduler: str, dryrun_info: specs.AppDryRunInfo[Any]) -> specs.AppDryRunInfo[Any]:
        after = self.theirs.pre_proc(scheduler, dryrun_info)
        if not issubclass(after.__class__, specs.AppDryRunInfo):
            return specs.AppDryRunInfo(after.request)
        ours: specs.AppDryRunInfo[Any] = after
        return ours


def _with_hook(theirs: Any, role: specs.Role) -> specs.Role:
    definer = next((kind for kind in type(theirs).__mro__ if "pre_proc" in vars(kind)), object)
    if definer.__module__.startswith("torchx."):  # TorchX's own method does nothing
        return role
    hooked = _Hooked(**{field.name: getattr(role, field.name) for field in dataclasses.fields(specs.Role)})
    hooked.theirs = theirs
    return hooked


def _is_old(role: type[Any]) -> bool:
    return any(field.name == "base_image" for field in dataclasses.fields(role))


def _their_policy(role: specs.Role, torchx_specs: ModuleType) -> Any:
    policies = torchx_specs.RetryPolicy
    if role.retry_policy.value in {policy.value for policy in policies}:
        return policies(role.retry_policy.value)
    _log.warning("role %s: this TorchX has no retry policy %s, using APPLICATION", role.name, role.retry_policy.value)
    return policies("APPLICATION")


def _mount(role: str, mount: Any) -> specs.Mount:
    kind = next((_MOUNTS[each.__name__] for each in type(mount).__mro__ if each.__name__ in _MOUNTS), None)
    if kind is None:
        raise ConfigError(
            f"role {role!r}: {mount!r} is not a mount that asyncsched supports", fix=f"use {', '.join(_MOUNTS)}"
        )
    return _like(kind, mount)


T = TypeVar("T")


def _like(kind: type[T], value: Any) -> T:
    """Return an object of this dataclass, with the values of the fields that both have."""
    names = [field.name for field in dataclasses.fields(cast("type[Any]", kind)) if hasattr(value, field.name)]
    return kind(**{name: _copied(getattr(value, name)) for name in names})


def _copied(value: Any) -> Any:
    return dict(cast("dict[object, object]", value)) if isinstance(value, dict) else value


def _told(text: str, *, reveal: bool) -> str:
    """Return a text for TorchX: a value that was not kept becomes the plain text that says so."""
    if isinstance(text, NotKept):
        return NOT_KEPT
    return specs.reveal(text) if reveal else text
