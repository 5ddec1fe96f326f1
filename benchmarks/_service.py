"""What stands for a cloud in benchmarks: a service in a process of its own, with knobs over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Service:
    """A service's knobs, over HTTP.

    Args:
        url: The service's address.
        place: The folder of its knobs.
    """

    def __init__(self, url: str, place: str) -> None:
        self.url = url
        self._place = place

    def set(self, knob: str, **body: Any) -> dict[str, Any]:
        """Turn a knob and return its answer."""
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/{self._place}/{knob}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            return dict(json.load(answer))


@contextmanager
def served_by(module: str, *arguments: str) -> Iterator[str]:
    """Run a module as a service and return its address; what the environment holds is put back at the end."""
    command = [sys.executable, "-m", module, *arguments]
    before = dict(os.environ)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[1]
        finally:
            os.environ.clear()
            os.environ.update(before)
            process.terminate()
