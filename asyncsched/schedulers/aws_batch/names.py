"""The names of apps: what a job is called, and which forms of an app id mean which job.

An app is known by its ``<queue>:<jobName>``, from the dry-run on. Accepted as well are ``<queue>:<jobId>``, a job's id
or name without its queue, and its ARN; a node's ``#<index>`` is cut off.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from asyncsched.errors import MalformedHandleError

__all__ = ["AWSJobRef", "is_job_name", "job_stem", "parse_app_id", "queue_name"]

MAX_JOB_NAME = 128
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(:\d+)?")
_ARN = re.compile(r"arn:[\w-]+:batch:(?P<region>[\w-]+):\d+:job/(?P<id>[^#]+)(#\d+)?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_FORMS = "<queue>:<jobName>, <queue>:<jobId>, a job's id, name or ARN"


@dataclass(frozen=True, slots=True, kw_only=True)
class AWSJobRef:
    """What an app id says about its job; `job_id` or `name` is known, or both."""

    job_id: str = ""
    name: str = ""
    queue: str = ""
    region: str = ""


def parse_app_id(app_id: str) -> AWSJobRef:
    """Take an app id apart.

    Raises:
        MalformedHandleError: It has none of the accepted forms. It is a ``ValueError``.
    """
    if found := _ARN.fullmatch(app_id):
        return AWSJobRef(job_id=found["id"], region=found["region"])
    if _UUID.fullmatch(job := _without_node(app_id)):
        return AWSJobRef(job_id=job)
    queue, colon, rest = app_id.partition(":")
    job = _without_node(rest)
    if colon and queue and _UUID.fullmatch(job):
        return AWSJobRef(queue=queue, job_id=job)
    if colon and queue and _NAME.fullmatch(job):
        return AWSJobRef(queue=queue, name=job)
    if _NAME.fullmatch(job := _without_node(app_id)):
        return AWSJobRef(name=job)
    raise MalformedHandleError(f"{app_id!r} is not the id of an app on AWS Batch", fix=f"write it as {_FORMS}")


def is_job_name(text: str) -> bool:
    """Tell whether an app can be called by this name of its job."""
    return _NAME.fullmatch(text) is not None and _UUID.fullmatch(text) is None


def _without_node(identifier: str) -> str:
    return re.sub(r"#\d+$", "", identifier)


def queue_name(queue: str) -> str:
    """Return a queue's name; an ARN is cut down to it, as an app id may not hold a slash."""
    return queue.rsplit("/", 1)[-1]


def job_stem(app_name: str, share_id: str | None) -> str:
    """Return what a job's name begins with: the app's name, and its share's, as AWS Batch accepts them."""
    text = app_name if share_id is None else f"{app_name}-{share_id}"
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).lstrip("-_")[:100] or "app"
