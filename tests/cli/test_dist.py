"""Distributed jobs that really run: two nodes whose ranks meet."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import torchrun
from tests.cli._cli import PLUGINS, Cli
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd
from tests.services.ports import Ports

HERE = Path(__file__).parent
PYTHON = "/usr/bin/python3"


def ranks(world: int) -> list[str]:
    return [f"rank {rank} of {world}: the ranks add up to {sum(range(world))}" for rank in range(world)]


def said(lines: list[str]) -> list[str]:
    """Return what the workers said, without who said it: torchrun adds a prefix of its own."""
    return sorted("rank " + line.partition("rank ")[2] for line in lines if "rank " in line)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A folder with the program, and a torchrun for where there is no PyTorch."""
    folder = tmp_path / "job"
    (folder / "bin").mkdir(parents=True)
    shutil.copy(HERE / "meeting.py", folder)
    shutil.copy(HERE / "torchrun.py", folder / "bin/torchrun")
    return folder


@pytest.fixture
def port() -> Iterator[int]:
    """A port that is free until the ranks meet there."""
    ports = Ports(1)
    yield ports.numbers[0]
    ports.close()


@pytest.mark.service
@pytest.mark.skipif(not Path(PYTHON).exists(), reason="the containers borrow this machine's Python")
@pytest.mark.parametrize(("component", "size"), [("dist.ddp", "2x2"), ("dist.spmd", "2x1")])
def test_two_containers_meet(
    cli: Cli, job: Path, docker_host: str, dockerd: Dockerd, component: str, size: str
) -> None:
    cli.environment |= {"DOCKER_HOST": docker_host, "ASYNCSCHED_IMAGE": BUSYBOX_IMAGE}
    borrowed = [
        f"type=bind,src={path},dst={path},readonly" for path in ("/usr", "/lib", "/lib64") if Path(path).exists()
    ]
    mounts = ",".join([*borrowed, f"type=bind,src={job},dst=/job,readonly"])
    line = ["run", "-s", "local_docker", component, "-j", size, "--script", "/job/meeting.py", "--mounts", mounts]
    no_gpu = ["-h", "cpu.small"] if component == "dist.spmd" else []
    done = cli(*line, *no_gpu, "--env", "PATH=/job/bin:/usr/bin:/bin")
    world = 4 if size == "2x2" else 2

    assert 0 == done.code, done.out + done.err
    assert ranks(world) == said(done.lines)
    assert {"meeting/0", "meeting/1"} == {line.split()[0] for line in done.lines[1:]}


@pytest.mark.parametrize("program", [["--script", "meeting.py"], ["-m", "meeting"]])
def test_two_processes_meet(cli: Cli, job: Path, port: int, program: list[str]) -> None:
    # PyTorch's own torchrun, if it is installed beside us; the program uses it then, too.
    bin_folders = f"{Path(sys.executable).parent}:{job}/bin:/usr/bin:/bin"
    cli.environment |= {"PATH": bin_folders, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{PLUGINS}:{job}"}
    shutil.copy(job / "meeting.py", cli.folder)
    done = cli("run", "-s", "local_cwd", "dist.ddp", "-j", "2x2", "--rdzv_port", str(port), *program)

    assert 0 == done.code, done.out + done.err
    assert ranks(4) == said(done.lines)
    assert {"meeting/0", "meeting/1"} == {line.split()[0] for line in done.lines[1:]}


def test_a_node_whose_name_is_not_known_yet_does_not_take_itself_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it does, no node serves the others, and all of them wait in vain."""
    monkeypatch.setattr(torchrun, "WITHIN", 0.0)
    with pytest.raises(socket.gaierror):
        torchrun.is_here("no such host")

    assert torchrun.is_here("127.0.0.1")
