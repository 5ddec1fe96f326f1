"""Convert roles to compact JSON and back, for notes in labels, annotations, tags or state files.

A role's note contains the fields that differ from their defaults. `asyncsched.specs.keeping` decides which texts are
kept: null replaces a text that is not, or ``***`` in metadata; they are read back as `NotKept`. Fields that are too
large for the service, or that would not be read back unchanged, are left out and listed. The role that is read back
then has the variable ``<NOT_KEPT>``, so that a missing field is not taken for an empty one.
A note may come from anybody, or from another release: fields that cannot be read get their defaults.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from asyncsched.schedulers._common.untrusted import MOST_DIGITS, well_formed
from asyncsched.schedulers.told import listed
from asyncsched.specs.app import AppDef, Resource, RetryPolicy, Role
from asyncsched.specs.keeping import A_SECRET, Keeper, keeper_of, number_or_null
from asyncsched.specs.macros import escaped
from asyncsched.specs.masking import is_hidden
from asyncsched.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount, source_of
from asyncsched.specs.not_kept import NOT_KEPT, NotKept
from asyncsched.specs.secret import Secret
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.specs.to_plain import JsonValue

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "given_options",
    "kept_metadata",
    "left_out",
    "made_with_text",
    "metadata_of_note",
    "note_by_hand",
    "note_of_role",
    "role_notes",
    "role_of_command",
    "role_of_note",
    "roles_of_notes",
    "shortened",
]

Note = dict[str, JsonValue]

_LEFT_OUT = "left_out"
"""The key in a note for the names of fields that did not fit."""

_ENV_LEFT_OUT = "env_left_out"
"""The key that earlier releases set when the environment did not fit."""

_NOT_KEPT = "not_kept"
"""The key in a note for the reason why its role cannot be submitted again as it is."""

_SHED = ("env", "args", "metadata", "mounts", "port_map", "resource")
"""The fields to leave out of a note that is too large, in this order."""

_MOST_NAMED = 50

_LARGEST = 1e15
"""Numbers of a resource from which on they are not believed; below it, a float is exact."""

_REASONS = "reasons"
"""The key in a note for the reasons of values that were not kept, if they are not secrets."""


def kept_metadata(app: AppDef) -> Note:
    """Return an app's metadata, with ``***`` in place of values that are not kept."""
    return {name: str(value) for name, value in keeper_of(app).data(app.metadata).items()}


def role_notes(app: AppDef) -> list[Note]:
    """Return the notes of an app's roles, without any secret of the app, whichever role contains it."""
    keeper = keeper_of(app)
    return [_checked(role, _note_of_role(role, keeper)) for role in app.roles]


def note_of_role(role: Role) -> Note:
    """Return the note of a role that is an app by itself."""
    return role_notes(AppDef("", [role]))[0]


def roles_of_notes(notes: object) -> list[Role]:
    """Return the roles of the notes of an app."""
    return [role_of_note(each) for each in _list(notes)]


def metadata_of_note(kept: object) -> dict[str, str]:
    """Return the metadata that `kept_metadata` has kept."""
    metadata = {well_formed(name): _text(value) for name, value in _object(kept).items()}
    return cast("dict[str, str]", _unhidden(metadata))


def given_options(request: DataclassInstance) -> Iterator[str]:
    """Yield the names of a request's fields that no role holds and that differ from a submit without options."""
    for field in dataclasses.fields(request):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if default is not dataclasses.MISSING and getattr(request, field.name) != default:
            yield field.name


def note_by_hand(made_with: Iterable[str], keeper: Keeper) -> Note:
    """Return the note of a role whose request was made by hand; only the names of the request's fields are known."""
    why = "its job was made by hand: entrypoint, args, env, mounts and resource of the role were not recorded"
    return {_NOT_KEPT: why + made_with_text(made_with, keeper)}


def made_with_text(made_with: Iterable[str], keeper: Keeper) -> str:
    """Return the rest of a reason, which names what a request was made with."""
    names = listed(map(keeper.name, dict.fromkeys(made_with)), _MOST_NAMED)
    return f"; it was made with {names}" if names else ""


def _note_of_role(role: Role, keeper: Keeper) -> Note:
    texts = _Texts(keeper)
    args = ((f"argument {number}", arg) for number, arg in enumerate(role.args))
    entrypoint, *words = texts.listed([("entrypoint", role.entrypoint), *args])
    note: Note = {
        "name": role.name,
        "image": texts.one("image", role.image),
        "entrypoint": entrypoint,
        "args": words,
        "num_replicas": number_or_null(role.num_replicas),
        "max_retries": number_or_null(role.max_retries),
        "resource": _resource(role.resource, keeper),
        "env": texts.env(role.env),
    }
    more: Note = {
        "retry_policy": "" if role.retry_policy is RetryPolicy.APPLICATION else str(role.retry_policy),
        "min_replicas": number_or_null(role.min_replicas),
        "port_map": {**keeper.numbers(role.port_map)},
        "mounts": [_mount_note(f"mount {k}", mount, texts) for k, mount in enumerate(role.mounts)],
        "metadata": {**keeper.data(role.metadata)},
    }
    if role.base_image is not None:
        note["base_image"] = texts.one("base_image", role.base_image)
    more[_REASONS] = {place: why for place, why in texts.reasons.items() if why != A_SECRET}
    if isinstance(lacking := role.env.get(NOT_KEPT), NotKept):
        more[_NOT_KEPT] = keeper.reason(lacking.why)
    return note | {name: value for name, value in more.items() if value}


