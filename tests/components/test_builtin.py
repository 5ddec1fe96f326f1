from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from asyncsched import AppDef, Resource, macros
from asyncsched.components import default_image, dist, get_component, utils
from asyncsched.errors import ComponentError, UnknownResourceError
from asyncsched.specs.mounts import BindMount


def run(app: AppDef, cwd: Path) -> str:
    """Run the app's first role here, with the macros filled in, and return what it printed."""
    values = macros.Values(img_root="", app_id="app-1", replica_id="0", rank0_env="RANK0")
    role = values.apply(app.roles[0])
    done = subprocess.run([role.entrypoint, *role.args], cwd=cwd, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_echo_and_touch(tmp_path: Path) -> None:
    assert "hi\n" == run(utils.echo("hi"), tmp_path)
    assert "" == run(utils.touch("new"), tmp_path)
    assert (tmp_path / "new").exists()


def test_sh_leaves_words_alone_and_lets_the_shell_read_a_line(tmp_path: Path) -> None:
    assert "a  b $HOME\n" == run(utils.sh("echo", "a  b", "$HOME"), tmp_path)
    assert "1\n2\n" == run(utils.sh("echo 1; echo 2"), tmp_path)
    with pytest.raises(ComponentError, match="needs a command"):
        utils.sh()


def test_sh_passes_on_what_the_job_needs() -> None:
    role = utils.sh(
        "x", h="gpu.small", env={"A": "1"}, max_retries=2, num_replicas=3, mounts=["type=bind", "src=/a", "dst=/b"]
    ).roles[0]

    assert (3, 2, {"A": "1"}) == (role.num_replicas, role.max_retries, role.env)
    assert [BindMount("/a", "/b")] == role.mounts
    assert Resource(cpu=8, gpu=1, memMB=32 * 1024) == role.resource


def test_python_runs_one_thing(tmp_path: Path) -> None:
    (tmp_path / "mod.py").write_text("import sys; print('mod', sys.argv[1:])")

    assert "['-c', 'x']\n" == run(utils.python("x", c="import sys; print(sys.argv)"), tmp_path)
    assert "mod ['-m']\n" == run(utils.python("-m", m="mod"), tmp_path)
    assert "mod ['1']\n" == run(utils.python("1", script="mod.py"), tmp_path)
    wrongs: list[dict[str, Any]] = [{}, {"m": "a", "c": "b"}]
    for wrong in wrongs:
        with pytest.raises(ComponentError, match="exactly one"):
            utils.python(**wrong)


def test_binary(tmp_path: Path) -> None:
    assert "a b\n" == run(utils.binary("a", "b", entrypoint="echo"), tmp_path)


def test_copy(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x00data")

    assert "" == run(utils.copy("a", "new/b"), tmp_path)
    assert "" == run(utils.copy(f"file://{tmp_path}/a", "c"), tmp_path)
    assert b"\x00data" == (tmp_path / "new/b").read_bytes() == (tmp_path / "c").read_bytes()
    assert "No such file" in run(utils.copy("nothing", "b"), tmp_path)


def test_booth(tmp_path: Path) -> None:
    app = utils.booth(1.0, 3.0, trial_idx=4, tracker_base=str(tmp_path / "trials"))

    assert {"trial_idx": 4, "booth_eval": 0.0} == json.loads(run(app, tmp_path))
    assert {"trial_idx": 4, "booth_eval": 0.0} == json.loads((tmp_path / "trials/4.json").read_text())


def test_the_image_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYNCSCHED_IMAGE", "mine:1")

    assert "mine:1" == default_image() == utils.echo().roles[0].image == dist.ddp(script="a.py").roles[0].image
    assert "yours" == utils.echo(image="yours").roles[0].image


FAKE_TORCHRUN = """#!/bin/sh
for word; do printf '[%s]' "$word"; done
"""


def torchrun(app: AppDef, tmp_path: Path, **env: str) -> str:
    """Run a job with a torchrun that prints its arguments."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / "bin/torchrun").write_text(FAKE_TORCHRUN)
    (tmp_path / "bin/torchrun").chmod(0o755)
    values = macros.Values(img_root="", app_id="app-1", replica_id="0", rank0_env="RANK0")
    role = values.apply(app.roles[0])
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    return subprocess.run(
        [role.entrypoint, *role.args], env={"PATH": path, **env}, capture_output=True, text=True, check=True
    ).stdout


def test_ddp_tells_torchrun_where_to_meet(tmp_path: Path) -> None:
    app = dist.ddp("--lr", "a b", script="train.py", j="2x4")
    begin = "[--rdzv_backend][c10d][--rdzv_id][app-1][--nnodes][2][--nproc_per_node][4][--tee][3][--role][]"
    end = f"{begin}[train.py][--lr][a b]"

    assert f"[--rdzv_endpoint][node0:29500]{end}" == torchrun(app, tmp_path, RANK0="node0")
    assert f"[--rdzv_endpoint][localhost:29500]{end}" == torchrun(app, tmp_path, RANK0="")
    assert f"[--rdzv_endpoint][localhost:29500]{end}" == torchrun(app, tmp_path)


def test_one_node_needs_no_port(tmp_path: Path) -> None:
    assert torchrun(dist.ddp(m="pkg.train", rdzv_conf="a=1"), tmp_path) == (
        "[--rdzv_endpoint][localhost:0][--rdzv_backend][c10d][--rdzv_conf][a=1][--rdzv_id][app-1][--nnodes][1]"
        "[--nproc_per_node][2][--tee][3][--role][][-m][pkg.train]"
    )


@pytest.mark.parametrize(
    ("j", "expected"),
    [("1x2", (None, 1, "1", 2)), ("4", (None, 1, "1", 4)), ("2x8", (None, 2, "2", 8)), ("1:3x2", (1, 3, "1:3", 2))],
)
def test_the_size_of_a_job(j: str, expected: tuple[object, ...]) -> None:
    size = dist._job_size(j)
    role = dist.ddp(script="a.py", j=j).roles[0]

    assert expected == (size.min_nodes, size.max_nodes, size.nodes, size.processes)
    assert expected[:2] == (role.min_replicas, role.num_replicas)


@pytest.mark.parametrize("j", ["", "x", "2x", "x2", "0x1", "1x0", "3:2x1", "0:2x1", ":2x1", "2x2x2", "-1x2", "1.5x2"])
def test_a_wrong_size_is_told(j: str) -> None:
    with pytest.raises(ComponentError, match=r"must be a number of nodes and processes, got .*; write -j 2x4"):
        dist.ddp(script="a.py", j=j)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/", ("default-experiment", "train")),
        ("run", ("default-experiment", "run")),
        ("/run", ("default-experiment", "run")),
        ("exp/", ("exp", "train")),
        ("exp/run", ("exp", "run")),
    ],
)
def test_names(name: str, expected: tuple[str, str]) -> None:
    for app in (dist.ddp(script="src/train.py", name=name), dist.ddp(m="src.train", name=name)):
        assert expected == (app.roles[0].env["TORCHX_TRACKING_EXPERIMENT_NAME"], app.name)


def test_a_script_or_a_module() -> None:
    wrongs: list[dict[str, Any]] = [{}, {"script": "a", "m": "b"}]
    for wrong in wrongs:
        with pytest.raises(ComponentError, match="exactly one of --script and -m"):
            dist.ddp(**wrong)


def test_debug_and_env() -> None:
    env = dist.ddp(script="a.py", debug=True, env={"LOGLEVEL": "DEBUG"}).roles[0].env

    assert ("DEBUG", "DETAIL") == (env["LOGLEVEL"], env["TORCH_DISTRIBUTED_DEBUG"])


def test_spmd_takes_a_process_for_each_gpu() -> None:
    role = dist.spmd("--lr", "1", script="a.py", j="2", h="aws_p3.8xlarge").roles[0]

    assert 2 == role.num_replicas
    assert "--nnodes 2 --nproc_per_node 4 " in role.args[1]
    assert "--nproc_per_node 3 " in dist.spmd(script="a.py", j="2x3", h="cpu.small").roles[0].args[1]
    with pytest.raises(ComponentError, match=r"cpu\.small has no GPUs"):
        dist.spmd(script="a.py", j="2", h="cpu.small")
    with pytest.raises(UnknownResourceError):
        dist.spmd(script="a.py", h="gpu.smal")


def test_the_command_line_of_ddp() -> None:
    tokens = ["-j", "2x2", "-h", "cpu.small", "--script", "a.py", "--env", "A=1", "--debug", "--", "--help"]
    role = get_component("dist.ddp").app(tokens).roles[0]

    assert role.args[1].endswith(" a.py --help")
    assert "1" == role.env["A"]
