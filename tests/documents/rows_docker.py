"""The page on Docker."""

from __future__ import annotations

import pytest
from docker.types import DeviceRequest, Mount

from asyncsched.schedulers.docker import DockerContainer, DockerJob, DockerScheduler, create_scheduler
from asyncsched.specs import AppDef, AppDryRunInfo, AppState, Resource, Role, macros, parse_mounts
from tests.documents.table import row
from tests.documents.ways import Way

BACKEND = "local_docker"


@row("docker", "A scheduler is made of a session's name.", backend=BACKEND)
async def made(way: Way) -> None:
    for scheduler in (DockerScheduler("session"), create_scheduler(session_name="session")):
        assert (BACKEND, "session") == (way.made(way.of(scheduler)).backend, scheduler.session_name)


@row(
    "docker",
    "A request has the app's id and its containers; each has image, command and docker-py's arguments.",
    backend=BACKEND,
)
async def request(way: Way) -> None:
    role = Role(
        "trainer",
        "alpine:latest",
        entrypoint="echo",
        args=[macros.replica_id, macros.app_id, macros.rank0_env],
        env={"A": macros.replica_id},
        num_replicas=2,
        max_retries=3,
        resource=Resource(cpu=2, gpu=4, memMB=3000),
    )
    scheduler = way.made(way.of(DockerScheduler("session")))
    info = await way(scheduler.submit_dryrun(AppDef("job", [role]), {}))
    job = info.request

    assert isinstance(job, DockerJob)
    first, second = job.containers
    assert ("alpine:latest", ["echo", "1", job.app_id, "TORCHX_RANK0_HOST"]) == (second.image, second.command)
    kwargs = second.kwargs
    assert f"{job.app_id}-trainer-1" == kwargs["name"] == kwargs["hostname"]
    assert ("1", first.kwargs["name"]) == (kwargs["environment"]["A"], kwargs["environment"]["TORCHX_RANK0_HOST"])
    assert (False, "asyncsched", [], []) == tuple(
        kwargs[name] for name in ("privileged", "network", "mounts", "devices")
    )
    assert {"Name": "on-failure", "MaximumRetryCount": 3} == kwargs["restart_policy"]
    assert ("3000m", "3000m", 2_000_000_000) == tuple(kwargs[name] for name in ("mem_limit", "shm_size", "nano_cpus"))
    assert [DeviceRequest(count=4, capabilities=[["compute", "utility"]])] == kwargs["device_requests"]
    assert {"trainer", "1", job.app_id} <= {*kwargs["labels"].values()}


@row("docker", "Requests are made by position.", backend=BACKEND)
async def request_by_hand(way: Way) -> None:
    container = DockerContainer("alpine:latest", ["echo", "hello"], {"name": "mine", "mem_limit": "1g"})
    job = DockerJob("job-x1", [container])

    assert DockerJob(app_id="job-x1", containers=[container]) == job
    assert "echo" in str(job)


@row("docker", "Mounts are bind mounts, named volumes and devices, as text or as objects.", backend=BACKEND)
async def mounts(way: Way) -> None:
    wanted = parse_mounts(
        [
            *("type=bind", "src=/host", "dst=/container", "readonly"),
            *("type=volume", "src=name", "dst=/kept"),
            *("type=device", "src=/dev/fuse"),
            *("type=device", "src=/dev/fuse", "dst=/dev/x", "perm=r"),
        ]
    )
    scheduler = way.made(way.of(DockerScheduler("session")))
    app = AppDef("job", [Role("main", "alpine:latest", entrypoint="sh", mounts=wanted)])
    info = await way(scheduler.submit_dryrun(app, {}))
    kwargs = info.request.containers[0].kwargs

    assert [
        Mount("/container", "/host", type="bind", read_only=True),
        Mount("/kept", "name", type="volume"),
    ] == kwargs["mounts"]
    assert ["/dev/fuse:/dev/fuse:rwm", "/dev/fuse:/dev/x:r"] == kwargs["devices"]


