"""What a role asks for and a backend does not honour is told by the dry-run, and once in the log."""

from __future__ import annotations

import logging

import pytest

from asyncsched.components.finder import get_component
from asyncsched.schedulers import Scheduler
from asyncsched.schedulers.aws_batch import AWSBatchScheduler
from asyncsched.schedulers.docker import DockerScheduler
from asyncsched.schedulers.ignored import FIELDS, find_ignored
from asyncsched.schedulers.local import CWDImageProvider, LocalScheduler
from asyncsched.specs import AppDef, BindMount, Resource, RetryPolicy, Role, Secret, SecretRef
from asyncsched.specs.dryrun import Ignored
from asyncsched.specs.resources_aws import INSTANCE_TYPE
from asyncsched.testing import FakeScheduler


def demanding(**more: object) -> AppDef:
    role = Role(
        "worker",
        "",
        entrypoint="true",
        num_replicas=2,
        max_retries=3,
        min_replicas=1,
        mounts=[BindMount("/tmp", "/data")],
        port_map={"http": 8080},
        resource=Resource(cpu=1, gpu=1, memMB=100, capabilities={"fast": True}, devices={"vpc.amazonaws.com/efa": 1}),
    )
    for name, value in more.items():
        setattr(role, name, value)
    return AppDef("app", [role])


async def test_a_dry_run_lists_what_local_cwd_does_not_honour() -> None:
    async with LocalScheduler("me", CWDImageProvider) as scheduler:
        info = await scheduler.submit_dryrun(demanding())

    assert {
        "max_retries",
        "min_replicas",
        "mounts",
        "port_map",
        "resource.cpu",
        "resource.gpu",
        "resource.memMB",
        "resource.capabilities",
        "resource.devices",
    } == {each.field for each in info.ignored}
    assert "# local_cwd ignores mounts of role worker: a process sees the machine's own files" in repr(info)


async def test_gpus_that_are_divided_are_honoured() -> None:
    async with LocalScheduler("me", CWDImageProvider) as scheduler:
        info = await scheduler.submit_dryrun(demanding(), {"auto_set_cuda_visible_devices": True})

    assert "resource.gpu" not in {each.field for each in info.ignored}


async def test_a_plain_role_asks_for_nothing_in_vain() -> None:
    async with LocalScheduler("me", CWDImageProvider) as scheduler:
        info = await scheduler.submit_dryrun(AppDef("app", [Role("worker", "", entrypoint="true")]))

    assert () == info.ignored


@pytest.mark.parametrize("name", ["utils.echo", "utils.sh"])
async def test_a_size_that_a_component_sets_is_told_by_the_dry_run_alone(
    caplog: pytest.LogCaptureFixture, name: str
) -> None:
    app = get_component(name).app(["true"] if name == "utils.sh" else [])
    with caplog.at_level(logging.WARNING, "asyncsched"):
        async with LocalScheduler("me", CWDImageProvider) as scheduler:
            info = await scheduler.submit_dryrun(app)
            await scheduler.schedule(info)

    assert ["resource.cpu", "resource.memMB"] == [each.field for each in info.ignored]
    assert "# local_cwd ignores resource.cpu of role" in repr(info)
    assert [] == [each.getMessage() for each in caplog.records]


async def test_capabilities_that_aws_batch_does_not_read_are_told() -> None:
    async with AWSBatchScheduler("me") as scheduler:
        two = await scheduler.submit_dryrun(needing({"zz": "b", INSTANCE_TYPE: "p4d.24xlarge"}, 2), {"queue": "q"})
        one = await scheduler.submit_dryrun(needing({INSTANCE_TYPE: "p4d.24xlarge"}, 1), {"queue": "q"})
        named = {"queue": "q", "instance_type": "p5.48xlarge"}
        other = await scheduler.submit_dryrun(needing({INSTANCE_TYPE: "p4d.24xlarge"}, 2), named)

    assert (Ignored("worker", "resource.capabilities", f"aws_batch uses {INSTANCE_TYPE}, not zz"),) == two.ignored
    why = f"the queue decides where a container job runs: {INSTANCE_TYPE} is for multi-node jobs"
    assert (Ignored("worker", "resource.capabilities", why),) == one.ignored
    assert () == other.ignored


