"""What a workspace holds, its digest, and its archive."""

from __future__ import annotations

import asyncio
import ctypes
import io
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any, cast

import pytest

from asyncsched.errors import MissingExtraError, WorkspaceError
from asyncsched.workspace import Context, workspace_hash
from asyncsched.workspace.archive import content
from asyncsched.workspace.context import absolute
from asyncsched.workspace.files import LocalTree, taken
from asyncsched.workspace.ignore import Ignore
from asyncsched.workspace.source import WorkspaceSource
from tests.workspace._trees import plant


async def packed(context: Context, **extra: bytes) -> bytes:
    async with aclosing(context.tar(extra)) as pieces:
        return b"".join([piece async for piece in pieces])


def members(archive: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {each.name: each for each in opened}


async def test_what_is_taken(tmp_path: Path) -> None:
    found = await Context.read(str(plant(tmp_path)))
    kinds = {each.path: (each.kind, oct(each.mode), each.target) for each in found.entries}

    assert {
        "broken": ("link", "0o777", "/no/such/file"),
        "empty": ("directory", "0o750", ""),
        "lib": ("directory", "0o755", ""),
        "lib64": ("link", "0o777", "lib"),
        "name with space é": ("file", "0o644", ""),
        "package": ("directory", "0o755", ""),
        "package/module.py": ("file", "0o644", ""),
        "run.sh": ("file", "0o755", ""),
        "secret": ("file", "0o600", ""),
    } == kinds
    assert sorted(kinds, key=lambda path: path.split("/")) == [each.path for each in found.entries]
    assert [] == found.notes


async def test_the_archive_holds_it(tmp_path: Path) -> None:
    archive = await packed(await Context.read(str(plant(tmp_path))), Dockerfile=b"FROM x\n")
    found = members(archive)

    assert {(0, 0, 0)} == {(each.mtime, each.uid, each.gid) for each in found.values()}
    assert ("lib", 0o755, True) == (found["lib64"].linkname, found["run.sh"].mode, found["empty"].isdir())
    assert {*found} == {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*")} | {"Dockerfile"}
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        assert [b"x = 1\n", b"FROM x\n"] == [
            file.read() for name in ("package/module.py", "Dockerfile") if (file := opened.extractfile(name))
        ]


async def test_an_added_file_takes_the_place_of_one_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("mine")
    archive = await packed(await Context.read(str(tmp_path)), Dockerfile=b"FROM x\n")

    assert [7] == [each.size for each in members(archive).values()]


async def test_same_files_same_bytes_and_same_hash(tmp_path: Path) -> None:
    first, second = plant(tmp_path / "one"), tmp_path / "elsewhere/two"
    shutil.copytree(first, second, symlinks=True)
    for path in second.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    contexts = [await Context.read(str(each)) for each in (first, second)]

    assert await contexts[0].digest() == await contexts[1].digest()
    assert await packed(contexts[0]) == await packed(contexts[1])


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "package/module.py").write_text("x = 2\n"),
        lambda root: (root / "run.sh").chmod(0o700),
        lambda root: (root / "empty").chmod(0o700),
        lambda root: (root / "empty").rename(root / "void"),
        lambda root: ((root / "lib64").unlink(), (root / "lib64").symlink_to("package")),
        lambda root: (root / "new").write_text(""),
        lambda root: ((root / "lib").rmdir(), (root / "lib").write_text("")),
    ],
)
async def test_another_file_is_another_hash(tmp_path: Path, change: Any) -> None:
    before = await (await Context.read(str(plant(tmp_path)))).digest()
    change(tmp_path)

    assert before != await (await Context.read(str(tmp_path))).digest()


def test_the_hash_is_of_all_that_is_built_from() -> None:
    asked: dict[str, Any] = {"dockerfile": b"FROM x", "build_args": {"A": "1"}, "platform": "linux/amd64", "base": "b"}
    others = {"dockerfile": b"FROM y", "build_args": {"A": "2"}, "platform": None, "base": "c"}
    hashes = {workspace_hash("d", **{**asked, name: value}) for name, value in others.items()}

    assert 6 == len({workspace_hash("d", **asked), workspace_hash("e", **asked), *hashes})
    assert workspace_hash("d", **asked) == workspace_hash("d", **dict(reversed(asked.items())))


async def test_a_virtual_environment_keeps_its_links(tmp_path: Path) -> None:
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")], check=True
    )
    found = {each.path: each for each in (await Context.read(str(tmp_path))).entries}
    links = {path for path, each in found.items() if each.kind == "link"}

    assert ".venv/bin/python" in links
    assert {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_symlink()} == links


async def test_what_is_no_file_is_passed_over_with_a_note(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "sock"))
        found = await Context.read(str(tmp_path))

    assert ([], ["pipe: it is a named pipe", "sock: it is a socket"]) == (found.entries, found.notes)


