"""A copy of a workspace shares nothing with it."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from asyncsched._platform import WANTS
from asyncsched.errors import WorkspaceError
from asyncsched.workspace import DirWorkspace
from asyncsched.workspace.directory import remove
from tests.workspace._trees import look, plant


async def test_a_copy_has_the_files_modes_times_and_empty_directories(tmp_path: Path) -> None:
    root = plant(tmp_path / "workspace")
    workspace = DirWorkspace(str(root))
    copied = await workspace.copy(str(tmp_path / "copy"))
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    before, after = look(root), look(tmp_path / "copy")

    assert await workspace.hash() == copied == await DirWorkspace(str(tmp_path / "copy")).hash()
    assert {name: (mode, content) for name, (mode, _, content) in before.items() if name != "."} == {
        name: (mode, content) for name, (mode, _, content) in after.items() if name != "."
    }
    for path in files:
        name = str(path.relative_to(root))
        assert before[name] == after[name]
        assert path.stat().st_ino != (tmp_path / "copy" / name).stat().st_ino


@pytest.fixture(params=["the same file system", "another file system", "a URL"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, bytes]]:
    """A workspace from which a file is copied in each of the ways, and what is in that file."""
    data = os.urandom((3 << 20) + 17)
    if request.param == "a URL":
        files = pytest.importorskip("fsspec").filesystem("memory")
        files.pipe({"/elsewhere/file": data})
        yield "memory://elsewhere", data
        files.rm("/elsewhere", recursive=True)
        return
    place = tmp_path if request.param == "the same file system" else Path("/dev/shm")
    with TemporaryDirectory(dir=place) as root:
        (Path(root) / "file").write_bytes(data)
        yield root, data


async def test_a_copy_is_the_same_however_it_is_made(elsewhere: tuple[str, bytes], tmp_path: Path) -> None:
    place, data = elsewhere
    workspace = DirWorkspace(place)

    assert await workspace.hash() == await workspace.copy(str(tmp_path / "copy"))
    assert data == (tmp_path / "copy/file").read_bytes()


async def test_what_asyncschedignore_names_is_left_out(tmp_path: Path) -> None:
    root = plant(tmp_path / "workspace")
    (root / ".asyncschedignore").write_text("*\n!package\n")
    (root / ".dockerignore").write_text("package\n")
    await DirWorkspace(str(root)).copy(str(tmp_path / "copy"))

    assert {"package", "package/module.py"} == look(tmp_path / "copy").keys() - {"."}


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("file", "file"),
        ("dir/../file", "file"),
        ("ROOT/dir/inner", "dir/inner"),
        ("../workspace/dir", "dir"),
        ("/etc/hostname", "/etc/hostname"),
        ("../outside", "OUTSIDE"),
        ("dir/out/../workspace/file", "file"),
        ("up/workspace/file", "file"),
        ("dir/../up/workspace/dir/inner", "dir/inner"),
    ],
)
async def test_no_link_of_a_copy_leads_back(tmp_path: Path, target: str, wanted: str) -> None:
    root = tmp_path / "workspace"
    (root / "dir").mkdir(parents=True)
    (root / "file").write_text("x")
    (root / "dir/inner").write_text("y")
    (tmp_path / "outside").mkdir()
    (root / "dir/out").symlink_to("../../outside")
    (root / "up").symlink_to("..")
    (root / "link").symlink_to(target.replace("ROOT", str(root)))
    await DirWorkspace(str(root)).copy(str(tmp_path / "copy"))

    link = tmp_path / "copy/link"
    assert wanted.replace("OUTSIDE", str(tmp_path / "outside")) == str(link.readlink())
    assert not link.resolve().is_relative_to(root)
    assert str(tmp_path / "outside") == str((tmp_path / "copy/dir/out").readlink())


async def test_a_link_further_down_leads_to_its_own_copy(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    (root / "a/b").mkdir(parents=True)
    (root / "c").write_text("x")
    (root / "a/b/plain").symlink_to("../../c")
    (root / "a/b/whole").symlink_to(root / "c")
    (root / "a/b/self").symlink_to(root)
    await DirWorkspace(str(root)).copy(str(tmp_path / "copy"))

    for name, wanted in (("plain", "c"), ("whole", "c"), ("self", ".")):
        assert (tmp_path / "copy" / wanted).resolve() == (tmp_path / "copy/a/b" / name).resolve()


async def test_a_copy_gives_nobody_rights(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/tool").write_text("x")
    (tmp_path / "workspace/tool").chmod(0o6755)
    await DirWorkspace(str(tmp_path / "workspace")).copy(str(tmp_path / "copy"))

    assert 0o755 == (tmp_path / "copy/tool").stat().st_mode & 0o7777


async def test_a_directory_that_is_there_is_left_alone(tmp_path: Path) -> None:
    plant(tmp_path / "workspace")
    (tmp_path / "copy").mkdir()

    with pytest.raises(WorkspaceError, match="cannot copy a workspace to"):
        await DirWorkspace(str(tmp_path / "workspace")).copy(str(tmp_path / "copy"))
    assert (tmp_path / "copy").is_dir()


@pytest.mark.parametrize("number", [*WANTS, errno.EACCES])
@pytest.mark.parametrize("call", ["mkdir", "symlink", "open", "copy_file_range"])
async def test_a_copy_that_cannot_be_made_for_now_may_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    workspace = DirWorkspace(str(plant(tmp_path / "workspace")))

    def fail(*args: Any, **options: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as short, pytest.raises(WorkspaceError, match=os.strerror(number)) as caught:
        short.setattr(os, call, fail)
        short.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, fail})
        await workspace.copy(str(tmp_path / "copy"))

    assert (number in WANTS) == caught.value.retryable
    assert WANTS.get(number, "") in caught.value.fix
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(("number", "passes"), [(errno.EDQUOT, True), (errno.EPERM, False)])
async def test_a_copy_whose_modes_cannot_be_set_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, passes: bool
) -> None:
    (tmp_path / "workspace/inner").mkdir(parents=True)
    (tmp_path / "workspace/inner").chmod(0o755)
    usual = os.chmod

    def fail(path: str, mode: int, **options: Any) -> None:
        if mode == 0o755:
            raise OSError(number, os.strerror(number), path)
        usual(path, mode, **options)

    with monkeypatch.context() as short, pytest.raises(WorkspaceError, match="cannot copy a workspace to") as caught:
        short.setattr(os, "chmod", fail)
        await DirWorkspace(str(tmp_path / "workspace")).copy(str(tmp_path / "copy"))

    assert passes == caught.value.retryable
    assert not (tmp_path / "copy").exists()


async def test_another_hash_than_was_expected_leaves_nothing(tmp_path: Path) -> None:
    plant(tmp_path / "workspace")

    with pytest.raises(WorkspaceError, match="has changed since its dry-run"):
        await DirWorkspace(str(tmp_path / "workspace")).copy(str(tmp_path / "copy"), "another")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("steps", [1, 3, 5, 8])
async def test_a_cancelled_copy_leaves_nothing(tmp_path: Path, steps: int) -> None:
    plant(tmp_path / "workspace")
    with (tmp_path / "workspace/large").open("wb") as file:
        file.truncate(64 << 20)
    copying = asyncio.create_task(DirWorkspace(str(tmp_path / "workspace")).copy(str(tmp_path / "copy")))
    for _ in range(steps):
        await asyncio.sleep(0)
    is_cancelled = copying.cancel()  # where this task had to wait for the processor, the copy may be there by now
    outcome: Any = (await asyncio.gather(copying, return_exceptions=True))[0]

    assert is_cancelled == isinstance(outcome, asyncio.CancelledError)
    assert is_cancelled != (tmp_path / "copy").exists()


async def test_a_workspace_in_which_copies_are_kept_is_not_copied_into_itself(tmp_path: Path) -> None:
    plant(tmp_path / "home/state").parent.joinpath("mine").write_text("x")
    workspace = DirWorkspace(str(tmp_path / "home"), leave_out=[str(tmp_path / "home/state")])
    await workspace.copy(str(tmp_path / "home/state/copy"))

    assert {"mine"} == look(tmp_path / "home/state/copy").keys() - {"."}
    assert ["state: copies of workspaces are kept there"] == list((await workspace.context()).notes)


def test_a_copy_is_removed_whatever_its_modes(tmp_path: Path) -> None:
    (tmp_path / "copy/locked/inner").mkdir(parents=True)
    (tmp_path / "outside").mkdir(0o500)
    (tmp_path / "copy/link").symlink_to(tmp_path / "outside")
    (tmp_path / "copy/locked").chmod(0o000)
    (tmp_path / "copy").chmod(0o500)
    remove(str(tmp_path / "copy"))
    remove(str(tmp_path / "copy"))

    assert not (tmp_path / "copy").exists()
    assert 0o500 == (tmp_path / "outside").stat().st_mode & 0o777
