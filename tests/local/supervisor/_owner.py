"""A process that owns a supervisor, for tests that kill it: ``python -m ..._owner HOME TOKEN HOW``."""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from pathlib import Path

from tests.local.supervisor._client import Supervisor, tree


def linger() -> None:
    """Be a child of the owner that lives on, and holds its sockets."""
    time.sleep(600)


def main() -> None:
    home, token, how = sys.argv[1:]
    supervisor = Supervisor(Path(home), pidfd=how != "no pidfd", detached=how == "detached")
    replicas = [tree(token, *(["obey"] if how == "obey" else []), k=k) for k in range(3)]
    supervisor.submit(*replicas, grace_period=0.3 if how != "obey" else 600.0)
    for k in range(3):
        supervisor.log(k).wait_for_tree()
    children: list[int | None] = []
    if how == "child":
        child = multiprocessing.get_context("fork").Process(target=linger, daemon=False)
        child.start()
        children.append(child.pid)
    print(json.dumps({**supervisor.identity, "children": children}), flush=True)
    if how == "return":
        return
    if how == "error":
        raise RuntimeError("an error that nobody handles")
    while True:
        time.sleep(0.1)  # an interrupt just before one long sleep would be missed


if __name__ == "__main__":
    main()
