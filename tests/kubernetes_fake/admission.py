"""What happens to an object before it is stored: defaults, denials and the checks of the server itself."""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING

from tests.kubernetes_fake.errors import Json, StatusError, bad_request, denied, invalid, not_found
from tests.kubernetes_fake.resources import Resource

if TYPE_CHECKING:
    from tests.kubernetes_fake.cluster import FakeCluster

LARGEST = 1_572_864
LARGEST_MESSAGE = 2_097_152
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")

SUBDOMAIN_SAYS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)

Causes = list[tuple[str, str, str]]


def wrong(field: str, value: object, says: str = "") -> tuple[str, str, str]:
    """Return the cause of a refusal: a value that a field cannot have."""
    return "FieldValueInvalid", field, f'Invalid value: "{value}"{": " if says else ""}{says}'


def random_end() -> str:
    """Return five letters as the server appends them to a name."""
    return "".join(secrets.choice(_LETTERS) for _ in range(5))


def admit(cluster: FakeCluster, resource: Resource, namespace: str | None, obj: Json) -> Json:
    """Return an object with what the server and the webhooks fill in; raises what they refuse."""
    meta = obj.setdefault("metadata", {})
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"] + random_end()
    if resource.namespaced:
        if meta.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if cluster.store.find("namespaces", "", namespace or "") is None:
            raise not_found("namespaces", namespace or "")
    for field in ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "selfLink", "managedFields"):
        if meta.pop(field, None) and field == "resourceVersion":
            raise bad_request("resourceVersion should not be set on objects to be created")
    causes = _name_causes(resource, meta) + _label_causes(meta)
    if causes:
        raise invalid(resource.kind, meta.get("name", ""), resource.group, causes)
    for kind, check in cluster.refusals.items():
        if kind == resource.short and (error := check(obj)) is not None:
            raise error
    if resource.short == "vcjobs":
        _admit_volcano_job(cluster, obj)
    elif resource.short == "jobs":
        _admit_job(obj)
    elif resource.short == "pods":
        _admit_pod(obj)
    _check_size(obj)
    return obj


def _check_size(obj: Json) -> None:
    size = len(json.dumps(obj, separators=(",", ":")))
    if size > LARGEST_MESSAGE:
        raise StatusError(
            500,
            "",
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max "
            f"({size} vs. {LARGEST_MESSAGE})",
        )
    if size > LARGEST:
        raise StatusError(500, "", "etcdserver: request is too large")


def _name_causes(resource: Resource, meta: Json) -> Causes:
    name = meta.get("name", "")
    if not name:
        return [("FieldValueRequired", "metadata.name", "Required value: name or generateName is required")]
    if resource.short == "services":
        says = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character"
        )
        return [] if _SERVICE.fullmatch(name) and len(name) <= 63 else [wrong("metadata.name", name, says)]
    if not _SUBDOMAIN.fullmatch(name) or len(name) > 253:
        return [wrong("metadata.name", name, SUBDOMAIN_SAYS)]
    return []


def _label_causes(meta: Json) -> Causes:
    causes: Causes = []
    for key, value in (meta.get("labels") or {}).items():
        if not _LABEL_KEY.fullmatch(key):
            says = "name part must consist of alphanumeric characters, '-', '_' or '.'"
            causes.append(wrong("metadata.labels", key, says))
        if len(value) > 63:
            causes.append(wrong("metadata.labels", value, "must be no more than 63 characters"))
        elif not _LABEL_VALUE.fullmatch(value):
            says = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.'"
            causes.append(wrong("metadata.labels", value, says))
    annotations = meta.get("annotations") or {}
    causes += [
        wrong("metadata.annotations", key)
        for key in annotations
        if not _LABEL_KEY.fullmatch(key.lower() if "/" in key else key)
    ]
    if sum(len(key) + len(value) for key, value in annotations.items()) > 262_144:
        causes.append(("FieldValueTooLong", "metadata.annotations", "Too long: may not be more than 262144 bytes"))
    return causes


# Pods and the templates of pods


def _admit_pod(pod: Json) -> None:
    causes = template_causes(pod, "")
    if causes:
        raise invalid("Pod", pod["metadata"]["name"], "", causes)
    fill_pod(pod["spec"])


