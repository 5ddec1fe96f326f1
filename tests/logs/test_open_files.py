"""Files are opened where they are expected, and few are held open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from asyncsched.logs.open_files import STAYS_EVERY, OpenFiles, open_directory, open_file, read_at


class Named:
    """Files that write their name into a list when they are closed."""

    def __init__(self, name: str, released: list[str]) -> None:
        self.name = name
        self._released = released

    def release(self) -> None:
        self._released.append(self.name)


def test_who_has_used_its_files_last_keeps_them() -> None:
    released: list[str] = []
    pool = OpenFiles(2)
    a, b, c, d = (Named(name, released) for name in "abcd")
    for files in (a, b, a, c):
        pool.used(files)
    assert ["b"] == released
    pool.forget(a)
    pool.used(d)

    assert ["b"] == released


def test_of_more_than_may_be_open_in_turn_most_keep_theirs() -> None:
    released: list[str] = []
    pool = OpenFiles(6)
    all_of_them = [Named(str(number), released) for number in range(8)]
    for _ in range(100):
        for files in all_of_them:
            pool.used(files)
            pool.used(files)  # as one that reads an index and then the output

    assert len(released) < 100 * 8 / 2


def test_what_is_quiet_by_now_gives_way_to_what_is_busy() -> None:
    released: list[str] = []
    pool = OpenFiles(4)
    quiet = [Named(f"quiet {number}", released) for number in range(4)]
    busy = [Named(f"busy {number}", released) for number in range(4)]
    for files in quiet:
        pool.used(files)
    for _ in range(4 * STAYS_EVERY):
        for files in busy:
            pool.used(files)
    assert {files.name for files in quiet} <= {*released}
    released.clear()
    for files in busy * 10:
        pool.used(files)

    assert not released


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