@row("docker", "copy_env takes patterns, env is laid over it, and the role's own over both.", backend=BACKEND)
async def copy_env(way: Way) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FOO_1", "FOO_2", "FOO_3", "BAR_1"):
            patch.setenv(name, "copied")
        scheduler = way.made(way.of(DockerScheduler("session")))
        app = AppDef("job", [Role("main", "alpine:latest", entrypoint="sh", env={"FOO_3": "role", "ENV2": "role"})])
        cfg = {"copy_env": ["FOO_*"], "env": {"FOO_2": "env", "ENV1": "env", "ENV2": "env"}}
        info = await way(scheduler.submit_dryrun(app, cfg))
        found = info.request.containers[0].kwargs["environment"]

    wanted = {"FOO_1": "copied", "FOO_2": "env", "FOO_3": "role", "ENV1": "env", "ENV2": "role"}
    assert wanted == {name: value for name, value in found.items() if name.startswith(("FOO", "BAR", "ENV"))}


@row("docker", "As text, copy_env and env have items behind commas or semicolons.", backend=BACKEND)
async def options_as_text(way: Way) -> None:
    options = await way(way.made(way.of(DockerScheduler("session"))).run_opts())

    assert {"copy_env": ["FOO_*", "BAR"]} == options.cfg_from_str("copy_env=FOO_*;BAR")
    for text in ("env=ENV1:v1,ENV2:v2,ENV3:v3", "env=ENV1:v1;ENV2:v2;ENV3:v3"):
        assert {"env": {"ENV1": "v1", "ENV2": "v2", "ENV3": "v3"}} == options.cfg_from_str(text)
    both = options.cfg_from_str("env=ENV1:v1,privileged=True")
    assert {"env": {"ENV1": "v1"}, "privileged": True} == both


@row("docker", "privileged gives the containers the host's rights.", backend=BACKEND)
async def privileged(way: Way) -> None:
    scheduler = way.made(way.of(DockerScheduler("session")))
    app = AppDef("job", [Role("main", "alpine:latest", entrypoint="sh")])
    info = await way(scheduler.submit_dryrun(app, {"privileged": True}))

    assert info.request.containers[0].kwargs["privileged"] is True


@row("docker", "What is changed in the request is what runs.", backend=BACKEND, served=True)
async def edited(way: Way) -> None:
    assert way.place is not None
    scheduler = way.scheduler()
    app = AppDef("job", [way.role("echo $GREETING; pwd; hostname")])
    info = await way(scheduler.submit_dryrun(app, way.place.cfg))
    kwargs = info.request.containers[0].kwargs
    kwargs["environment"]["GREETING"] = "hello"
    kwargs["working_dir"] = "/etc"
    kwargs["hostname"] = "renamed"
    app_id = await way(scheduler.schedule(info))

    assert AppState.SUCCEEDED is (await way.ended(scheduler, app_id)).state
    assert ["hello\n", "/etc\n", "renamed\n"] == await way.all(scheduler.log_iter(app_id, "main"))


@row("docker", "A job that was put together by hand is launched.", backend=BACKEND, served=True)
async def job_by_hand(way: Way) -> None:
    assert way.place is not None
    scheduler = way.scheduler()
    kwargs = {"environment": {"GREETING": "hello"}, "mem_limit": "64m"}
    job = DockerJob("byhand-x1", [DockerContainer(way.place.image, ["sh", "-c", "echo $GREETING"], kwargs)])
    app_id = await way(scheduler.schedule(AppDryRunInfo(job, repr)))

    assert "byhand-x1" == app_id
    ended = await way.ended(scheduler, app_id)
    assert AppState.SUCCEEDED is ended.state
    assert ["hello\n"] == await way.all(scheduler.log_iter(app_id, ended.roles_statuses[0].role, 0))
    assert app_id == await way(scheduler.schedule(AppDryRunInfo(job, repr)))
    assert [app_id] == [each.app_id for each in await way(scheduler.list())]
