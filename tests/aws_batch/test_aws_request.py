"""Apps as requests: golden files, botocore's own validators, and what is refused before anything is sent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from botocore.validate import ParamValidator

from asyncsched.errors import ConfigError
from asyncsched.schedulers.aws_batch.options import AWSBatchOpts
from asyncsched.schedulers.aws_batch.request import (
    BatchJob,
    definition_hash,
    definition_to_wire,
    make_request,
    to_wire,
)
from asyncsched.specs import (
    AppDef,
    BindMount,
    DeviceMount,
    Resource,
    Role,
    Secret,
    SecretRef,
    VolumeMount,
    macros,
    named_resources,
)
from asyncsched.specs.dryrun import pretty
from tests.aws_emulator import shapes

GOLDEN = Path(__file__).parent / "golden"
SMALL = Resource(cpu=1, gpu=0, memMB=1024)


def make(app: AppDef, **options: Any) -> BatchJob:
    chosen = AWSBatchOpts(**{"queue": "torchx", "user": "alice", **options})
    return make_request(app, chosen, app_id="torchx:the-name", session="session", version="1.2.3")


def role(name: str = "main", **more: Any) -> Role:
    return Role(**{"name": name, "image": "alpine", "entrypoint": "echo", "resource": SMALL, **more})


def app(*roles: Role, **more: Any) -> AppDef:
    return AppDef("app", list(roles) or [role()], **more)


def valid(operation: str, request: dict[str, Any]) -> None:
    report = ParamValidator().validate(request, shapes.operations("batch")[operation].input_shape)
    assert not report.has_errors(), report.generate_report()


@pytest.mark.parametrize("options", [{"timeout": 89.1}, {"timeout": 90}, {"timeout_s": 90}])
def test_a_timeout_is_that_of_an_attempt_in_whole_seconds(options: dict[str, Any]) -> None:
    assert {"attemptDurationSeconds": 90} == make(app(), **options).job_def["timeout"]


ECHO = AppDef("echo", [role("echo", image="alpine:latest", args=["hello"])])
GPU = AppDef(
    "train",
    [
        role(
            "trainer",
            image="train:1",
            entrypoint="python",
            args=["-m", "train", "--rank0", macros.rank0_env],
            env={"EPOCHS": "3", "HF_TOKEN": "not-shown"},
            num_replicas=4,
            max_retries=2,
            resource=named_resources["aws_p4d.24xlarge"],
            mounts=[VolumeMount("fs-123", "/data"), BindMount("/var/cache", "/cache", read_only=True)],
        )
    ],
    metadata={"team": "vision"},
)
SPOT = AppDef("spot", [role("worker", args=["--id", macros.app_id], max_retries=1)])
VAULT = "arn:aws:secretsmanager:eu-west-1:1:secret:login-AbCdEf"
SECRETS = AppDef(
    "secrets",
    [
        role(
            env={
                "PLAIN": "1",
                "WHOLE": SecretRef(VAULT),
                "PASS": SecretRef(VAULT, "password"),
                "PARAMETER": SecretRef("/app/parameter"),
            }
        )
    ],
)
FARGATE = AppDef(
    "small", [role("job", resource=Resource(2, 0, 4096), mounts=[VolumeMount("fs-9", "/mnt", read_only=True)])]
)
MANAGED = AppDef(
    "managed",
    [role("job", args=["--data", "/mnt"], env={"A": "1"}, mounts=[VolumeMount("fs-9", "/mnt")], max_retries=1)],
)


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("echo", make(ECHO)),
        ("four_gpu_nodes", make(GPU, share_id="research", priority=7, efs_options={"iam": "ENABLED"})),
        ("spot", make(SPOT, spot_retries=3)),
        ("managed_instances", make(MANAGED, platform="MANAGED_INSTANCES", job_role_arn="arn:job", cpu_arch="ARM64")),
        ("secrets", make(SECRETS, execution_role_arn="arn:aws:iam::1:role/x", secrets={"DB": "arn:db", "PASS": "x"})),
        ("fargate", make(FARGATE, platform="FARGATE", execution_role_arn="arn:aws:iam::1:role/x", public_ip=True)),
    ],
)
def test_golden(name: str, job: BatchJob) -> None:
    requests = {"RegisterJobDefinition": definition_to_wire(job), "SubmitJob": to_wire(job, "definition:1")}
    path = GOLDEN / f"{name}.json"
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(json.dumps(requests, indent=2) + "\n")

    assert json.loads(path.read_text()) == requests
    for operation, request in requests.items():
        valid(operation.lower(), request)


def test_the_whole_definition_is_valid_too() -> None:
    for job in (make(ECHO), make(GPU, share_id="x"), make(SPOT)):
        valid("registerjobdefinition", json.loads(json.dumps(job.job_def)))


def test_one_replica_is_a_container_and_several_are_nodes() -> None:
    single, several = make(app()), make(app(role("a", num_replicas=2), role("b")))

    assert "container" == single.job_def["type"]
    nodes: Any = several.job_def["nodeProperties"]
    assert ("multinode", 3, 0) == (several.job_def["type"], nodes["numNodes"], nodes["mainNode"])
    assert ["0:1", "2"] == [group["targetNodes"] for group in nodes["nodeRangeProperties"]]
    assert "multinode" == make(app(), job_type="multinode").job_def["type"]


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 2), (9, 10)])
def test_attempts_are_one_more_than_retries(retries: int, attempts: int) -> None:
    strategy: Any = make(app(role(max_retries=retries))).job_def["retryStrategy"]

    assert attempts == strategy["attempts"]


def command(job: BatchJob, group: int = 0) -> list[str]:
    if job.job_def["type"] == "container":
        container: Any = job.job_def["containerProperties"]
    else:
        nodes: Any = job.job_def["nodeProperties"]
        container = nodes["nodeRangeProperties"][group]["container"]
    return list(container["command"])


def test_a_replica_knows_its_number_in_its_role_without_a_shell() -> None:
    job = make(app(role("a", num_replicas=2), role("b", args=["--id", macros.replica_id]), role("c", num_replicas=2)))

    assert ["echo", "--id", "0"] == command(job, 1)


def test_where_replicas_share_a_command_a_shell_computes_the_number() -> None:
    words = ["it's", f"--id={macros.replica_id}", "", "$HOME"]
    job = make(app(role("a"), role("b", num_replicas=2, args=words, env={"RANK": macros.replica_id, "X": "1"})))

    number = '"$(($AWS_BATCH_JOB_NODE_INDEX - 1))"'
    shell, flag, script = command(job, 1)
    assert ("/bin/sh", "-c") == (shell, flag)
    assert f"export RANK={number}; exec echo 'it'\"'\"'s' --id={number} '' '$HOME'" == script


def test_environment_and_command_come_with_the_submit_so_that_definitions_are_shared() -> None:
    one, other = make(app(role(args=["1"], env={"A": "1"}))), make(app(role(args=["2"], env={"B": "2"})))

    assert definition_to_wire(one) == definition_to_wire(other)
    assert to_wire(one, "d") != to_wire(other, "d")
    assert definition_to_wire(make(app(role(image="other")))) != definition_to_wire(one)


def test_an_empty_word_stays_in_the_definition() -> None:
    """AWS takes no empty string in an override's command."""
    job = make(app(role(args=["", "x"])))

    assert ["echo", "", "x"] == definition_to_wire(job)["containerProperties"]["command"]  # type: ignore[index] # JSON
    assert "command" not in to_wire(job, "d")["containerOverrides"]  # type: ignore[operator] # JSON


