"""What the cluster is: its version, which kinds of jobs it has, and Volcano's queues; each asked for once."""

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
    """Answers about a cluster.

    Args:
        client: Where it is reached.

    Attributes:
        last_version: Its version, if it was asked for.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._auto: Kind = "job"
        self.last_version: tuple[int, int] | None = None

    async def kinds(self) -> list[Kind]:
        """Return the kinds of jobs that the cluster has."""
        has_volcano = await self._client.discovery.has(paths.GROUPS["volcano"], "jobs")
        return ["volcano", "job"] if has_volcano else ["job"]

    def lacks(self, kind: Kind) -> bool:
        """Tell without a request whether the cluster is known not to have a kind of jobs."""
        return kind == "volcano" and self._client.discovery.lacks(paths.GROUPS[kind])

    async def kind_for(self, options: KubernetesOpts) -> Kind:
        """Return which kind an app with these options is; auto is Volcano where that is installed."""
        if options.kind != "auto":
            return options.kind
        self._auto = (await self.kinds())[0]
        return self._auto

    def last_kind(self, options: KubernetesOpts) -> Kind:
        """Return what `kind_for` has found."""
        return self._auto if options.kind == "auto" else options.kind

    async def check_kind(self, kind: Kind) -> None:
        """Raise InvalidRequestError if the cluster does not have this kind."""
        if kind not in await self.kinds():
            raise InvalidRequestError(
                "the cluster has no Volcano",
                why=f"it does not know {paths.GROUPS['volcano']}",
                fix="install Volcano, or use kind=job",
                backend=BACKEND,
                operation="submit",
            )

    async def check_queue(self, options: KubernetesOpts, kind: Kind) -> None:
        """Look at the option queue: Volcano needs one, and what Kueue would have to do needs Kueue.

        Raises:
            RunOptionError: It is missing; the error names those that there are, where they may be listed.
            InvalidRequestError: Kueue is not installed.
        """
        if kind == "job" and options.queue and not await self._client.discovery.has_group("kueue.x-k8s.io"):
            raise InvalidRequestError(
                "the cluster has no Kueue",
                why=f"queue={options.queue} is a queue of Kueue with kind=job, and the Job would wait for ever",
                fix="leave queue out, or use kind=volcano",
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
        """Return the server's version; None where nobody can be asked: a dry-run may do without."""
        try:
            major, minor = await self._client.discovery.version()
        except AsyncSchedError:
            return None
        self.last_version = (major, minor)
        return self.last_version


def _name(raw: Mapping[str, Any]) -> str | None:
    return text(section(raw, "metadata").get("name")) or None
