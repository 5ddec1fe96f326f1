"""Talk to a Docker daemon: find it, send requests with this package's errors, manage images, networks and files.

Importing it imports aiodocker, which takes longer than the loop may be held: import it in a thread.

aiodocker makes the connection and sends the requests that it supports well: create, start, rename, kill and remove
containers, put files into them, inspect, tag and remove images, create and remove networks. These requests use its
session directly instead:

- listing containers and networks, and inspecting: its reader makes an object of each item and hides the JSON.
- stopping a container: it does not report when the daemon has the request, and so would stop the container without us.
- logs and events: its readers treat a broken connection as the end, and drop the stream that a line was written to.
- pulls: a registry's error inside the stream must become one of this package's errors, and a pull has no time limit.
- builds: it takes a file object, which a thread would have to fill, and it cannot cancel a build.
- committing containers as images: unpacking and committing many bytes takes longer than its time limit.
- pushes: as for pulls; and it has no call to look an image up in a registry (``/distribution``).
- a file of a container: its reader loads a whole archive into memory, whatever its size; and it has no HEAD.
- the API's version and the daemon's time: it puts a version into the URL of that request, and returns no headers.
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
