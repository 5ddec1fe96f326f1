"""``python -m tests.aws_emulator -p PORT``: the emulator as a server of its own."""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.lifecycle import Runner
from tests.aws_emulator.processes import run_process
from tests.aws_emulator.server import Server

SOCKET = Path("/var/run/docker.sock")
#: Environment variables that set a pace, in seconds.
PACES = {"PLUS_INGEST_DELAY": "ingest", "PLUS_STOP_TIMEOUT": "grace", "PLUS_RUNNABLE": "runnable"}


def main() -> None:
    parser = argparse.ArgumentParser(description="AWS Batch and CloudWatch Logs on this machine, for tests.")
    parser.add_argument("-H", "--host", default="127.0.0.1")
    parser.add_argument("-p", "--port", type=int, default=0, help="0 chooses a free one")
    parser.add_argument("--queue", action="append", default=[], help="a job queue to have; may be repeated")
    parser.add_argument(
        "--docker",
        metavar="URL",
        default="",
        help="run nodes as containers of this daemon, else of DOCKER_HOST or of this machine's; none: as processes",
    )
    args = parser.parse_args()
    cloud = paced(Cloud(run_node=node_runner(args.docker)))
    cloud.queues.update(args.queue)
    ended: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: ended.append(number))
    with Server(cloud, args.port, args.host) as server:
        print(f"ready {server.url}", flush=True)
        while not ended:
            time.sleep(0.1)  # a signal just before a wait without an end would be missed


def node_runner(docker_url: str = "") -> Runner:
    """What runs nodes: containers of a Docker daemon where there is one, else processes."""
    url = docker_url or os.environ.get("DOCKER_HOST") or (f"unix://{SOCKET}" if SOCKET.exists() else "none")
    if url == "none":
        return run_process
    from docker.errors import DockerException

    from tests.aws_emulator.containers import Containers

    try:
        return Containers(url)
    except DockerException:
        if docker_url:
            raise
        return run_process


def paced(cloud: Cloud) -> Cloud:
    """Set how long things take, as the environment wants it."""
    for name, pace in PACES.items():
        if name in os.environ:
            setattr(cloud.pace, pace, float(os.environ[name]))
    return cloud


if __name__ == "__main__":
    main()
