"""The kinds of objects that the server knows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Resource:
    """One kind.

    Attributes:
        short: What the fake calls it: its plural, and ``vcjobs`` for Volcano's jobs.
        fields: The field selectors that the server takes, beside name and namespace.
    """

    short: str
    group: str
    version: str
    plural: str
    kind: str
    singular: str = ""
    namespaced: bool = True
    fields: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def qualified(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def verbs(self) -> list[str]:
        return ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


_EVENT_FIELDS = tuple(
    f"involvedObject.{key}" for key in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion")
)

VOLCANO = "batch.volcano.sh"

RESOURCES = {
    each.short: each
    for each in (
        Resource(
            "pods", "", "v1", "pods", "Pod", "pod",
            fields=("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
                    "status.phase", "status.podIP"),
            subresources=("log", "status"),
        ),
        Resource("services", "", "v1", "services", "Service", "service", fields=("spec.clusterIP", "spec.type")),
        Resource("configmaps", "", "v1", "configmaps", "ConfigMap", "configmap"),
        Resource("secrets", "", "v1", "secrets", "Secret", "secret", fields=("type",)),
        Resource("events", "", "v1", "events", "Event", "event", fields=(*_EVENT_FIELDS, "reason", "type")),
        Resource("namespaces", "", "v1", "namespaces", "Namespace", "namespace", namespaced=False),
        Resource("nodes", "", "v1", "nodes", "Node", "node", namespaced=False),
        Resource(
            "persistentvolumeclaims", "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim",
            "persistentvolumeclaim",
        ),
        Resource(
            "jobs", "batch", "v1", "jobs", "Job", "job", fields=("status.successful",), subresources=("status",)
        ),
        Resource("networkpolicies", "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", "networkpolicy"),
        Resource("vcjobs", VOLCANO, "v1alpha1", "jobs", "Job", "job", subresources=("status",)),
        Resource("commands", "bus.volcano.sh", "v1alpha1", "commands", "Command", "command"),
        Resource(
            "podgroups", "scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", "podgroup",
            subresources=("status",),
        ),
        Resource("queues", "scheduling.volcano.sh", "v1beta1", "queues", "Queue", "queue", namespaced=False),
    )
}  # fmt: skip

VOLCANO_GROUPS = frozenset({VOLCANO, "bus.volcano.sh", "scheduling.volcano.sh"})


def find(group: str, version: str, plural: str) -> Resource | None:
    """Return the kind behind a path."""
    for each in RESOURCES.values():
        if (each.group, each.version, each.plural) == (group, version, plural):
            return each
    return None


def of_object(api_version: str, kind: str) -> Resource | None:
    """Return the kind of an object."""
    for each in RESOURCES.values():
        if (each.api_version, each.kind) == (api_version, kind):
            return each
    return None
