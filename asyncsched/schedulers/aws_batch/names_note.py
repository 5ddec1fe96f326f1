"""The note of an app's roles in the tags of its job: what the service would not give back as it was written.

A role's note is JSON, compressed, in as many tags as it takes. Where there is no room for all of it, command and
variables are left to what the service itself shows.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import zlib
from collections.abc import Mapping
from itertools import count, takewhile

from asyncsched.schedulers._common.roles import role_notes, shortened
from asyncsched.schedulers._common.untrusted import LONGEST_JSON, Once, read_json, shown
from asyncsched.schedulers.aws_batch.status_rows import Row, part
from asyncsched.specs.app import AppDef
from asyncsched.specs.to_plain import JsonValue

__all__ = ["note_tags", "read_note"]

MOST_TAGS = 8
"""For one role: five roles leave ten tags for everything else."""

LONGEST_TAG = 256

_once = Once(logging.getLogger("asyncsched.schedulers.aws_batch"))


def note_tags(app: AppDef, room: int) -> dict[str, str]:
    """Return the tags that tell of an app's roles.

    Args:
        app: The app.
        room: How many tags the job can still have.
    """
    tags: dict[str, str] = {}
    most = min(MOST_TAGS, room // len(app.roles))
    for index, role in enumerate(role_notes(app)):
        packed = _packed(shortened(role, lambda note: len(_packed(note)) <= most * LONGEST_TAG))
        if len(packed) <= most * LONGEST_TAG:
            parts = range(0, len(packed), LONGEST_TAG)
            tags |= {_key(index, n): packed[start : start + LONGEST_TAG] for n, start in enumerate(parts)}
    return tags


def read_note(row: Row, index: int) -> object | None:
    """Return the note of the role of this number; None where there is none, or none of ours."""
    tags: Mapping[str, str] = part(row, "tags")
    names = takewhile(lambda name: name in tags, (_key(index, n) for n in count()))
    packed = "".join(tags[name] for name in names)
    try:
        return read_json(_unpacked(packed)) if packed else None
    except (ValueError, binascii.Error, zlib.error) as error:
        job_id = row["jobId"]
        _once.warn(
            (job_id, index), "a role of the job %s is told without its note: %s: %s", job_id, error, shown(packed)
        )
        return None


def _key(index: int, number: int) -> str:
    return f"asyncsched/role-{index}.{number}"


def _packed(note: Mapping[str, JsonValue]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(note, separators=(",", ":")).encode(), 9)).decode()


def _unpacked(packed: str) -> str:
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(base64.b64decode(packed, validate=True), LONGEST_JSON)
    if not unpacking.eof:
        raise ValueError(f"it is cut off, or has more than {LONGEST_JSON:,} characters")
    return data.decode()
