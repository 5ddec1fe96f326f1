"""What a job's tags and name say of its app: anybody who may submit jobs, or tag them, writes these."""

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
"""Says that no dry-run has made the request: what the service shows is what somebody has written."""

_SESSION = "asyncsched/session"
_NAME = "asyncsched/app"
_OURS = ("asyncsched/", "aws:")

NOT_KEPT_TAG = "asyncsched/not-kept/"
"""Stands before the name of metadata that is a secret, and so in no tag."""

_once = Once(logging.getLogger("asyncsched.schedulers.aws_batch"))


def session_of(row: Row) -> str:
    """Return the session that submitted a job; empty, with one warning, where the tag can be in no handle.

    The job's state is AWS's own verdict, whatever its tags say.
    """
    text = part(row, "tags").get(_SESSION, "")
    try:
        return read_session(text)
    except ValueError as error:
        job_id = row["jobId"]
        _once.warn(
            job_id, "the job %s is told without a session: its tag %s %s: %s", job_id, _SESSION, error, shown(text)
        )
        return ""


def is_ours(row: Row) -> bool:
    """Tell whether a job was submitted here."""
    return VERSION_TAG in part(row, "tags")


def was_made_by_hand(row: Row) -> bool:
    """Tell whether the request of a job that was submitted here was put together by hand."""
    return BY_HAND_TAG in part(row, "tags")


def app_name(row: Row) -> str:
    """Return the name that an app was given, its job's name where no tag tells it."""
    try:
        return read_text(part(row, "tags").get(_NAME))
    except ValueError:
        return well_formed(row["jobName"])


def metadata_of(row: Row) -> dict[str, str]:
    """Return the metadata of an app: all tags but ours and AWS's own."""
    told: dict[str, str] = {}
    for key, value in part(row, "tags").items():
        if key.startswith(NOT_KEPT_TAG):
            told[well_formed(key.removeprefix(NOT_KEPT_TAG))] = NotKept("a secret")
        elif not key.startswith(_OURS):
            told[well_formed(key)] = well_formed(value)
    return told


def without_secrets(tags: Mapping[str, str], app: AppDef) -> dict[str, str]:
    """Return a job's tags without the metadata of its app that are not kept, which are named."""
    lost = {name for name, value in kept_metadata(app).items() if value == MASK and name in app.metadata}
    kept = {name: value for name, value in tags.items() if name not in lost or value != app.metadata[name]}
    return kept | {NOT_KEPT_TAG + name.replace("*", "-"): "" for name in lost if name in tags and name not in kept}