def _checked(role: Role, note: Note) -> Note:
    """Return a role's note without fields that would not be read back unchanged; it lists them."""
    again = vars(role_of_note(note))
    lost = [name for name, value in again.items() if name != "name" and not _is_same(getattr(role, name), value)]
    if not lost:
        return note
    why = f"{' and '.join(lost)}: it contains a secret, or values that a note cannot keep unchanged"
    told = [str(note[_NOT_KEPT])] if _NOT_KEPT in note else []
    return {name: value for name, value in note.items() if name not in lost} | {_NOT_KEPT: "; ".join([*told, why])}


def _is_same(old: object, new: object) -> bool:
    """Return whether a value was read back unchanged, or as one that lists what was not kept."""
    if isinstance(new, NotKept):
        return True
    if isinstance(old, Mapping) and isinstance(new, dict):
        before, after = cast("Mapping[object, object]", old), cast("dict[object, object]", new)
        told = any(isinstance(value, NotKept) for name, value in after.items() if name not in before)
        return (told or before.keys() <= after.keys()) and all(
            _is_same(before[name], value) for name, value in after.items() if name in before
        )
    if isinstance(old, (list, tuple)) and isinstance(new, list):
        items, others = cast("Sequence[object]", old), cast("list[object]", new)
        return len(items) == len(others) and all(map(_is_same, items, others))
    if isinstance(old, (Resource, BindMount, VolumeMount, DeviceMount)):
        return type(old) is type(new) and _is_same(vars(old), vars(new))
    return old == new


def shortened(note: Mapping[str, JsonValue], fits: Callable[[Note], bool]) -> Note:
    """Return a role's note without one or more fields, so that it fits."""
    several = [_SHED[:count] for count in range(2, len(_SHED) + 1)]
    for fields in ((), *((field,) for field in _SHED), *several):
        shorter = _without(note, fields)
        if fits(shorter):
            return shorter
    return {_LEFT_OUT: ["everything"]}


def left_out(note: object) -> list[str]:
    """Return the names of the fields that were left out of a note."""
    return [_text(name) for name in _list(_object(note).get(_LEFT_OUT))]


def _without(note: Mapping[str, JsonValue], fields: Collection[str]) -> Note:
    shorter: Note = {name: value for name, value in note.items() if name not in fields}
    if left := [name for name in fields if name in note]:
        shorter[_LEFT_OUT] = [*left]
    return shorter


def role_of_note(note: object, *, name: str = "", image: str = "") -> Role:
    """Return the role of a note.

    Args:
        note: The note, parsed.
        name: The role's name, if the note has none.
        image: The role's image, if the note has none.
    """
    data = _object(note)
    why = _object(data.get(_REASONS))
    lacking = _lacking(data)
    return Role(
        name=_text(data.get("name") or name),
        image=_unhidden(_word(data.get("image", ""), why.get("image"))) or image,
        min_replicas=_count(data.get("min_replicas")) or None,
        base_image=_unhidden(_word(data["base_image"], why.get("base_image"))) if "base_image" in data else None,
        entrypoint=_word(data.get("entrypoint", ""), why.get("entrypoint")),
        args=[_word(arg, why.get(f"argument {k}")) for k, arg in enumerate(_list(data.get("args")))],
        env=lacking | _env(data) | lacking,  # first, where readers see it, and last, so that it wins
        num_replicas=_count(data.get("num_replicas")),
        max_retries=_count(data.get("max_retries")),
        retry_policy=_policy(data.get("retry_policy")),
        resource=_read_resource(data.get("resource")),
        port_map={well_formed(port): _count(number) for port, number in _object(data.get("port_map")).items()},
        metadata=_unhidden(_object(data.get("metadata"))),
        mounts=[
            mount
            for number, each in enumerate(_list(data.get("mounts")))
            if (mount := _read_mount(_object(each), why.get(f"mount {number}"))) is not None
        ],
    )


def role_of_command(name: str, image: str, command: Sequence[str], env: Mapping[str, str], replicas: int) -> Role:
    """Return the role for replicas with this command and environment, which contain no macros."""
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
    """Return the text to write in a role so that a program gets this text."""
    if isinstance(text, (SecretRef, NotKept)):
        return text
    try:
        return Secret(escaped(text.reveal())) if isinstance(text, Secret) else escaped(text)
    except ValueError as error:
        return NotKept(str(error))


