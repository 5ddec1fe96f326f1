"""What docker-py's arguments become on the wire; docker-py itself is the judge."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from docker.models.containers import _create_container_args
from docker.types import ContainerConfig, DeviceRequest, Healthcheck, LogConfig, Mount, Ulimit

from asyncsched.errors import ConfigError, InvalidRequestError
from asyncsched.schedulers._common.roles import role_of_note
from asyncsched.schedulers.docker import DockerContainer, DockerJob
from asyncsched.schedulers.docker import names as labels
from asyncsched.schedulers.docker.request import completed, to_wire
from asyncsched.schedulers.docker.request_wire import _CONFIG, _ELSEWHERE, _HOST, make_body
from asyncsched.schedulers.validation import check_app
from asyncsched.specs import AppDef, Secret

VERSION = "1.43"

EXAMPLES: dict[str, list[Any]] = {
    "cap_add": [["SYS_PTRACE"]],
    "cap_drop": [["ALL"]],
    "cgroup_parent": ["/slice"],
    "cpu_period": [50_000],
    "cpu_quota": [25_000],
    "cpu_shares": [512],
    "cpuset_cpus": ["0-1"],
    "cpuset_mems": ["0"],
    "device_cgroup_rules": [["c 42:* rmw"]],
    "device_requests": [[DeviceRequest(count=1, capabilities=[["compute", "utility"]])]],
    "devices": [["/dev/fuse", "/dev/fuse:/dev/x", "/dev/fuse:/dev/x:r"]],
    "dns": [["1.1.1.1"]],
    "dns_opt": [["ndots:2"]],
    "dns_search": [["example.org"]],
    "domainname": ["example.org"],
    "entrypoint": [["sh", "-c"], "sh -c 'echo two words'"],
    "environment": [{"A": "1", "B": ""}, ["A=1"]],
    "extra_hosts": [{"db": "10.0.0.1"}],
    "group_add": [["audio", 1000]],
    "healthcheck": [Healthcheck(test=["NONE"])],
    "hostname": ["host"],
    "init": [True],
    "ipc_mode": ["host"],
    "labels": [{"a": "b"}, ["a"]],
    "log_config": [LogConfig(type="local", config={"max-size": "1m"})],
    "mem_limit": ["512m", "1.5g", "2K", 1 << 20, "4096", "1gb"],
    "mem_reservation": ["64m"],
    "memswap_limit": ["1g", -1],
    "mounts": [[Mount("/c", "/h", type="bind", read_only=True), Mount("/d", "data")]],
    "nano_cpus": [1_500_000_000],
    "oom_kill_disable": [True],
    "oom_score_adj": [100],
    "pid_mode": ["host"],
    "pids_limit": [100],
    "privileged": [True],
    "read_only": [True],
    "restart_policy": [{"Name": "on-failure", "MaximumRetryCount": 3}],
    "runtime": ["nvidia"],
    "security_opt": [["no-new-privileges"]],
    "shm_size": ["64m"],
    "stdin_open": [True],
    "stop_signal": ["SIGINT"],
    "storage_opt": [{"size": "10G"}],
    "sysctls": [{"net.core.somaxconn": "1024"}],
    "tmpfs": [{"/scratch": "size=64m"}, ["/scratch"]],
    "tty": [True],
    "ulimits": [[Ulimit(name="nofile", soft=1024, hard=2048)]],
    "user": ["1:2", 1000],
    "userns_mode": ["host"],
    "uts_mode": ["host"],
    "volumes": [{"/h": {"bind": "/c", "mode": "ro"}}, ["/h:/c:ro"]],
    "working_dir": ["/work"],
}


def test_every_argument_has_an_example() -> None:
    assert {*_CONFIG, *_HOST} == {*EXAMPLES}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in EXAMPLES for value in EXAMPLES[name]])
def test_an_argument_becomes_what_docker_py_makes_of_it(name: str, value: Any) -> None:
    body = make_body({name: value}, made_by="c", backend="local_docker")

    field, host = (_CONFIG[name][0], body) if name in _CONFIG else (_HOST[name][0], body["HostConfig"])
    expected, plain = judged(**{name: value}), judged()
    ours = expected if name in _CONFIG else expected["HostConfig"]
    assert ours[field] == host[field]
    assert plain != expected


def judged(**kwargs: Any) -> dict[str, Any]:
    """Return the body that docker-py sends for these arguments."""
    made = _create_container_args({"image": "i", "command": ["c"], "version": VERSION, **kwargs})
    return ContainerConfig(VERSION, **{name: value for name, value in made.items() if name != "name"})


def test_what_stands_elsewhere_and_none_are_passed_over() -> None:
    kwargs = {**dict.fromkeys(_ELSEWHERE, "x"), "user": None}

    assert {"HostConfig": {}} == make_body(kwargs, made_by="c", backend="local_docker")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mem_limt", "1g", r"container c has the unknown setting 'mem_limt'.*did you mean mem_limit\?"),
        (
            "mem_limit",
            "much",
            r"container c has the invalid setting \{'mem_limit': 'much'\}: it must be a number of bytes",
        ),
        ("environment", 5, r"has the invalid setting \{'environment': 5\}"),
    ],
)
def test_what_cannot_be_sent_is_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        make_body({name: value}, made_by="c", backend="local_docker")


def test_secrets_are_sent() -> None:
    for environment in ({"PIN": Secret("1234")}, [Secret("PIN=1234")]):
        assert ["PIN=1234"] == make_body({"environment": environment}, made_by="c", backend="")["Env"]


def test_a_command_that_is_a_text_is_split_as_a_shell_would() -> None:
    commands: list[str | list[str]] = [
        "sh -c 'echo \"a b\"'",
        Secret("sh -c 'echo \"a b\"'"),
        ["sh", "-c", Secret('echo "a b"')],
    ]
    bodies = [to_wire(DockerContainer("i", command, {"name": "c"}), "none") for command in commands]

    assert [["sh", "-c", 'echo "a b"']] * 3 == [body["Cmd"] for body in bodies]
    with pytest.raises(InvalidRequestError, match=r"the container c has the invalid setting .*No closing quotation"):
        to_wire(DockerContainer("i", "echo 'a", {"name": "c"}), "none")


def test_a_job_without_containers_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="the request for app-x1 has no containers"):
        completed(DockerJob("app-x1", []), None, session="me", version="1")


def test_containers_made_by_hand_are_found_by_their_labels() -> None:
    job = DockerJob("app-x1", [DockerContainer("i", ["true"], {}) for _ in range(2)])
    job.containers.append(DockerContainer("i", ["true"], {"name": "mine", "labels": ["own"]}, role="other", replica=3))
    made = completed(job, session="me", version="1").containers

    assert ["app-x1-main-0", "app-x1-main-1", "mine"] == [each.name for each in made]
    found = [labels.read_identity(each.kwargs["labels"]) for each in made]
    assert [("main", 0), ("main", 1), ("other", 3)] == [(each.role, each.replica) for each in found]
    assert {("app-x1", "me", "")} == {(each.app_id, each.session, each.fault) for each in found}
    assert "" == made[2].kwargs["labels"]["own"]
    assert ["job was made by hand"] * 3 == [
        why.group() for each in made if (why := re.search("job was made by hand", each.kwargs["labels"][labels.SPEC]))
    ]
    assert {} == job.containers[0].kwargs  # the caller's is as it was
    assert "default" == to_wire(made[0], made[0].network)["HostConfig"]["NetworkMode"]


def test_a_job_made_by_hand_names_what_its_containers_are_made_with() -> None:
    kwargs = {"name": "n", "labels": ["a"], "user": "me", "privileged": True, "environment": {"A": "marker"}}
    job = DockerJob("app-x1", [DockerContainer("i", ["true"], kwargs, host_config={"CpuCount": 2})])
    note = completed(job, session="me", version="1").containers[0].kwargs["labels"][labels.SPEC]
    role = role_of_note(json.loads(note))

    with pytest.raises(ConfigError, match="its job was made by hand") as caught:
        check_app(AppDef("a", [role]))
    assert "it was made with image, command, user, privileged, environment, host_config.CpuCount" in str(caught.value)
    assert ("main", "i", 1) == (role.name, role.image, role.num_replicas)
    assert "marker" not in note


def test_a_job_made_by_hand_names_its_run_options() -> None:
    job = DockerJob("app-x1", [DockerContainer("i", ["true"], {}, stop_timeout=3)], timeout=60, on_failure="stop")
    note = completed(job, session="me", version="1").containers[0].kwargs["labels"][labels.SPEC]

    assert "it was made with on_failure, timeout, stop_timeout, image" in json.loads(note)["not_kept"]


def test_a_terminal_is_told_by_a_label() -> None:
    body = to_wire(DockerContainer("i", ["sh"], {"name": "c", "tty": True}), "none", "d")

    assert {labels.REQUEST: "d", labels.TERMINAL: "1"} == labels.own_labels(body["Labels"], "c")


def test_a_request_is_made_by_position_as_the_documents_show() -> None:
    container = DockerContainer("image", ["echo", "hi"], {"environment": {"API_TOKEN": "marker", "A": "1"}})
    job = DockerJob("app-x1", [container])

    assert ("app-x1", "image", ["echo", "hi"]) == (job.app_id, job.containers[0].image, job.containers[0].command)
    assert "marker" not in repr(container)
    assert "marker" not in repr(job)
