"""An emulated AWS in a process of its own, for the benchmarks of aws_batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asyncsched.specs import AppDef, Resource, Role

QUEUE = "bench"


class Emulator:
    """The emulator's knobs, over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url

    def set(self, knob: str, **body: Any) -> dict[str, Any]:
        """Turn a knob and return its answer."""
        request = urllib.request.Request(f"{self.url}/emulator/{knob}", json.dumps(body).encode())
        with urllib.request.urlopen(request) as answer:
            return dict(json.load(answer))

    def calls(self) -> dict[str, int]:
        """Return the calls of each operation since the last look."""
        return dict(self.set("calls", reset=True)["calls"])


@contextmanager
def emulator() -> Iterator[Emulator]:
    """Run an emulator, and lead the environment there."""
    command = [sys.executable, "-m", "tests.aws_emulator", "--queue", QUEUE]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    before = dict(os.environ)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        os.environ |= {
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
        }
        yield Emulator(url)
    finally:
        os.environ.clear()
        os.environ.update(before)
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def scripted(*steps: list[Any], replicas: int = 1) -> AppDef:
    """Return an app whose nodes play these steps."""
    role = Role("main", "script", entrypoint="play", args=[json.dumps(steps)], num_replicas=replicas)
    role.resource = Resource(cpu=1, gpu=0, memMB=128)
    return AppDef("bench", [role])
