"""The labels by which any process finds an app's containers, and the names that they have.

Everything that `describe` and `list` tell comes from labels, names and states: nothing is stored elsewhere. Anybody may
make containers with labels like ours. Where a label is not one that we would have written, the container's part in an
app is not known; where it is the app's id, the container is not part of any app.

Labels are written and read here only.
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
    "Identity",
    "app_labels",
    "base_name",
    "container_name",
    "found_labels",
    "is_taken_over",
    "label_filters",
    "metadata_note",
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

VERSION = "asyncsched.version"
APP_ID = "asyncsched.app-id"
APP_NAME = "asyncsched.app-name"
SESSION = "asyncsched.session"
ROLE = "asyncsched.role"
ROLE_INDEX = "asyncsched.role-index"
REPLICA = "asyncsched.replica"
REQUEST = "asyncsched.request"
"""A digest of what was asked for: the same id for something else is a conflict."""
SPEC = "asyncsched.role-spec"
"""What `describe` rebuilds the role from, as JSON; without secrets."""
METADATA = "asyncsched.metadata"
RETRIES = "asyncsched.max-retries"
"""How often it is started again after a failure; missing where it never is."""
TERMINAL = "asyncsched.terminal"
"""Set where the container has a terminal: its log has no frames then."""
REMOVE_AFTER = "asyncsched.remove-after"
TIMEOUT = "asyncsched.timeout"
"""How many seconds one of its runs may take; missing where that is not limited."""
RESULT = "asyncsched.result-file"
"""The path of the replica's result file, in its container; missing where its environment names another one."""

# A name is part of what a list tells, and can be changed: it carries what happens to a container later on.
CANCELLED = ".cancelled"
"""The end of the name of a container whose app was cancelled while it ran."""
STOPPED = ".stopped"
"""The end of the name of a container that was stopped because another replica had failed."""
TIMED_OUT = ".timeout"
"""The end of the name of a container that was stopped because it ran longer than its timeout."""
_TAKEN_OVER = re.compile(r"\.taken-over-[0-9a-f]{8}$")

_DNS_LABEL = 63
_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_DIGEST = 8
_LONGEST_NOTE = 8192


def container_name(app_id: str, role: str, replica: int) -> str:
    """Name a replica's container, which is its host name too.

    It is ``<app_id>-<role>-<k>`` where that is a DNS label. What is too long, or has letters that names
    resolve differently or not at all, is cleaned and cut, and a digest keeps it unique.
    """
    full = f"{app_id}-{role}-{replica}"
    if len(full) <= _DNS_LABEL and _PLAIN.fullmatch(full):
        return full
    # Each part is told apart from its neighbours: "a-b" and "c" must not be "a" and "b-c".
    digest = sha256(repr((app_id, role)).encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    end = f"-{digest}-{replica}"
    clean = re.sub(r"[^a-z0-9]+", "-", f"{app_id}-{role}".lower()).strip("-")
    return f"{_shorten(clean, _DNS_LABEL - len(end))}{end}".lstrip("-")


def _shorten(text: str, length: int) -> str:
    """Keep both ends: ids are unique at their end, and people know an app by its beginning."""
    if len(text) <= length:
        return text
    half = length // 2
    return f"{text[:half]}{text[half - length :]}".strip("-")


def base_name(name: str) -> str:
    """Return a container's name as it was when it was made."""
    name = name.removeprefix("/")
    for mark in (CANCELLED, TIMED_OUT, STOPPED):
        name = name.removesuffix(mark)
    return _TAKEN_OVER.sub("", name)


def taken_over(name: str) -> str:
    """Return a new name for a container that one submit has made and another one starts.

    A container is started by its name: whoever gives it a new one is the only one who can still start it.
    """
    return f"{base_name(name)}.taken-over-{secrets.token_hex(4)}"


def is_taken_over(name: str) -> bool:
    """Tell whether a name is one that `taken_over` has given."""
    return _TAKEN_OVER.search(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a container's labels say of its place.

    Attributes:
        app_id: The app's id; empty if no app can be named so.
        app_name: The name that the app was given.
        session: The session that submitted it.
        role: The role's name.
        role_index: The role's place among the app's roles.
        replica: The replica's number.
        max_retries: How often it may be started again.
        timeout: How many seconds one of its runs may take.
        remove_after: How many seconds after its end it may be removed.
        digest: What was asked for.
        result: The path of its result file, in the container; empty where that is not known.
        terminal: Whether it has a terminal.
        fault: Which label is none of ours, and why; empty if all can be ours.
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


def read_identity(own: Mapping[str, object]) -> Identity:
    """Read a container's labels; a label that is missing, or none of ours, has its default."""
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


def read_app_id(own: Mapping[str, object]) -> str:
    """Return the app that a container belongs to; empty if it belongs to none."""
    try:
        return read_id(own.get(APP_ID))
    except ValueError:
        return ""


def read_role_note(own: Mapping[str, object]) -> object:
    """Return the note of a container's role, None if there is none.

    Raises:
        ValueError: The label is none of ours; the message says why.
    """
    return _read_json(own, SPEC)


def read_metadata_note(own: Mapping[str, object]) -> object:
    """Return the note of an app's metadata, None if there is none.

    Raises:
        ValueError: The label is none of ours; the message says why.
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
    """Return the labels of a role's containers: the app's, and its own.

    Raises:
        InvalidRequestError: They could not be read back: the app would run, and nobody could tell its state.
    """
    own = {**shared, ROLE: role.name, ROLE_INDEX: str(index), **role_note(note)}
    if role.max_retries > 0:
        own[RETRIES] = str(role.max_retries)
    if fault := read_identity(own).fault:
        raise InvalidRequestError(f"the app cannot be described by labels: {fault}", fix="choose another name")
    return own


def replica_labels(shared: Mapping[str, str], replica: int, result: str) -> dict[str, str]:
    """Return a container's labels: its role's, and its own; `result` is empty where that file is not ours to read."""
    return {**shared, REPLICA: str(replica), **({RESULT: result} if result else {})}


def found_labels(
    app_id: str, *, session: str, version: str, role: str, role_index: int, replica: int
) -> dict[str, str]:
    """Return the labels without which a container that is made by hand would not be found."""
    own = {VERSION: version, APP_ID: app_id, APP_NAME: app_id, SESSION: session}
    return replica_labels({**own, ROLE: role, ROLE_INDEX: str(role_index)}, replica, "")


def sent_labels(own: Mapping[str, str], digest: str, *, terminal: bool) -> dict[str, str]:
    """Return a container's labels with what is known when it is sent."""
    return {**own, **({REQUEST: digest} if digest else {}), **({TERMINAL: "1"} if terminal else {})}


def label_filters(app_id: str, digest: str) -> list[str]:
    """Return what finds the containers of an app that were made for this request."""
    return [f"{APP_ID}={app_id}", f"{REQUEST}={digest}"]


def metadata_note(app: AppDef) -> dict[str, str]:
    """Keep an app's metadata in a label.

    Raises:
        InvalidRequestError: They could not be read back.
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
            fix="shorten it",
        ) from None
    return {METADATA: text}


def role_note(note: Mapping[str, JsonValue]) -> dict[str, str]:
    """Keep the note of a role in a label, without what would make the label too long."""
    return {SPEC: json.dumps(shortened(note, _is_readable))}


def _is_readable(note: Mapping[str, JsonValue]) -> bool:
    text = json.dumps(note)
    try:
        read_json(text)
    except ValueError:
        return False  # it is nested too deeply
    return len(text) <= _LONGEST_NOTE
