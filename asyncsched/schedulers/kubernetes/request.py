"""From an app to the objects that the API server is asked for: no I/O, no SDK.

The result is a plain value: it prints readably with its secrets masked, and may be edited before it is sent.
`to_wire` makes of it what goes over the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.schedulers.kubernetes.status_jobs import Kind
from asyncsched.specs.app import AppDef
from asyncsched.specs.dryrun import pretty

__all__ = ["KubernetesJob", "Wire", "make_request", "to_wire"]


@dataclass(repr=False)
class KubernetesJob:
    """What Kubernetes gets for one app: shown by a dry-run, and free to be edited before it is scheduled.

    Attributes:
        images_to_push: Local images, and the repository and tag that each is pushed to first.
        resource: The job: Volcano's, or the Job of the first role.
        others: What is made after it and belongs to it: the Service by which its pods find each other, and the Jobs
            of the other roles.
        pending_timeout: Seconds that the app may wait until it first runs, where this scheduler sees to that.
    """

    images_to_push: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    resource: dict[str, Any] = field(default_factory=dict[str, Any])
    others: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]], kw_only=True)
    pending_timeout: float | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return pretty(self)

    @property
    def kind(self) -> Kind:
        """Which kind the job is of."""
        return "volcano" if str(self.resource.get("apiVersion", "")).startswith("batch.volcano.sh/") else "job"

    @property
    def released_last(self) -> bool:
        """Whether the job is created suspended, and released when all that belongs to it is there."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """The bodies of an app's requests, with its secrets in them.

    Attributes:
        namespace: The namespace of all of them.
        name: The job's name.
        job: The body that creates the job.
        others: Kind and body of what is created after it, without the owner reference that `owned` adds.
    """

    namespace: str
    name: str
    job: dict[str, Any] = field(repr=False)
    others: tuple[dict[str, Any], ...] = field(default=(), repr=False)

    def owned(self, uid: str) -> list[dict[str, Any]]:
        """Return the bodies of the others, owned by the job with this uid."""
        raise NotImplementedError


def make_request(
    app: AppDef,
    app_id: str,
    options: KubernetesOpts,
    *,
    kind: Kind,
    session: str,
    version: str,
    server: tuple[int, int] | None = None,
) -> KubernetesJob:
    """Make the request for an app.

    Args:
        app: The app; it is not changed.
        app_id: The app's id.
        options: The run options.
        kind: What runs the pods: `options.kind`, or what auto has found.
        session: The session's name, for a label.
        version: This package's version, for an annotation.
        server: The server's version, major and minor, where it is known: newer fields are left out.

    Raises:
        ConfigError: Kubernetes would refuse it; nothing has been sent.
    """
    raise NotImplementedError


def to_wire(job: KubernetesJob, app_id: str, digest: str) -> Wire:
    """Return what is sent of a request, which may have been edited since it was made.

    Args:
        job: The request.
        app_id: The id that it is scheduled under.
        digest: The digest of what was asked for, which an annotation tells.

    Raises:
        ConfigError: It is of another app than `app_id`, or larger than the server takes.
    """
    raise NotImplementedError


def release_patch() -> Mapping[str, Any]:
    """Return the merge patch that lets a suspended job begin."""
    return {"spec": {"suspend": False}}
