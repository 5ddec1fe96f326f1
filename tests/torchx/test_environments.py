"""In environments with TorchX 0.7 and with a nightly: its apps are ours, and the twins of its classes are true."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.services.torchx_envs import TORCHX, TORCHX_NIGHTLY, VERSIONS, environment, run_in

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(version: str, cwd: Path, *args: str, **env: str) -> str:
    done = run_in(environment(version), *args, cwd=cwd, env=env)

    assert 0 == done.returncode, done.stderr
    return done.stdout


SHARED = [
    ("utils.echo", []),
    ("utils.echo", ["--msg", "cost: $$5 ${app_id} $replica_id", "--num_replicas", "3"]),
    ("utils.touch", ["--file", "/tmp/x"]),
    ("utils.sh", ["echo", "$HOME", "$$app_id"]),
    ("utils.sh", ["--num_replicas", "2", "--env", "A=1,B=two", "--", "ls", "-l"]),
    ("utils.sh", ["--mounts", "type=bind,src=/a,dst=/b,readonly,type=device,src=/dev/x,perm=r", "--", "ls"]),
    ("utils.sh", ["--env", "A=1,B=", "ls"]),
    ("utils.sh", ["--env", "A==1,,B C=2;3,D=4,", "ls"]),
    ("utils.sh", ["--env", "A=1", "--env", "B=2", "ls"]),
    ("utils.sh", ["--num", "2", "--mount", "type=volume,src=v,dst=/v", "ls"]),
    ("utils.echo", ["--ms", "-1"]),
    ("utils.echo", ["--msg=--x"]),
    ("utils.sh", ["-h", "gpu.small", "--max_retries", "2", "ls"]),
    ("utils.python", ["-m", "foo.bar", "--", "--x", "1"]),
    ("utils.python", ["-c", "print(1)"]),
    ("utils.python", ["--script", "main.py", "--cpu", "4", "--memMB", "100", "a", "b"]),
    ("utils.binary", ["--entrypoint", "/bin/ls", "--name", "x", "--", "-l"]),
    ("utils.copy", ["--src", "a", "--dst", "b"]),
    ("utils.booth", ["--x1", "1", "--x2", "2.5"]),
    ("dist.ddp", ["-j", "1x2", "--script", "train.py"]),
    ("dist.ddp", ["-j", "1:2x4", "-m", "a.b", "--env", "A=1", "--debug", "True", "--", "--lr", "0.1"]),
    ("dist.ddp", ["-j", "2x1", "--script", "train.py", "--rdzv_port", "1234", "--name", "exp/run", "--tee", "1"]),
    ("dist.spmd", ["--script", "train.py", "-j", "2x4"]),
]
OWN = {
    TORCHX: [("metrics.tensorboard", ["--logdir", "/logs", "--timeout", "3"])],
    TORCHX_NIGHTLY: [
        ("utils.sh", ["--entrypoint", "bash", "ls"]),
        ("dist.torchrun", ["-j", "2x4", "--script", "train.py", "--metadata", "a=b"]),
        ("dist.ddp", ["--script", "train.py", "--rdzv_conf", "a=b"]),
        ("utils.sh", ["--env", "A='x,y=z',B=\"\"", "ls"]),
    ],
}


@pytest.fixture
def same_apps(version: str, tmp_path: Path) -> Callable[[list[tuple[str, list[str]]]], list[list[object]]]:
    """Gives, for each call of a component, the app that asyncsched makes of it, or why not, and TorchX's own."""

    def same_apps(calls: list[tuple[str, list[str]]]) -> list[list[object]]:
        (tmp_path / "calls.json").write_text(json.dumps([(f"torchx.components.{name}", args) for name, args in calls]))
        made: list[list[object]] = json.loads(run(version, tmp_path, "-m", "tests.torchx.same_apps", "calls.json"))
        return made

    return same_apps


def test_each_builtin_component_makes_the_same_app(
    version: str, same_apps: Callable[[list[tuple[str, list[str]]]], list[list[object]]]
) -> None:
    calls = [*SHARED, *OWN[version]]
    for call, (ours, theirs) in zip(calls, same_apps(calls), strict=True):
        assert theirs == ours, call


def test_no_builtin_component_is_left_out(version: str, tmp_path: Path) -> None:
    """Of what TorchX lists, all is compared above but for two: one cannot be read, and one needs a package."""
    listed = run(version, tmp_path, "-c", _LISTED).split()
    unread = {TORCHX: "serve.torchserve", TORCHX_NIGHTLY: "utils.hydra"}[version]

    assert {*listed} - {unread} == {name for name, _ in [*SHARED, *OWN[version]]}
    done = run_in(
        environment(version), "-m", "asyncsched", "run", f"torchx.components.{unread}", "-cn", "x", cwd=tmp_path
    )
    assert 2 == done.returncode
    why = {
        TORCHX: "params has the unsupported type typing.Optional[typing.Dict[str, object]]: use ",
        TORCHX_NIGHTLY: "ModuleNotFoundError: No module named 'hydra'",
    }
    assert why[version] in done.stderr


_LISTED = "from torchx.specs.finder import get_components\nprint(*get_components())"


