"""What describe gives is what was submitted: an app that is submitted again makes an equal request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.cloud import batch_v1
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsched.errors import ConfigError
from asyncsched.schedulers.gcp_batch import GCPBatchJob, GCPBatchOpts, GCPBatchScheduler
from asyncsched.schedulers.gcp_batch.names_note import make_note
from asyncsched.schedulers.gcp_batch.request import make_request, to_wire
from asyncsched.schedulers.gcp_batch.status import describe_app
from asyncsched.schedulers.validation import check_app
from asyncsched.specs import (
    AppDef,
    BindMount,
    DeviceMount,
    Resource,
    RetryPolicy,
    Role,
    SecretRef,
    VolumeMount,
    named_resources,
)
from tests.gcp_double.checks import check_job
from tests.gcp_double.wire import parse, to_dict

APP_ID = "proj-1:us-central1:app-x1"
WORDS = st.text(st.sampled_from("ab0 =.,:/-_$'\"\\\n\té€"), max_size=12) | st.sampled_from(
    ["${replica_id}", "${app_id}", "${rank0_env}", "$${x}", "$HOME", "--rank=${replica_id}"]
)
NAMES = st.sampled_from(["A", "MY.VAR", "b_1", "mode"])
PATHS = st.sampled_from(["/data", "/a/b", "/scratch"])
MOUNTS = st.lists(
    st.builds(BindMount, PATHS, PATHS, st.booleans())
    | st.builds(VolumeMount, st.sampled_from(["gs://bucket/x", "nfs://10.0.0.2/share"]), PATHS, st.booleans())
    | st.builds(DeviceMount, st.just("/dev/fuse"), st.just("/dev/fuse"), st.sampled_from(["r", "rw", "rwm"])),
    max_size=3,
    unique_by=lambda mount: mount.dst_path,
)
ROLES = st.builds(
    Role,
    st.sampled_from(["trainer", "reader-1"]),
    st.sampled_from(["alpine:latest", "gcr.io/p/image:1"]),
    entrypoint=st.sampled_from(["python", "/bin/sh"]),
    args=st.lists(WORDS, max_size=4),
    env=st.dictionaries(NAMES, WORDS, max_size=3) | st.just({"DB": SecretRef("db", "3")}),
    num_replicas=st.sampled_from([1, 2, 1001, 20_000]),
    min_replicas=st.sampled_from([None, 1]),
    max_retries=st.integers(0, 5),
    retry_policy=st.sampled_from(RetryPolicy),
    resource=st.builds(
        Resource, st.sampled_from([-1, 0.5, 4]), st.sampled_from([-1, 0, 1]), st.sampled_from([-1, 1024])
    ),
    port_map=st.dictionaries(NAMES, st.integers(1, 65_535), max_size=2),
    metadata=st.dictionaries(NAMES, WORDS, max_size=2),
    mounts=MOUNTS,
)
APPS = st.builds(
    AppDef, st.sampled_from(["app", "My App"]), st.tuples(ROLES).map(list), st.dictionaries(NAMES, WORDS, max_size=2)
)
OPTIONS = GCPBatchOpts(project="proj-1", timeout=60, retry_on_preemption=2)


def request(app: AppDef) -> GCPBatchJob:
    return make_request(app, OPTIONS, app_id=APP_ID, session="me", version="1")


def described(app: AppDef) -> AppDef:
    """Return what is told of an app by a job that Google has taken and given back."""
    made = request(app)
    note = make_note(app, name=app.name, session="me", pending_timeout=None)
    taken = parse(batch_v1.Job.pb(batch_v1.Job()), to_wire(made, digest="d" * 64, note=note))
    check_job(taken)
    found = describe_app(made.ref, json.loads(json.dumps({**to_dict(taken), "name": made.ref.resource})))
    return AppDef(found.name, found.roles, found.metadata)


@settings(max_examples=150, deadline=None)
@given(APPS)
def test_a_described_app_that_is_submitted_again_makes_an_equal_request(app: AppDef) -> None:
    again = described(app)
    if app != again:  # something looks like a secret: then it is named, and not sent again
        with pytest.raises(ConfigError, match="not kept"):
            check_app(again)
    else:
        assert request(app).job_def == request(again).job_def


@pytest.mark.parametrize("name", sorted(named_resources))
def test_each_named_resource_makes_a_job(name: str) -> None:
    app = AppDef("app", [Role("trainer", "image", entrypoint="train", resource=named_resources[name])])

    assert app == described(app)


async def test_ports_capabilities_and_devices_are_told(scheduler: GCPBatchScheduler) -> None:
    resource = Resource(4, 0, 1024, capabilities={"zone": "a"}, devices={"neuron": 1})
    made = Role("trainer", "image", entrypoint="train", resource=resource, port_map={"http": 80}, min_replicas=2)
    info = await scheduler.submit_dryrun(AppDef("app", [made]), {})

    assert {"min_replicas", "port_map", "resource.capabilities", "resource.devices"} == {
        each.field for each in info.ignored
    }


@pytest.mark.parametrize("count", [20_000, 100_000])
def test_many_replicas_make_a_small_job(count: int) -> None:
    app = AppDef("app", [Role("trainer", "image", entrypoint="train", args=["${replica_id}"], num_replicas=count)])
    group: Any = request(app).job_def["taskGroups"]

    assert (str(count), "5000") == (group[0]["taskCount"], group[0]["parallelism"])
    assert "requireHostsFile" not in group[0]
    assert 3000 > len(json.dumps(request(app).job_def))
