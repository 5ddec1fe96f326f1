"""Talking to a Docker daemon: where it is, requests with our errors, images, networks.

Importing it imports aiodocker, which takes longer than a loop may be held: do it in a thread.
"""

from __future__ import annotations

from asyncsched._dockerd.archives import ensure_tmp, read_file
from asyncsched._dockerd.client import Daemon
from asyncsched._dockerd.images import PullPolicy, PullProgress, provide_image
from asyncsched._dockerd.networks import ensure_network
from asyncsched._dockerd.objects import read_objects

__all__ = [
    "Daemon",
    "PullPolicy",
    "PullProgress",
    "ensure_network",
    "ensure_tmp",
    "provide_image",
    "read_file",
    "read_objects",
]