async def test_a_pipe_that_takes_a_files_place_does_not_hold_us(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    found = await Context.read(str(tmp_path))
    (tmp_path / "file").unlink()
    os.mkfifo(tmp_path / "file")

    with pytest.raises(WorkspaceError, match=r"file of the workspace .* has changed while it was read"):
        await found.digest()


@pytest.mark.parametrize("text", ["", "shorter", "of another length"])
async def test_a_file_that_changes_its_length_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text("as it was before")
    found = await Context.read(str(tmp_path))
    (tmp_path / "file").write_text(text)

    with pytest.raises(WorkspaceError, match=r"file of the workspace .* has changed while it was read"):
        await packed(found)
    with pytest.raises(WorkspaceError, match="has changed"):
        await found.digest()


async def test_the_archive_holds_what_the_digest_has_seen(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("before")
    found = await Context.read(str(tmp_path))
    await found.digest()
    (tmp_path / "file").write_text("behind")

    with pytest.raises(WorkspaceError, match="has changed"):
        await packed(found)


async def test_nothing_outside_gets_in_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside/dir").mkdir(parents=True)
    (tmp_path / "outside/dir/file").write_text("outside")
    workspace = tmp_path / "workspace"
    (workspace / "dir").mkdir(parents=True)
    (workspace / "dir/file").write_text("inside!")
    (workspace / "link").symlink_to("../outside/dir")
    found = await Context.read(str(workspace))
    (workspace / "dir").rename(workspace / "moved")
    (workspace / "dir").symlink_to("../outside/dir")  # once it has been read

    assert ["dir", "dir/file", "link"] == [each.path for each in found.entries]
    with pytest.raises(WorkspaceError, match=r"dir/file .* has changed"):
        await packed(found)


def as_nobody(work: Callable[[], object]) -> object:
    """Return what `work` returns in a thread whose files are opened as another user, or the error that it raises."""
    found: list[object] = []

    def run() -> None:
        if os.geteuid() == 0:
            ctypes.CDLL(None).setfsuid(65534)  # of this thread alone
        try:
            found.append(work())
        except WorkspaceError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


def test_what_cannot_be_read_is_an_error_unless_it_is_left_out(tmp_path: Path) -> None:
    for directory in [tmp_path, *tmp_path.parents[:2]]:
        directory.chmod(0o755)
    (tmp_path / "locked").mkdir(0o000)
    (tmp_path / "private").write_text("x")
    (tmp_path / "private").chmod(0o000)

    def read(rules: str) -> list[str]:
        with closing(LocalTree(str(tmp_path))) as tree:
            found = [*taken(tree, Ignore(rules), print)]
            return [piece.path for piece in found if piece.kind != "file" or [*content(tree, piece)]]

    if as_nobody(lambda: read("locked")) == ["private"]:
        pytest.skip("whoever runs this may read everything")
    assert [] == as_nobody(lambda: read("locked\nprivate"))
    assert "cannot list locked of the workspace" in str(as_nobody(lambda: read("private")))
    assert "cannot read private of the workspace" in str(as_nobody(lambda: read("locked")))


async def test_a_workspace_may_be_a_path_and_names_something(tmp_path: Path) -> None:
    assert str(tmp_path) == (await Context.read(cast("str", tmp_path))).workspace
    with pytest.raises(WorkspaceError, match="workspace must be a directory or a URL, got ''"):
        await Context.read("")


@pytest.mark.parametrize("name", ["missing", "file"])
async def test_a_workspace_that_is_no_directory(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")

    with pytest.raises(WorkspaceError, match=f"cannot read the workspace .*{name}"):
        await Context.read(str(tmp_path / name))


async def test_patterns_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / ".dockerignore").mkdir()
    with pytest.raises(WorkspaceError, match=r"\.dockerignore of the workspace .* is not a file"):
        await Context.read(str(tmp_path))


async def test_patterns_that_may_not_be_read_are_told(tmp_path: Path) -> None:
    for directory in [tmp_path, *tmp_path.parents[:2]]:
        directory.chmod(0o755)
    (tmp_path / ".dockerignore").write_text("*.log")
    (tmp_path / ".dockerignore").chmod(0o000)

    def read() -> object:
        with closing(LocalTree(str(tmp_path))) as tree:
            return tree.read_rules(".dockerignore")

    if (found := as_nobody(read)) == b"*.log":
        pytest.skip("whoever runs this may read everything")
    assert f"cannot read .dockerignore of the workspace {tmp_path}: Permission denied" in str(found)
    assert "to read .dockerignore" in str(found)


async def test_patterns_behind_a_link_that_leads_nowhere_are_none_as_with_docker(tmp_path: Path) -> None:
    (tmp_path / ".dockerignore").symlink_to("nowhere")
    found = await Context.read(str(tmp_path))

    assert [".dockerignore"] == [each.path for each in found.entries]


async def test_patterns_and_dockerfiles_that_are_too_long_are_told(tmp_path: Path) -> None:
    for name in (".dockerignore", "Dockerfile.asyncsched"):
        (tmp_path / name).write_bytes(b"# \n" * (1 << 19))
        with pytest.raises(WorkspaceError, match=rf"{name} of the workspace .* has more than 1,048,576 bytes"):
            await WorkspaceSource.read(str(tmp_path))
        (tmp_path / name).unlink()


@pytest.mark.parametrize("name", ["Dockerfile.asyncsched", "Dockerfile.torchx"])
@pytest.mark.parametrize("target", ["nowhere", "lib/nowhere"])
async def test_a_dockerfile_that_is_a_link_to_nothing_is_told(tmp_path: Path, name: str, target: str) -> None:
    (tmp_path / name).symlink_to(target)

    with pytest.raises(WorkspaceError, match=f"{name} of the workspace .* is a link to {target}, which does not exist"):
        await WorkspaceSource.read(str(tmp_path))


async def test_a_dockerfile_that_is_a_link_to_itself_is_told(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile.asyncsched").symlink_to("Dockerfile.asyncsched")

    with pytest.raises(WorkspaceError, match=r"cannot read Dockerfile\.asyncsched of the workspace"):
        await WorkspaceSource.read(str(tmp_path))


async def test_names_that_are_no_text_are_taken(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    (tmp_path / name).write_text("x")
    found = await Context.read(str(tmp_path))

    assert 64 == len(await found.digest())
    assert [name] == [*members(await packed(found))]


@pytest.mark.slow
@pytest.mark.one_loop
async def test_a_file_of_a_gigabyte_takes_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 30)
    found = await Context.read(str(tmp_path))
    tracemalloc.start()
    try:
        await found.digest()
        size = 0
        async with aclosing(found.tar()) as pieces:
            async for piece in pieces:
                size += len(piece)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert size > 1 << 30
    assert most < 4 << 20


async def test_a_cancelled_digest_ends_its_thread(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(64 << 30)  # which nobody would wait for
    found = await Context.read(str(tmp_path))
    summing = asyncio.create_task(found.digest())
    await asyncio.sleep(0)
    summing.cancel()

    with pytest.raises(asyncio.CancelledError):
        await summing


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


async def test_an_archive_that_is_left_early_closes_its_files(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(64 << 20)
    before = open_files()
    async with aclosing((await Context.read(str(tmp_path))).tar()) as pieces:
        await anext(pieces)

    assert before == open_files()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("/a/b/../c", "/a/c"),
        ("memory://x/y", "memory://x/y"),
        ("file:///a/b%20c", "/a/b c"),
        ("simplecache::memory://x", "simplecache::memory://x"),
    ],
)
def test_a_workspace_is_named_for_good(given: str, wanted: str) -> None:
    assert wanted == absolute(given)


# Behind a URL


@pytest.fixture
def memory() -> Iterator[Any]:
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    files.pipe({"/space/a/b.txt": b"hello", "/space/skip.log": b"x", "/space/.dockerignore": b"*.log\n"})
    files.mkdir("/space/empty")
    yield files
    files.rm("/space", recursive=True)


async def test_a_url_is_read_like_a_directory(memory: Any, tmp_path: Path) -> None:
    found = await Context.read("memory://space")
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b.txt").write_bytes(b"hello")
    (tmp_path / ".dockerignore").write_bytes(b"*.log\n")
    (tmp_path / "empty").mkdir()
    local = await Context.read(str(tmp_path))

    assert [".dockerignore", "a", "a/b.txt", "empty"] == [each.path for each in found.entries]
    assert await local.digest() == await found.digest()
    assert await packed(local) == await packed(found)


async def test_a_url_without_files_is_told(memory: Any) -> None:
    with pytest.raises(WorkspaceError, match="cannot read the workspace memory://nowhere"):
        await Context.read("memory://nowhere")
    with pytest.raises(WorkspaceError, match="cannot read the workspace nosuch://x"):
        await Context.read("nosuch://x")


async def test_what_installs_fsspec_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)

    with pytest.raises(MissingExtraError, match=r"pip install 'asyncsched\[workspace\]'"):
        await Context.read("memory://space")


def test_a_directory_needs_no_fsspec(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; from asyncsched.workspace import Context; asyncio.run(Context.read(sys.argv[1]));"
        "print('fsspec' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, check=True, text=True)

    assert "False" == done.stdout.strip()
