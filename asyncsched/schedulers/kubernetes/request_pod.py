"""A role as a pod template: what both kinds have in common."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.schedulers.kubernetes.request_limits import read_toleration, whole_seconds
from asyncsched.schedulers.kubernetes.request_overlay import overlaid
from asyncsched.schedulers.kubernetes.request_values import command_of, env_of, filled_in
from asyncsched.schedulers.kubernetes.status_jobs import Kind
from asyncsched.specs.app import Resource, Role
from asyncsched.specs.mounts import BindMount, DeviceMount, Mount
from asyncsched.specs.resources_aws import INSTANCE_TYPE

__all__ = ["PodContext", "common_labels", "pod_template", "task_labels"]

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - in the container
_NO_ISTIO = {"sidecar.istio.io/inject": "false"}
"""Its sidecar keeps a pod from ending."""
_PORT_NAME = re.compile(r"(?=.{1,15}\Z)(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContext:
    """Where a pod template stands in its app.

    Attributes:
        app: The app's name on Kubernetes.
        app_id: The app's id.
        app_name: The name that the app was given.
        session: The session that submits it.
        kind: What runs the pods.
        task: The role's task name.
        role_index: The role's place.
        rank0: The address of replica 0 of the first role.
        subdomain: The Service that gives pods their names; None where the kind sees to that, or nobody needs it.
        replica: The replica's number, where the template is that of one replica.
        patches: What the overlay merges into it.
    """

    app: str
    app_id: str
    app_name: str
    session: str
    kind: Kind
    task: str
    role_index: int
    rank0: str = "localhost"
    subdomain: str | None = None
    replica: int | None = None
    patches: Sequence[Json] = ()


def common_labels(app: str, app_name: str, session: str, kind: Kind, options: KubernetesOpts) -> dict[str, str]:
    """Return the labels of everything that belongs to an app; those of the user give way to ours."""
    known = {"app.kubernetes.io/name": names.label_value(app_name), "app.kubernetes.io/instance": app}
    return {
        **{key: value for key, value in known.items() if value},
        "app.kubernetes.io/managed-by": "asyncsched",
        **(options.labels or {}),
        names.APP: app,
        names.KIND: kind,
        **names.said(names.SESSION, session)[0],
    }


def task_labels(task: str, role_index: int) -> dict[str, str]:
    """Return the labels by which a role's pods, and its Job where it has one, are known."""
    return {names.ROLE: task, names.ROLE_INDEX: str(role_index)}


def pod_template(role: Role, place: PodContext, options: KubernetesOpts) -> tuple[Json, Json]:
    """Return a role's pod template before the overlay, and after it.

    Args:
        role: The role; it is not changed.
        place: Where it stands.
        options: The run options.
    """
    template = {"metadata": _metadata(role, place, options), "spec": _spec(role, place, options)}
    return template, overlaid(template, place.patches)


def _metadata(role: Role, place: PodContext, options: KubernetesOpts) -> Json:
    labels = common_labels(place.app, place.app_name, place.session, place.kind, options)
    labels |= task_labels(place.task, place.role_index)
    if place.replica is not None:
        labels[names.REPLICA] = str(place.replica)
    annotations = {**_NO_ISTIO, **(options.annotations or {})}
    if place.task != role.name:
        annotations[names.ROLE] = role.name
    return {"labels": labels, "annotations": annotations}


def _spec(role: Role, place: PodContext, options: KubernetesOpts) -> Json:
    wanted: Json = {
        "restartPolicy": "Never",
        "containers": [_container(role, place, options)],
        "volumes": [volume for volume, _ in _volumes(role.mounts)],
        "subdomain": place.subdomain,
        "nodeSelector": _node_selector(role.resource, options),
        "tolerations": [read_toleration(text) for text in options.tolerations or ()],
        "serviceAccountName": options.service_account,
        "priorityClassName": options.priority_class,
        "imagePullSecrets": [{"name": options.image_secret}] if options.image_secret else None,
        "terminationGracePeriodSeconds": None if options.grace_period is None else math.ceil(options.grace_period),
        "activeDeadlineSeconds": None if options.timeout is None else whole_seconds(options.timeout),
    }
    return {key: value for key, value in wanted.items() if value not in (None, [], {})}


def _container(role: Role, place: PodContext, options: KubernetesOpts) -> Json:
    filled = filled_in(role, place.app_id, place.replica)
    container: Json = {
        "name": names.CONTAINER,
        "image": role.image,
        "command": command_of(filled, place.kind),
        "env": env_of(filled, place.rank0),
        "resources": _resources(role.resource, options),
        "volumeMounts": [mount for _, mount in _volumes(role.mounts)],
    }
    if role.port_map:
        container["ports"] = list(_ports(role.port_map))
    if options.image_pull_policy is not None:
        container["imagePullPolicy"] = options.image_pull_policy
    if any(isinstance(mount, DeviceMount) for mount in role.mounts):
        container["securityContext"] = {"privileged": True}
    return container


def _ports(port_map: Mapping[str, int]) -> Iterator[Json]:
    for name, port in port_map.items():
        named = {"name": name} if _PORT_NAME.fullmatch(name) else {}  # a port needs no name
        yield {**named, "containerPort": port}


def _resources(resource: Resource, options: KubernetesOpts) -> Json:
    """Return limits and requests: nodes keep something for themselves, and a whole node is what is often asked for."""
    limits: dict[str, str] = {}
    requests: dict[str, str] = {}
    if resource.cpu > 0:
        millicpu = int(resource.cpu * 1000)
        limits["cpu"], requests["cpu"] = f"{millicpu}m", f"{max(millicpu - options.reserved_millicpu, 0)}m"
    if resource.memMB > 0:
        memory = int(resource.memMB)
        limits["memory"], requests["memory"] = f"{memory}M", f"{max(memory - options.reserved_memmb, 0)}M"
    if resource.gpu > 0:
        limits[GPU] = requests[GPU] = str(resource.gpu)
    limits |= {device: str(count) for device, count in resource.devices.items()}
    return {"limits": limits, "requests": requests}


def _node_selector(resource: Resource, options: KubernetesOpts) -> dict[str, str]:
    instance_type = resource.capabilities.get(INSTANCE_TYPE)
    chosen = {INSTANCE_TYPE: str(instance_type)} if instance_type else {}
    return chosen | (options.node_selector or {})


def _volumes(mounts: Sequence[Mount]) -> Iterator[tuple[Json, Json]]:
    """Yield each volume, and where it is mounted: shared memory of any size first, then what the role mounts."""
    if all(mount.dst_path.rstrip("/") != _SHARED_MEMORY for mount in mounts):
        yield {"name": "dshm", "emptyDir": {"medium": "Memory"}}, {"name": "dshm", "mountPath": _SHARED_MEMORY}
    for index, mount in enumerate(mounts):
        name = f"mount-{index}"
        yield {"name": name, **_source(mount)}, _mounted(name, mount)


def _source(mount: Mount) -> Json:
    if isinstance(mount, (BindMount, DeviceMount)):
        return {"hostPath": {"path": mount.src_path}}
    return {"persistentVolumeClaim": {"claimName": mount.src}}


def _mounted(name: str, mount: Mount) -> Json:
    read_only = not set("wm") & set(mount.permissions) if isinstance(mount, DeviceMount) else mount.read_only
    return {"name": name, "mountPath": mount.dst_path, "readOnly": read_only}
