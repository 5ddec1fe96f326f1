"""Write and read the labels and names by which any process finds an app's containers.

Everything that `describe` and `list` return comes from labels, names and states: nothing is stored elsewhere.

A container also has its image's labels, and an image that was made from one of our containers has all of that
container's. So a container is ours only if its name is the one that its labels are for, and of its labels only those
count that were written for it: `own_labels` returns them. Other programs may write the same labels nevertheless. If
asyncsched could not have written a label, the container's role in an app is unknown; if that label is the app's id, the
container does not belong to any app.

This is the only module that writes or reads labels.
"""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

from asyncsched.errors import InvalidRequestError
from asyncsched.schedulers._common.roles import kept_metadata, shortened
from asyncsched.schedulers._common.untrusted import (
    read_float,
    read_id,
    read_json,
    read_number,
    read_session,
    read_text,
    shown,
)
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.to_plain import JsonValue

__all__ = [
    "APP_ID",
    "APP_NAME",
    "CANCELLED",
    "CONTAINER",
    "METADATA",
    "REMOVE_AFTER",
    "REPLICA",
    "REQUEST",
    "RESULT",
    "RETRIES",
    "ROLE",
    "ROLE_INDEX",
    "SESSION",
    "SPEC",
    "STOPPED",
    "TERMINAL",
    "TIMED_OUT",
    "TIMEOUT",
    "VERSION",
    "WRITTEN",
    "Identity",
    "app_labels",
    "base_name",
    "container_name",
    "found_labels",
    "is_taken_over",
    "label_filters",
    "metadata_note",
    "own_labels",
    "read_app_id",
    "read_identity",
    "read_metadata_note",
    "read_role_note",
    "replica_labels",
    "role_labels",
    "role_note",
    "sent_labels",
    "taken_over",
]


T = TypeVar("T")

_PREFIX = "asyncsched."

VERSION = "asyncsched.version"
APP_ID = "asyncsched.app-id"
APP_NAME = "asyncsched.app-name"
SESSION = "asyncsched.session"
ROLE = "asyncsched.role"
ROLE_INDEX = "asyncsched.role-index"
REPLICA = "asyncsched.replica"
REQUEST = "asyncsched.request"
"""A digest of the request: the same id with another request is a conflict."""
SPEC = "asyncsched.role-spec"
"""The note that `describe` rebuilds the role from, as JSON, without secrets."""
METADATA = "asyncsched.metadata"
RETRIES = "asyncsched.max-retries"
"""The number of restarts after failures; missing if there are none."""
TERMINAL = "asyncsched.terminal"
"""Set if the container has a terminal: its log then has no frames."""
REMOVE_AFTER = "asyncsched.remove-after"
TIMEOUT = "asyncsched.timeout"
"""The seconds that a run may take; missing if there is no limit."""
RESULT = "asyncsched.result-file"
"""The path of the replica's result file in its container; missing if its environment names another file."""
CONTAINER = "asyncsched.container"
"""The name that the container was created with."""
WRITTEN = "asyncsched.labels"
"""Which labels the container was created with, without their prefix; it got all others from its image."""

# A name appears in lists, and can be changed: it carries what happens to a container later.
CANCELLED = ".cancelled"
"""The suffix of a container's name if its app was cancelled while it ran."""
STOPPED = ".stopped"
"""The suffix of a container's name if it was stopped because another replica had failed."""
TIMED_OUT = ".timeout"
"""The suffix of a container's name if it was stopped because it exceeded its timeout."""
_TAKEN_OVER = re.compile(r"\.taken-over-[0-9a-f]{8}$")

_DNS_LABEL = 63
_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_DIGEST = 8
_LONGEST_NOTE = 8192


