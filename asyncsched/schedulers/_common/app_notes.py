"""The note of a whole app: its roles and its metadata. See `asyncsched.schedulers._common.roles`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.to_plain import JsonValue

__all__ = ["app_note", "read_app_note"]


def app_note(app: AppDef) -> dict[str, JsonValue]:
    """Return the note of a whole app: its roles and its metadata."""
    from asyncsched.schedulers._common.roles import kept_metadata, role_notes  # loaded with the first note
    from asyncsched.specs.keeping import ToldApp

    app = app if isinstance(app, ToldApp) else ToldApp(app)
    return {"roles": [*role_notes(app)], "metadata": kept_metadata(app)}


def read_app_note(note: object) -> tuple[list[Role], dict[str, str]]:
    """Return the roles and the metadata of a note."""
    from asyncsched.schedulers._common.roles import metadata_of_note, roles_of_notes  # loaded with the first note

    data: Mapping[str, object] = cast("Mapping[str, object]", note) if isinstance(note, Mapping) else {}
    return roles_of_notes(data.get("roles")), metadata_of_note(data.get("metadata"))
