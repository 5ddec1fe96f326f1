"""What a distributed job does first: all ranks meet and add up their numbers. With PyTorch where it is installed."""

from __future__ import annotations

import os
import socket
import sys
import time

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def total() -> int:
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        return total_over_sockets()
    dist.init_process_group("gloo")
    number = torch.tensor([RANK])
    dist.all_reduce(number)
    dist.destroy_process_group()
    return int(number.item())


def total_over_sockets() -> int:
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if RANK == 0:
        with socket.create_server(("", address[1])) as server:
            others = [server.accept()[0] for _ in range(WORLD - 1)]
            result = sum(int(other.makefile().readline()) for other in others)
            for other in others:
                other.sendall(f"{result}\n".encode())
            return result
    for _ in range(600):
        try:
            with socket.create_connection(address) as master:
                master.sendall(f"{RANK}\n".encode())
                return int(master.makefile().readline())
        except OSError:
            time.sleep(0.05)
    raise TimeoutError("rank 0 is not there")


# In one piece: without a buffer, print writes the newline by itself, and the ranks of a replica share its output.
sys.stdout.write(f"rank {RANK} of {WORLD}: the ranks add up to {total()}\n")
