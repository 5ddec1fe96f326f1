"""Convert an app to Indexed Jobs, one per role, with a headless Service by which the pods find each other."""

from __future__ import annotations

from typing import Any

from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.specs.app import AppDef, Role

__all__ = ["PER_INDEX_SINCE", "make_job", "make_service", "needs_service", "owner", "rank0_host"]

Json = dict[str, Any]

PER_INDEX_SINCE = (1, 29)
"""The first version with backoffLimitPerIndex and podReplacementPolicy without a feature gate."""


def needs_service(app: AppDef) -> bool:
    """Return whether pods must be reachable by name: there are several, or the pod has ports."""
    return sum(role.num_replicas for role in app.roles) > 1 or any(role.port_map for role in app.roles)


def rank0_host(job: str, app: AppDef) -> str:
    """Return the address of replica 0 of the first role."""
    return f"{job}-0.{job}" if sum(role.num_replicas for role in app.roles) > 1 else "localhost"


def make_job(
    role: Role,
    metadata: Json,
    template: Json,
    options: KubernetesOpts,
    *,
    suspend: bool,
    server: tuple[int, int] | None,
) -> Json:
    """Return the Job of a role.

    Args:
        role: The role.
        metadata: The Job's metadata.
        template: The pod template.
        options: The run options.
        suspend: Whether to create it suspended.
        server: The server's version, if known.
    """
    spec: Json = {
        "completionMode": "Indexed",
        "completions": role.num_replicas,
        "parallelism": role.num_replicas,
        **_failures(role, options, server),
        "suspend": True if suspend else None,
        "ttlSecondsAfterFinished": options.ttl,
        "template": template,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def _failures(role: Role, options: KubernetesOpts, server: tuple[int, int] | None) -> Json:
    """Return the fields that handle failed pods; a pod lost with its node does not count."""
    rules = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
    if server is not None and server < PER_INDEX_SINCE:
        return {"backoffLimit": role.max_retries, "podFailurePolicy": rules}
    common: Json = {"podFailurePolicy": rules, "podReplacementPolicy": "Failed"}
    if options.on_failure == "continue":
        return {"backoffLimitPerIndex": role.max_retries, **common}
    if role.max_retries == 0:
        return {"backoffLimit": 0, **common}
    return {"backoffLimitPerIndex": role.max_retries, "maxFailedIndexes": 0, **common}


def make_service(namespace: str, name: str, labels: dict[str, str]) -> Json:
    """Return the headless Service that gives an app's pods DNS names, even before they are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.APP: name},
        },
    }


def owner(job: Json, uid: str) -> Json:
    """Return an owner reference to the Job."""
    return {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": uid}
