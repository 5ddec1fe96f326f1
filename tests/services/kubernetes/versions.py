"""What the cluster is made of, and where what was built is kept."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

KUBERNETES = "1.34.4"
VOLCANO = "1.14.1"
ETCD = "3.6.4"
COREDNS = "1.12.4"

GO = (1, 24)
"""The oldest Go that can build it."""

HERE = Path(__file__).parent


def cache() -> Path:
    """Return the folder of this build: one for each set of versions and each state of what builds them."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "asyncsched-tests" / f"kubernetes-{KUBERNETES}-{_key()}"


def _key() -> str:
    """Hash what decides about the programs; how they are brought up has no part in it."""
    sources = [HERE / "versions.py", *sorted(HERE.glob("build_*.py")), *sorted(HERE.glob("go/*/*.go"))]
    digest = hashlib.sha256(platform.machine().encode())
    for path in sources:
        digest.update(b"\0".join((path.name.encode(), path.read_bytes())))
    return digest.hexdigest()[:12]
