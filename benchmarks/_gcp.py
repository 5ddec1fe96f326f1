"""A double of Google Cloud in a process of its own, for the benchmarks of gcp_batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROJECT = "proj-1"
PLACE = f"{PROJECT}:us-central1"
READS = "POST /v2/entries:list"


class Cloud:
    """The double's knobs, over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url

    def set(self, knob: str, **body: Any) -> dict[str, Any]:
        """Turn a knob and return its answer."""
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/double/{knob}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            return dict(json.load(answer))

    def calls(self) -> dict[str, int]:
        """Return the calls since the last look, by what was called."""
        return dict(self.set("calls"))


@contextmanager
def cloud(*, lag: float = 0.0) -> Iterator[Cloud]:
    """Run a double, and lead the environment there.

    Args:
        lag: Seconds, on average, until a log entry can be read.
    """
    command = [sys.executable, "-m", "tests.gcp_double", "--lag", str(lag)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        try:
            assert process.stdout is not None
            made = Cloud(process.stdout.readline().split()[1])
            key = Path(folder) / "key.json"
            key.write_text(json.dumps(made.set("key")))
            os.environ |= {
                "GOOGLE_APPLICATION_CREDENTIALS": str(key),
                "GOOGLE_CLOUD_PROJECT": PROJECT,
                "CLOUDSDK_API_ENDPOINT_OVERRIDES_BATCH": made.url,
                "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": made.url,
            }
            yield made
        finally:
            os.environ.clear()
            os.environ.update(before)
            process.terminate()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