def fill_pod(spec: Json) -> None:
    """Fill in what the server fills in."""
    for key, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("securityContext", {}),
    ):
        spec.setdefault(key, value)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        container.setdefault("resources", {})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        is_latest = str(container.get("image", "")).endswith(":latest")
        container.setdefault("imagePullPolicy", "Always" if is_latest else "IfNotPresent")


def template_causes(template: Json, at: str) -> Causes:
    """Return what is wrong with a pod, or with the template of one."""
    spec = template.get("spec") or {}
    causes: Causes = []
    containers = spec.get("containers") or []
    if not containers:
        causes.append(("FieldValueRequired", f"{at}spec.containers", "Required value"))
    names: set[str] = set()
    for kind in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(kind) or []):
            causes += _container_causes(container, f"{at}spec.{kind}[{number}]", names, spec)
    for number, volume in enumerate(spec.get("volumes") or []):
        name = volume.get("name", "")
        if not _LABEL.fullmatch(name) or len(name) > 63:
            causes.append(wrong(f"{at}spec.volumes[{number}].name", name))
    causes += [(reason, f"{at}{field}", text) for reason, field, text in _label_causes(template.get("metadata") or {})]
    return causes


def _container_causes(container: Json, at: str, names: set[str], spec: Json) -> Causes:
    causes: Causes = []
    name = container.get("name", "")
    if not _LABEL.fullmatch(name) or len(name) > 63:
        says = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
        causes.append(wrong(f"{at}.name", name, says))
    if name in names:
        causes.append(("FieldValueDuplicate", f"{at}.name", f'Duplicate value: "{name}"'))
    names.add(name)
    if not container.get("image"):
        causes.append(("FieldValueRequired", f"{at}.image", "Required value"))
    volumes = {each.get("name") for each in spec.get("volumes") or []}
    paths: set[str] = set()
    for number, mount in enumerate(container.get("volumeMounts") or []):
        where, path = f"{at}.volumeMounts[{number}]", mount.get("mountPath", "")
        if mount.get("name") not in volumes:
            causes.append(("FieldValueNotFound", f"{where}.name", f'Not found: "{mount.get("name")}"'))
        if path in paths:
            causes.append(wrong(f"{where}.mountPath", path, "must be unique"))
        paths.add(path)
    for number, each in enumerate(container.get("env") or []):
        if not each.get("name") or "=" in each["name"]:
            causes.append(wrong(f"{at}.env[{number}].name", each.get("name")))
    return causes


# Volcano's webhooks


def _admit_volcano_job(cluster: FakeCluster, job: Json) -> None:
    spec, name = job.get("spec") or {}, job["metadata"]["name"]
    tasks = spec.get("tasks") or []
    if not tasks:
        raise invalid("Job", name, "batch.volcano.sh", [
            ("FieldValueInvalid", "spec.tasks", "Invalid value: 0: spec.tasks in body should have at least 1 items")
        ])  # fmt: skip
    for number, task in enumerate(tasks):
        if not _LABEL.fullmatch(task.get("name", "")) or len(task.get("name", "")) > 63:
            raise invalid("Job", name, "batch.volcano.sh", [
                ("FieldValueInvalid", f"spec.tasks[{number}].name", f'Invalid value: "{task.get("name")}": '
                 f"spec.tasks[{number}].name in body should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'")
            ])  # fmt: skip
    if not spec.get("maxRetry"):
        spec["maxRetry"] = 3
    total = 0
    for task in tasks:
        task["replicas"] = task.get("replicas") or 1
        total += task["replicas"]
        task["maxRetry"] = task.get("maxRetry") or 3
        task["minAvailable"] = task.get("minAvailable") or task["replicas"]
        task.setdefault("template", {}).setdefault("metadata", {})
        for container in task["template"].get("spec", {}).get("containers", ()):
            container.setdefault("resources", {})
    if not spec.get("minAvailable"):
        spec["minAvailable"] = sum(task["minAvailable"] for task in tasks)
    spec.setdefault("queue", "default")
    spec.setdefault("schedulerName", "volcano")
    _deny_volcano_job(cluster, name, spec, total)


PLUGINS = ("env", "svc", "ssh", "tensorflow", "pytorch", "mpi")
POLICY_EVENTS = ("*", "PodPending", "PodRunning", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "OutOfSync",
                 "CommandIssued", "JobUpdated", "TaskFailed")  # fmt: skip


