"""App ids of the form ``<project>:<location>:<name>``, and valid job names and labels."""

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
"""Label of every asyncsched job; its value is the version that submitted the job."""

DIGEST_LABEL = "asyncsched-digest"
"""Label with the digest of the request, to compare jobs."""

REQUEST_LABEL = "asyncsched-request"
"""Label with the id of the request that created the job, to distinguish equal requests."""

_JOB = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
LOCATION = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_RESOURCE = re.compile(r"projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/jobs/(?P<name>[^/]+)")


@dataclass(frozen=True, slots=True)
class GCPJobRef:
    """Project, location and name of a job."""

    project: str
    location: str
    name: str

    @property
    def app_id(self) -> str:
        """The id of its app."""
        return f"{self.project}:{self.location}:{self.name}"

    @property
    def parent(self) -> str:
        """Google's resource name of its location."""
        return f"projects/{self.project}/locations/{self.location}"

    @property
    def resource(self) -> str:
        """Google's resource name of the job."""
        return f"{self.parent}/jobs/{self.name}"


def parse_app_id(app_id: str) -> GCPJobRef:
    """Parse an app id.

    Raises:
        MalformedHandleError: The id is not ``<project>:<location>:<name>``. This is a ``ValueError``.
    """
    project, _, rest = app_id.rpartition(":")[0].rpartition(":")
    name = app_id.rpartition(":")[2]
    if PROJECT.fullmatch(project) and LOCATION.fullmatch(rest) and _JOB.fullmatch(name):
        return GCPJobRef(project, rest, name)
    raise MalformedHandleError(
        f"{app_id!r} is not an app id of gcp_batch",
        fix="write it as <project>:<location>:<name>, as shown by the list",
    )


def ref_of_resource(resource: str) -> GCPJobRef | None:
    """Return the job of a resource name; None if it is not the name of a job."""
    found = _RESOURCE.fullmatch(resource)
    return GCPJobRef(found["project"], found["location"], found["name"]) if found else None


def is_job_name(text: str) -> bool:
    """Return whether a text is a valid job name."""
    return _JOB.fullmatch(text) is not None


def job_name(stem: str, *parts: str) -> str:
    """Return a job name that starts with the stem: unique, or always the same for the same parts."""
    unique = derive_id(stem, *parts) if parts else make_unique(stem)
    suffix = unique.rpartition("-")[2]
    plain = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")
    if not plain[:1].isalpha():
        plain = f"j-{plain}".rstrip("-")
    return f"{plain[: LONGEST_JOB_NAME - len(suffix) - 1].rstrip('-')}-{suffix}"


def label_value(text: str) -> str:
    """Return a text as a label value: in lower case, with dashes in place of invalid characters."""
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower())[:LONGEST_LABEL]


def own_labels(app_name: str, session: str, version: str) -> dict[str, str]:
    """Return the labels that identify asyncsched's jobs, also for cost reports."""
    named = {OURS_LABEL: version, "asyncsched-app": app_name, "asyncsched-session": session}
    return {key: value for key, text in named.items() if (value := label_value(text))}
