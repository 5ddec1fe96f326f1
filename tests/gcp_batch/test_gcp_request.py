"""Jobs as Google gets them: golden ones, written as Google's own JSON, and what is refused before it is sent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.cloud import batch_v1

from asyncsched.components.utils import echo
from asyncsched.errors import ConfigError, InvalidRequestError, MalformedHandleError, RunOptionError, UsageError
from asyncsched.schedulers.gcp_batch import GCPBatchJob, GCPBatchOpts, GCPBatchScheduler
from asyncsched.schedulers.gcp_batch.names import is_job_name, job_name, parse_app_id
from asyncsched.schedulers.gcp_batch.names_note import make_note, read_note
from asyncsched.schedulers.gcp_batch.request import make_request, to_wire
from asyncsched.schedulers.gcp_batch.request_limits import MAX_JOB_BYTES, size_of
from asyncsched.specs import AppDef, BindMount, DeviceMount, Resource, Role, Secret, SecretRef, VolumeMount
from asyncsched.specs.dryrun import AppDryRunInfo
from tests.gcp_double.checks import check_job
from tests.gcp_double.server import Double
from tests.gcp_double.wire import parse

GOLDEN = Path(__file__).parent / "golden"
APP_ID = "proj-1:us-central1:app-x1"
REQUEST_ID = "00000000-0000-4000-8000-000000000001"


def role(**more: Any) -> Role:
    fields: dict[str, Any] = {"entrypoint": "python", "args": ["-m", "train"], "resource": Resource(4, 0, 8192)}
    return Role("trainer", "gcr.io/p/image:1", **{**fields, **more})


def request(made: Role, **options: Any) -> GCPBatchJob:
    return request_of(AppDef("app", [made]), **options)


def request_of(app: AppDef, **options: Any) -> GCPBatchJob:
    opts = GCPBatchOpts(project="proj-1", **options)
    return make_request(app, opts, app_id=APP_ID, session="me", version="1.2")


def wire(job: GCPBatchJob) -> dict[str, Any]:
    made: dict[str, Any] = to_wire(replace(job, request_id=REQUEST_ID), digest="d" * 64, note="{}")
    return made


EXAMPLES: dict[str, tuple[Role, dict[str, Any]]] = {
    "echo": (echo(msg="hello", image="alpine:latest").roles[0], {}),
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


async def test_retries_that_google_counts_together_are_told(scheduler: GCPBatchScheduler) -> None:
    both = await scheduler.submit_dryrun(AppDef("app", [role(max_retries=2)]), {"retry_on_preemption": 3})
    each = [
        await scheduler.submit_dryrun(AppDef("app", [role(max_retries=2)]), {}),
        await scheduler.submit_dryrun(AppDef("app", [role()]), {"retry_on_preemption": 3}),
    ]

    assert ["max_retries", "retry_on_preemption"] == [told.field for told in both.ignored]
    assert all("up to 5 times" in told.why for told in both.ignored)
    assert [(), ()] == [tuple(info.ignored) for info in each]


async def test_replicas_that_run_after_others_are_told(scheduler: GCPBatchScheduler) -> None:
    told = {
        (count, shared): [each.why for each in info.ignored if each.field == "num_replicas"]
        for count in (5000, 20_000)
        for shared in (True, False)
        for info in [
            await scheduler.submit_dryrun(AppDef("app", [role(num_replicas=count)]), {"replica_network": shared})
        ]
    }
    asked = await scheduler.submit_dryrun(AppDef("app", [role(num_replicas=20_000)]), {"parallelism": 100})

    assert [] == told[5000, True] == told[5000, False]
    assert ["Google Cloud Batch runs at most 5000 of the 20000 at the same time"] == told[20_000, False]
    assert told[20_000, False][0] in told[20_000, True][0]
    assert "each on a separate VM: 5000 VMs" in told[20_000, True][0]
    assert "num_replicas" not in [each.field for each in asked.ignored]


QUOTES = {"quotes": '"' * 7000}
"""Metadata that is escaped in the note, and once more where the note stands in the job."""


@pytest.fixture(scope="module")
def longest() -> int:
    """How long an argument may be beside these metadata, by the dry-run."""
    fitting, refused = 900_000, 1_000_000
    while refused - fitting > 1:
        middle = (fitting + refused) // 2
        try:
            request_of(AppDef("app", [role(args=["x" * middle])], metadata=QUOTES))
            fitting = middle
        except ConfigError:
            refused = middle
    return fitting


def test_the_size_of_a_job_is_that_of_the_bytes_that_are_sent(longest: int) -> None:
    app = AppDef("app", [role(args=["x" * longest])], metadata=QUOTES)
    note = make_note(app, name="app", session="me", pending_timeout=None)
    sent = json.dumps(to_wire(request_of(app), digest="d" * 64, note=note), separators=(",", ":")).encode()

    assert MAX_JOB_BYTES == len(sent) == size_of(json.loads(sent))


async def test_an_edited_request_that_is_too_large_is_not_sent(double: Double, scheduler: GCPBatchScheduler) -> None:
    info = await scheduler.submit_dryrun(AppDef("app", [role()]), {})
    info.request.job_def["taskGroups"][0]["taskSpec"]["runnables"][-1]["container"]["commands"] = ["x" * 1_000_000]  # type: ignore[index] # JSON
    with pytest.raises(ConfigError, match="at most 1000000 bytes"):
        await scheduler.schedule(info)

    assert 0 == double.jobs.created


@pytest.mark.parametrize(
    ("roles", "options", "message"),
    [
        ([role(), role()], {}, "must have one role, got 2"),
        ([role(num_replicas=100_001)], {}, "must be at most 100000, got 100001"),
        ([role(max_retries=11)], {}, "together must be at most 10, got 11"),
        ([role(max_retries=8)], {"retry_on_preemption": 3}, "together must be at most 10, got 11"),
        ([role()], {"retry_on_preemption": -1}, "retry_on_preemption must be a whole number from 0 to 10, got -1"),
        ([role(env={"BATCH_X": "1"})], {}, "begin with BATCH_"),
        ([role(mounts=[VolumeMount("data", "/data")])], {}, "gs://BUCKET/FOLDER"),
        ([role(env={"A": SecretRef("a/b")})], {}, "Secret Manager"),
        ([role(args=["x" * 1_000_000])], {}, "the job is too large"),
        ([role()], {"priority": 100}, "priority must be 0 to 99, got 100"),
        ([role()], {"parallelism": 5001}, "parallelism must be 1 to 5000, got 5001"),
        ([role(num_replicas=3)], {"gang": True, "parallelism": 2}, "gang cannot be used.*at most 2 do"),
        ([role()], {"no_external_ip": True}, "network and subnetwork"),
        ([role()], {"allowed_locations": ["us-central1"]}, "allowed_locations"),
        ([role()], {"allowed_locations": ["zones/a-b-c", "zones/d-e-f"]}, "a-b and d-e"),
        ([role()], {"labels": {"Team": "x"}}, r"labels\['Team'\]='x' cannot be set"),
        ([role()], {"labels": {"a\0b": "c\nd"}}, r"labels\['a\\x00b'\]='c\\nd' cannot be set"),
        ([role()], {"labels": {"asyncsched-app": "x"}}, "reserves labels"),
        ([role()], {"labels": {f"l{n}": "x" for n in range(60)}}, "labels must have at most 59 entries, got 60"),
        ([role()], {"pubsub_topic": "changes"}, "projects/P/topics/T"),
        (
            [role()],
            {"allowed_locations": ["regions/europe-west1"]},
            "must be in the job's region us-central1, got europe-west1",
        ),
        ([role()], {"allowed_locations": ["zones/europe-west1-b"]}, "set location=europe-west1"),
        ([role()], {"timeout": 60, "max_run_duration": 60}, "both set"),
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


def test_a_variable_that_no_shell_could_set_is_set_behind_it() -> None:
    made = role(num_replicas=2, args=["${replica_id}"], env={"MY.VAR": "n-${replica_id}", "MY.REST": "1"})
    program = wire(request(made))["taskGroups"][0]["taskSpec"]["runnables"][-1]

    assert ["-c", 'exec /usr/bin/env -- MY.VAR=n-"$BATCH_TASK_INDEX" MY.REST=1 python "$BATCH_TASK_INDEX"'] == program[
        "container"
    ]["commands"]
    assert not program["environment"]["variables"].keys() & made.env.keys()


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
    with pytest.raises(UsageError, match=r"another, but the app's id is"):
        await scheduler.schedule(info)
    empty = GCPBatchJob("job", "proj-1", "us-central1", {})
    with pytest.raises(InvalidRequestError, match="taskGroups must have exactly one group"):
        await scheduler.schedule(AppDryRunInfo(empty))