def test_a_hash_is_of_the_content_only() -> None:
    definition = definition_to_wire(make(app()))

    assert definition_hash(definition) == definition_hash({**definition, "jobDefinitionName": "x", "tags": {"a": "b"}})
    assert definition_hash(definition) != definition_hash({**definition, "type": "multinode"})


def test_secrets_are_in_what_is_sent_and_in_nothing_that_is_shown() -> None:
    secret = role(env={"PLAIN": Secret("m4rk3r"), "API_TOKEN": "m4rk3r"}, args=[Secret("m4rk3r")])
    job = make(app(secret))

    assert "m4rk3r" not in repr(job) + pretty(job)
    assert "m4rk3r" not in json.dumps(definition_to_wire(job))
    assert 3 == json.dumps(to_wire(job, "d")).count("m4rk3r")


def test_mounts_and_devices() -> None:
    mounts = [
        BindMount("/src", "/dst", read_only=True),
        VolumeMount("fs-1", "/efs"),
        DeviceMount("/dev/a", "/dev/b", "rm"),
    ]
    container: Any = make(app(role(mounts=mounts)), efs_options={"rootDirectory": "/x"}).job_def["containerProperties"]

    assert [
        {"name": "mount_0", "host": {"sourcePath": "/src"}},
        {"name": "mount_1", "efsVolumeConfiguration": {"fileSystemId": "fs-1", "rootDirectory": "/x"}},
    ] == container["volumes"]
    assert [True, False] == [point["readOnly"] for point in container["mountPoints"]]
    assert [{"hostPath": "/dev/a", "containerPath": "/dev/b", "permissions": ["READ", "MKNOD"]}] == container[
        "linuxParameters"
    ]["devices"]


