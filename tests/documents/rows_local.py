"""The page on processes of this machine."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from asyncsched.schedulers.local import (
    CWDImageProvider,
    ImageProvider,
    LocalDirectoryImageProvider,
    LocalScheduler,
    PopenRequest,
    ReplicaParam,
    create_scheduler,
)
from asyncsched.specs import AppDef, AppDryRunInfo, AppState, Resource, Role, macros
from tests.documents.table import row
from tests.documents.ways import Way

BACKEND = "local_cwd"


@row("local", "A scheduler is made of session, provider, size of the cache and further paths.", backend=BACKEND)
async def made(way: Way) -> None:
    for scheduler in (
        LocalScheduler("session", CWDImageProvider),
        LocalScheduler("session", CWDImageProvider, 10, ["/extra"]),
        LocalScheduler(session_name="session", image_provider_class=CWDImageProvider, cache_size=1, extra_paths=None),
        create_scheduler("session"),
        create_scheduler("session", 10, ["/extra"], CWDImageProvider),
    ):
        ported = way.made(way.of(scheduler))
        assert "session" == ported.session_name
    with pytest.raises(ValueError, match="cache"):
        LocalScheduler("session", CWDImageProvider, 0)


@row(
    "local", "A request has the app's id and logs, and by role the replicas' parameters.", backend=BACKEND, served=True
)
async def request(way: Way) -> None:
    role = way.role("echo", env={"A": macros.replica_id}, num_replicas=2)
    scheduler = way.scheduler()
    with tempfile.TemporaryDirectory() as logs:
        info = await way(scheduler.submit_dryrun(AppDef("job", [role]), {"log_dir": logs}))
        asked = info.request

        assert isinstance(asked, PopenRequest)
        assert str(Path(logs, "session", asked.app_id)) == asked.log_dir
        first, second = asked.role_params["main"]
        assert ["sh", "-c", "echo"] == first.args
        assert ("0", "1") == (first.env["A"], second.env["A"])
        assert ("localhost", str(Path.cwd())) == (first.env["TORCHX_RANK0_HOST"], first.cwd)
        directories = [str(Path(asked.log_dir, "main", str(k))) for k in range(2)]
        assert directories == asked.role_log_dirs["main"]
        files = [str(Path(directories[1], f"{name}.log")) for name in ("stdout", "stderr", "combined")]
        assert files == [second.stdout, second.stderr, second.combined]
        assert str(Path(directories[1], "error.json")) == second.env["TORCHELASTIC_ERROR_FILE"]
        assert str(Path(asked.log_dir, "torchelastic", "main")) == second.env["PET_LOG_DIR"]


@row("local", "Requests and parameters are made by position.", backend=BACKEND)
async def request_by_hand(way: Way) -> None:
    param = ReplicaParam(["echo"], {"A": "1"}, "out", "err", "both", "/")
    request = PopenRequest("job-x1", "/logs", {"main": [param]}, {"main": ["/logs/main/0"]})

    assert (["echo"], "/") == (request.role_params["main"][0].args, param.cwd)
    assert ("job-x1", "/logs", ["/logs/main/0"]) == (request.app_id, request.log_dir, request.role_log_dirs["main"])
    assert ReplicaParam(["echo"], {"A": "1"}, stdout="out", stderr="err", combined="both", cwd="/") == param


@row("local", "A request that was put together by hand is launched.", backend=BACKEND, served=True)
async def launched_by_hand(way: Way) -> None:
    scheduler = way.scheduler()
    with tempfile.TemporaryDirectory() as logs:
        out, err, both = (str(Path(logs, "main", "0", f"{name}.log")) for name in ("stdout", "stderr", "combined"))
        param = ReplicaParam(["sh", "-c", "echo $GREETING"], {"GREETING": "hello"}, out, err, both, cwd="/")
        request = PopenRequest("byhand-x1", logs, {"main": [param]}, {"main": [str(Path(logs, "main", "0"))]})
        app_id = await way(scheduler.schedule(AppDryRunInfo(request, repr)))

        assert "byhand-x1" == app_id
        assert AppState.SUCCEEDED is (await way.ended(scheduler, app_id)).state
        assert ["hello\n"] == await way.all(scheduler.log_iter(app_id, "main", 0))


@row("local", "With log_dir, each replica's output is in three files below it.", backend=BACKEND, served=True)
async def log_dir(way: Way) -> None:
    scheduler = way.scheduler()
    with tempfile.TemporaryDirectory() as logs:
        app = AppDef("job", [way.role("echo out; echo err >&2", num_replicas=2)])
        app_id = await way(scheduler.submit(app, {"log_dir": logs}))
        await way.ended(scheduler, app_id)
        for k in range(2):
            directory = Path(logs, "session", app_id, "main", str(k))
            assert "out\n" == Path(directory, "stdout.log").read_text()
            assert "err\n" == Path(directory, "stderr.log").read_text()
            assert ["err", "out"] == sorted(Path(directory, "combined.log").read_text().split())


@row("local", "The working directory comes behind PATH, and before it with prepend_cwd.", backend=BACKEND, served=True)
async def prepend_cwd(way: Way) -> None:
    scheduler = way.scheduler()
    app = AppDef("job", [way.role("echo")])
    behind = await way(scheduler.submit_dryrun(app, {"prepend_cwd": False}))
    before = await way(scheduler.submit_dryrun(app, {"prepend_cwd": True}))

    here = str(Path.cwd())
    assert here == behind.request.role_params["main"][0].env["PATH"].split(os.pathsep)[-1]
    assert here == before.request.role_params["main"][0].env["PATH"].split(os.pathsep)[0]


@row("local", "Further paths come before PATH.", backend=BACKEND)
async def extra_paths(way: Way) -> None:
    scheduler = way.made(way.of(LocalScheduler("session", CWDImageProvider, 100, ["/extra"])))
    info = await way(scheduler.submit_dryrun(AppDef("job", [way.role("echo")]), {}))

    assert "/extra" == info.request.role_params["main"][0].env["PATH"].split(os.pathsep)[0]


GPUS: list[tuple[list[tuple[int, int]], list[list[str]] | None]] = [
    ([(2, 2)], [["0,1", "2,3"]]),
    ([(3, 4)], None),
    ([(1, 2), (3, 1)], [["0,1"], ["2", "3", "4"]]),
]
"""On a machine with 8: replicas and GPUs of each role, and what their replicas see; None if there are too few."""


@row("local", "auto_set_cuda_visible_devices divides 8 GPUs among the replicas, or sets nothing.", backend=BACKEND)
async def devices(way: Way) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        program = Path(folder, "nvidia-smi")
        program.write_text('#!/bin/sh\nfor k in 0 1 2 3 4 5 6 7; do echo "GPU $k: of the test"; done\n')
        program.chmod(0o755)
        patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        scheduler = way.made(way.of(LocalScheduler("session", CWDImageProvider)))
        for wanted, expected in GPUS:
            roles = [
                Role(f"r{n}", "", entrypoint="sh", num_replicas=replicas, resource=Resource(cpu=1, gpu=gpus, memMB=1))
                for n, (replicas, gpus) in enumerate(wanted)
            ]
            for is_set in (True, False):
                cfg = {"auto_set_cuda_visible_devices": is_set}
                info = await way(scheduler.submit_dryrun(AppDef("job", roles), cfg))
                found = [
                    [param.env.get("CUDA_VISIBLE_DEVICES") for param in params]
                    for params in info.request.role_params.values()
                ]
                nothing = [[None] * replicas for replicas, _ in wanted]
                assert (expected or nothing if is_set else nothing) == found


@row(
    "local",
    "The environment of the submitter is inherited, and the role's is laid over it.",
    backend=BACKEND,
    served=True,
)
async def environment(way: Way) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INHERITED", "yes")
        patch.setenv("OVERLAID", "no")
        scheduler = way.scheduler()
        script = "echo $INHERITED $OVERLAID $TORCHX_RANK0_HOST $PYTHONUNBUFFERED"
        app_id = await way.submit(scheduler, way.role(script, env={"OVERLAID": "yes"}))
        await way.ended(scheduler, app_id)

        assert ["yes yes localhost x\n"] == await way.all(scheduler.log_iter(app_id, "main"))


@row("local", "The macros are filled in for each replica.", backend=BACKEND, served=True)
async def macros_of_replicas(way: Way) -> None:
    scheduler = way.scheduler()
    role = way.role(f"echo {macros.replica_id} {macros.app_id} {macros.img_root} {macros.rank0_env}", num_replicas=2)
    app_id = await way.submit(scheduler, role)
    await way.ended(scheduler, app_id)

    for k in range(2):
        expected = f"{k} {app_id} {Path.cwd()} TORCHX_RANK0_HOST\n"
        assert [expected] == await way.all(scheduler.log_iter(app_id, "main", k))


@row("local", "The provider of the working directory takes no notice of the image.", backend=BACKEND)
async def cwd_provider(way: Way) -> None:
    provider = CWDImageProvider({})

    for image in ("/tmp/foobar", "foobar:latest"):
        assert (str(Path.cwd()), str(Path.cwd())) == (provider.fetch(image), provider.get_cwd(image))
    assert "main.py" == provider.get_entrypoint("/root", Role("r", "image", entrypoint="main.py"))


@row(
    "local", "The provider of directories takes an absolute path that is there, and refuses any other.", backend=BACKEND
)
async def directory_provider(way: Way) -> None:
    provider = LocalDirectoryImageProvider({})
    with tempfile.TemporaryDirectory() as image:
        assert (image, image) == (provider.fetch(image), provider.get_cwd(image))
        assert "main.py" == provider.get_entrypoint(image, Role("r", image, entrypoint="main.py"))
        for wrong in ("foobar", f"{image}/that/does/not_exist"):
            with pytest.raises(ValueError, match="image"):
                provider.fetch(wrong)


class Unpacking(ImageProvider):
    """What somebody has written who has read the page: plain methods, and the role is changed on the way."""

    def fetch(self, image: str) -> str:
        return f"/opt/{image}"

    def fetch_role(self, role: Role) -> str:
        role.env["UNPACKED"] = "yes"
        return self.fetch(role.image)


@row("local", "A provider fetches a role's image and may change the role; the entrypoint is below it.", backend=BACKEND)
async def own_provider(way: Way) -> None:
    scheduler = way.made(way.of(LocalScheduler("session", Unpacking)))
    role = Role("main", "image", entrypoint="bin/run", args=[macros.img_root, "last"])
    info = await way(scheduler.submit_dryrun(AppDef("job", [role]), {}))
    (param,) = info.request.role_params["main"]

    assert ["/opt/image/bin/run", "/opt/image", "last"] == param.args
    assert "yes" == param.env["UNPACKED"]
    assert {} == role.env
    by_hand = Unpacking().get_replica_param("/opt/image", role, "out", "err", "both")
    assert ReplicaParam(["/opt/image/bin/run", "${img_root}", "last"], {}, "out", "err", "both", None) == by_hand
