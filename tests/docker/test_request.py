"""From an app to containers, without a daemon."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from docker.types import DeviceRequest, Mount, Ulimit
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import InvalidRequestError, RunOptionError
from asyncsched.schedulers.docker import DockerJob, DockerOpts
from asyncsched.schedulers.docker import names as labels
from asyncsched.schedulers.docker.request import make_request, to_wire
from asyncsched.schedulers.docker.status import describe_app
from asyncsched.schedulers.docker.status_containers import read_container
from asyncsched.specs import AppDef, BindMount, DeviceMount, Resource, Role, Secret, VolumeMount, macros, show_secrets
from asyncsched.specs.not_kept import NotKept

ENVIRON = {"HOME": "/root", "FOO_ONE": "1", "FOO_TWO": "2", "OTHER": "3"}
RESULT = {"ASYNCSCHED_RESULT_FILE": "/tmp/app-x1-worker-0.result.json"}


def job(*roles: Role, name: str = "app", app_id: str = "app-x1", **options: Any) -> DockerJob:
    return make_request(
        AppDef(name, list(roles)), app_id, DockerOpts(**options), session="me", environ=ENVIRON, version="1.0"
    )


def role(name: str = "worker", **fields: Any) -> Role:
    return Role(name, "image:1", entrypoint="run", **fields)


def test_a_container_for_each_replica_in_order() -> None:
    made = job(role("a", num_replicas=2), role("b"))

    assert ["app-x1-a-0", "app-x1-a-1", "app-x1-b-0"] == [each.name for each in made.containers]
    assert [("a", 0), ("a", 1), ("b", 0)] == [(each.role, each.replica) for each in made.containers]
    assert ["image:1"] == made.images


def test_macros_and_the_address_of_rank_0() -> None:
    made = job(role("first"), role("a", args=["--id", f"{macros.app_id}/{macros.replica_id}", macros.rank0_env]))

    assert ["run", "--id", "app-x1/0", "TORCHX_RANK0_HOST"] == made.containers[1].command
    assert "app-x1-first-0" == made.containers[1].kwargs["environment"]["TORCHX_RANK0_HOST"]
    for shared in ("host", "container:other"):
        assert "localhost" == job(role(), network=shared).containers[0].kwargs["environment"]["TORCHX_RANK0_HOST"]


def test_environment_of_role_over_option_over_submitter() -> None:
    made = job(role(env={"FOO_TWO": "role"}), copy_env=["FOO_*"], env={"FOO_ONE": "option"})

    env = made.containers[0].kwargs["environment"]
    assert {"FOO_ONE": "option", "FOO_TWO": "role", "TORCHX_RANK0_HOST": "app-x1-worker-0", **RESULT} == env


def test_rank_0_and_result_of_an_app_around_us_are_not_copied() -> None:
    around = {
        "TORCHX_RANK0_HOST": "of the app that submits",
        "TORCHX_JOB_ID": "copied",
        "ASYNCSCHED_RESULT_FILE": "/of/the/app",
    }
    options = DockerOpts(copy_env=["TORCHX_*", "ASYNCSCHED_*"])
    made = make_request(AppDef("app", [role()]), "app-x1", options, session="me", environ=around, version="1.0")

    assert {"TORCHX_RANK0_HOST": "app-x1-worker-0", "TORCHX_JOB_ID": "copied", **RESULT} == made.containers[0].kwargs[
        "environment"
    ]
    chosen = job(role(), env={"TORCHX_RANK0_HOST": "chosen"})
    assert {"TORCHX_RANK0_HOST": "chosen", **RESULT} == chosen.containers[0].kwargs["environment"]


def test_secrets_are_sent_and_never_printed() -> None:
    made = job(role(env={"API_TOKEN": "open", "PLAIN": Secret("sesame")}, args=[Secret("hidden")]))
    body = to_wire(made.containers[0], "asyncsched", "digest")

    for word in ("open", "sesame", "hidden"):
        assert word not in repr(made)
        assert word not in repr(made.containers[0])
        assert word not in str(made.containers[0].kwargs["labels"])
    assert {"API_TOKEN=open", "PLAIN=sesame"} <= set(body["Env"])
    assert ["run", "hidden"] == body["Cmd"]
    with show_secrets():
        assert "sesame" in repr(made)


def test_resources() -> None:
    kwargs = job(role(resource=Resource(cpu=2, gpu=1, memMB=512))).containers[0].kwargs

    assert 2_000_000_000 == kwargs["nano_cpus"]
    assert "512m" == kwargs["mem_limit"] == kwargs["shm_size"]
    assert [DeviceRequest(count=1, capabilities=[["compute", "utility"]])] == kwargs["device_requests"]
    asked_for_nothing = job(role()).containers[0].kwargs
    assert not {"nano_cpus", "mem_limit", "shm_size", "device_requests"} & asked_for_nothing.keys()


def test_mounts_and_devices() -> None:
    mounts = [BindMount("/h", "/c", read_only=True), VolumeMount("data", "/d"), DeviceMount("/dev/fuse", "/dev/x", "r")]
    efa = Resource(cpu=-1, gpu=-1, memMB=-1, devices={"vpc.amazonaws.com/efa": 2})
    kwargs = job(role(mounts=mounts, resource=efa)).containers[0].kwargs

    assert [
        Mount(type="bind", source="/h", target="/c", read_only=True),
        Mount(type="volume", source="data", target="/d"),
    ] == kwargs["mounts"]
    uverbs = [f"/dev/infiniband/uverbs{k}:/dev/infiniband/uverbs{k}:rwm" for k in (0, 1)]
    assert ["/dev/fuse:/dev/x:r", *uverbs] == kwargs["devices"]


def test_options_become_arguments_of_the_container() -> None:
    made = job(
        role(max_retries=3), privileged=True, init=True, user="1:2", grace_period=2.5, ulimits=["nofile=1:2", "core=-1"]
    )
    container = made.containers[0]

    assert {"Name": "on-failure", "MaximumRetryCount": 3} == container.kwargs["restart_policy"]
    assert container.kwargs["privileged"] is True
    assert container.kwargs["init"] is True
    assert [Ulimit(name="nofile", soft=1, hard=2), Ulimit(name="core", soft=-1, hard=-1)] == container.kwargs["ulimits"]
    assert ("1:2", 3) == (container.kwargs["user"], container.stop_timeout)
    assert "restart_policy" not in job(role()).containers[0].kwargs


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_a_wrong_grace_period_is_refused(seconds: float) -> None:
    # Docker takes a negative one for no limit: a cancel would never end.
    with pytest.raises(
        RunOptionError, match=rf"grace_period must be at least 0 and at most 1000000000 seconds, got {seconds!r}"
    ):
        job(role(), grace_period=seconds)


def test_a_role_without_an_image_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match=r"the role 'worker' has no image"):
        make_request(
            AppDef("app", [Role("worker", " ", entrypoint="x")]),
            "a",
            DockerOpts(),
            session="",
            environ={},
            version="",
        )


def test_a_wrong_ulimit_is_named() -> None:
    with pytest.raises(RunOptionError, match=r"cannot read the ulimit 'nofile'.*nofile=4096:8192"):
        job(role(), ulimits=["nofile"])


def test_labels_tell_everything() -> None:
    found = job(role("b", num_replicas=2)).containers[1].kwargs["labels"]

    assert ("app-x1", "app", "me", "b", "1", "1.0") == tuple(
        found[key]
        for key in (labels.APP_ID, labels.APP_NAME, labels.SESSION, labels.ROLE, labels.REPLICA, labels.VERSION)
    )


def test_only_user_defined_networks_know_names() -> None:
    body = to_wire(job(role()).containers[0], "asyncsched", "d")
    in_host = to_wire(job(role(), network="host").containers[0], "host", "d")

    assert {"asyncsched": {"Aliases": ["app-x1-worker-0"]}} == body["NetworkingConfig"]["EndpointsConfig"]
    assert "app-x1-worker-0" == body["Hostname"]
    assert not {"NetworkingConfig", "Hostname"} & in_host.keys()


def test_the_app_is_not_changed() -> None:
    app = AppDef(
        "app", [role(env={"A": "1"}, resource=Resource(cpu=1, gpu=0, memMB=8, devices={"vpc.amazonaws.com/efa": 1}))]
    )
    before = repr(app)
    for _ in range(2):
        make_request(app, "app-x1", DockerOpts(), session="me", environ={}, version="1")

    assert before == repr(app)
    assert [] == app.roles[0].mounts


NAMES = st.text(min_size=1, max_size=90)


@given(NAMES, NAMES, NAMES, st.integers(0, 10_000))
def test_names_are_valid_and_unique(app_id: str, first: str, second: str, replica: int) -> None:
    names = {labels.container_name(app_id, each, replica) for each in (first, second)}
    names.add(labels.container_name(app_id, first, replica + 1))

    assert len(names) == (3 if first != second else 2)
    for name in names:
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name)
        assert name == labels.base_name(f"/{name}{labels.CANCELLED}") == labels.base_name(name)
        assert name == labels.base_name(taken := labels.taken_over(labels.taken_over(name)))
        assert labels.is_taken_over(taken)
        assert not labels.is_taken_over(name)


def test_plain_names_are_kept() -> None:
    assert "app-x1-trainer-12" == labels.container_name("app-x1", "trainer", 12)
    assert labels.container_name("a", "b-c", 0) == "a-b-c-0"


def test_a_role_comes_back_from_its_label_without_secrets() -> None:
    whole = role(
        args=["-v", Secret("hidden"), "API_TOKEN=open"],
        env={"COLOR": "red", "PLAIN": Secret("sesame"), "A_KEY": "closed"},
        mounts=[BindMount("/h", "/c", read_only=True)],
        port_map={"http": 80},
        max_retries=2,
        resource=Resource(cpu=1, gpu=0, memMB=64),
    )
    labels_of = job(whole).containers[0].kwargs["labels"]
    entry = {
        "Id": "x",
        "Names": ["/app-x1-worker-0"],
        "State": "running",
        "Created": 1,
        "Image": "other",
        "Labels": labels_of,
    }
    (again,) = describe("app-x1", entry)

    assert not [word for word in ("hidden", "open", "sesame", "closed") if word in str(labels_of)]
    assert (whole.image, whole.mounts, whole.port_map, 2) == (
        again.image,
        again.mounts,
        again.port_map,
        again.max_retries,
    )
    assert ("red", "-v") == (again.env["COLOR"], again.args[0])
    hidden = [again.args[1], again.args[2], again.env["PLAIN"], again.env["A_KEY"]]
    assert [NotKept] * 4 == [type(value) for value in hidden]


@pytest.mark.parametrize(
    "large",
    [
        {"env": {"LONG": "x" * 9000}},
        {"args": ["x" * 9000]},
        {"metadata": {"deep": json.loads("[" * 40 + "]" * 40)}},
    ],
    ids=["env", "args", "metadata"],
)
def test_what_a_label_cannot_hold_of_a_role_is_left_out(large: dict[str, Any]) -> None:
    labels_of = job(role(port_map={"http": 80}, **large)).containers[0].kwargs["labels"]
    entry = {
        "Id": "x",
        "Names": ["/app-x1-worker-0"],
        "State": "running",
        "Created": 1,
        "Image": "other",
        "Labels": labels_of,
    }
    (again,) = describe("app-x1", entry)

    assert len(labels_of[labels.SPEC]) <= 8192
    assert ("run", {"http": 80}) == (again.entrypoint, again.port_map)
    assert NotKept is type(next(iter(again.env.values())))


def describe(app_id: str, entry: dict[str, Any]) -> list[Role]:
    found = describe_app(app_id, [read_container(entry)])
    assert found is not None
    return found.roles


def test_a_request_prints_as_yaml() -> None:
    printed = repr(job(role()))

    assert printed.startswith("app_id: app-x1\n")
    assert "  name: app-x1-worker-0\n" in printed