def test_every_option_reaches_the_requests() -> None:
    job = make(
        app(),
        privileged=True,
        job_role_arn="arn:job",
        execution_role_arn="arn:exec",
        timeout_s=60,
        depends_on=["torchx:11111111-2222-3333-4444-555555555555"],
        array_size=4,
        tags={"cost": "42"},
        propagate_tags=True,
        shm_size_mb=64,
        ulimits=["nofile=10:20", "core=0"],
        init_process=True,
        user_in_container="nobody",
        readonly_root=True,
        tmpfs=["/scratch:8"],
        secrets={"DB": "arn:secret"},
        log_group="/mine",
        log_options={"awslogs-stream-prefix": "x"},
        consumable_resources={"license": "2"},
        enable_exec=True,
        region="eu-west-1",
        profile="p",
        endpoint_url="http://x",
    )
    submit: Any = to_wire(job, "d")
    container: Any = definition_to_wire(job)["containerProperties"]

    valid("submitjob", submit)
    valid("registerjobdefinition", definition_to_wire(job))
    assert [{"jobId": "11111111-2222-3333-4444-555555555555"}] == submit["dependsOn"]
    assert ({"size": 4}, {"attemptDurationSeconds": 60}, True) == (
        submit["arrayProperties"],
        submit["timeout"],
        submit["propagateTags"],
    )
    assert "42" == submit["tags"]["cost"]
    assert {"consumableResourceList": [{"consumableResource": "license", "quantity": 2}]} == submit[
        "consumableResourcePropertiesOverride"
    ]
    assert ("arn:job", "arn:exec", "nobody", True, True, True) == tuple(
        container[key]
        for key in (
            "jobRoleArn",
            "executionRoleArn",
            "user",
            "privileged",
            "readonlyRootFilesystem",
            "enableExecuteCommand",
        )
    )
    assert {
        "sharedMemorySize": 64,
        "initProcessEnabled": True,
        "tmpfs": [{"containerPath": "/scratch", "size": 8}],
    } == container["linuxParameters"]
    assert [("nofile", 10, 20), ("core", 0, 0)] == [tuple(row.values()) for row in container["ulimits"]]
    assert [{"name": "DB", "valueFrom": "arn:secret"}] == container["secrets"]
    assert {"awslogs-group": "/mine", "awslogs-stream-prefix": "x"} == container["logConfiguration"]["options"]
    assert {"region": "eu-west-1", "profile": "p", "endpoint_url": "http://x"} == job.location


