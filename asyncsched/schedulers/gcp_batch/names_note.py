"""Store a note of an app in a variable of its tasks.

Labels allow lower-case letters only. A variable of the tasks can hold any text, and Google returns it with the job.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import cast

from asyncsched._typing import NamedTuple
from asyncsched.schedulers._common.app_notes import app_note, read_app_note
from asyncsched.schedulers._common.roles import role_notes, shortened
from asyncsched.schedulers._common.untrusted import (
    LONGEST_JSON,
    Once,
    read_float,
    read_json,
    read_session,
    read_text,
    shown,
)
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.to_plain import JsonValue

__all__ = ["NOTE_ENV", "AppNote", "make_note", "read_note"]

NOTE_ENV = "ASYNCSCHED_NOTE"

_once = Once(logging.getLogger("asyncsched.schedulers.gcp_batch"))


class AppNote(NamedTuple):
    """The content of a job's note.

    Attributes:
        name: The app's name; empty if unknown.
        session: The session that submitted it; empty if unknown.
        roles: Its roles; empty if they were not stored.
        metadata: Its metadata.
        pending_timeout: Seconds that it may wait to run.
        is_by_hand: Whether its request was written by hand.
    """

    name: str = ""
    session: str = ""
    roles: list[Role] = []  # noqa: RUF012 - an empty one is never changed
    metadata: dict[str, str] = {}  # noqa: RUF012
    pending_timeout: float | None = None
    is_by_hand: bool = False


def make_note(app: AppDef | None, *, name: str, session: str, pending_timeout: float | None) -> str:
    """Return the note of an app, without its secrets.

    Args:
        app: The app; None if the request was written by hand.
        name: The app's name.
        session: The session that submits it.
        pending_timeout: Seconds that it may wait to run.
    """
    head: dict[str, JsonValue] = {"app": name, "session": session}
    if pending_timeout is not None:
        head["pending_timeout"] = str(pending_timeout)
    if app is None:
        return _text(head | {"by_hand": True})
    whole: dict[str, JsonValue] = {**head, **app_note(app)}
    if _fits(whole):
        return _text(whole)
    (role,) = role_notes(app)
    shorter = shortened(role, lambda note: _fits({**whole, "roles": [note]}))
    candidates: list[dict[str, JsonValue]] = [{**whole, "roles": [shorter]}, {**head, "roles": [shorter]}, head]
    return next(text for text in map(_text, candidates) if len(text) <= LONGEST_JSON or text == _text(head))


def read_note(job: str, text: object) -> AppNote:
    """Return the content of a note; an empty one if it is missing or invalid.

    Args:
        job: The job's name, for messages.
        text: The note.
    """
    if text is None:
        return AppNote()
    try:
        note = read_json(text)
        if not isinstance(note, dict):
            raise ValueError("is not an object")
        data = cast("Mapping[str, object]", note)
        roles, metadata = read_app_note(data)
        pending = data.get("pending_timeout")
        return AppNote(
            read_text(data.get("app", "")),
            read_session(data.get("session", "")),
            roles,
            metadata,
            None if pending is None else read_float(pending),
            data.get("by_hand") is True,
        )
    except ValueError as error:
        _once.warn(job, "ignoring the note of the job %s: it %s: %s", job, error, shown(text))
        return AppNote()


def _fits(note: Mapping[str, JsonValue]) -> bool:
    return len(_text(note)) <= LONGEST_JSON


def _text(note: Mapping[str, JsonValue]) -> str:
    return json.dumps(note, separators=(",", ":"))
