"""A supervisor that cannot look at processes for now ends no app, and does not end itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests._support import eventually_blocking
from tests.local.supervisor._client import BOOT, RefusedError, Supervisor, replica

SHORT = """
import errno, os, runpy, sys
_, which, flag, boot, *rest = sys.argv
usual = os.open
def opened(path, *args, **options):
    name = str(path)
    if name.startswith("/proc/") and name.endswith(which) and os.path.exists(flag):
        fd = usual(flag, os.O_WRONLY | os.O_APPEND)
        os.write(fd, b".")
        os.close(fd)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
    return usual(path, *args, **options)
os.open = opened
sys.argv = [boot, *rest]
runpy.run_path(boot, run_name="__main__")
"""
"""Runs a supervisor that has no descriptors for some files of the kernel while a file is there; it notes each try."""


def _boot(which: str, flag: Path) -> Sequence[str]:
    return (sys.executable, "-I", "-S", "-c", SHORT, which, str(flag), str(BOOT))


def test_an_owner_who_cannot_be_looked_at_is_still_there(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    with Supervisor(tmp_path / "home", pidfd=False, boot=_boot("/stat", flag)) as supervisor:
        supervisor.submit(replica("sleep", "1000"), grace_period=0.1)
        flag.touch()
        eventually_blocking(lambda: flag.stat().st_size >= 2)

        assert supervisor.describe()["finished_ns"] is None
        flag.unlink()
        assert supervisor.is_alive()


@pytest.mark.parametrize("which", ["/stat", "/boot_id"])
def test_a_supervisor_that_cannot_be_identified_refuses(tmp_path: Path, which: str) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    with pytest.raises(RefusedError, match="Too many open files"):
        Supervisor(tmp_path / "home", boot=_boot(which, flag))