class _Texts:
    """The texts of a role in its note: null for each text that is not kept, and the reasons.

    Attributes:
        reasons: Why a text is not kept, by its place.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self.reasons: dict[str, str] = {}

    def one(self, place: str, text: str) -> JsonValue:
        return self.listed([(place, text)])[0]

    def listed(self, places: Sequence[tuple[str, str]]) -> list[JsonValue]:
        """Return a list of texts; a secret name in one may make the next a secret."""
        whys = self._keeper.words([text for _, text in places])
        self.reasons |= {place: why for (place, _), why in zip(places, whys, strict=True) if why}
        return [None if why else str(text) for (_, text), why in zip(places, whys, strict=True)]

    def env(self, env: Mapping[str, str]) -> Note:
        texts = {name: "" if isinstance(value, SecretRef) else value for name, value in env.items() if name != NOT_KEPT}
        note: Note = {}
        for name, (shown, why) in zip(texts, self._keeper.values(texts), strict=True):
            value = env[name]
            if isinstance(value, SecretRef):
                note[shown] = [value.name, value.key]
            else:
                note[shown] = None if why else str(value)
                self.reasons |= {f"variable {shown}": why} if why else {}
        return note


def _resource(resource: Resource, keeper: Keeper) -> Note:
    note: Note = {name: number_or_null(getattr(resource, name)) for name in ("cpu", "gpu", "memMB")}
    if resource.capabilities:
        note["capabilities"] = {**keeper.data(resource.capabilities)}
    if resource.devices:
        note["devices"] = {**keeper.numbers(resource.devices)}
    return note


def _mount_note(place: str, mount: Mount, texts: _Texts) -> Note:
    kind = "device" if isinstance(mount, DeviceMount) else "bind" if isinstance(mount, BindMount) else "volume"
    note: Note = {"type": kind, "src": texts.one(place, source_of(mount)), "dst": texts.one(place, mount.dst_path)}
    if isinstance(mount, DeviceMount):
        return note | {"perm": texts.one(place, mount.permissions)}
    return note | {"readonly": mount.read_only}


# Reading


def _lacking(data: Mapping[str, object]) -> dict[str, str]:
    """Return the variable that lists what a role lacks, if anything."""
    whys = [_text(data[_NOT_KEPT])] if data.get(_NOT_KEPT) else []
    left = left_out(data)
    if data.get(_ENV_LEFT_OUT):
        left = ["env"] if "args" in data else ["env", "args", "metadata"]
    if left:
        whys.append(f"{' and '.join(left)} did not fit into the service's note")
    if not whys and not data.keys() & {"entrypoint", "args"}:
        whys = ["entrypoint, args, env, mounts and resource were not recorded"]
    if not whys and "env" not in data:
        whys = ["env and mounts were not recorded"]
    return {NOT_KEPT: NotKept("; ".join(whys))} if whys else {}


def _env(data: Mapping[str, object]) -> dict[str, str]:
    why = _object(data.get(_REASONS))
    return {
        well_formed(name): _read_env_value(value, why.get(f"variable {name}"))
        for name, value in _object(data.get("env")).items()
    }


def _word(value: object, why: object = None) -> str:
    return NotKept(_text(why or A_SECRET)) if value is None else _text(value)


def _unhidden(value: object) -> Any:
    """Return metadata with a `NotKept` in place of each secret."""
    if isinstance(value, dict):
        return {name: _unhidden(item) for name, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_unhidden(item) for item in cast("list[object]", value)]
    return NotKept(A_SECRET) if isinstance(value, str) and is_hidden(value) else value


def _read_env_value(value: object, why: object) -> str:
    parts = [_text(part) for part in _list(value)]
    return SecretRef(*parts) if len(parts) == 2 and parts[0] else _word(value, why)


def _read_resource(value: object) -> Resource:
    size = _object(value)
    return Resource(
        # A fraction of a processor is kept as the caller wrote it.
        cpu=_number(size.get("cpu"), -1),
        gpu=_number(size.get("gpu"), -1),
        memMB=_number(size.get("memMB"), -1),
        capabilities=_unhidden(_object(size.get("capabilities"))),
        devices={well_formed(name): _count(count) for name, count in _object(size.get("devices")).items()},
    )


def _read_mount(note: Mapping[str, object], why: object) -> Mount | None:
    src, dst = _unhidden(_word(note.get("src", ""), why)), _word(note.get("dst", ""), why)
    make: Mapping[str, Callable[[], Mount]] = {
        "bind": lambda: BindMount(src, dst, note.get("readonly") is True),
        "volume": lambda: VolumeMount(src, dst, note.get("readonly") is True),
        "device": lambda: DeviceMount(src, dst, _word(note.get("perm", "rwm"), why)),
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


def _count(value: object) -> int:
    """Return a whole number that is not negative; 0 for anything else."""
    return value if type(value) is int and 0 <= value < 10**MOST_DIGITS else 0


def _number(value: object, default: int) -> int:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < _LARGEST:
        return default
    return cast("int", value)
