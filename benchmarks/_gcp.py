"""A double of Google Cloud in a process of its own, for the benchmarks of gcp_batch."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks._service import Service, served_by

PROJECT = "proj-1"
PLACE = f"{PROJECT}:us-central1"
READS = "POST /v2/entries:list"


class Cloud(Service):
    """The double's knobs, over HTTP."""

    def calls(self) -> dict[str, int]:
        """Return the calls since the last look, by what was called."""
        return dict(self.set("calls"))


@contextmanager
def cloud(*, lag: float = 0.0) -> Iterator[Cloud]:
    """Run a double, and lead the environment there.

    Args:
        lag: Seconds, on average, until a log entry can be read.
    """
    with served_by("tests.gcp_double", "--lag", str(lag)) as url, tempfile.TemporaryDirectory() as folder:
        made = Cloud(url, "double")
        key = Path(folder) / "key.json"
        key.write_text(json.dumps(made.set("key")))
        os.environ |= {
            "GOOGLE_APPLICATION_CREDENTIALS": str(key),
            "GOOGLE_CLOUD_PROJECT": PROJECT,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_BATCH": url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": url,
        }
        yield made
