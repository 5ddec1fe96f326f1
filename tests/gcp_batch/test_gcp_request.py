"""Jobs as Google gets them: golden ones, written as Google's own JSON, and what is refused before it is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.cloud import batch_v1

from asyncsched.errors import ConfigError, InvalidRequestError, MalformedHandleError, RunOptionError, UsageError
from asyncsched.schedulers.gcp_batch import GCPBatchJob, GCPBatchOpts, GCPBatchScheduler
from asyncsched.schedulers.gcp_batch.names import is_job_name, job_name, parse_app_id
from asyncsched.schedulers.gcp_batch.names_note import make_note, read_note
from asyncsched.schedulers.gcp_batch.request import make_request, to_wire
from asyncsched.schedulers.gcp_batch.request_limits import size_of
from asyncsched.specs import AppDef, BindMount, DeviceMount, Resource, Role, Secret, SecretRef, VolumeMount
from asyncsched.specs.dryrun import AppDryRunInfo
from tests.gcp_double.checks import check_job
from tests.gcp_double.wire import parse

GOLDEN = Path(__file__).parent / "golden"
APP_ID = "proj-1:us-central1:app-x1"


def role(**more: Any) -> Role:
    fields: dict[str, Any] = {"entrypoint": "python", "args": ["-m", "train"], "resource": Resource(4, 0, 8192)}
    return Role("trainer", "gcr.io/p/image:1", **{**fields, **more})


def request(made: Role, **options: Any) -> GCPBatchJob:
    opts = GCPBatchOpts(project="proj-1", **options)
    return make_request(AppDef("app", [made]), opts, app_id=APP_ID, session="me", version="1.2")


def wire(job: GCPBatchJob) -> dict[str, Any]:
    made: dict[str, Any] = to_wire(job, digest="d" * 64, note="{}")
    return made


EXAMPLES = {
    "echo": (Role("echo", "alpine:latest", entrypoint="/bin/echo", args=["hello"], resource=Resource(1, 0, 1024)), {}),
    "four_replicas_on_a100": (
        role(num_replicas=4, resource=Resource(12, 1, 85_000), args=["--rank", "${replica_id}", "${rank0_env}"]),
        {"gang": True, "collocated": True},
    ),
    "spot_with_retries": (
        role(max_retries=2),
        {"spot": True, "retry_on_preemption": 3, "timeout": 90.5, "priority": 7, "machine_type": "e2-standard-4"},
    ),
    "buckets_and_nfs": (
        role(
            mounts=[
                VolumeMount("gs://bucket/data", "/data", read_only=True),
                VolumeMount("nfs://10.0.0.2/share", "/share"),
                BindMount("/var/tmp", "/scratch"),
                DeviceMount("/dev/fuse", "/dev/fuse", "rw"),
            ],
            env={"DB": SecretRef("db-password", "3"), "MODE": "fast"},
        ),
        {
            "service_account": "runner@proj-1.iam.gserviceaccount.com",
            "network": "projects/proj-1/global/networks/n",
            "subnetwork": "projects/proj-1/regions/us-central1/subnetworks/s",
            "no_external_ip": True,
            "boot_disk_gb": 50,
            "boot_disk_type": "pd-ssd",
            "boot_disk_image": "batch-cos",
            "allowed_locations": ["zones/us-central1-a", "zones/us-central1-b"],
            "labels": {"team": "blue"},
            "pubsub_topic": "projects/proj-1/topics/changes",
            "image_streaming": True,
        },
    ),
    "twenty_thousand_replicas": (
        role(num_replicas=20_000, args=["--shard", "${replica_id}"]),
        {"replica_network": False, "task_count_per_node": 8, "gpu_type": "nvidia-l4"},
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_golden_job_is_made_and_would_be_taken(name: str) -> None:
    made, options = EXAMPLES[name]
    job = wire(request(made, **options))
    golden = json.loads((GOLDEN / f"{name}.json").read_text())

    assert golden == job
    check_job(parse(batch_v1.Job.pb(batch_v1.Job()), job))


@pytest.mark.parametrize(
    ("gpu", "kind", "machine"),
    [
        (16, "nvidia-tesla-a100", "a2-megagpu-16g"),
        (2, "nvidia-l4", "g2-standard-24"),
        (8, "nvidia-h100-80gb", "a3-highgpu-8g"),
    ],
)
def test_a_gpu_chooses_the_machine_that_has_it(gpu: int, kind: str, machine: str) -> None:
    (instance,) = wire(request(role(resource=Resource(4, gpu, 1000)), gpu_type=kind))["allocationPolicy"]["instances"]

    assert machine == instance["policy"]["machineType"]
    assert instance["installGpuDrivers"]


def test_other_gpus_are_added_to_a_machine() -> None:
    job = wire(request(role(resource=Resource(4, 2, 1000)), gpu_type="nvidia-tesla-t4", install_gpu_drivers=False))
    (instance,) = job["allocationPolicy"]["instances"]

    assert [{"type": "nvidia-tesla-t4", "count": "2"}] == instance["policy"]["accelerators"]
    assert "installGpuDrivers" not in instance


def test_more_than_a_thousand_vms_have_no_hosts_file() -> None:
    large, small = (wire(request(role(num_replicas=n)))["taskGroups"][0] for n in (1001, 1000))

    assert "requireHostsFile" not in large
    assert small["requireHostsFile"]


@pytest.mark.parametrize(
    ("retries", "options", "count", "rules"),
    [
        (0, {}, None, None),
        (2, {}, 2, None),
        (0, {"retry_on_preemption": 3}, 3, [("RETRY_TASK", [50001])]),
        (2, {"retry_on_preemption": 3}, 5, None),
        (2, {"timeout": 60}, 2, [("FAIL_TASK", [50005])]),
    ],
)
def test_retries_after_a_preemption_are_apart(retries: int, options: Any, count: Any, rules: Any) -> None:
    task = wire(request(role(max_retries=retries), **options))["taskGroups"][0]["taskSpec"]
    found = [(each["action"], each["actionCondition"]["exitCodes"]) for each in task.get("lifecyclePolicies", [])]

    assert (count, rules or []) == (task.get("maxRetryCount"), found)


@pytest.mark.parametrize(
    ("roles", "options", "message"),
    [
        ([role(), role()], {}, "has 2 roles"),
        ([role(num_replicas=100_001)], {}, "at most 100000 tasks"),
        ([role(max_retries=11)], {}, "at most 10 times"),
        ([role(max_retries=8)], {"retry_on_preemption": 3}, "11 retries"),
        ([role()], {"retry_on_preemption": -1}, "retry_on_preemption=-1"),
        ([role(env={"BATCH_X": "1"})], {}, "begin with BATCH_"),
        ([role(mounts=[VolumeMount("data", "/data")])], {}, "gs://BUCKET/FOLDER"),
        ([role(resource=Resource(1, 3, 1))], {}, "3 GPUs"),
        ([role(env={"A": SecretRef("a/b")})], {}, "Secret Manager"),
        ([role(args=["x" * 1_000_000])], {}, "The job is too large"),
        ([role()], {"priority": 100}, "priority=100"),
        ([role()], {"parallelism": 5001}, "parallelism=5001"),
        ([role(num_replicas=3)], {"gang": True, "parallelism": 2}, "gang does not fit"),
        ([role()], {"no_external_ip": True}, "network and subnetwork"),
        ([role()], {"allowed_locations": ["us-central1"]}, "allowed_locations"),
        ([role()], {"allowed_locations": ["zones/a-b-c", "zones/d-e-f"]}, "a-b and d-e"),
        ([role()], {"labels": {"Team": "x"}}, "Team=x"),
        ([role()], {"labels": {"asyncsched-app": "x"}}, "keeps labels"),
        ([role()], {"labels": {f"l{n}": "x" for n in range(61)}}, "61 labels"),
        ([role()], {"pubsub_topic": "changes"}, "projects/P/topics/T"),
        ([role()], {"timeout": 60, "max_run_duration": 60}, "both given"),
        ([role()], {"max_run_duration": 15 * 24 * 3600}, "at most 1209600 seconds"),
    ],
)
def test_what_google_would_refuse_is_refused_before(roles: list[Role], options: Any, message: str) -> None:
    with pytest.raises((ConfigError, RunOptionError), match=message):
        make_request(
            AppDef("app", roles), GCPBatchOpts(project="p", **options), app_id=APP_ID, session="s", version="1"
        )


def test_a_shell_puts_the_replicas_number_in() -> None:
    made = role(num_replicas=2, args=["it's ${replica_id}", ""], env={"N": "n-${replica_id}", "S": Secret("s")})
    program = wire(request(made))["taskGroups"][0]["taskSpec"]["runnables"][-1]

    assert "/bin/sh" == program["container"]["entrypoint"]
    assert ["-c", """export N=n-"$BATCH_TASK_INDEX"; exec python 'it'"'"'s '"$BATCH_TASK_INDEX" ''"""] == program[
        "container"
    ]["commands"]
    assert "s" == program["environment"]["variables"]["S"]


@pytest.mark.parametrize("name", ["App_Name", "1st", "", "x" * 200, "Überraschung", "a--"])
def test_every_name_becomes_one_of_a_job(name: str) -> None:
    assert is_job_name(job_name(name))
    assert job_name(name) != job_name(name)
    assert job_name(name, "session", "key") == job_name(name, "session", "key")


@pytest.mark.parametrize("text", ["example.com:proj:us-central1:job", "proj-1:us-central1:job"])
def test_an_app_id_is_taken_apart(text: str) -> None:
    assert text == parse_app_id(text).app_id
    assert ("us-central1", "job") == (parse_app_id(text).location, parse_app_id(text).name)


@pytest.mark.parametrize("text", ["", "job", "us-central1:job", "p:l:Job", "p:l:", "p/x:l:j", "p:l/m:j"])
def test_what_is_no_app_id_is_refused(text: str) -> None:
    with pytest.raises(MalformedHandleError, match="<project>:<location>:<name>"):
        parse_app_id(text)


def test_a_note_that_would_be_too_long_leaves_something_out() -> None:
    large = role(args=["x" * 40_000], env={"A": "1"})
    note = make_note(AppDef("app", [large]), name="app", session="s", pending_timeout=None)
    told = read_note("job", note)

    assert size_of({"note": note}) < 40_000
    assert ("app", "s", ["trainer"]) == (told.name, told.session, [each.name for each in told.roles])
    assert [] == told.roles[0].args


@pytest.mark.parametrize("text", ["{", "[]", 7, '{"session": "a/b"}', '{"pending_timeout": "soon"}'])
def test_a_note_that_is_not_ours_tells_nothing(text: object, caplog: pytest.LogCaptureFixture) -> None:
    assert ("", []) == (read_note(f"job {text}", text).name, read_note(f"job {text}", text).roles)
    assert 1 == len(caplog.records)


async def test_a_request_that_was_renamed_or_says_nothing_is_refused(scheduler: GCPBatchScheduler) -> None:
    info = await scheduler.submit_dryrun(AppDef("app", [role()]), {})
    info.request.name = "another"
    with pytest.raises(UsageError, match=r"another, and the app's id is"):
        await scheduler.schedule(info)
    empty = GCPBatchJob("job", "proj-1", "us-central1", {})
    with pytest.raises(InvalidRequestError, match="no taskGroups with one group"):
        await scheduler.schedule(AppDryRunInfo(empty))