def container_name(app_id: str, role: str, replica: int) -> str:
    """Return the name of a replica's container, which is its host name too.

    It is ``<app_id>-<role>-<k>`` if that is a DNS label. A name that is too long, or has characters that resolve
    differently or not at all, is cleaned and cut, and a digest keeps it unique.
    """
    full = f"{app_id}-{role}-{replica}"
    if len(full) <= _DNS_LABEL and _PLAIN.fullmatch(full):
        return full
    # Separate the parts, so that "a-b" and "c" differ from "a" and "b-c".
    digest = sha256(repr((app_id, role)).encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    end = f"-{digest}-{replica}"
    clean = re.sub(r"[^a-z0-9]+", "-", f"{app_id}-{role}".lower()).strip("-")
    return f"{_shorten(clean, _DNS_LABEL - len(end))}{end}".lstrip("-")


def _shorten(text: str, length: int) -> str:
    """Keep both ends: an id is unique at its end, and people recognise an app by its beginning."""
    if len(text) <= length:
        return text
    half = length // 2
    return f"{text[:half]}{text[half - length :]}".strip("-")


def base_name(name: str) -> str:
    """Return the name that a container was created with."""
    name = name.removeprefix("/")
    for mark in (CANCELLED, TIMED_OUT, STOPPED):
        name = name.removesuffix(mark)
    return _TAKEN_OVER.sub("", name)


def taken_over(name: str) -> str:
    """Return a new name for a container that one submit has created and another one starts.

    A container is started by its name: after a rename, only the submit that renamed it can still start it.
    """
    return f"{base_name(name)}.taken-over-{secrets.token_hex(4)}"


def is_taken_over(name: str) -> bool:
    """Return whether a name was made by `taken_over`."""
    return _TAKEN_OVER.search(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a container's labels say about its place in an app.

    Attributes:
        app_id: The app's id; empty if the label cannot be an app's id.
        app_name: The app's name.
        session: The session that submitted it.
        role: The role's name.
        role_index: The role's position among the app's roles.
        replica: The replica's number.
        max_retries: The number of restarts allowed.
        timeout: The seconds that a run may take.
        remove_after: The seconds after its end when it may be removed.
        digest: The digest of the request.
        result: The path of its result file, in the container; empty if it is not known.
        terminal: Whether it has a terminal.
        fault: Which label asyncsched cannot have written, and why; empty if all are sound.
    """

    app_id: str
    app_name: str
    session: str
    role: str
    role_index: int
    replica: int
    max_retries: int
    timeout: float
    remove_after: float
    digest: str
    result: str
    terminal: bool
    fault: str


def own_labels(found: Mapping[str, str], name: str) -> Mapping[str, str]:
    """Return the labels that asyncsched wrote for a container of this name; none if it has not created the container.

    Args:
        found: The container's labels, among them those of its image.
        name: The container's current name.
    """
    name = base_name(name)
    if CONTAINER in found and base_name(found[CONTAINER]) == name:
        written = {f"{_PREFIX}{label}" for label in found.get(WRITTEN, "").split(",")}
        return {label: value for label, value in found.items() if label in written}
    # Earlier versions did not write these two labels.
    return found if _derived_name(found) == name else {}


def _derived_name(found: Mapping[str, str]) -> str:
    """Return the name of the replica that the labels are for; empty if they are for none."""
    try:
        return container_name(read_id(found.get(APP_ID)), read_text(found.get(ROLE)), read_number(found.get(REPLICA)))
    except ValueError:
        return ""


def read_identity(own: Mapping[str, object]) -> Identity:
    """Read a container's own labels; a label that is missing or unsound has its default."""
    faults: list[str] = []

    def read(label: str, reader: Callable[[object], T], default: T) -> T:
        if label not in own:
            return default
        try:
            return reader(own[label])
        except ValueError as error:
            faults.append(f"the label {label} {error}: {shown(own[label])}")
            return default

    return Identity(
        app_id=read(APP_ID, read_id, ""),
        app_name=read(APP_NAME, read_text, ""),
        session=read(SESSION, read_session, ""),
        role=read(ROLE, read_text, ""),
        role_index=read(ROLE_INDEX, read_number, 0),
        replica=read(REPLICA, read_number, 0),
        max_retries=read(RETRIES, read_number, 0),
        timeout=read(TIMEOUT, read_float, math.inf),
        remove_after=read(REMOVE_AFTER, read_float, math.inf),
        digest=_plain(own, REQUEST),
        result=_plain(own, RESULT),
        terminal=TERMINAL in own,
        fault=faults[0] if faults else "",
    )


def _plain(own: Mapping[str, object], label: str) -> str:
    return text if isinstance(text := own.get(label), str) else ""


def read_app_id(found: Mapping[str, str], name: str) -> str:
    """Return the id of the app that the container with these labels and this name belongs to; empty if to none."""
    try:
        return read_id(own_labels(found, name).get(APP_ID))
    except ValueError:
        return ""


def read_role_note(own: Mapping[str, object]) -> object:
    """Return the note of a container's role, None if there is none.

    Raises:
        ValueError: asyncsched cannot have written the label; the message says why.
    """
    return _read_json(own, SPEC)


def read_metadata_note(own: Mapping[str, object]) -> object:
    """Return the note of an app's metadata, None if there is none.

    Raises:
        ValueError: asyncsched cannot have written the label; the message says why.
    """
    return _read_json(own, METADATA)


def _read_json(own: Mapping[str, object], label: str) -> object:
    text = own.get(label)
    if text is None:
        return None
    try:
        return read_json(text)
    except ValueError as error:
        raise ValueError(f"the label {label} {error}: {shown(text)}") from None


def app_labels(
    app: AppDef, app_id: str, *, session: str, version: str, timeout: float | None, remove_after: float | None
) -> dict[str, str]:
    """Return the labels that all containers of an app have.

    Raises:
        InvalidRequestError: They could not be read back.
    """
    own = {VERSION: version, APP_ID: app_id, APP_NAME: app.name, SESSION: session, **metadata_note(app)}
    if timeout is not None:
        own[TIMEOUT] = str(timeout)
    if remove_after is not None:
        own[REMOVE_AFTER] = str(remove_after)
    return own


def role_labels(shared: Mapping[str, str], role: Role, note: Mapping[str, JsonValue], index: int) -> dict[str, str]:
    """Return the labels of a role's containers: the app's, and the role's.

    Raises:
        InvalidRequestError: They could not be read back: the app would run, but its state would be unknown.
    """
    own = {**shared, ROLE: role.name, ROLE_INDEX: str(index), **role_note(note)}
    if role.max_retries > 0:
        own[RETRIES] = str(role.max_retries)
    if fault := read_identity(own).fault:
        raise InvalidRequestError(f"the app cannot be stored in labels: {fault}", fix="choose another name")
    return own


def replica_labels(shared: Mapping[str, str], replica: int, result: str) -> dict[str, str]:
    """Return a container's labels: its role's, and its own; `result` is empty if the file is not to be read."""
    return {**shared, REPLICA: str(replica), **({RESULT: result} if result else {})}


def found_labels(
    app_id: str, *, session: str, version: str, role: str, role_index: int, replica: int
) -> dict[str, str]:
    """Return the labels that make a container found that was described by hand."""
    own = {VERSION: version, APP_ID: app_id, APP_NAME: app_id, SESSION: session}
    return replica_labels({**own, ROLE: role, ROLE_INDEX: str(role_index)}, replica, "")


def sent_labels(own: Mapping[str, str], name: str, digest: str, *, terminal: bool) -> dict[str, str]:
    """Return a container's labels with those that are known only when it is sent."""
    sent = {**own, **({REQUEST: digest} if digest else {}), **({TERMINAL: "1"} if terminal else {})}
    written = sorted(label.removeprefix(_PREFIX) for label in sent if label.startswith(_PREFIX))
    return {**sent, CONTAINER: name, WRITTEN: ",".join(written)}


def label_filters(app_id: str, digest: str) -> list[str]:
    """Return the filters for an app's containers that were created for this request."""
    return [f"{APP_ID}={app_id}", f"{REQUEST}={digest}"]


def metadata_note(app: AppDef) -> dict[str, str]:
    """Store an app's metadata in a label.

    Raises:
        InvalidRequestError: The label could not be read back.
    """
    if not app.metadata:
        return {}
    text = json.dumps(kept_metadata(app))
    try:
        read_json(text)
    except ValueError as error:
        raise InvalidRequestError(
            f"the metadata of the app {shown(app.name)} {error}",
            why="it is kept in a label of each container, as JSON",
            fix="shorten the metadata",
        ) from None
    return {METADATA: text}


def role_note(note: Mapping[str, JsonValue]) -> dict[str, str]:
    """Store a role's note in a label, without what would make the label too long."""
    return {SPEC: json.dumps(shortened(note, _is_readable))}


def _is_readable(note: Mapping[str, JsonValue]) -> bool:
    text = json.dumps(note)
    try:
        read_json(text)
    except ValueError:
        return False  # the note is nested too deeply
    return len(text) <= _LONGEST_NOTE
