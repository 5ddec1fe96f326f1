"""Talking to a Docker daemon: where it is, requests with our errors, images, networks, files in containers.

Importing it imports aiodocker, which takes longer than a loop may be held: do it in a thread.

aiodocker makes the connection and sends what it offers soundly: containers are created, started, renamed, killed and
removed, files put into them, images inspected, named and removed, networks made and removed through it. These requests
go through its session instead:

- lists of containers and networks, and inspections: its own reader makes an object of each item and hides the JSON.
- stopping a container: nothing tells when the daemon has the request, and so goes on without us.
- logs and events: its readers take a broken connection for the end, and drop the stream that a line was written to.
- pulls: what the daemon says in the stream about a registry has to become an error of ours, and has no time limit.
- builds: its own takes a file object, which a thread would have to fill; and nothing cancels a build.
- images that are made of a container: unpacking and committing many bytes takes longer than its time limit.
- pushes: as pulls; and nothing asks a registry what it has (``/distribution``).
- a file of a container: its reader takes a whole archive into memory, however large; and nothing offers HEAD.
- the API's version and the daemon's time: it asks for the version of the version, and offers no header.
"""

from __future__ import annotations

from asyncsched._dockerd.archives import ensure_tmp, read_file
from asyncsched._dockerd.build import build_image
from asyncsched._dockerd.client import Daemon
from asyncsched._dockerd.images import (
    PullPolicy,
    inspect_image,
    provide_image,
    remove_image,
    tag_image,
)
from asyncsched._dockerd.layer import can_lay_over, lay_over
from asyncsched._dockerd.networks import ensure_network
from asyncsched._dockerd.objects import read_objects
from asyncsched._dockerd.push import Remote, find_remote, platform_of, push_image

__all__ = [
    "Daemon",
    "PullPolicy",
    "Remote",
    "build_image",
    "can_lay_over",
    "ensure_network",
    "ensure_tmp",
    "find_remote",
    "inspect_image",
    "lay_over",
    "platform_of",
    "provide_image",
    "push_image",
    "read_file",
    "read_objects",
    "remove_image",
    "tag_image",
]
