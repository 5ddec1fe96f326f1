"""The pages on Kubernetes and GCP Batch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from asyncsched.specs import AppDef, Resource, Role
from tests.documents.table import row
from tests.documents.ways import Way

INSTANCE_TYPE = "node.kubernetes.io/instance-type"


@row("kubernetes", "A scheduler is made of a session's name, and a client if there is one.", backend="kubernetes")
async def kubernetes(way: Way) -> None:
    backend = import_module("asyncsched.schedulers.kubernetes")
    for scheduler in (backend.KubernetesScheduler("session"), backend.create_scheduler("session")):
        assert ("kubernetes", "session") == (way.made(way.of(scheduler)).backend, scheduler.session_name)


@row("kubernetes", "A request has the images to push and the resource, by position.", backend="kubernetes")
async def kubernetes_request(way: Way) -> None:
    backend = import_module("asyncsched.schedulers.kubernetes")
    request = backend.KubernetesJob({"local": ("repository", "tag")}, {"kind": "Job"})

    assert ({"local": ("repository", "tag")}, {"kind": "Job"}) == (request.images_to_push, request.resource)


@row("kubernetes", "The capability of an instance type chooses the nodes.", backend="kubernetes", served=True)
async def kubernetes_capability(way: Way) -> None:
    assert way.place is not None
    resource = Resource(cpu=4, memMB=16000, gpu=2, capabilities={INSTANCE_TYPE: "p4d"})
    app = AppDef("job", [Role("main", "alpine:latest", entrypoint="echo", resource=resource)])
    info = await way(way.scheduler().submit_dryrun(app, {**way.place.cfg, "queue": "default"}))
    job: Any = info.request.resource

    assert "default" == job["spec"]["queue"]
    (task,) = job["spec"]["tasks"]
    assert {INSTANCE_TYPE: "p4d"} == task["template"]["spec"]["nodeSelector"]


@row("gcp_batch", "A scheduler is made of a session's name, and a client if there is one.", backend="gcp_batch")
async def gcp_batch(way: Way) -> None:
    backend = import_module("asyncsched.schedulers.gcp_batch")
    for scheduler in (backend.GCPBatchScheduler("session"), backend.create_scheduler("session")):
        assert ("gcp_batch", "session") == (way.made(way.of(scheduler)).backend, scheduler.session_name)


@row("gcp_batch", "A request has name, project, location and job, by position.", backend="gcp_batch")
async def gcp_batch_request(way: Way) -> None:
    backend = import_module("asyncsched.schedulers.gcp_batch")
    request = backend.GCPBatchJob("job-x1", "project", "us-central1", {"taskGroups": []})

    assert ("job-x1", "project", "us-central1") == (request.name, request.project, request.location)
    assert {"taskGroups": []} == request.job_def
