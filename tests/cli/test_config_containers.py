"""Configuration files in containers: on read-only mounts, and in homes of the group 0."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsched.runner.config import Config, load_config
from asyncsched.runner.config import trust as trust_module
from tests.cli.test_config_trust import NOBODY, UNNAMED, needs_root, used, write


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """The user's folder for our file, with a ConfigMap as Kubernetes mounts it."""
    folder = tmp_path / "home/.config/asyncsched"
    (folder / "..2030").mkdir(parents=True)
    write(folder / "..2030/config.toml")
    (folder / "..data").symlink_to("..2030")
    (folder / "config.toml").symlink_to("..data/config.toml")
    for each in (folder, folder / "..2030"):
        each.chmod(0o777)
    return folder


@pytest.fixture
def load(tmp_path: Path) -> Callable[[], Config]:
    return lambda: load_config(tmp_path, {"HOME": str(tmp_path / "home")})


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders that are on a read-only mount."""
    folders: list[Path] = []

    def is_read_only(fd: int) -> bool:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        return any(path.is_relative_to(folder) for folder in folders)

    monkeypatch.setattr(trust_module, "_is_read_only", is_read_only)
    return folders


def test_a_folder_on_a_read_only_mount(mounted: Path, load: Callable[[], Config], read_only: list[Path]) -> None:
    assert set() == used(load())
    assert "others may write to its folder (mode 0777)" in load().warnings[0]
    read_only.append(mounted)

    assert ({"env", "grace_period"}, []) == (used(load()), load().warnings)


def test_a_file_on_a_read_only_mount(mounted: Path, load: Callable[[], Config], read_only: list[Path]) -> None:
    (mounted / "config.toml").chmod(0o666)
    read_only.append(mounted)

    assert ({"env", "grace_period"}, []) == (used(load()), load().warnings)


@needs_root
def test_a_strangers_file_on_a_read_only_mount(
    mounted: Path, load: Callable[[], Config], read_only: list[Path]
) -> None:
    read_only.append(mounted)
    os.chown(mounted, NOBODY, -1)

    assert set() == used(load())
    assert "its folder belongs to " in load().warnings[0]


def test_which_mounts_are_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fd = os.open(tmp_path, os.O_PATH)
    try:
        assert not trust_module._is_read_only(fd)
        found = os.fstatvfs(fd)
        changed = os.statvfs_result((*found[:8], found.f_flag | os.ST_RDONLY, *found[9:]))
        monkeypatch.setattr(os, "fstatvfs", lambda _: changed)

        assert trust_module._is_read_only(fd)
        monkeypatch.delattr(os, "ST_RDONLY")

        assert not trust_module._is_read_only(fd)
    finally:
        os.close(fd)


def test_a_file_that_cannot_be_asked_for_its_mount() -> None:
    assert not trust_module._is_read_only(-1)


@needs_root
@pytest.mark.parametrize("mode", [0o664, 0o666])
@pytest.mark.parametrize("owner", [0, UNNAMED])
def test_the_group_0_is_roots(tmp_path: Path, load: Callable[[], Config], mode: int, owner: int) -> None:
    """OpenShift runs containers as any user in the group 0."""
    folder = tmp_path / "home/.config/asyncsched"
    folder.mkdir(parents=True)
    for each in (tmp_path / "home", folder):
        os.chown(each, owner, 0)
        each.chmod(0o775)
    write(folder / "config.toml", owner=owner, group=0, mode=mode)
    is_used = mode == 0o664

    assert ({"env", "grace_period"} if is_used else set()) == used(load())
    assert is_used == (not load().warnings)
