"""Files are opened where they are expected, and few are held open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from asyncsched.logs.open_files import OpenFiles, open_directory, open_file, read_at


def test_who_has_used_its_files_last_keeps_them() -> None:
    released: list[str] = []

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def release(self) -> None:
            released.append(self.name)

    pool = OpenFiles(2)
    a, b, c, d = map(Named, "abcd")
    for files in (a, b, a, c):
        pool.used(files)
    assert ["b"] == released
    pool.forget(a)
    pool.used(d)

    assert ["b"] == released


def test_only_what_lies_below_is_opened(tmp_path: Path) -> None:
    (tmp_path / "in" / "side").mkdir(parents=True)
    (tmp_path / "in" / "side" / "file").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    with pytest.raises(NotADirectoryError):
        open_directory(str(tmp_path), "link/side")
    at = open_directory(str(tmp_path / "link"), "side")  # what the user names may be reached in any way
    fd = open_file("file", at=at)
    try:
        assert b"345" == read_at(fd, 3, 3)
    finally:
        os.close(fd)
        os.close(at)
