"""An app whose request was edited is not told as it was: each edit is named when it is submitted again."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import ConfigError
from asyncsched.schedulers._common.app_notes import app_note, read_app_note
from asyncsched.schedulers.aws_batch import AWSBatchScheduler
from asyncsched.schedulers.aws_batch.options import AWSBatchOpts
from asyncsched.schedulers.aws_batch.request import make_request as make_batch_job
from asyncsched.schedulers.docker import DockerContainer, DockerJob, DockerOpts, DockerScheduler
from asyncsched.schedulers.docker.request import completed as docker_completed
from asyncsched.schedulers.docker.request import make_request as make_docker_job
from asyncsched.schedulers.kubernetes import KubernetesJob, KubernetesOpts, KubernetesScheduler
from asyncsched.schedulers.kubernetes.request import make_request as make_kubernetes_job
from asyncsched.schedulers.kubernetes.request import to_wire as kubernetes_wire
from asyncsched.schedulers.local import LocalOpts, LocalScheduler, PopenRequest, ReplicaParam
from asyncsched.schedulers.local.images import CWDImageProvider, Fetched
from asyncsched.schedulers.local.request import make_request as make_popen_request
from asyncsched.schedulers.local.request import to_wire as popen_wire
from asyncsched.schedulers.slurm.request import SlurmJob, SlurmTask
from asyncsched.schedulers.slurm.request import to_wire as slurm_wire
from asyncsched.schedulers.told import differences, remember, told
from asyncsched.schedulers.validation import check_app
from asyncsched.specs import AppDef, BindMount, Resource, Role, Secret, VolumeMount
from asyncsched.specs.dryrun import AppDryRunInfo
from asyncsched.specs.to_plain import to_plain
from asyncsched.testing import FakeScheduler
from asyncsched.testing.fake import FakeRequest


def app(**more: Any) -> AppDef:
    whole: dict[str, Any] = {
        "args": ["-c", "echo $A"],
        "env": {"A": "1", "B": Secret("2")},
        "num_replicas": 2,
        "resource": Resource(2, 1, 2048),
        "mounts": [BindMount("/tmp", "/mnt"), VolumeMount("data", "/data")],
    }
    return AppDef("job", [Role("main", "image", entrypoint="sh", **whole | more)])


def popen_request(mine: AppDef) -> object:
    fetched = {role.name: Fetched(CWDImageProvider(), "", "/work", "/work") for role in mine.roles}
    return make_popen_request(mine, "job-x1", LocalOpts(), fetched, log_dir=Path("/logs"), path="/bin")


def docker_job(mine: AppDef) -> object:
    return make_docker_job(mine, "job-x1", DockerOpts(), session="me", environ={}, version="1")


def batch_job(mine: AppDef) -> object:
    options = AWSBatchOpts(queue="torchx", user="me")
    return make_batch_job(mine, options, app_id="torchx:job-x1", session="me", version="1")


def kubernetes_job(mine: AppDef, kind: Any) -> object:
    options = KubernetesOpts(queue="test" if kind == "volcano" else None)
    return make_kubernetes_job(mine, "default:job-x1", options, kind=kind, session="me", version="1")


MADE: dict[str, tuple[Callable[[AppDef], object], Mapping[str, Collection[str]]]] = {
    "local_cwd": (popen_request, LocalScheduler.made_from),
    "local_docker": (docker_job, DockerScheduler.made_from),
    "aws_batch": (batch_job, AWSBatchScheduler.made_from),
    "volcano": (lambda mine: kubernetes_job(mine, "volcano"), KubernetesScheduler.made_from),
    "job": (lambda mine: kubernetes_job(mine, "job"), KubernetesScheduler.made_from),
    "fake": (FakeRequest, FakeScheduler.made_from),
    "plugin": (docker_job, {}),
}


def edits(value: Any, place: str = "") -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each way in which one place of a request can be edited, and what that place is called."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            old = getattr(value, field.name)
            if not isinstance(old, (dict, list)) and not dataclasses.is_dataclass(old):
                yield field.name, lambda name=field.name, old=old: setattr(value, name, other(old))  # type: ignore[misc]
            yield from edits(old, field.name)
    elif isinstance(value, dict):
        yield "more", lambda: value.update(more="x")
        for key, old in value.items():
            yield key, lambda key=key: value.pop(key)  # type: ignore[misc]
            if not isinstance(old, (dict, list)):
                yield key, lambda key=key, old=old: value.update({key: other(old)})  # type: ignore[misc]
            yield from edits(old, key)
    elif isinstance(value, list):
        yield place, lambda: value.append("x")
        for number, old in enumerate(value):
            yield place, lambda number=number: value.pop(number)  # type: ignore[misc]
            yield from edits(old, place)


def other(old: object) -> object:
    return Secret(f"{old.reveal()}x") if isinstance(old, Secret) else f"{old}x" if isinstance(old, str) else "x"


def submitted_again(mine: AppDef, backend: str, edit: Callable[[object], object]) -> tuple[AppDef, str]:
    """Return what is told of an app whose request was edited, and why it is refused when it is submitted again."""
    make, made_from = MADE[backend]

    async def submit() -> AppDef | None:
        info = AppDryRunInfo(make(copy.deepcopy(mine)), app=mine)
        await remember(info, editable=True)
        edit(info.request)
        return await told(info, made_from)

    noted = asyncio.run(submit())
    assert noted is not None
    roles, metadata = read_app_note(json.loads(json.dumps(app_note(noted))))
    try:
        check_app(AppDef(mine.name, roles, metadata))
    except ConfigError as error:
        return AppDef(mine.name, roles, metadata), f"{error}"
    return AppDef(mine.name, roles, metadata), ""


@pytest.mark.parametrize("backend", MADE)
@given(data=st.data())
def test_what_was_edited_is_named(backend: str, data: st.DataObject) -> None:
    mine = app(env={"A": "1"})
    count = len([*edits(MADE[backend][0](copy.deepcopy(mine)))])
    number = data.draw(st.integers(0, count - 1))
    named: list[str] = []

    def edit(request: object) -> None:
        name, change = [*edits(request)][number]
        named.append(name)
        change()

    found, why = submitted_again(mine, backend, edit)

    assert "edited after its dry-run" in why
    assert named[0] in why
    assert mine.roles[0].name == found.roles[0].name


@pytest.mark.parametrize("backend", MADE)
def test_what_was_not_edited_is_told_as_it_was(backend: str) -> None:
    mine = app(env={"A": "1"})
    found, why = submitted_again(mine, backend, lambda request: None)

    assert "" == why
    assert mine == found


def first(request: Any) -> Any:
    """Return the first container of a request, in whatever form."""
    if hasattr(request, "containers"):
        return request.containers[0].kwargs
    if hasattr(request, "job_def"):
        return request.job_def["nodeProperties"]["nodeRangeProperties"][0]["container"]
    spec = request.resource["spec"]
    return (spec["tasks"][0] if "tasks" in spec else spec)["template"]["spec"]["containers"][0]


EDITED: list[tuple[str, str, Any, set[str]]] = [
    ("local_docker", "mem_limit", "64m", {"resource"}),
    ("local_docker", "mounts", [], {"mounts"}),
    ("local_docker", "environment", {"A": "2"}, {"env"}),
    ("local_docker", "restart_policy", {"Name": "always"}, {"max_retries"}),
    ("local_docker", "privileged", True, set()),
    ("aws_batch", "resourceRequirements", [], {"resource"}),
    ("aws_batch", "mountPoints", [], {"mounts"}),
    ("aws_batch", "image", "other", {"image"}),
    ("aws_batch", "command", ["true"], {"entrypoint", "args", "env"}),
    ("volcano", "resources", {}, {"resource"}),
    ("job", "volumeMounts", [], {"mounts"}),
    ("job", "env", [], {"env"}),
    ("plugin", "user", "me", {"args", "env", "mounts", "resource", "port_map"}),
]


@pytest.mark.parametrize(("backend", "name", "value", "fields"), EDITED)
def test_fields_that_are_not_those_of_what_runs_are_not_told(
    backend: str, name: str, value: object, fields: set[str]
) -> None:
    mine = app(env={"A": "1"}, max_retries=1, port_map={"http": 80})
    found, why = submitted_again(mine, backend, lambda request: first(request).update({name: value}))
    before, (after,) = mine.roles[0], found.roles
    del after.env["<NOT_KEPT>"]

    assert name in why
    assert all(f"{field} " in why for field in fields)
    assert fields == {field for field in vars(before) if getattr(before, field) != getattr(after, field)}


def test_a_secret_that_was_edited_is_in_no_reason() -> None:
    def edit(request: Any) -> None:
        request.containers[0].kwargs["environment"]["B"] = Secret("marker")

    _, why = submitted_again(app(), "local_docker", edit)

    assert "containers.0.kwargs.environment.B" in why
    assert "marker" not in why


@pytest.mark.parametrize("name", ["password=marker", "its-s3cret-too", "x marker-2"])
def test_a_name_that_holds_a_secret_is_in_no_reason(name: str) -> None:
    def edit(request: Any) -> None:
        request.containers[0].kwargs["environment"] |= {name: "x", "C": Secret("marker-2")}

    found, why = submitted_again(app(env={"A": Secret("s3cret-too")}), "local_docker", edit)

    assert "containers.0.kwargs.environment.***" in why
    assert name not in why
    assert name not in repr(found)


def test_many_edits_are_counted_and_long_names_cut() -> None:
    def edit(request: Any) -> None:
        request.containers[0].kwargs["environment"] |= {f"V{number}{'x' * 1000}": "" for number in range(20)}

    _, why = submitted_again(app(), "local_docker", edit)

    assert "and 10 more; env of the role are left out" in why
    assert len(why) < 4000


def test_a_copy_that_is_kept_is_not_printed() -> None:
    info = AppDryRunInfo(docker_job(app()), app=app())
    asyncio.run(remember(info, editable=True))

    assert info.made is not None
    assert "'2'" not in repr(info.made)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.text("ab", max_size=1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "b"]), inner),
)


@given(old=PLAIN, new=PLAIN)
def test_data_differ_where_they_are_not_equal(old: Any, new: Any) -> None:
    assert ([*differences(to_plain(old), to_plain(new))] == []) == (
        json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)
    )


@pytest.mark.parametrize("backend", MADE)
@pytest.mark.parametrize("by_hand", [False, True], ids=["edited", "by hand"])
async def test_a_secret_that_is_said_elsewhere_is_not_told_where_its_own_field_is_left_out(
    backend: str, by_hand: bool
) -> None:
    make, made_from = MADE[backend]
    says: dict[str, Any] = {
        "args": ["-c", "login S3cr3tXYZ1"],
        "metadata": {"x": "uses S3cr3tXYZ1"},
        "image": "example/S3cr3tXYZ1",
    }
    mine = AppDef("job", [Role("main", entrypoint="sh", env={"TOK": Secret("S3cr3tXYZ1")}, **says)])
    mine.metadata["y"] = "S3cr3tXYZ1"
    info = AppDryRunInfo(make(mine), repr, app=mine)
    if not by_hand:
        await remember(info, editable=True)
        next(edit for place, edit in edits(info.request) if place in ("A", "TOK", "more"))()

    kept = await told(info, made_from)

    assert kept is not None
    assert "S3cr3tXYZ1" not in json.dumps(app_note(kept))
    assert "S3cr3tXYZ1" in mine.roles[0].args[1]


def _popen_by_hand(secret: Secret) -> object:
    alike = [ReplicaParam(["sh"], {"TOK": secret, "N": str(k)}, cwd=f"/srv/{secret.reveal()}") for k in range(2)]
    says = [ReplicaParam(["sh", "-c", f"login {secret.reveal()}"], {"X": f"x-{secret.reveal()}"})]
    request = PopenRequest("job-x1", "/logs", {"main": alike, "other": says}, {})
    return popen_wire(request, None, session="me", digest="", environ={}, cwd="/work")["spec"]


def _slurm_by_hand(secret: Secret) -> object:
    alike = [SlurmTask(["sh"], {"TOK": secret, "N": str(k)}, replica=k) for k in range(2)]
    says = SlurmTask(["sh", "-c", f"login {secret.reveal()}"], {"X": f"x-{secret.reveal()}"}, role="other")
    components = [["--comment", f"-x{secret.reveal()}"], []]
    job = SlurmJob("job-x1", "/d", components, [alike, [says]])
    return asdict(slurm_wire(job, None, session="me", digest="", created_ns=1).record)


def _docker_by_hand(secret: Secret) -> object:
    said = secret.reveal()
    job = DockerJob("job-x1", [DockerContainer(f"i/{said}", "sh", {"environment": {"T": secret}, f"x{said}": 1})])
    return docker_completed(job, session="me", version="1").containers[0].kwargs["labels"]


def _kubernetes_by_hand(secret: Secret) -> object:
    container = {"env": [{"name": "T", "value": secret}], f"x{secret.reveal()}": 1}
    resource = {"metadata": {"name": "job-x1"}, "spec": {"template": {"spec": {"containers": [container]}}}}
    wire = kubernetes_wire(KubernetesJob({}, resource), "default:job-x1", "d", by_hand=True)
    return wire.job["metadata"]["annotations"]


@pytest.mark.parametrize("note", [_popen_by_hand, _slurm_by_hand, _docker_by_hand, _kubernetes_by_hand])
def test_a_secret_of_a_request_by_hand_is_in_no_note(note: Callable[[Secret], object]) -> None:
    assert "S3cr3tXYZ1" not in json.dumps(note(Secret("S3cr3tXYZ1")))


async def test_a_secret_of_the_run_options_is_in_no_note() -> None:
    mine = app(args=["-c", "login S3cr3tXYZ1"])
    mine.metadata["x"] = "S3cr3tXYZ1"
    options = DockerOpts(env={"TOK": Secret("S3cr3tXYZ1")})
    job = make_docker_job(mine, "job-x1", options, session="me", environ={}, version="1")
    info = AppDryRunInfo(job, app=mine, cfg={"env": {"TOK": Secret("S3cr3tXYZ1")}})
    await remember(info, editable=False)
    kept = await told(info, {})

    assert kept is not None
    assert "S3cr3tXYZ1" not in json.dumps(app_note(kept))
    sent = docker_completed(job, kept, session="me", version="1").containers
    assert "S3cr3tXYZ1" not in json.dumps([each.kwargs["labels"] for each in sent])
