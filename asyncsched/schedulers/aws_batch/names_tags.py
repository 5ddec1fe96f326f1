"""Read app data from a job's tags and name. They are untrusted: anybody who may submit or tag jobs can write them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from asyncsched.schedulers._common.roles import kept_metadata
from asyncsched.schedulers._common.untrusted import Once, read_session, read_text, shown, well_formed
from asyncsched.schedulers.aws_batch.status_rows import Row, part
from asyncsched.specs.app import AppDef
from asyncsched.specs.not_kept import NotKept
from asyncsched.specs.secret import MASK

__all__ = [
    "BY_HAND_TAG",
    "NOT_KEPT_TAG",
    "VERSION_TAG",
    "app_name",
    "is_ours",
    "metadata_of",
    "session_of",
    "was_made_by_hand",
    "without_secrets",
]

VERSION_TAG = "asyncsched/version"
BY_HAND_TAG = "asyncsched/by-hand"
"""Tag of a job whose request was written by hand instead of made by a dry-run."""

_SESSION = "asyncsched/session"
_NAME = "asyncsched/app"
_OURS = ("asyncsched/", "aws:")

NOT_KEPT_TAG = "asyncsched/not-kept/"
"""Prefix for the names of metadata that are secrets, and so not stored in tags."""

_once = Once(logging.getLogger("asyncsched.schedulers.aws_batch"))


def session_of(row: Row) -> str:
    """Return the session that submitted a job; empty, with one warning, if the tag is not valid in a handle.

    The tags do not affect the job's state.
    """
    text = part(row, "tags").get(_SESSION, "")
    try:
        return read_session(text)
    except ValueError as error:
        job_id = row["jobId"]
        _once.warn(
            job_id, "ignoring the session of the job %s: its tag %s %s: %s", job_id, _SESSION, error, shown(text)
        )
        return ""


def is_ours(row: Row) -> bool:
    """Return whether a job was submitted by asyncsched."""
    return VERSION_TAG in part(row, "tags")


def was_made_by_hand(row: Row) -> bool:
    """Return whether the request of a job submitted by asyncsched was written by hand."""
    return BY_HAND_TAG in part(row, "tags")


def app_name(row: Row) -> str:
    """Return the name of an app, or its job's name if no tag has it."""
    try:
        return read_text(part(row, "tags").get(_NAME))
    except ValueError:
        return well_formed(row["jobName"])


def metadata_of(row: Row) -> dict[str, str]:
    """Return the metadata of an app: all tags except asyncsched's and AWS's."""
    metadata: dict[str, str] = {}
    for key, value in part(row, "tags").items():
        if key.startswith(NOT_KEPT_TAG):
            metadata[well_formed(key.removeprefix(NOT_KEPT_TAG))] = NotKept("a secret")
        elif not key.startswith(_OURS):
            metadata[well_formed(key)] = well_formed(value)
    return metadata


def without_secrets(tags: Mapping[str, str], app: AppDef) -> dict[str, str]:
    """Return a job's tags, with secret metadata of its app replaced by their names."""
    lost = {name for name, value in kept_metadata(app).items() if value == MASK and name in app.metadata}
    kept = {name: value for name, value in tags.items() if name not in lost or value != app.metadata[name]}
    return kept | {NOT_KEPT_TAG + name.replace("*", "-"): "" for name in lost if name in tags and name not in kept}
