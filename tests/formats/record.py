"""Freezes the formats of the present code: ``python -m tests.formats.record`` (see README.md in this folder)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
from pathlib import Path

import asyncsched
from tests.formats._archive import pack
from tests.formats._frozen import HERE
from tests.formats._python import everything
from tests.formats._record_aws import record_aws
from tests.formats._record_cli import record_cli
from tests.formats._record_docker import record_docker
from tests.formats._record_local import check_no_secret, record_home
from tests.formats._record_protocol import record_protocol


def main() -> None:
    target = HERE / asyncsched.__version__
    target.mkdir(exist_ok=True)
    git = ["git", "-C", str(HERE), "rev-parse", "HEAD"]
    (target / "COMMIT").write_text(subprocess.run(git, capture_output=True, text=True, check=True).stdout)
    pack(Path(asyncsched.__file__).parent, target / "asyncsched.tar.xz")
    asyncio.run(record_home(target / "local"))
    asyncio.run(record_protocol(target / "protocol"))
    record_cli(target / "cli")
    record_python(target / "python.json")
    asyncio.run(record_docker(target / "docker"))
    asyncio.run(record_aws(target / "aws"))
    check_no_secret(target)


def record_python(target: Path) -> None:
    """Write down what programs keep of our values."""
    with tempfile.TemporaryDirectory(prefix="asyncsched-formats-") as home:
        found = asyncio.run(everything(Path(home)))
    for record in found["records"]:
        record["duration"] = 0.0
    target.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
