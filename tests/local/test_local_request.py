"""What a replica finds: its environment, its directory and its program."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from asyncsched import sync
from asyncsched.errors import ConfigError, RunOptionError
from asyncsched.schedulers.local import (
    CWDImageProvider,
    ImageProvider,
    LocalDirectoryImageProvider,
    LocalOpts,
    LocalScheduler,
    ReplicaParam,
)
from asyncsched.schedulers.local.request import split_devices
from asyncsched.specs import AppState, CfgVal, Resource, Role, Secret, macros
from tests.local._local import ONE_LOOP, app, app_directory, ended, first, python, shell, texts

pytestmark = ONE_LOOP

TELLS = "import json, os; print(json.dumps(dict(os.environ)))"
SECRET = "s3cr3t-v4lu3"


async def _environment(scheduler: LocalScheduler, cfg: dict[str, CfgVal] | None = None, **env: str) -> dict[str, str]:
    app_id = await scheduler.submit(app(python(TELLS, env=env)), cfg)
    found: dict[str, str] = json.loads((await texts(scheduler, app_id))[0])
    return found


async def test_the_environment_of_the_documents(scheduler: LocalScheduler, home: Path) -> None:
    app_id = await scheduler.submit(app(python(TELLS)))
    found = json.loads((await texts(scheduler, app_id))[0])

    assert "localhost" == found["TORCHX_RANK0_HOST"]
    assert str(app_directory(home, app_id) / "main/0/error.json") == found["TORCHELASTIC_ERROR_FILE"]
    assert str(app_directory(home, app_id) / "torchelastic/main") == found["PET_LOG_DIR"]
    assert "x" == found["PYTHONUNBUFFERED"]
    assert f"{os.environ['PATH']}:{Path.cwd()}" == found["PATH"]


async def test_what_is_inherited_and_what_wins(scheduler: LocalScheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOO_ONE", "ours")
    monkeypatch.setenv("FOO_TWO", "ours")
    monkeypatch.setenv("BAR", "ours")
    env = {"FOO_TWO": "options", "THREE": "options", "FOUR": "options"}

    found = await _environment(scheduler, {"env": env}, FOUR="role", PYTHONUNBUFFERED="role")
    chosen = await _environment(scheduler, {"env": env, "copy_env": ["FOO_*"]})
    none = await _environment(scheduler, {"copy_env": []}, BAR="role")

    assert ["ours", "options", "options", "role", "ours"] == [
        found[name] for name in ("FOO_ONE", "FOO_TWO", "THREE", "FOUR", "BAR")
    ]
    assert "role" == found["PYTHONUNBUFFERED"]
    assert ("ours", "options") == (chosen["FOO_ONE"], chosen["FOO_TWO"])
    assert "BAR" not in chosen
    assert "FOO_ONE" not in none
    assert "role" == none["BAR"]
    assert {"PATH", "TORCHX_RANK0_HOST"} <= {*none}


async def test_the_path_has_the_working_directory_and_what_was_added(home: Path) -> None:
    async with LocalScheduler("session", extra_paths=["/extra/one", "/extra/two"]) as scheduler:
        last = (await _environment(scheduler))["PATH"].split(":")
        first = (await _environment(scheduler, {"prepend_cwd": True}, PATH="/of/the/role"))["PATH"].split(":")

    cwd, ours = str(Path.cwd()), os.environ["PATH"].split(":")
    assert ["/extra/one", "/extra/two", *ours, cwd] == last
    assert [cwd, "/extra/one", "/extra/two", "/of/the/role", *ours] == first


async def test_a_path_among_the_options_is_looked_in_unless_the_role_has_its_own(scheduler: LocalScheduler) -> None:
    cfg: dict[str, CfgVal] = {"env": {"PATH": "/of/the/options"}}
    ours = [*os.environ["PATH"].split(":"), str(Path.cwd())]

    assert ["/of/the/options", *ours] == (await _environment(scheduler, cfg))["PATH"].split(":")
    assert ["/of/the/role", *ours] == (await _environment(scheduler, cfg, PATH="/of/the/role"))["PATH"].split(":")


async def test_a_renewed_dry_run_has_the_same_environment(scheduler: LocalScheduler) -> None:
    info = await scheduler.submit_dryrun(app(python(TELLS, env={"PATH": "/of/the/role"})))

    again = await info.renew()

    paths = [each.request.role_params["main"][0].env["PATH"] for each in (info, again)]
    assert paths[0] == paths[1]
    assert info.digest == again.digest


async def test_macros_are_filled_in(scheduler: LocalScheduler) -> None:
    told = f'echo {macros.app_id} {macros.replica_id} $(printenv {macros.rank0_env}) "$HERE"'
    role = shell(told, num_replicas=2, env={"HERE": macros.replica_id})
    app_id = await scheduler.submit(app(role))

    assert [f"{app_id} {k} localhost {k}" for k in range(2)] == sorted(await texts(scheduler, app_id))


async def test_a_shell_gets_its_own_number_and_its_own_variables(scheduler: LocalScheduler) -> None:
    told = 'test $$ = "$(exec sh -c \'echo $PPID\')" && echo pid; echo "$${${rank0_env}:=localhost}:29500 $${X-unset}"'
    app_id = await scheduler.submit(app(shell(told), name="one"))
    written = await scheduler.submit_dryrun(app(shell("$${${rank0_env}:=localhost}:29500")))

    assert ["pid", "localhost:29500 unset"] == await texts(scheduler, app_id)
    assert "${TORCHX_RANK0_HOST:=localhost}:29500" == written.request.role_params["main"][0].args[2]


async def test_only_what_the_role_says_of_the_path_has_macros(
    scheduler: LocalScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/odd/$${app_id}/${app_id}", prepend=os.pathsep)
    info = await scheduler.submit_dryrun(app(python(TELLS, env={"PATH": "/of/${app_id}"})))

    path = info.request.role_params["main"][0].env["PATH"].split(os.pathsep)
    assert [f"/of/{info.app_id}", "/odd/$${app_id}/${app_id}"] == path[:2]


async def test_secrets_reach_the_replica_and_nobody_else(scheduler: LocalScheduler, home: Path) -> None:
    role = shell('test "$TOKEN" = "$1" && echo same', Secret(SECRET), env={"TOKEN": Secret(SECRET)})
    role.metadata = {"password": SECRET}
    cfg: dict[str, CfgVal] = {"env": {"API_KEY": SECRET}}
    info = await scheduler.submit_dryrun(app(role), cfg)
    app_id = await scheduler.schedule(info)

    assert ["same"] == await texts(scheduler, app_id)

    found = await ended(scheduler, app_id)
    shown = [repr(info), str(info), repr(info.request), repr(found), repr(await scheduler.list())]
    stored = [each.read_text(errors="replace") for each in home.rglob("*") if each.is_file()]
    assert [] == [text for text in (*shown, *stored) if SECRET in text]


async def test_a_detached_supervisor_shows_no_secret(scheduler: LocalScheduler, home: Path) -> None:
    role = shell("echo ready; sleep 1000", env={"TOKEN": Secret(SECRET)})
    app_id = await scheduler.submit(app(role), {"detach": True})
    record = json.loads((app_directory(home, app_id) / "state.json").read_text())

    for pid in (record["supervisor"]["pid"], record["supervisor"]["watcher_pid"]):
        assert SECRET.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    await scheduler.kill(app_id)
    await ended(scheduler, app_id)


async def test_the_standard_input_is_empty_and_no_descriptor_is_inherited(scheduler: LocalScheduler) -> None:
    code = "import os, sys; print(repr(sys.stdin.read()), sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
    app_id = await scheduler.submit(app(python(code)))

    assert ["'' [0, 1, 2]"] == await texts(scheduler, app_id)


async def test_signals_and_limits_are_as_in_a_fresh_shell(scheduler: LocalScheduler) -> None:
    code = """
        import resource, signal
        print(resource.getrlimit(resource.RLIMIT_NOFILE))
        print([n for n in range(1, 32) if signal.getsignal(n) is signal.SIG_IGN], signal.pthread_sigmask(0, ()))
    """
    app_id = await scheduler.submit(app(python(code)))

    limits, ignored = await texts(scheduler, app_id)
    assert str(resource.getrlimit(resource.RLIMIT_NOFILE)) == limits
    # Python itself ignores these two.
    assert "[13, 25] set()" == ignored


# Images


async def test_an_image_may_be_a_directory(home: Path, tmp_path: Path) -> None:
    image = tmp_path / "image"
    (image / "bin").mkdir(parents=True)
    (image / "bin" / "main").write_text("#!/bin/sh\npwd; echo $0 $1\n")
    (image / "bin" / "main").chmod(0o755)
    (image / "named").symlink_to("bin/main")
    async with LocalScheduler("session", LocalDirectoryImageProvider) as scheduler:
        for entrypoint, told in [("bin/main", "bin/main"), ("named", f"{image}/named"), ("/bin/echo", None)]:
            role = Role("main", str(image), entrypoint=entrypoint, args=[macros.img_root])
            said = await texts(scheduler, await scheduler.submit(app(role)))

            assert [str(image)] if told is None else [str(image), f"{told} {image}"] == said


@pytest.mark.parametrize(
    ("image", "why"), [("relative", "an absolute path"), ("/no/such/image", "must be a directory")]
)
async def test_an_image_that_is_no_directory_is_refused(home: Path, image: str, why: str) -> None:
    async with LocalScheduler("session", LocalDirectoryImageProvider) as scheduler:
        with pytest.raises(ConfigError, match=why):
            await scheduler.submit_dryrun(app(Role("main", image, entrypoint="true")))


class Unpacking(ImageProvider):
    """As the documents show one: plain methods, and a constructor that asks for nothing."""

    root = Path()

    def fetch(self, image: str) -> str:
        directory = self.root / image
        (directory / "bin").mkdir(parents=True, exist_ok=True)
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            (directory / "on_the_loop").touch()
        (directory / "bin/main").write_text("#!/bin/sh\necho $0 $1 $FETCHED; pwd; cat told; ls on_the_loop\n")
        (directory / "bin/main").chmod(0o755)
        (directory / "told").write_text(f"{self.cfg['log_dir']}\n")
        return str(directory)

    def get_cwd(self, image: str) -> str:
        return str(self.root / image)


class Changing(Unpacking):
    """It changes the role, and its constructor calls nothing of ours."""

    def __init__(self) -> None:
        self.made = True

    def fetch_role(self, role: Role) -> str:
        role.env["FETCHED"] = role.image
        return self.fetch(role.image)


class OfOptions(Unpacking):
    """It wants the run options while it is made."""

    def __init__(self, cfg: Mapping[str, CfgVal]) -> None:
        super().__init__(cfg)
        assert cfg["log_dir"]


class Awaited(Unpacking):
    """Its `fetch` is a coroutine."""

    async def fetch(self, image: str) -> str:  # type: ignore[override] # the base's is plain
        return await asyncio.to_thread(super().fetch, image)


class AllAwaited(Awaited):
    """Its `fetch_role` too."""

    async def fetch_role(self, role: Role) -> str:  # the base's is plain
        role.env["FETCHED"] = role.image
        return await self.fetch(role.image)


class OfPaths(Unpacking):
    """It tells directories and the program as paths, not as texts."""

    def fetch(self, image: str) -> Path:  # type: ignore[override] # narrower than the base's, other than its parent's
        return Path(super().fetch(image))

    def get_cwd(self, image: str) -> Path:  # type: ignore[override] # not as the base says, but a common mistake
        return self.root / image

    def get_entrypoint(self, img_root: str, role: Role) -> Path:  # type: ignore[override] # as above
        return Path(img_root, role.entrypoint)


class AwaitedPaths(OfPaths):
    """Its `fetch` is a coroutine too."""

    async def fetch(self, image: str) -> Path:  # type: ignore[override] # the base's is plain
        return await asyncio.to_thread(super().fetch, image)


PROVIDERS = [Unpacking, Changing, OfOptions, Awaited, AllAwaited, OfPaths, AwaitedPaths]


def expected(provider: type[Unpacking], root: Path) -> list[str]:
    image = root / "an-image"
    fetched = " an-image" if provider in (Changing, AllAwaited) else ""
    missing = "ls: cannot access 'on_the_loop': No such file or directory"
    return [f"{image}/bin/main {image}{fetched}", str(image), str(root / "logs"), missing]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_image_provider_of_ones_own(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: type[Unpacking]
) -> None:
    monkeypatch.setattr(Unpacking, "root", tmp_path)
    definition = app(Role("main", "an-image", entrypoint="bin/main", args=[macros.img_root]))
    async with LocalScheduler("session", provider) as scheduler:
        app_id = await scheduler.submit(definition, {"log_dir": str(tmp_path / "logs")})

        assert expected(provider, tmp_path) == await texts(scheduler, app_id)
    assert {} == definition.roles[0].env


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_image_provider_of_ones_own_for_code_that_cannot_await(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: type[Unpacking]
) -> None:
    monkeypatch.setattr(Unpacking, "root", tmp_path)
    definition = app(Role("main", "an-image", entrypoint="bin/main", args=[macros.img_root]))
    with sync.create_scheduler("local_cwd", "session", image_provider_class=provider) as scheduler:
        app_id = scheduler.submit(definition, {"log_dir": str(tmp_path / "logs")})
        lines = list(scheduler.log_iter(app_id, should_tail=True))

    assert expected(provider, tmp_path) == [str(line).rstrip("\n") for line in lines]


@pytest.mark.parametrize("returned", [None, "", 5, b"/tmp"])
async def test_a_provider_that_returns_no_directory_is_told_what_to_return(home: Path, returned: Any) -> None:
    class Wrong(ImageProvider):
        def fetch(self, image: str) -> str:
            return cast("str", returned)

    async with LocalScheduler("session", Wrong) as scheduler:
        with pytest.raises(ConfigError, match=re.escape(f"Wrong returned {returned!r} for the image 'i'")) as caught:
            await scheduler.submit_dryrun(app(Role("main", "i", entrypoint="true")))
    assert "fetch and fetch_role must return the image's directory" in str(caught.value)


class ReadOnly(Unpacking):
    """It has options of its own, which nobody can set."""

    def __init__(self) -> None:
        pass

    @property
    def cfg(self) -> Mapping[str, CfgVal]:  # type: ignore[override] # the base's can be set
        return {"log_dir": "its own"}


async def test_a_provider_with_options_of_its_own_keeps_them(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Unpacking, "root", tmp_path)
    async with LocalScheduler("session", ReadOnly) as scheduler:
        await scheduler.submit_dryrun(app(Role("main", "an-image", entrypoint="bin/main")))

    assert "its own\n" == (tmp_path / "an-image/told").read_text()


def test_what_a_replica_is_started_with_prints_without_secrets() -> None:
    shown = repr(ReplicaParam(["run", "--password", "marker", "--x"], {"A_TOKEN": "marker", "B": "b"}, cwd="/"))

    assert "args=['run', '--password', '***', '--x'], env={'A_TOKEN': '***', 'B': 'b'}, stdout=None" in shown


def test_the_providers_of_the_documents_need_no_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    role = Role("main", str(tmp_path), entrypoint="bin/main", args=["x"], env={"A": "b"})
    for here in (CWDImageProvider(), LocalDirectoryImageProvider(), CWDImageProvider({}), Unpacking()):
        with monkeypatch.context() as patch:
            patch.setattr(Unpacking, "root", tmp_path.parent)
            patch.setattr(Unpacking, "cfg", {"log_dir": ""})
            role.image = tmp_path.name if isinstance(here, Unpacking) else str(tmp_path)
            joined = f"{tmp_path}/bin/main" if isinstance(here, Unpacking) else "bin/main"

            assert str(tmp_path) == here.fetch(role.image) == here.fetch_role(role) == here.get_cwd(role.image)
            assert joined == here.get_entrypoint(str(tmp_path), role)
            assert ReplicaParam(args=[joined, "x"], env={"A": "b"}, stdout="o", cwd=str(tmp_path)) == (
                here.get_replica_param(str(tmp_path), role, "o")
            )
    assert "/bin/main" == Unpacking().get_entrypoint("/img", Role("main", "", entrypoint="/bin/main"))
    with pytest.raises(ValueError, match="must be a directory"):
        LocalDirectoryImageProvider().fetch(str(tmp_path / "missing"))


# Devices


async def test_devices_are_divided_among_the_replicas(scheduler: LocalScheduler) -> None:
    roles = [
        shell("true", name="two", num_replicas=2, resource=Resource(1, 2, 1)),
        shell("true", name="none", num_replicas=2),
        shell("true", name="one", resource=Resource(1, 1, 1)),
    ]
    definition = app(*roles)
    request = (await scheduler.submit_dryrun(definition)).request

    assert not split_devices(request, roles, 4)
    assert [None] * 5 == [p.env.get("CUDA_VISIBLE_DEVICES") for role in roles for p in request.role_params[role.name]]
    assert split_devices(request, roles, 5)
    assert ["0,1", "2,3", None, None, "4"] == [
        param.env.get("CUDA_VISIBLE_DEVICES") for role in roles for param in request.role_params[role.name]
    ]


@pytest.mark.skipif(Path("/proc/driver/nvidia/gpus").exists(), reason="this machine has GPUs")
@pytest.mark.skipif(Path("/proc/driver/nvidia/gpus").exists(), reason="this machine has GPUs")
@pytest.mark.parametrize("code", [0, 1])
async def test_devices_are_counted_by_the_program_that_lists_them(
    scheduler: LocalScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    program = tmp_path / "nvidia-smi"
    part = "  MIG 1g.5gb Device 0: (UUID: MIG-1)"
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' 'GPU 0: one' '{part}' 'GPU 1: two'; exit {code}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    role = shell("echo ${CUDA_VISIBLE_DEVICES-none}", num_replicas=2, resource=Resource(1, 1, 1))
    app_id = await scheduler.submit(app(role), {"auto_set_cuda_visible_devices": True})

    assert (["none", "none"] if code else ["0", "1"]) == sorted(await texts(scheduler, app_id))


async def test_without_enough_devices_a_warning_says_so(
    scheduler: LocalScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    role = shell("echo ${CUDA_VISIBLE_DEVICES-none}", resource=Resource(1, 1, 1))
    app_id = await scheduler.submit(app(role), {"auto_set_cuda_visible_devices": True})

    assert ["none"] == await texts(scheduler, app_id)
    assert "CUDA_VISIBLE_DEVICES is not set" in caplog.text


# Options


@pytest.mark.parametrize(
    ("options", "key"),
    [
        (LocalOpts(grace_period=-1.0), "grace_period"),
        (LocalOpts(grace_period=float("nan")), "grace_period"),
        (LocalOpts(grace_period=float("inf")), "grace_period"),
        (LocalOpts(max_log_bytes=0), "max_log_bytes"),
        (LocalOpts(max_log_bytes=-5), "max_log_bytes"),
    ],
)
async def test_options_that_cannot_be_kept_are_refused(scheduler: LocalScheduler, options: LocalOpts, key: str) -> None:
    with pytest.raises(RunOptionError) as caught:
        await scheduler.submit_dryrun(app(shell("true")), options)

    assert key == caught.value.key


STUBBORN = "trap 'echo told' TERM; echo ready; while :; do sleep 0.1; echo still; done"


async def test_a_grace_period_of_nothing(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(shell(STUBBORN)), {"grace_period": 0.0})
    await first(scheduler, app_id)

    await scheduler.cancel(app_id)

    found = await ended(scheduler, app_id)
    assert AppState.CANCELLED is found.state
    assert "cancelled; killed by SIGKILL" == found.replicas[0].reason


async def test_a_grace_period_of_years(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(shell(STUBBORN)), {"grace_period": 1e9})
    lines = scheduler.log_iter(app_id, regex="^(told|still)$", should_tail=True)
    await anext(lines)
    await scheduler.cancel(app_id)
    while await anext(lines) != "told\n":
        pass
    assert ["still\n"] * 3 == [await anext(lines) for _ in range(3)]

    await scheduler.kill(app_id)

    found = await ended(scheduler, app_id)
    assert "cancelled; killed by SIGKILL" == found.replicas[0].reason
