"""The names of apps: ``<project>:<location>:<name>``, and what Google takes as a job's name and labels."""

from __future__ import annotations

import re
from dataclasses import dataclass

from asyncsched.errors import MalformedHandleError
from asyncsched.specs.names import derive_id, make_unique

__all__ = [
    "DIGEST_LABEL",
    "LOCATION",
    "LONGEST_LABEL",
    "OURS_LABEL",
    "PROJECT",
    "REQUEST_LABEL",
    "GCPJobRef",
    "is_job_name",
    "job_name",
    "label_value",
    "own_labels",
    "parse_app_id",
    "ref_of_resource",
]

LONGEST_JOB_NAME = 63
LONGEST_LABEL = 63

OURS_LABEL = "asyncsched"
"""Every job of ours has this label; its value is the version that has submitted it."""

DIGEST_LABEL = "asyncsched-digest"
"""Tells whether a job is the one that was asked for."""

REQUEST_LABEL = "asyncsched-request"
"""Tells which request has made a job: two that ask for the same are told apart."""

_JOB = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
LOCATION = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_RESOURCE = re.compile(r"projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/jobs/(?P<name>[^/]+)")


@dataclass(frozen=True, slots=True)
class GCPJobRef:
    """A job: its project, its location, its name."""

    project: str
    location: str
    name: str

    @property
    def app_id(self) -> str:
        """The id of its app."""
        return f"{self.project}:{self.location}:{self.name}"

    @property
    def parent(self) -> str:
        """What Google calls its location."""
        return f"projects/{self.project}/locations/{self.location}"

    @property
    def resource(self) -> str:
        """What Google calls it."""
        return f"{self.parent}/jobs/{self.name}"


def parse_app_id(app_id: str) -> GCPJobRef:
    """Take an app id apart.

    Raises:
        MalformedHandleError: It is not of the form ``<project>:<location>:<name>``. It is a ``ValueError``.
    """
    project, _, rest = app_id.rpartition(":")[0].rpartition(":")
    name = app_id.rpartition(":")[2]
    if PROJECT.fullmatch(project) and LOCATION.fullmatch(rest) and _JOB.fullmatch(name):
        return GCPJobRef(project, rest, name)
    raise MalformedHandleError(
        f"{app_id!r} is not the id of an app on Google Cloud Batch",
        fix="write it as <project>:<location>:<name>, as the list shows it",
    )


def ref_of_resource(resource: str) -> GCPJobRef | None:
    """Return the job that Google calls so; None for what is not the name of a job."""
    found = _RESOURCE.fullmatch(resource)
    return GCPJobRef(found["project"], found["location"], found["name"]) if found else None


def is_job_name(text: str) -> bool:
    """Tell whether Google takes this as the name of a job."""
    return _JOB.fullmatch(text) is not None


def job_name(stem: str, *parts: str) -> str:
    """Return a job's name that begins with the stem: unique, or always the same for the same parts."""
    unique = derive_id(stem, *parts) if parts else make_unique(stem)
    suffix = unique.rpartition("-")[2]
    plain = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    if not plain[:1].isalpha():
        plain = f"j-{plain}".rstrip("-")
    return f"{plain[: LONGEST_JOB_NAME - len(suffix) - 1].rstrip('-')}-{suffix}"


def label_value(text: str) -> str:
    """Return a text as the value of a label: lower case, with a dash for what a label cannot hold."""
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower())[:LONGEST_LABEL]


def own_labels(app_name: str, session: str, version: str) -> dict[str, str]:
    """Return the labels by which our jobs are found, and which costs can be told apart by."""
    named = {OURS_LABEL: version, "asyncsched-app": app_name, "asyncsched-session": session}
    return {key: value for key, text in named.items() if (value := label_value(text))}