def test_the_command_line_runs_a_component_of_torchx(version: str, tmp_path: Path) -> None:
    sh = ["torchx.components.utils.sh", "--num_replicas", "2", "--", "echo", "replica", "${replica_id}", "$$5"]
    lines = run(version, tmp_path, "-m", "asyncsched", "run", "-s", "local_cwd", "--log", *sh).splitlines()

    assert ["sh/0 replica 0 $5", "sh/1 replica 1 $5"] == sorted(lines[1:])


def test_a_runner_runs_an_app_of_torchx(version: str, tmp_path: Path) -> None:
    assert "SUCCEEDED ['hello world\\n']\n" == run(version, tmp_path, "-c", _RUNNER)


_RUNNER = """
import asyncio
from asyncsched import Runner
from torchx.components.utils import echo

async def main():
    async with Runner("me") as runner:
        app = echo()
        handle = await runner.run(app, "local_cwd")
        status = await runner.wait(handle)
        print(status.state, [str(line) async for line in runner.log_lines(handle)])

asyncio.run(main())
"""


def test_the_twins_of_its_classes_are_true(version: str, tmp_path: Path) -> None:
    program = _SHAPES.format(module="from torchx import specs")
    twins = "from tests.torchx.twins import {} as specs".format("OLD" if version == TORCHX else "NEW")

    assert run(version, tmp_path, "-c", program) == run(version, tmp_path, "-c", _SHAPES.format(module=twins))


_SHAPES = """
import dataclasses
{module}
for name in ("AppDef", "Role", "Resource", "BindMount", "VolumeMount", "DeviceMount", "RoleStatus"):
    fields = dataclasses.fields(getattr(specs, name))
    for each in fields:
        default = getattr(each.default, "value", each.default)
        print(name, each.name, "MISSING" if default is dataclasses.MISSING else default)
print([(each.name, each.value) for kind in (specs.RetryPolicy, specs.AppState) for each in kind])
"""


FILES = [
    "text = a",
    "text: a",
    "text = 'a b'",
    'text = "quoted, with a comma; and more"',
    "text =",
    "text = a ; b # c",
    "text = a\n  b",
    "text = none",
    "text = 100%%",
    "text = %(other)s/x\nother = y",
    "text = %(nothing)s",
    "text = 50%",
    "; text = a\n# text = b",
    "text = a=b:c",
    "text = é",
    "whole = 3",
    "whole = -3",
    "whole = 1_000",
    "whole = 1.5",
    "whole = x",
    "whole = None",
    "real = 1.5",
    "real = 2",
    "real = 1e3",
    "flag = True",
    "flag = false",
    "flag = YES",
    "flag = off",
    "flag = 1",
    "flag = maybe",
    "items = a",
    "items = a;b",
    "items = a; b",
    "pairs = A:1",
    "pairs = A:1;B:2",
    "pairs = A:1,B:2",
    "pairs = A:x:y",
    "pairs = A",
    "pairs = A:1;A:2",
    "pairs = A : 1",
    "pairs = A:'1'",
    "unknown = 1",
    "text = a\ntext = b",
]
"""Lines of the section of a scheduler."""

LATER = ["items = a,b", "items = a;", "items = ;;"]
"""Those in which the nightlies, which hold here, differ from 0.7."""

EARLIER = ["text = None", "items = None", "TEXT = a"]
"""Those in which 0.7 holds here: None is the default, and names are not respelled."""

PAIRS = [
    ("[sched]\ntext = home", "[sched]\ntext = project\nwhole = 1"),
    (None, "[DEFAULT]\ntext = d\n[sched]\nwhole = 1"),
    ("[DEFAULT]\nx = y\n[sched]\n", "[sched]\ntext = %(x)s"),
    (None, "[other]\ntext = %(nothing)s\n[sched]\ntext = a"),
    (None, "text = a"),
    (None, "[sched\ntext = a"),
    (None, ""),
]


def test_one_file_gives_both_programs_the_same_run_options(version: str, tmp_path: Path) -> None:
    lines = [*FILES, *(EARLIER if version == TORCHX else LATER)]
    pairs = [*PAIRS, *([("[sched]\ntext = None", "[sched]\ntext = project")] if version == TORCHX else [])]
    cases = [*((None, f"[sched]\n{line}\n") for line in lines), *pairs]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    made = json.loads(run(version, tmp_path, "-m", "tests.torchx.same_options", "cases.json"))
    for case, (ours, theirs) in zip(cases, made, strict=True):
        refused = [isinstance(options, str) for options in (ours, theirs)]

        assert theirs == ours or all(refused), case


def test_what_stands_behind_a_component_is_split_as_a_shell_would(version: str, tmp_path: Path) -> None:
    (tmp_path / ".torchxconfig").write_text(
        "[component:torchx.components.utils.sh]\nargs = echo 'two words'\n[cli:run]\nworkspace = file:///nowhere\n"
    )
    command = ["-m", "asyncsched", "run", "-s", "local_cwd", "--log", "torchx.components.utils.sh"]
    done = run_in(environment(version), *command, cwd=tmp_path)

    assert 0 == done.returncode, done.stderr
    assert "two words" == done.stdout.splitlines()[-1].partition(" ")[2]
    assert "local_cwd does not use the workspace of " in done.stderr
