"""Kubernetes: ``kubernetes``."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import Unpack

from asyncsched.schedulers.bounds import Tunables
from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.schedulers.kubernetes.request import KubernetesJob
from asyncsched.schedulers.kubernetes.scheduler import KubernetesScheduler

__all__ = ["KubernetesJob", "KubernetesOpts", "KubernetesScheduler", "create_scheduler"]


def create_scheduler(
    session_name: str,
    client: object | None = None,
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    namespaces: Sequence[str] | str | None = None,
    **tunables: Unpack[Tunables],
) -> KubernetesScheduler:
    """Make a scheduler for Kubernetes; no call is made and nothing is read before its first use.

    Args:
        session_name: The session that submitted apps are marked with.
        client: An ApiClient of kubernetes_asyncio: its configuration is used, by connections of our own; it is never
            closed here.
        kubeconfig: Files to read, separated by colons; else ``KUBECONFIG``, else ``~/.kube/config``.
        context: The context of the kubeconfig; else ``ASYNCSCHED_KUBERNETES_CONTEXT``, else its current one.
        namespaces: Where lists look: names, or ``*`` for all.
        tunables: What every scheduler takes: `request_timeout`, `retry_for`, `cleanup_timeout`, `clock`.
    """
    return KubernetesScheduler(
        session_name, client, kubeconfig=kubeconfig, context=context, namespaces=namespaces, **tunables
    )