@pytest.mark.parametrize(
    ("wrong", "options", "message"),
    [
        (app(*(role(str(k)) for k in range(6))), {}, "at most 5 roles, got 6"),
        (app(role(num_replicas=1001)), {}, "at most 1000 replicas, got 1001"),
        (app(role(max_retries=10)), {}, "together must be 0 to 9, got 10.*at most 10 times"),
        (app(role(env={"AWS_BATCH_X": "1"})), {}, "AWS_BATCH_X"),
        (app(role(num_replicas=2)), {"platform": "FARGATE"}, "FARGATE.*EC2 only"),
        (app(role(num_replicas=2)), {"platform": "MANAGED_INSTANCES"}, "MANAGED_INSTANCES.*EC2 only"),
        (app(), {"platform": "MANAGED_INSTANCES", "job_type": "multinode"}, "MANAGED_INSTANCES.*EC2 only"),
        (
            app(),
            {"platform": "MANAGED_INSTANCES", "public_ip": True},
            "public_ip cannot be used with platform=MANAGED_INSTANCES.*FARGATE",
        ),
        (app(), {"ephemeral_storage_gb": 30}, "ephemeral_storage_gb cannot be used with platform=EC2"),
        (app(), {"cpu_arch": "ARM64"}, "cpu_arch cannot be used with platform=EC2.*FARGATE or MANAGED_INSTANCES"),
        (app(), {"platform": "FARGATE", "ephemeral_storage_gb": 20}, "21 to 200"),
        (app(role(num_replicas=2)), {"job_type": "container"}, "2 replicas"),
        (app(role(num_replicas=2)), {"array_size": 3}, "array_size"),
        (app(role(num_replicas=2)), {"main_node": 2}, "main_node must be 0 to 1, .*got 2"),
        (app(), {"array_size": 1}, "2 to 10000"),
        (app(), {"timeout_s": 59}, "timeout_s must be at least 60 and at most 2147483647 seconds, got 59"),
        (app(), {"timeout": 59.5}, "timeout must be at least 60 and at most 2147483647 seconds, got 59.5"),
        (app(), {"timeout": float("inf")}, "timeout must be at least 60 and at most 2147483647 seconds, got inf"),
        (app(), {"timeout": 90, "timeout_s": 90}, "timeout and timeout_s are both set.*omit timeout_s"),
        (app(), {"priority": 5}, "share_id"),
        (app(), {"priority": 10_000, "share_id": "x"}, "0 to 9999"),
        (app(), {"ulimits": ["nofile"]}, "nofile=1024:4096"),
        (app(), {"tmpfs": ["scratch"]}, "/scratch:64"),
        (app(), {"depends_on": ["x"] * 21}, "20 jobs"),
        (app(), {"efs_options": {"root": "/"}}, None),
        (app(), {"tags": {"aws:x": "1"}}, "aws:x"),
        (app(), {"tags": {"x": "tab\there"}}, "'x'"),
        (app(metadata={"a": "line\nbreak"}), {}, "'a'"),
        (app(metadata={"asyncsched/deleted": "1"}), {}, "asyncsched/deleted.*reserves"),
        (app(), {"queue": ""}, "queue must be .*, got ''"),
        (app(), {"queue": "my queue"}, "queue must be .*, got 'my queue'"),
        (app(role(max_retries=1)), {"spot_retries": -1}, "spot_retries must be 0 to 9, got -1"),
        (app(), {"consumable_resources": {"license": "two"}}, "license=2, got 'license=two'"),
        (app(), {"tags": {f"k{n}": "v" for n in range(50)}}, "at most 48 tags, got "),
        (app(metadata={"a": "line\nbreak<"}), {}, "'a'"),
        (app(), {"platform": "FARGATE"}, "execution_role_arn"),
        (app(role(env={"P": SecretRef("x")})), {"platform": "FARGATE"}, "execution_role_arn is missing"),
        (app(role(env={"P": SecretRef("x")})), {}, "execution_role_arn is missing.*role main gets P from secrets"),
        (
            app(role(env={"P": SecretRef("/parameter", "key")})),
            {"execution_role_arn": "x"},
            "P of role main refers to the key 'key' of /parameter.*Secrets Manager",
        ),
        (
            app(),
            {"platform": "FARGATE", "execution_role_arn": "x"},
            "resource.memMB .*2048 to 8192 with 1 vCPUs.*got 1024",
        ),
        (
            app(role(resource=Resource(3, 0, 4096))),
            {"platform": "FARGATE", "execution_role_arn": "x"},
            "resource.cpu .*got 3",
        ),
        (
            app(role(resource=Resource(1, 1, 2048))),
            {"platform": "FARGATE", "execution_role_arn": "x"},
            "does not support GPUs",
        ),
        (
            app(role(resource=Resource(1, 0, 2048), mounts=[BindMount("/a", "/b")])),
            {"platform": "FARGATE", "execution_role_arn": "x"},
            "BindMount.*EFS",
        ),
        (app(role(args=["x" * 40_000])), {}, "too large.*30720"),
        (app(role(args=["x" * 26_000])), {}, "too large.*24576"),
        (app(role(image="x" * 30_000)), {}, "too large.*24576"),
        (app(role(image="")), {}, "'.*' has no image; name the image"),
    ],
)
def test_what_aws_would_refuse_is_refused_here(wrong: AppDef, options: dict[str, Any], message: str | None) -> None:
    if message is None:  # EFS options matter where there is an EFS mount.
        wrong, message = app(role(mounts=[VolumeMount("fs", "/x")])), "efs_options must have keys of .*, got 'root'"
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        make(wrong, **options)


