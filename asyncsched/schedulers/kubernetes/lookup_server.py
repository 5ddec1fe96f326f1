"""Find out the cluster's version, its kinds of jobs, and Volcano's queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asyncsched.errors import AsyncSchedError, InvalidRequestError
from asyncsched.schedulers.kubernetes import lookup_paths as paths
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.errors import BACKEND
from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.schedulers.kubernetes.request_limits import missing_queue
from asyncsched.schedulers.kubernetes.status_jobs import Kind
from asyncsched.schedulers.kubernetes.status_pods import section, text

__all__ = ["Server"]


class Server:
    """Answers questions about a cluster.

    Args:
        client: The client of the cluster.

    Attributes:
        last_version: The server's version, if it was requested.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._auto: Kind = "job"
        self.last_version: tuple[int, int] | None = None

    async def kinds(self) -> list[Kind]:
        """Return the kinds of jobs that the cluster supports."""
        has_volcano = await self._client.discovery.has(paths.GROUPS["volcano"], "jobs")
        return ["volcano", "job"] if has_volcano else ["job"]

    def lacks(self, kind: Kind) -> bool:
        """Return, without a request, whether the cluster is known to lack a kind of job."""
        return kind == "volcano" and self._client.discovery.lacks(paths.GROUPS[kind])

    async def kind_for(self, options: KubernetesOpts) -> Kind:
        """Return the kind of an app with these options; auto is Volcano if it is installed."""
        if options.kind != "auto":
            return options.kind
        self._auto = (await self.kinds())[0]
        return self._auto

    def last_kind(self, options: KubernetesOpts) -> Kind:
        """Return the last result of `kind_for`."""
        return self._auto if options.kind == "auto" else options.kind

    async def check_kind(self, kind: Kind) -> None:
        """Raise InvalidRequestError if the cluster lacks this kind."""
        if kind not in await self.kinds():
            raise InvalidRequestError(
                "the cluster has no Volcano",
                why=f"it does not serve {paths.GROUPS['volcano']}",
                fix="install Volcano, or use kind=job",
                backend=BACKEND,
                operation="submit",
            )

    async def check_queue(self, options: KubernetesOpts, kind: Kind) -> None:
        """Check the option queue: Volcano requires one, and a queue with kind=job requires Kueue.

        Raises:
            RunOptionError: The queue is missing; the error names the existing ones if they can be listed.
            InvalidRequestError: Kueue is not installed.
        """
        if kind == "job" and options.queue and not await self._client.discovery.has_group("kueue.x-k8s.io"):
            raise InvalidRequestError(
                "the cluster has no Kueue",
                why=f"with kind=job queue={options.queue} is a queue of Kueue, and the Job would wait forever",
                fix="omit queue, or use kind=volcano",
                backend=BACKEND,
                operation="submit_dryrun",
            )
        if kind != "volcano" or options.queue:
            return
        try:
            queues = await self._client.items(paths.queues(), _name, operation="submit_dryrun")
        except AsyncSchedError:
            raise missing_queue() from None
        raise missing_queue(queues.items)

    async def version_if_known(self) -> tuple[int, int] | None:
        """Return the server's version; None if the server cannot be asked: a dry-run works without it."""
        try:
            major, minor = await self._client.discovery.version()
        except AsyncSchedError:
            return None
        self.last_version = (major, minor)
        return self.last_version


def _name(raw: Mapping[str, Any]) -> str | None:
    return text(section(raw, "metadata").get("name")) or None
