"""Packs the part of the package that runs unseen: what started a detached app, and what it is looked at with."""

from __future__ import annotations

import tarfile
from pathlib import Path

LEFT_OUT = ("testing", "_dockerd", "schedulers/docker", "schedulers/aws_batch", "schedulers/kubernetes")
"""What no local app needs, to keep the archive small."""


def pack(package: Path, archive: Path) -> None:
    """Write an archive that is the same for the same files, whoever packs it."""
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for path in sorted(package.rglob("*.py")):
            if not path.relative_to(package).as_posix().startswith(LEFT_OUT):
                tar.add(path, str(path.relative_to(package.parent)), filter=_plain)


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o644
    return info
