"""Programs from Debian's packages, unpacked in the cache and not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

PACKAGES = ("containerd", "runc", "containernetworking-plugins", "busybox-static")


def unpack(root: Path) -> None:
    """Download and unpack the packages below `root`, which is there only once it is whole."""
    if shutil.which("apt-get") is None:
        raise RuntimeError(f"the cluster needs Debian's packages {', '.join(PACKAGES)}, and there is no apt-get here")
    new = root.with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    debs = new / "debs"
    debs.mkdir(parents=True)
    _download(debs)
    for deb in debs.glob("*.deb"):
        subprocess.run(["dpkg", "-x", deb, new], check=True)
    shutil.rmtree(debs)
    new.rename(root)


def _download(folder: Path) -> None:
    done = _apt_get(folder, "download", *PACKAGES)
    if done.returncode != 0 and os.geteuid() == 0:  # the lists of packages may be missing or old
        _apt_get(folder, "update")
        done = _apt_get(folder, "download", *PACKAGES)
    if done.returncode != 0:
        raise RuntimeError(f"apt-get download {' '.join(PACKAGES)}: {done.stderr.strip()[-500:]}")


def _apt_get(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["apt-get", "-q", *arguments], cwd=folder, capture_output=True, text=True, check=False)
