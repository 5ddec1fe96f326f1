#!/usr/bin/env python3
"""A small stand-in for torchrun: agents meet at --rdzv_endpoint, learn their rank, and start the workers.

Like torchrun with the c10d backend, whoever can bind the endpoint's port on this host serves the others, and each
worker gets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import subprocess
import sys
import threading
import time

WITHIN = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="torchrun")
    for name in ("rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf", "nnodes", "tee", "role"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--nproc_per_node", type=int)
    parser.add_argument("-m", dest="module")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    host, _, port = args.rdzv_endpoint.rpartition(":")
    nodes = int(args.nnodes.rpartition(":")[2])
    rank, master_port = meet(host, int(port), nodes) if nodes > 1 else (0, 0)
    program = [sys.executable, *(["-m", args.module] if args.module else []), *args.command]
    workers = [start(program, rank, local, args.nproc_per_node, nodes, host, master_port)
               for local in range(args.nproc_per_node)]  # fmt: skip
    return max(worker.wait() for worker in workers)


def meet(host: str, port: int, nodes: int) -> tuple[int, int]:
    """Return this node's rank, and a port on `host` for the workers."""
    try:
        listener = socket.create_server(("", port)) if is_here(host) else None
    except OSError:
        listener = None  # the other node on this host was first
    if listener is not None:
        master_port = free_port()
        threading.Thread(target=serve, args=(listener, nodes, master_port), daemon=True).start()
    with connect(host, port) as node:
        node.sendall(b"first\n" if listener is not None else b"other\n")
        rank, master_port = map(int, node.makefile().readline().split())
    return rank, master_port


def free_port() -> int:
    """Find a port that stays free until a worker binds it: the kernel gives out only numbers above these."""
    while True:
        try:
            with socket.create_server(("", random.randrange(21_000, 30_000))) as free:
                return int(free.getsockname()[1])
        except OSError:
            continue  # somebody has it


def is_here(host: str) -> bool:
    """Tell whether this host has that name; on a cluster names are known a little later than pods are started."""
    deadline = time.monotonic() + WITHIN
    while True:
        try:
            address = socket.gethostbyname(host)  # create_server would tell of an unknown name as of any other error
            break
        except socket.gaierror:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    try:
        socket.create_server((address, 0)).close()
    except OSError:
        return False
    return True


def serve(listener: socket.socket, nodes: int, master_port: int) -> None:
    """Tell each node its rank once all are there; the one that serves is the first: the workers meet at its name."""
    joined = [listener.accept()[0] for _ in range(nodes)]
    joined.sort(key=lambda node: node.makefile().readline() != "first\n")
    for rank, node in enumerate(joined):
        node.sendall(f"{rank} {master_port}\n".encode())


def connect(host: str, port: int) -> socket.socket:
    deadline = time.monotonic() + WITHIN
    while True:
        try:
            return socket.create_connection((host, port), timeout=WITHIN)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def start(
    program: list[str], rank: int, local: int, processes: int, nodes: int, host: str, port: int
) -> subprocess.Popen[bytes]:
    env = {
        "RANK": rank * processes + local,
        "LOCAL_RANK": local,
        "WORLD_SIZE": nodes * processes,
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
    }
    return subprocess.Popen(program, env={**os.environ, **{name: str(value) for name, value in env.items()}})


if __name__ == "__main__":
    sys.exit(main())
