"""Volcano's custom resources and webhooks, which an installation gets from its Helm chart."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

from tests.services.kubernetes.addresses import WEBHOOKS
from tests.services.kubernetes.api import Api, ApiError

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_HOOKS = "/apis/admissionregistration.k8s.io/v1"

_ADMISSION = [
    ("Mutating", "/jobs/mutate", "batch.volcano.sh", "v1alpha1", ["CREATE"]),
    ("Validating", "/jobs/validate", "batch.volcano.sh", "v1alpha1", ["CREATE", "UPDATE"]),
    ("Validating", "/podgroups/validate", "scheduling.volcano.sh", "v1beta1", ["CREATE"]),
    ("Mutating", "/queues/mutate", "scheduling.volcano.sh", "v1beta1", ["CREATE"]),
    ("Validating", "/queues/validate", "scheduling.volcano.sh", "v1beta1", ["CREATE", "UPDATE", "DELETE"]),
]
"""The five of the chart's defaults; Volcano's webhook server fills in nothing of its own."""

_SMALLEST_JOB = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "smallest"},
    "spec": {
        "tasks": [
            {
                "name": "task",
                "replicas": 1,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none:1"}]}},
            }
        ]
    },
}


def define(api: Api, folder: Path) -> None:
    """Apply the custom resources."""
    for path in sorted(folder.glob("*.yaml")):
        group, _, resource = path.stem.partition("_")
        api.apply(f"{_DEFINITIONS}/{resource}.{group}", path.read_bytes())


def is_defined(api: Api) -> bool:
    return all(
        api.answers(f"/apis/{path}")
        for path in (
            "batch.volcano.sh/v1alpha1/jobs",
            "bus.volcano.sh/v1alpha1/commands",
            "scheduling.volcano.sh/v1beta1/queues",
            "flow.volcano.sh/v1alpha1/jobflows",
        )
    )


def has_default_queue(api: Api) -> bool:
    """Tell whether jobs can be queued at all: Volcano makes this queue when it has started."""
    queue = api.find("/apis/scheduling.volcano.sh/v1beta1/queues/default")
    return queue is not None and queue.get("status", {}).get("state") == "Open"


def ask_webhooks(api: Api, authority: Path) -> None:
    """Have the API server ask Volcano's webhooks."""
    bundle = b64encode(authority.read_bytes()).decode()
    for kind, path, group, version, operations in _ADMISSION:
        resource = path.split("/")[1]
        name = f"volcano-admission-service{path.replace('/', '-')}"
        hook = {
            "name": f"{path.split('/')[2]}{resource.removesuffix('s')}.volcano.sh",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": 10,
            "failurePolicy": "Fail",
            "matchPolicy": "Equivalent",
            "clientConfig": {"url": f"{WEBHOOKS}{path}", "caBundle": bundle},
            "rules": [
                {
                    "apiGroups": [group],
                    "apiVersions": [version],
                    "operations": operations,
                    "resources": [resource],
                    "scope": "*",
                }
            ],
        }
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [hook],
        }
        api.apply(f"{_HOOKS}/{kind.lower()}webhookconfigurations/{name}", body)


def webhooks_answer(api: Api) -> bool:
    """Tell whether a job passes them, and is filled in."""
    path = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs?dryRun=All"
    try:
        return "minAvailable" in api.call("POST", path, _SMALLEST_JOB)["spec"]
    except (OSError, ApiError):
        return False
