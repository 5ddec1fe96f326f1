"""An emulated AWS in a process of its own, for the benchmarks of aws_batch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asyncsched.specs import AppDef, Resource, Role
from benchmarks._service import Service, served_by

QUEUE = "bench"


class Emulator(Service):
    """The emulator's knobs, over HTTP."""

    def calls(self) -> dict[str, int]:
        """Return the calls of each operation since the last look."""
        return dict(self.set("calls", reset=True)["calls"])


@contextmanager
def emulator() -> Iterator[Emulator]:
    """Run an emulator, and lead the environment there."""
    with served_by("tests.aws_emulator", "--queue", QUEUE) as url:
        os.environ |= {
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
        }
        yield Emulator(url, "emulator")


def scripted(*steps: list[Any], replicas: int = 1) -> AppDef:
    """Return an app whose nodes play these steps."""
    role = Role("main", "script", entrypoint="play", args=[json.dumps(steps)], num_replicas=replicas)
    role.resource = Resource(cpu=1, gpu=0, memMB=128)
    return AppDef("bench", [role])