async def test_a_timeout_that_is_rounded_up_is_told() -> None:
    role = Role("worker", "busybox", entrypoint="true", resource=Resource(cpu=1, gpu=0, memMB=100))
    async with AWSBatchScheduler("me") as scheduler:
        rounded = await scheduler.submit_dryrun(AppDef("app", [role]), {"queue": "q", "timeout": 70.5})
        whole = await scheduler.submit_dryrun(AppDef("app", [role]), {"queue": "q", "timeout": 71.0})

    assert (Ignored("worker", "timeout", "AWS Batch counts whole seconds: 71 instead of 70.5"),) == rounded.ignored
    assert () == whole.ignored


def needing(capabilities: dict[str, object], replicas: int) -> AppDef:
    size = Resource(cpu=1, gpu=0, memMB=100, capabilities=capabilities)
    return AppDef("app", [Role("worker", "busybox", entrypoint="true", num_replicas=replicas, resource=size)])


@pytest.mark.parametrize("backend", [LocalScheduler, DockerScheduler, AWSBatchScheduler, FakeScheduler])
def test_backends_name_fields_that_there_are(backend: type[Scheduler[object, object]]) -> None:
    assert {*backend.ignores} <= {*FIELDS}
    assert all(backend.ignores.values())


def test_a_retry_policy_that_is_not_offered_is_told_where_it_makes_a_difference() -> None:
    app = AppDef("app", [Role("worker", "", num_replicas=2, max_retries=1, retry_policy=RetryPolicy.ROLE)])
    offered = frozenset({RetryPolicy.REPLICA})

    assert [Ignored("worker", "retry_policy", "fake retries by REPLICA, not by ROLE")] == [
        *find_ignored(app, {}, offered, "fake")
    ]
    app.roles[0].num_replicas = 1
    assert [] == [*find_ignored(app, {}, offered, "fake")]


async def test_what_looks_like_a_macro_is_told(caplog: pytest.LogCaptureFixture) -> None:
    role = Role(
        "worker",
        "",
        entrypoint="true",
        args=["${replica} ${app_id} $${left} $$", Secret("${args}"), "API_TOKEN=${token}"],
        env={"A": "${app_ids} ${HOME}", "API_KEY": "${key}", "B": SecretRef("${name}")},
        metadata={"a": [{"b": "${img_roots}", "c": 1}]},
    )
    scheduler = FakeScheduler("me")
    info = await scheduler.submit_dryrun(AppDef("app", [role]))
    with caplog.at_level(logging.WARNING, "asyncsched"):
        await scheduler.schedule(info)
        await scheduler.close()
    scheduler.service.close()

    assert [
        "${replica} of role worker: it is not a macro; write $${replica} in args if a program should get it",
        "${app_ids} of role worker: it is not a macro; write $${app_ids} in env if a program should get it",
        "${img_roots} of role worker: it is not a macro; write $${img_roots} in metadata if a program should get it",
    ] == [str(each) for each in info.ignored]
    assert f"# fake ignores {info.ignored[0]}" in repr(info)
    assert [f"fake ignores {'; '.join(map(str, info.ignored))}"] == [each.getMessage() for each in caplog.records]


async def test_submitting_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = FakeScheduler("me")
    with caplog.at_level(logging.WARNING, "asyncsched"):
        for _ in range(2):
            await scheduler.submit(demanding())
        await scheduler.close()

    assert [
        "fake ignores min_replicas of role worker: all replicas start at once; mounts of role worker: nothing runs; "
        "port_map of role worker: nothing listens; retry_policy of role worker: fake retries by REPLICA, not by "
        "APPLICATION"
    ] == [record.getMessage() for record in caplog.records]
    scheduler.service.close()


class Billed(FakeScheduler):
    is_billed = True


@pytest.mark.parametrize(
    ("kind", "cfg", "told"),
    [(Billed, {}, 1), (Billed, {"timeout": 60.0}, 0), (FakeScheduler, {}, 0)],
)
async def test_a_billed_service_without_a_limit_is_told_once(
    caplog: pytest.LogCaptureFixture, kind: type[FakeScheduler], cfg: dict[str, float], told: int
) -> None:
    scheduler = kind("me")
    app = AppDef("app", [Role("worker", "", entrypoint="true")])
    with caplog.at_level(logging.WARNING, "asyncsched"):
        await scheduler.submit_dryrun(app, cfg)
        assert [] == caplog.records
        for _ in range(2):
            await scheduler.submit(app, cfg)
        await scheduler.close()

    assert ["fake bills an app while it runs, and this app has no time limit: set the run option timeout"] * told == [
        record.getMessage() for record in caplog.records
    ]
    scheduler.service.close()