def test_all_nodes_have_one_instance_type() -> None:
    big = role("big", resource=Resource(1, 0, 1, {"node.kubernetes.io/instance-type": "p4d.24xlarge"}))

    with pytest.raises(ConfigError, match=r"any and p4d\.24xlarge"):
        make(app(big, role("small")))
    nodes: Any = make(app(big, role("small")), instance_type="m5.large").job_def["nodeProperties"]
    assert {"m5.large"} == {group["container"]["instanceType"] for group in nodes["nodeRangeProperties"]}


def test_spaces_and_letters_of_all_languages_may_stand_in_tags() -> None:
    tags = {"größe": "две\u00a0 части", "a+b=c": "x@y:z/1"}

    assert tags.items() <= dict(make(app(), tags=tags).job_def["tags"]).items()  # type: ignore[call-overload] # JSON


def test_who_asks_for_no_memory_on_fargate_gets_the_least_that_goes_with_the_processors() -> None:
    job = make(app(role(resource=Resource(4, 0, -1))), platform="FARGATE", execution_role_arn="x")
    container: Any = job.job_def["containerProperties"]

    assert [{"type": "VCPU", "value": "4"}, {"type": "MEMORY", "value": "8192"}] == container["resourceRequirements"]


def test_what_a_request_overrides_by_itself_is_sent() -> None:
    job = BatchJob("j", "q", None, {"type": "container", "containerProperties": {"command": ["a"]}}, {})
    own = {"memory": 7, "environment": [{"name": "A", "value": "2"}]}
    job.job_def["containerProperties"]["environment"] = [{"name": k, "value": "1"} for k in "AB"]  # type: ignore[index] # it is a dict
    job.submit = {"containerOverrides": own}
    sent = to_wire(job, "d")["containerOverrides"]

    environment = [{"name": "B", "value": "1"}, {"name": "A", "value": "2"}]
    assert {"command": ["a"], "memory": 7, "environment": environment} == sent


@pytest.mark.parametrize("name", ["nodeOverrides", "ecsPropertiesOverride"])
def test_overrides_that_would_be_lost_are_refused(name: str) -> None:
    job = BatchJob(
        "j", "q", None, {"type": "container", "containerProperties": {"command": ["a"]}}, {}, submit={name: {}}
    )

    with pytest.raises(ConfigError, match=f"submit must not have {name}"):
        to_wire(job, "d")
