"""``python -m tests.services.kubernetes up|down|status DIR``, and ``stop|start DIR NAME`` for one program."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.services.kubernetes.build_cluster import why_not_built
from tests.services.kubernetes.cluster import Cluster, why_it_cannot_run

_USAGE = "usage: up|down|status DIRECTORY, or stop|start DIRECTORY PROGRAM"


def main(arguments: list[str]) -> None:
    if len(arguments) < 2:
        raise SystemExit(_USAGE)
    verb, directory, *names = arguments
    cluster = Cluster(Path(directory).resolve(), outlives_us=True)
    if verb == "up":
        why = why_it_cannot_run() or why_not_built()[0]
        if why:
            raise SystemExit(why)
        cluster.up()
        print(cluster.kubeconfig)
    elif verb == "down":
        cluster.down()
    elif verb == "status":
        for name, pid in sorted(cluster.running().items()):
            print(f"{name}\t{pid}")
    elif verb in ("stop", "start") and len(names) == 1:
        (cluster.stop if verb == "stop" else cluster.start)(names[0])
    else:
        raise SystemExit(_USAGE)


if __name__ == "__main__":
    main(sys.argv[1:])
