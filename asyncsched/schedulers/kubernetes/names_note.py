"""The note of an app's roles in an annotation of its job: written at submit, read by any process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from asyncsched.errors import ConfigError
from asyncsched.schedulers._common.app_notes import app_note, read_app_note
from asyncsched.schedulers._common.roles import note_by_hand, role_notes, role_of_note, shortened
from asyncsched.schedulers._common.untrusted import LONGEST_JSON, read_json
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.keeping import Keeper
from asyncsched.specs.to_plain import JsonValue

__all__ = ["note_of", "note_of_hand_made", "read_note"]

_MOST_REPLICAS = 100_000
_FRAME = 64
"""Characters of a note besides its roles and metadata."""


def note_of(app: AppDef) -> str:
    """Return the note of an app; fields of a role that is too large are omitted, and the note says so.

    Raises:
        ConfigError: The app's metadata is too large.
    """
    whole = app_note(app)
    if _is_readable(text := _written(whole)):
        return text
    metadata = whole["metadata"]
    room = LONGEST_JSON - len(_written(metadata)) - _FRAME
    if room < LONGEST_JSON // 2 or not _is_readable(_written(metadata)):
        raise ConfigError(
            f"the metadata of app {app.name!r} is too large",
            why=f"it must have at most {LONGEST_JSON // 2:,} characters as JSON",
            fix="shorten it",
        )
    share = room // len(app.roles) - 1

    def fits(note: Mapping[str, JsonValue]) -> bool:
        return len(_written(note)) <= share and _is_readable(_written(note))

    return _written({"roles": [shortened(role, fits) for role in role_notes(app)], "metadata": metadata})


def note_of_hand_made(made_with: Iterable[str], request: object) -> str:
    """Return the note of an app whose request was written by hand with these fields."""
    return _written({"roles": [], **note_by_hand(made_with, Keeper(request))})


def _written(note: object) -> str:
    return json.dumps(note, separators=(",", ":"))


def _is_readable(text: str) -> bool:
    try:
        read_json(text)
    except ValueError:
        return False  # nested too deeply, or too long
    return True


def read_note(note: str, tasks: Sequence[tuple[str, int]]) -> tuple[list[Role], dict[str, str]]:
    """Return the roles and the metadata of an app.

    Args:
        note: The note; it is untrusted.
        tasks: The job's tasks, used as roles if the note cannot be read.
    """
    data: object = None
    with contextlib.suppress(ValueError):
        data = read_json(note)
    roles, metadata = read_app_note(data)
    if roles and all(role.name for role in roles):
        return roles, metadata
    known = [(task, min(replicas, _MOST_REPLICAS)) for task, replicas in tasks if task]
    whole = cast("dict[str, object]", data) if isinstance(data, dict) else {}
    lacking = {key: value for key, value in whole.items() if key not in ("roles", "metadata")}
    return [role_of_note({**lacking, "name": task, "num_replicas": replicas}) for task, replicas in known], metadata
