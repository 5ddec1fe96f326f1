"""Workspaces for tests, and what they look like afterwards."""

from __future__ import annotations

import stat
from pathlib import Path


def plant(root: Path) -> Path:
    """Make a workspace with one of each: modes, links, an empty directory, what cannot be sent."""
    (root / "package").mkdir(parents=True)
    (root / "package/module.py").write_text("x = 1\n")
    (root / "run.sh").write_text("#!/bin/sh\necho hello\n")
    (root / "run.sh").chmod(0o755)
    (root / "secret").write_text("s")
    (root / "secret").chmod(0o600)
    (root / "empty").mkdir()
    (root / "empty").chmod(0o750)
    (root / "lib").mkdir()
    (root / "lib64").symlink_to("lib")
    (root / "broken").symlink_to("/no/such/file")
    (root / "name with space é").write_text("")
    return root


def look(root: Path) -> dict[str, tuple[int, int, bytes | str]]:
    """Return modes, times and contents of all that is there."""
    found: dict[str, tuple[int, int, bytes | str]] = {}
    for path in [root, *root.rglob("*")]:
        status = path.lstat()
        content: bytes | str = b""
        if stat.S_ISLNK(status.st_mode):
            content = str(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        found[str(path.relative_to(root))] = (status.st_mode, status.st_mtime_ns, content)
    return found
