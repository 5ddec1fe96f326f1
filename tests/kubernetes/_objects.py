"""Objects as the API server gives them, made from what a test is about."""

from __future__ import annotations

import json
from typing import Any

from asyncsched.schedulers._common.app_notes import app_note
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.status_jobs import EventRecord, JobRecord, event_record, job_record
from asyncsched.schedulers.kubernetes.status_pods import PodRecord, pod_record
from asyncsched.specs import AppDef

Json = dict[str, Any]

CREATED = "2026-11-22T12:00:00Z"
APP = "train-x1"


def job(
    kind: str = "volcano", app: AppDef | None = None, *, role: int = 0, status: Json | None = None, **more: Any
) -> Json:
    """Return a job of an app: of its first role unless `role` says otherwise. `more` goes into its spec."""
    annotations: Json = {
        names.APP_NAME: "train",
        names.SESSION: "a session/1",
        names.REQUEST: "d",
        **more.pop("annotations", {}),
    }
    labels: Json = {names.APP: APP, names.KIND: kind, names.SESSION: "me", **more.pop("labels", {})}
    spec: Json = dict(more)
    if app is not None:
        annotations[names.ROLES] = json.dumps(app_note(app))
        tasks = names.task_names(APP, [(each.name, each.num_replicas) for each in app.roles])
        if kind == "volcano":
            rows = [{"name": task, "replicas": each.num_replicas} for task, each in zip(tasks, app.roles, strict=True)]
            spec = {"tasks": rows, "maxRetry": 1, **spec}
        else:
            labels |= {names.ROLE: tasks[role], names.ROLE_INDEX: str(role)}
            spec = {"completions": app.roles[role].num_replicas, **spec}
    metadata: dict[str, Any] = {
        "name": APP if role == 0 else f"{APP}-{labels[names.ROLE]}",
        "namespace": "default",
        "uid": f"job-{role}",
        "resourceVersion": "7",
        "creationTimestamp": CREATED,
        "labels": labels,
        "annotations": annotations,
    }
    if role:
        metadata["ownerReferences"] = [{"uid": "job-0"}]
    return {"metadata": metadata, "spec": spec, "status": status or {}}


def volcano(phase: str, app: AppDef, **more: Any) -> JobRecord:
    """Return a Volcano job in a phase."""
    status = {
        "state": {"phase": phase, "lastTransitionTime": "2026-11-22T12:30:00Z"} if phase else {},
        **more.pop("status", {}),
    }
    found = job_record(job("volcano", app, status=status, **more), "volcano")
    assert found is not None
    return found


def indexed(app: AppDef, *conditions: str, role: int = 0, **more: Any) -> JobRecord:
    """Return an Indexed Job for which conditions hold."""
    status = {
        "conditions": [
            {"type": each, "status": "True", "reason": f"{each}Reason", "message": "why"} for each in conditions
        ],
        **more.pop("status", {}),
    }
    found = job_record(job("job", app, role=role, status=status, **more), "job")
    assert found is not None
    return found


def pod(task: str = "main", replica: int = 0, *, owner: str = "job-0", **more: Any) -> Json:
    """Return a pod of an app; `more` goes into its status."""
    metadata: Json = {
        "name": f"{APP}-{task}-{replica}",
        "namespace": "default",
        "uid": more.pop("uid", f"pod-{task}-{replica}"),
        "creationTimestamp": more.pop("created", CREATED),
        "labels": {names.APP: APP, names.ROLE: task, "volcano.sh/task-index": str(replica), **more.pop("labels", {})},
        "annotations": more.pop("annotations", {}),
        "ownerReferences": [{"uid": owner, "controller": True}],
    }
    if deleted := more.pop("deleted", None):
        metadata["deletionTimestamp"] = deleted
    spec = {"nodeName": more.pop("node", "node-1"), "hostname": f"{APP}-{task}-{replica}"}
    return {"metadata": metadata, "spec": {key: value for key, value in spec.items() if value}, "status": more}


def read(raw: Json) -> PodRecord:
    """Return a pod's record."""
    found = pod_record(raw)
    assert found is not None
    return found


def waiting(reason: str = "ContainerCreating", message: str = "", **more: Any) -> Json:
    """Return the status of our container while it waits."""
    return {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}, **more}


def running(**more: Any) -> Json:
    """Return the status of our container while it runs."""
    return {"name": "main", "ready": True, "state": {"running": {"startedAt": "2026-11-22T12:01:00Z"}}, **more}


def ended(code: int = 0, reason: str = "", **more: Any) -> Json:
    """Return the status of our container when it has ended."""
    times = {"startedAt": "2026-11-22T12:01:00Z", "finishedAt": "2026-11-22T12:02:00Z"}
    state = {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error"), **times, **more}
    return {"name": "main", "state": {"terminated": state}}


def up(task: str = "main", replica: int = 0, **more: Any) -> PodRecord:
    """Return a pod that runs."""
    return read(pod(task, replica, phase="Running", containerStatuses=[running()], **more))


def over(
    code: int = 0, task: str = "main", replica: int = 0, *, container: Json | None = None, **more: Any
) -> PodRecord:
    """Return a pod that has ended."""
    phase = more.pop("phase", "Succeeded" if code == 0 else "Failed")
    return read(pod(task, replica, phase=phase, containerStatuses=[container or ended(code)], **more))


def pending(task: str = "main", replica: int = 0, *, container: Json | None = None, **more: Any) -> PodRecord:
    """Return a pod that waits."""
    statuses: Json = {"containerStatuses": [container]} if container else {}
    return read(pod(task, replica, phase="Pending", **statuses, **more))


def event(uid: str, reason: str, message: str, *, at: str = CREATED, kind: str = "Pod", name: str = "") -> EventRecord:
    """Return an event about an object."""
    found = event_record(
        {
            "involvedObject": {"uid": uid, "kind": kind, "name": name},
            "reason": reason,
            "message": message,
            "type": "Warning",
            "lastTimestamp": at,
        }
    )
    assert found is not None
    return found
