"""``python -m tests.aws_emulator -p PORT``: the emulator as a server of its own."""

from __future__ import annotations

import argparse
import signal
import threading

from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.server import Server


def main() -> None:
    parser = argparse.ArgumentParser(description="AWS Batch and CloudWatch Logs on this machine, for tests.")
    parser.add_argument("-H", "--host", default="127.0.0.1")
    parser.add_argument("-p", "--port", type=int, default=0, help="0 chooses a free one")
    parser.add_argument("--queue", action="append", default=[], help="a job queue to have; may be repeated")
    parser.add_argument("--docker", metavar="URL", help="run nodes as containers of this daemon, not as processes")
    args = parser.parse_args()
    cloud = _cloud(args.docker)
    cloud.queues.update(args.queue)
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with Server(cloud, args.port, args.host) as server:
        print(f"ready {server.url}", flush=True)
        over.wait()


def _cloud(docker_url: str | None) -> Cloud:
    if docker_url is None:
        return Cloud()
    from tests.aws_emulator.containers import Containers

    return Cloud(run_node=Containers(docker_url))


if __name__ == "__main__":
    main()
