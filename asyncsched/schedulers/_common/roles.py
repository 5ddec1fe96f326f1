"""Roles as a compact JSON and back, for services that can keep a note: a label, an annotation, a tag, a state file.

A role's note has the names of its fields, without those that have their default. No secret is in it: in its place
stands null, or ``***`` in its metadata, which are read back as `NotKept`. What a service has no room for is left out
and named; a role that is read back says so by the variable ``<NOT_KEPT>``, so that nobody takes what is missing for
empty.
What is read may have been written by anybody, or by another release: what is not understood has its default.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from asyncsched.schedulers._common.untrusted import well_formed
from asyncsched.schedulers.told import listed
from asyncsched.specs.app import AppDef, Resource, RetryPolicy, Role
from asyncsched.specs.encodable import half_character
from asyncsched.specs.macros import escaped
from asyncsched.specs.masking import find_secrets, hidden, is_hidden
from asyncsched.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount, source_of
from asyncsched.specs.not_kept import NOT_KEPT, NotKept
from asyncsched.specs.plain import JsonValue
from asyncsched.specs.secret import MASK, Secret, redact
from asyncsched.specs.secret_names import is_secret_name
from asyncsched.specs.secret_ref import SecretRef

__all__ = [
    "app_note",
    "left_out",
    "note_by_hand",
    "note_of_role",
    "read_app_note",
    "role_of_command",
    "role_of_note",
    "shortened",
]

Note = dict[str, JsonValue]

_LEFT_OUT = "left_out"
"""Names in a note the fields that the service had no room for."""

_ENV_LEFT_OUT = "env_left_out"
"""Set by earlier releases in a note that would have been too large with its environment."""

_NOT_KEPT = "not_kept"
"""Says in a note why the role that it tells of cannot be submitted again as it is."""

_SHED = ("env", "args", "metadata", "mounts", "port_map", "resource")
"""What is left out of a note that is too large, in this order."""

_MOST_NAMED = 50

_REASONS = "reasons"
"""Says in a note of what was not kept why that is, where it is no secret."""

_SECRET = "a secret"  # noqa: S105 - a reason, no password


def app_note(app: AppDef) -> Note:
    """Return the note of a whole app: its roles and its metadata."""
    return {"roles": [note_of_role(role) for role in app.roles], "metadata": _texts(hidden(app.metadata))}


def read_app_note(note: object) -> tuple[list[Role], dict[str, str]]:
    """Return the roles and the metadata that a note tells of."""
    data = _object(note)
    roles = [role_of_note(each) for each in _list(data.get("roles"))]
    metadata = {well_formed(name): _text(value) for name, value in _object(data.get("metadata")).items()}
    return roles, cast("dict[str, str]", _unhidden(metadata))


def note_by_hand(made_with: Iterable[str]) -> Note:
    """Return the note of a role of whose request, which was made by hand, only the names of its fields are known."""
    why = "its job was made by hand: entrypoint, args, env, mounts and resource of the role were not written down"
    names = listed(iter(dict.fromkeys(made_with)), _MOST_NAMED)
    return {_NOT_KEPT: f"{why}; it was made with {names}" if names else why}


def note_of_role(role: Role) -> Note:
    """Return what is to be kept of a role: nothing with a secret in it, in whatever place a secret is said again."""
    note = _note_of_role(role)
    secrets = find_secrets(role.env, [role.entrypoint, *role.args], role.metadata)
    if not secrets:
        return note
    again: Note = {name: _unsaid(note[name], secrets, None) for name in _TEXTS if name in note}
    return note | again | {name: _unsaid(note[name], secrets, MASK) for name in _DATA if name in note}


_TEXTS = ("image", "base_image", "entrypoint", "args", "env", "mounts")
_DATA = ("metadata", "resource")


def _unsaid(value: JsonValue, secrets: Sequence[str], instead: JsonValue) -> JsonValue:
    """Return a part of a note in which something else stands for each text that holds one of the secrets."""
    if isinstance(value, str):
        return value if redact(value, secrets) == value else instead
    if isinstance(value, dict):
        return {name: _unsaid(item, secrets, instead) for name, item in value.items()}
    return [_unsaid(item, secrets, instead) for item in value] if isinstance(value, list) else value


def _note_of_role(role: Role) -> Note:
    note: Note = {
        "name": role.name,
        "image": _kept([role.image])[0],
        "entrypoint": _kept([role.entrypoint])[0],
        "args": _kept(role.args),
        "num_replicas": role.num_replicas,
        "max_retries": role.max_retries,
        "resource": _resource(role.resource),
        "env": {name: _env_value(name, value) for name, value in role.env.items()},
    }
    more: Note = {
        "retry_policy": "" if role.retry_policy is RetryPolicy.APPLICATION else role.retry_policy.value,
        "min_replicas": role.min_replicas,
        "port_map": dict(role.port_map),
        "mounts": [_mount_note(mount) for mount in role.mounts],
        "metadata": hidden(role.metadata),
    }
    if role.base_image is not None:
        note["base_image"] = _kept([role.base_image])[0]
    more[_REASONS] = _reasons(role)
    if isinstance(lacking := role.env.get(NOT_KEPT), NotKept):
        more[_NOT_KEPT] = lacking.why
    return note | {name: value for name, value in more.items() if value}


def shortened(note: Mapping[str, JsonValue], fits: Callable[[Note], bool]) -> Note:
    """Return a role's note without what keeps it from fitting: one field, if that will do, or several."""
    several = [_SHED[:count] for count in range(2, len(_SHED) + 1)]
    for fields in ((), *((field,) for field in _SHED), *several):
        shorter = _without(note, fields)
        if fits(shorter):
            return shorter
    return {_LEFT_OUT: ["everything"]}


