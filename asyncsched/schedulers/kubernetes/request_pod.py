"""Convert a role to a pod template, for both kinds of job."""

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
"""Istio's sidecar would keep a pod from ending."""
_PORT_NAME = re.compile(r"(?=.{1,15}\Z)(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContext:
    """The position of a pod template in its app.

    Attributes:
        app: The app's name on Kubernetes.
        app_id: The app's id.
        app_name: The name in the AppDef.
        session: The session that submits it.
        kind: What runs the pods.
        task: The role's task name.
        role_index: The role's index.
        rank0: The address of replica 0 of the first role.
        subdomain: The Service that gives pods DNS names; None if the kind sets it, or none is needed.
        replica: The replica's id, if the template is for one replica.
        patches: The overlay's patches for the template.
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
    """Return the labels of all objects of an app; asyncsched's labels override the user's."""
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
    """Return the labels that identify a role's pods, and its Job if it has one."""
    return {names.ROLE: task, names.ROLE_INDEX: str(role_index)}


def pod_template(role: Role, place: PodContext, options: KubernetesOpts) -> tuple[Json, Json]:
    """Return a role's pod template without and with the overlay.

    Args:
        role: The role; it is not changed.
        place: Its position in the app.
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
        named = {"name": name} if _PORT_NAME.fullmatch(name) else {}  # the name of a port is optional
        yield {**named, "containerPort": port}


def _resources(resource: Resource, options: KubernetesOpts) -> Json:
    """Return limits and lower requests: nodes reserve resources, and many apps ask for a whole node."""
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
    """Yield each volume and its mount: first unlimited shared memory, then the role's mounts."""
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
