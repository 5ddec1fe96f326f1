"""URL paths of resources; an empty namespace means all namespaces."""

from __future__ import annotations

from urllib.parse import quote

from asyncsched.schedulers.kubernetes.status_jobs import Kind

__all__ = ["COMMANDS", "GROUPS", "commands", "events", "job", "jobs", "pod_groups", "pods", "queues", "services"]

GROUPS: dict[Kind, str] = {"volcano": "batch.volcano.sh/v1alpha1", "job": "batch/v1"}
"""The API group and version of each kind of job."""
COMMANDS = "bus.volcano.sh/v1alpha1"
SCHEDULING = "scheduling.volcano.sh/v1beta1"


def jobs(namespace: str, kind: Kind) -> str:
    """Return the path of the jobs of a kind."""
    return _in(f"/apis/{GROUPS[kind]}", namespace, "jobs")


def job(namespace: str, kind: Kind, name: str) -> str:
    """Return the path of one job."""
    return f"{jobs(namespace, kind)}/{quote(name, safe='')}"


def pods(namespace: str) -> str:
    """Return the path of pods."""
    return _in("/api/v1", namespace, "pods")


def events(namespace: str) -> str:
    """Return the path of events."""
    return _in("/api/v1", namespace, "events")


def services(namespace: str) -> str:
    """Return the path of services."""
    return _in("/api/v1", namespace, "services")


def pod_groups(namespace: str) -> str:
    """Return the path of Volcano's PodGroups."""
    return _in(f"/apis/{SCHEDULING}", namespace, "podgroups")


def commands(namespace: str) -> str:
    """Return the path of Volcano's Commands."""
    return _in(f"/apis/{COMMANDS}", namespace, "commands")


def queues() -> str:
    """Return the path of Volcano's queues, which are not namespaced."""
    return f"/apis/{SCHEDULING}/queues"


def _in(group: str, namespace: str, resource: str) -> str:
    return f"{group}/namespaces/{quote(namespace, safe='')}/{resource}" if namespace else f"{group}/{resource}"