def left_out(note: object) -> list[str]:
    """Return the names of the fields that a note has no room for."""
    return [_text(name) for name in _list(_object(note).get(_LEFT_OUT))]


def _without(note: Mapping[str, JsonValue], fields: Collection[str]) -> Note:
    shorter: Note = {name: value for name, value in note.items() if name not in fields}
    if left := [name for name in fields if name in note]:
        shorter[_LEFT_OUT] = [*left]
    return shorter


def role_of_note(note: object, *, name: str = "", image: str = "") -> Role:
    """Return the role that a note tells of.

    Args:
        note: The note, parsed.
        name: The role's name where the note has none.
        image: Likewise its image.
    """
    data = _object(note)
    why = _object(data.get(_REASONS))
    lacking = _lacking(data)
    return Role(
        name=_text(data.get("name") or name),
        image=_unhidden(_word(data.get("image", ""), why.get("image"))) or image,
        min_replicas=_number(data.get("min_replicas"), 0) or None,
        base_image=_unhidden(_word(data["base_image"], why.get("base_image"))) if "base_image" in data else None,
        entrypoint=_word(data.get("entrypoint", ""), why.get("entrypoint")),
        args=[_word(arg, why.get(f"argument {k}")) for k, arg in enumerate(_list(data.get("args")))],
        env=lacking | _env(data) | lacking,  # first and last: it is what a reader and a submit come upon
        num_replicas=_number(data.get("num_replicas"), 0),
        max_retries=_number(data.get("max_retries"), 0),
        retry_policy=_policy(data.get("retry_policy")),
        resource=_read_resource(data.get("resource")),
        port_map={well_formed(port): _number(number, 0) for port, number in _object(data.get("port_map")).items()},
        metadata=_unhidden(_object(data.get("metadata"))),
        mounts=[
            mount
            for number, each in enumerate(_list(data.get("mounts")))
            if (mount := _read_mount(_object(each), why.get(f"mount {number}"))) is not None
        ],
    )


def role_of_command(name: str, image: str, command: Sequence[str], env: Mapping[str, str], replicas: int) -> Role:
    """Return the role whose replicas would be started with this command and environment, which hold no macros."""
    words = [_written(word) for word in command]
    return Role(
        name=name,
        image=image,
        entrypoint=next(iter(command), ""),
        args=words[1:],
        env={variable: _written(value) for variable, value in env.items()},
        num_replicas=replicas,
    )


# Writing


def _written(text: str) -> str:
    """Return what has to be written in a role for a program to get this text."""
    if isinstance(text, (SecretRef, NotKept)):
        return text
    try:
        return Secret(escaped(text.reveal())) if isinstance(text, Secret) else escaped(text)
    except ValueError as error:
        return NotKept(str(error))


def _kept(texts: Sequence[str]) -> list[JsonValue]:
    """Return texts, with null for each that has a secret in it or was not kept before."""
    shown = cast("list[JsonValue]", hidden(texts))
    return [
        None if isinstance(text, (Secret, NotKept)) or kept != text or half_character(text) else str(text)
        for text, kept in zip(texts, shown, strict=True)
    ]


def _env_value(name: str, value: str) -> JsonValue:
    if isinstance(value, SecretRef):
        return [value.name, value.key]
    return None if is_secret_name(name) else _kept([value])[0]