def _deny_volcano_job(cluster: FakeCluster, name: str, spec: Json, total: int) -> None:
    sentences: list[str] = []
    if spec["minAvailable"] > total:
        sentences.append("job 'minAvailable' should not be greater than total replicas in tasks;")
    names: set[str] = set()
    for number, task in enumerate(spec["tasks"]):
        if task["name"] in names:
            sentences.append(f"duplicated task name {task['name']};")
        names.add(task["name"])
        longest = f"{name}-{task['name']}-{task['replicas'] - 1}"
        if len(longest) > 63:
            sentences.append(
                f"create pod with name {name}-{task['name']}-0 validate failed [name part must be no more than 63 "
                "characters];"
            )
        causes = template_causes(task["template"], f"spec.task[{number}].template.")
        sentences += [f"{field}: {text};" for _, field, text in causes]
        _check_policies(name, task.get("policies") or [], f"spec.tasks[{number}].policies")
    _check_policies(name, spec.get("policies") or [], "spec.policies")
    sentences += [f"unable to find job plugin: {each};" for each in spec.get("plugins") or {} if each not in PLUGINS]
    queue = spec["queue"]
    if queue == "root":
        sentences.append("can not submit job to root queue;")
    elif cluster.store.find("queues", "", queue) is None:
        sentences.append(f'unable to find job queue: queue.scheduling.volcano.sh "{queue}" not found;')
    if sentences:
        raise denied("validatejob.volcano.sh", " ".join(sentences))


def _check_policies(name: str, policies: list[Json], at: str) -> None:
    for number, policy in enumerate(policies):
        for event in filter(None, (policy.get("event"), *(policy.get("events") or ()))):
            if event not in POLICY_EVENTS:
                allowed = ", ".join(f'"{each}"' for each in POLICY_EVENTS)
                raise invalid("Job", name, "batch.volcano.sh", [
                    ("FieldValueNotSupported", f"{at}[{number}].event",
                     f'Unsupported value: "{event}": supported values: {allowed}')
                ])  # fmt: skip


# Indexed Jobs


def _admit_job(job: Json) -> None:
    spec, name = job.get("spec") or {}, job["metadata"]["name"]
    causes = template_causes(spec.get("template") or {}, "spec.template.")
    indexed = spec.get("completionMode") == "Indexed"
    completions, parallelism = spec.get("completions"), spec.get("parallelism", 1)
    if indexed and completions is None:
        causes.append(("FieldValueRequired", "spec.completions", "Required value: when completion mode is Indexed"))
    if indexed and parallelism > 100_000:
        says = "must be less than or equal to 100000 when completion mode is Indexed"
        causes.append(wrong("spec.parallelism", parallelism, says))
    if indexed and completions:
        longest = f"{name}-{completions - 1}"
        if not _LABEL.fullmatch(longest) or len(longest) > 63:
            says = f"will not able to create pod with invalid DNS label: {longest}"
            causes.append(wrong("metadata.name", name, says))
    if spec.get("backoffLimitPerIndex") is not None and not indexed:
        causes.append(wrong("spec.backoffLimitPerIndex", spec["backoffLimitPerIndex"], "requires indexed mode"))
    policy = (spec.get("template") or {}).get("spec", {}).get("restartPolicy", "Always")
    if policy not in ("Never", "OnFailure"):
        says = f'Unsupported value: "{policy}": supported values: "OnFailure", "Never"'
        causes.append(("FieldValueNotSupported", "spec.template.spec.restartPolicy", says))
    if spec.get("podFailurePolicy") and spec.get("podReplacementPolicy", "Failed") != "Failed":
        says = 'Unsupported value: "TerminatingOrFailed": supported values: "Failed"'
        causes.append(("FieldValueNotSupported", "spec.podReplacementPolicy", says))
    if causes:
        raise invalid("Job", name, "batch", causes)
    failed_only = spec.get("podFailurePolicy") is not None
    per_index = spec.get("backoffLimitPerIndex") is not None
    for key, value in (
        ("parallelism", 1),
        ("backoffLimit", 2_147_483_647 if per_index else 6),
        ("completionMode", "NonIndexed"),
        ("suspend", False),
        ("manualSelector", False),
        ("podReplacementPolicy", "Failed" if failed_only else "TerminatingOrFailed"),
    ):
        spec.setdefault(key, value)
