"""Volcano's plugins ``env`` and ``svc``: what they add to a pod, and what they make beside the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kubernetes_fake.errors import Json, StatusError

if TYPE_CHECKING:
    from tests.kubernetes_fake.cluster import FakeCluster


def _variable(task: Json, end: str) -> str:
    return f"VC_{task['name'].upper().replace('-', '_')}_{end}"


def add_environment(job: Json, spec: Json, index: int, plugins: Json) -> None:
    """Add the variables, behind those of the template: a value of the template cannot name them."""
    name = f"{job['metadata']['name']}-svc"
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        env = container.setdefault("env", [])
        if "svc" in plugins:
            for task in job["spec"]["tasks"]:
                for end in ("HOSTS", "NUM"):
                    key = _variable(task, end)
                    env.append({"name": key, "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}})
            container.setdefault("volumeMounts", []).append({"name": name, "mountPath": "/etc/volcano"})
        if "env" in plugins:
            env += [{"name": key, "value": str(index)} for key in ("VK_TASK_INDEX", "VC_TASK_INDEX")]
    if "svc" in plugins:
        spec.setdefault("volumes", []).append({"name": name, "configMap": {"name": name}})


def make_service(cluster: FakeCluster, job: Json, owners: list[Json]) -> None:
    """Make the headless Service, the ConfigMap with the hosts, and the NetworkPolicy."""
    plugins = job["spec"].get("plugins") or {}
    if "svc" not in plugins:
        return
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    data: dict[str, str] = {}
    for task in job["spec"]["tasks"]:
        hosts = [f"{name}-{task['name']}-{index}.{name}" for index in range(task["replicas"])]
        data[f"{task['name']}.host"] = "\n".join(hosts)
        data[_variable(task, "HOSTS")] = ",".join(hosts)
        data[_variable(task, "NUM")] = str(task["replicas"])
    meta = {"namespace": namespace, "ownerReferences": owners}
    publish = (
        "--publish-not-ready-addresses" in plugins["svc"] or "--publish-not-ready-addresses=true" in plugins["svc"]
    )
    made = [
        ("configmaps", {"metadata": {"name": f"{name}-svc", **meta}, "data": data}),
        ("services", {"metadata": {"name": name, **meta}, "spec": {
            "clusterIP": "None", "selector": {"volcano.sh/job-name": name}, "publishNotReadyAddresses": publish}}),
    ]  # fmt: skip
    if "--disable-network-policy=true" not in plugins["svc"]:
        made.append(("networkpolicies", {"metadata": {"name": name, **meta}, "spec": {}}))
    for kind, obj in made:
        try:
            cluster.store.create(kind, obj)
        except StatusError:
            continue  # somebody else has one of the name


def remove_service(cluster: FakeCluster, job: Json) -> None:
    name, namespace, uid = (job["metadata"][key] for key in ("name", "namespace", "uid"))
    for kind, its_name in (("configmaps", f"{name}-svc"), ("services", name), ("networkpolicies", name)):
        obj = cluster.store.find(kind, namespace, its_name)
        if obj is not None and any(owner["uid"] == uid for owner in obj["metadata"].get("ownerReferences", ())):
            cluster.store.remove(kind, obj)