def _reasons(role: Role) -> Note:
    """Return why a text was not kept, where it is no secret."""
    texts = {f"variable {name}": value for name, value in role.env.items() if name != NOT_KEPT}
    texts |= {f"argument {number}": arg for number, arg in enumerate(role.args)}
    texts |= {"image": role.image, "base_image": role.base_image or "", "entrypoint": role.entrypoint}
    texts |= {f"mount {number}": source_of(mount) for number, mount in enumerate(role.mounts)}
    return {place: why for place, text in texts.items() if (why := _reason(text))}


def _reason(text: str) -> str:
    if isinstance(text, NotKept):
        return "" if text.why == _SECRET else text.why
    return "" if isinstance(text, Secret) else half_character(text)


def _resource(resource: Resource) -> Note:
    note: Note = {"cpu": resource.cpu, "gpu": resource.gpu, "memMB": resource.memMB}
    if resource.capabilities:
        note["capabilities"] = hidden(resource.capabilities)
    if resource.devices:
        note["devices"] = dict(resource.devices)
    return note


def _mount_note(mount: Mount) -> Note:
    kind = "device" if isinstance(mount, DeviceMount) else "bind" if isinstance(mount, BindMount) else "volume"
    note: Note = {"type": kind, "src": _kept([source_of(mount)])[0], "dst": mount.dst_path}
    if isinstance(mount, DeviceMount):
        return note | {"perm": mount.permissions}
    return note | {"readonly": mount.read_only}


def _texts(metadata: object) -> Note:
    return {name: str(value) for name, value in _object(metadata).items()}


# Reading


def _lacking(data: Mapping[str, object]) -> dict[str, str]:
    """Return the variable that says what a role lacks, if it lacks anything."""
    if why := data.get(_NOT_KEPT):
        return {NOT_KEPT: NotKept(_text(why))}
    left = left_out(data)
    if data.get(_ENV_LEFT_OUT):
        left = ["env"] if "args" in data else ["env", "args", "metadata"]
    if left:
        return {NOT_KEPT: NotKept(f"{' and '.join(left)} did not fit into the service's note")}
    if not data.keys() & {"entrypoint", "args"}:
        return {NOT_KEPT: NotKept("entrypoint, args, env, mounts and resource were not written down")}
    if "env" not in data:
        return {NOT_KEPT: NotKept("env and mounts were not written down")}
    return {}


def _env(data: Mapping[str, object]) -> dict[str, str]:
    why = _object(data.get(_REASONS))
    return {
        well_formed(name): _read_env_value(value, why.get(f"variable {name}"))
        for name, value in _object(data.get("env")).items()
    }


def _word(value: object, why: object = None) -> str:
    return NotKept(_text(why or _SECRET)) if value is None else _text(value)


def _unhidden(value: object) -> Any:
    """Return metadata with a `NotKept` wherever a secret was."""
    if isinstance(value, dict):
        return {name: _unhidden(item) for name, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_unhidden(item) for item in cast("list[object]", value)]
    return NotKept(_SECRET) if isinstance(value, str) and is_hidden(value) else value


def _read_env_value(value: object, why: object) -> str:
    parts = [_text(part) for part in _list(value)]
    return SecretRef(*parts) if len(parts) == 2 and parts[0] else _word(value, why)


def _read_resource(value: object) -> Resource:
    size = _object(value)
    return Resource(
        # A fraction of a processor stays one, as the caller had written it.
        cpu=_number(size.get("cpu"), -1),
        gpu=_number(size.get("gpu"), -1),
        memMB=_number(size.get("memMB"), -1),
        capabilities=_unhidden(_object(size.get("capabilities"))),
        devices={well_formed(name): _number(count, 0) for name, count in _object(size.get("devices")).items()},
    )


def _read_mount(note: Mapping[str, object], why: object) -> Mount | None:
    src, dst = _unhidden(_word(note.get("src", ""), why)), _text(note.get("dst", ""))
    make: Mapping[str, Callable[[], Mount]] = {
        "bind": lambda: BindMount(src, dst, note.get("readonly") is True),
        "volume": lambda: VolumeMount(src, dst, note.get("readonly") is True),
        "device": lambda: DeviceMount(src, dst, _text(note.get("perm") or "rwm")),
    }
    kind = make.get(_text(note.get("type", "")))
    return kind() if kind is not None else None


def _policy(value: object) -> RetryPolicy:
    try:
        return RetryPolicy(_text(value))
    except ValueError:
        return RetryPolicy.APPLICATION


def _text(value: object) -> str:
    return well_formed(str(value))


def _object(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _number(value: object, default: int) -> int:
    return cast("int", value) if isinstance(value, (int, float)) and not isinstance(value, bool) else default
