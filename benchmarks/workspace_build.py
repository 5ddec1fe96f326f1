"""What it takes to lay a workspace over an image: against ``docker build`` of the same context, and the peer.

Each measure is a process of its own, from its start to its end. Its memory is the most that it had at a time.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from benchmarks._docker import daemon
from benchmarks._harness import LEAST_ROUNDS, Claim, Rounds, at_most, in_turns
from benchmarks._peer import installed
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd

OURS = "ours"
COMMAND = "`docker build`"
THE_PEER = "the peer"

FILES = 10_000
SIZE = 1 << 30

_OURS = f"""
import asyncio, sys
from asyncsched.workspace import build_workspace_image
asyncio.run(build_workspace_image({BUSYBOX_IMAGE!r}, sys.argv[1]))
"""

_PEER = f"""
import sys
from torchx.schedulers.docker_scheduler import create_scheduler
from torchx.specs import Role
role = Role("main", {BUSYBOX_IMAGE!r})
create_scheduler("benchmark").build_workspace_and_update_role(role, sys.argv[1], {{"image_repo": None}})
"""


class Cost(NamedTuple):
    """What a process took: seconds, and its memory in kilobytes."""

    seconds: float
    memory: float


def claims() -> Iterator[Claim]:
    """Build what is new, many files and a large one; then what has not changed."""
    with daemon() as service, tempfile.TemporaryDirectory(prefix="asd-workspace-") as folder:
        many, large = Path(folder, "many"), Path(folder, "large")
        _make_many(many)
        yield from _compared(service, f"{FILES:,} small files", many, is_new=True, peer=True)
        yield from _compared(service, f"{FILES:,} small files, nothing changed", many, is_new=False, peer=True)
        _make_large(large)
        yield from _compared(service, "a file of 1 GB", large, is_new=True, peer=True)
        yield from _compared(service, "a file of 1 GB, nothing changed", large, is_new=False, peer=True)


def _compared(service: Dockerd, what: str, workspace: Path, *, is_new: bool, peer: bool) -> Iterator[Claim]:
    commands = {OURS: [sys.executable, "-c", _OURS, str(workspace)], COMMAND: _docker_build(workspace)}
    if peer:
        commands[THE_PEER] = [str(installed() / "bin/python"), "-W", "ignore", "-c", _PEER, str(workspace)]
    measures: dict[str, Callable[[], Cost]] = {
        name: partial(_measured, service, workspace, command, is_new) for name, command in commands.items()
    }
    if not is_new:
        for measure in measures.values():
            measure()
    taken = in_turns(measures, LEAST_ROUNDS)
    yield from _claimed(what, taken, COMMAND, is_new=is_new)
    if peer:
        yield from _claimed(what, taken, THE_PEER, is_new=is_new)


def _claimed(what: str, taken: Rounds[Cost], reference: str, *, is_new: bool) -> Iterator[Claim]:
    seconds = taken.told(1, "s", lambda cost: cost.seconds)
    memory = taken.told(1 / 1024, "MB", lambda cost: cost.memory)
    bound = TIME[reference, is_new]
    yield at_most(f"{what}: time", taken.ratio(OURS, reference, lambda cost: cost.seconds), bound, detail=seconds)
    ratio = taken.ratio(OURS, reference, lambda cost: cost.memory)
    yield at_most(f"{what}: memory", ratio, MEMORY[reference], detail=memory)


TIME = {(COMMAND, True): 1.5, (COMMAND, False): 1.5, (THE_PEER, True): 1.0, (THE_PEER, False): 1.0}
MEMORY = {COMMAND: 2.0, THE_PEER: 1.2}


def _measured(service: Dockerd, workspace: Path, command: list[str], is_new: bool) -> Cost:
    if is_new:
        (workspace / "changed").write_text(secrets.token_hex())
    began = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    told = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    took = perf_counter() - began
    process.stderr.close()
    if process.returncode:
        raise RuntimeError(f"{command[:2]} failed: {told.decode(errors='replace')[-2000:]}")
    if is_new:
        _remove_built(service)
    return Cost(took, usage.ru_maxrss)


def _docker_build(workspace: Path) -> list[str]:
    dockerfile = workspace.parent / "Dockerfile"
    dockerfile.write_text(f"FROM {BUSYBOX_IMAGE}\nCOPY . .\n")
    return ["docker", "build", "-q", "-t", "built:1", "-f", str(dockerfile), str(workspace)]


def _remove_built(service: Dockerd) -> None:
    for image in service.api.json("GET", "/images/json"):
        if not any(name.startswith("asyncsched-tests/") for name in image["RepoTags"] or ()):
            service.api.call("DELETE", f"/images/{image['Id']}?force=1")
    service.api.call("POST", "/build/prune?all=1")


def _make_many(folder: Path) -> None:
    for number in range(FILES):
        path = folder / f"{number % 100:02}" / f"{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value = {number}\n" * 50)


def _make_large(folder: Path) -> None:
    folder.mkdir()
    with (folder / "large").open("wb") as file:
        for _ in range(SIZE >> 20):
            file.write(os.urandom(1 << 20))
