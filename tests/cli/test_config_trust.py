"""Configuration files that others may have written: those above the working directory do not count."""

from __future__ import annotations

import grp
import itertools
import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsched.errors import ConfigError
from asyncsched.runner.config import Config, files, load_config
from asyncsched.runner.config.trust import open_config
from tests.cli._cli import Cli

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")

NOBODY = 65534
UNNAMED = 54321
"""A user and a group that no database knows."""

DOUBT = "others may write to it (mode 0666)"
TOML = '[scheduler.local_cwd]\nenv = {LD_PRELOAD = "/tmp/evil.so"}\ngrace_period = 3.0\n'
TEXTS = {
    "asyncsched.toml": TOML,
    "pyproject.toml": '[project]\nname = "x"\n[tool.asyncsched.scheduler.local_cwd]\nenv.A = "b"\ngrace_period = 3.0\n',
    ".torchxconfig": "[local_cwd]\nenv = A:b\ngrace_period = 3.0\n",
}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working directory, two levels below one of a user's."""
    (tmp_path / "home").mkdir()
    (tmp_path / "user/project/deep").mkdir(parents=True)
    for folder in ("user", "user/project", "user/project/deep"):
        (tmp_path / folder).chmod(0o755)
    return tmp_path / "user/project/deep"


@pytest.fixture
def load(work: Path, tmp_path: Path) -> Callable[..., Config]:
    return lambda start=work, **variables: load_config(start, {"HOME": str(tmp_path / "home"), **variables})


def write(path: Path, text: str = TOML, *, mode: int = 0o644, owner: int = -1, group: int = -1) -> Path:
    path.write_text(text)
    os.chown(path, owner, group)
    path.chmod(mode)
    return path


def used(config: Config) -> set[str]:
    return {*config.scheduler("local_cwd")}


def test_what_is_ours_counts(work: Path, load: Callable[..., Config]) -> None:
    write(work / "../asyncsched.toml")

    assert ({"env", "grace_period"}, []) == (used(load()), load().warnings)


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_above_that_others_may_write_does_not_count(work: Path, load: Callable[..., Config], name: str) -> None:
    file = write(work.parent / name, TEXTS[name], mode=0o666)

    assert set() == used(load())
    assert [
        f"../{name} is not used: others may write to it (mode 0666); ASYNCSCHED_TRUST_CONFIG={file} allows it"
    ] == load().warnings
    for trusted in (str(file), f"/nowhere:{work.parent.parent}", "..", f"../{name}"):
        config = load(ASYNCSCHED_TRUST_CONFIG=trusted)
        assert ({"env", "grace_period"}, []) == (used(config), config.warnings)
    assert set() == used(load(ASYNCSCHED_TRUST_CONFIG=f"{work}:{file}x:"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *itertools.product(["asyncsched.toml", ".torchxconfig"], ["[", "#" * (1 << 20) + "x", "\udcff"]),
        ("asyncsched.toml", "[nosuch]\nx = 1\n"),
    ],
)
def test_an_unusable_file_here_that_others_may_write_stops_nobody(
    work: Path, load: Callable[..., Config], name: str, text: str
) -> None:
    (work / name).write_bytes(text.encode(errors="surrogateescape"))
    (work / name).chmod(0o644)
    with pytest.raises(ConfigError):
        load()
    (work / name).chmod(0o666)

    (warning,) = load().warnings
    assert warning.startswith(f"./{name} ")
    assert warning.endswith(f"; {DOUBT}")


def test_the_next_file_above_counts_in_its_place(work: Path, load: Callable[..., Config]) -> None:
    write(work / "../asyncsched.toml", mode=0o666)
    write(work / "../../asyncsched.toml")

    assert {"env", "grace_period"} == used(load())
    assert 1 == len(load().warnings)


def test_a_folder_above_that_others_may_write_to(work: Path, load: Callable[..., Config]) -> None:
    write(work / "../asyncsched.toml")
    work.parent.chmod(0o777)

    assert set() == used(load())
    assert "others may write to its folder (mode 0777)" in load().warnings[0]
    work.parent.chmod(0o1777)

    assert ({"env", "grace_period"}, []) == (used(load()), load().warnings)


@pytest.mark.parametrize("name", TEXTS)
def test_the_working_directorys_own_file_is_told(work: Path, load: Callable[..., Config], name: str) -> None:
    file = write(work / name, TEXTS[name], mode=0o777)

    assert {"grace_period"} == used(load())
    assert [
        f"./{name} is used without scheduler.local_cwd.env: others may write to it (mode 0777); "
        f"ASYNCSCHED_TRUST_CONFIG={file} allows it"
    ] == load().warnings
    config = load(ASYNCSCHED_TRUST_CONFIG=".")

    assert ({"env", "grace_period"}, []) == (used(config), config.warnings)


def test_what_runs_or_redirects_is_left_out(work: Path, load: Callable[..., Config]) -> None:
    text = (
        '[command.run]\ncomponent = "x.py:f"\nreplicas = 2\n[component."utils.sh"]\nargs = "x"\n'
        '[scheduler.aws_batch]\nendpoint_url = "http://x"\npriority = 1\n'
    )
    write(work / "asyncsched.toml", text)
    work.chmod(0o777)
    config = load()

    assert {"replicas"} == {*config.command("run")}
    assert {"priority"} == {*config.scheduler("aws_batch")}
    assert {} == config.component("utils.sh")
    assert (
        "without command.run.component, component.utils.sh.args, scheduler.aws_batch.endpoint_url: others may"
        in (config.warnings[0])
    )


def test_a_project_file_that_is_not_about_us_is_passed_over(work: Path, load: Callable[..., Config]) -> None:
    for folder in (work, work.parent):
        write(folder / "pyproject.toml", '[project]\nname = "asyncsched"\n', mode=0o666)

    assert [] == load().warnings


def test_the_search_ends_at_the_repository_and_at_home(work: Path, load: Callable[..., Config]) -> None:
    write(work / "../../asyncsched.toml")

    assert {"env", "grace_period"} == used(load())
    assert set() == used(load(HOME=str(work.parent)))
    (work.parent / ".git").write_text("gitdir: elsewhere")

    assert set() == used(load())
    write(work / "../asyncsched.toml")

    assert {"env", "grace_period"} == used(load())


def test_files_that_are_named_are_trusted(work: Path, load: Callable[..., Config]) -> None:
    file = write(work / "../mine.toml", mode=0o666)

    assert {"env", "grace_period"} == used(load(ASYNCSCHED_CONFIG=str(file)))
    file = write(work / "../mine.ini", TEXTS[".torchxconfig"], mode=0o666)

    assert {"env", "grace_period"} == used(load(TORCHXCONFIG=str(file)))


@pytest.mark.parametrize("name", TEXTS)
def test_a_huge_file_is_not_read(work: Path, load: Callable[..., Config], name: str) -> None:
    """A sparse file takes no space on a disk, but all of the memory of who reads it."""
    file = write(work.parent / name, TEXTS[name])
    os.truncate(file, 1 << 40)
    with pytest.raises(ConfigError, match=rf"^\.\./{name} cannot be read: it is larger than {1 << 20} bytes"):
        load()
    file.chmod(0o666)

    assert set() == used(load())
    assert f"../{name} is not used: {DOUBT}" in load().warnings[0]


@pytest.mark.parametrize("by_file", [True, False])
def test_a_link_that_changes_after_it_was_trusted(
    work: Path, load: Callable[..., Config], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by_file: bool
) -> None:
    """The owner of a folder above lets his link refer to a trusted file, and to his own one step later."""
    trusted, theirs = tmp_path / "trusted", tmp_path / "theirs"
    for folder, period in ((trusted, 1.0), (theirs, 2.0)):
        folder.mkdir()
        write(folder / "asyncsched.toml", f"[scheduler.local_cwd]\ngrace_period = {period}\n", mode=0o666)
    link = work.parent / "asyncsched.toml"
    link.symlink_to(trusted / "asyncsched.toml")
    named = str(trusted / "asyncsched.toml" if by_file else trusted)

    def flip_and_open(path: Path, *owners: object) -> object:
        if path.parent in (work.parent, trusted):
            link.unlink()
            link.symlink_to(theirs / "asyncsched.toml")
        return open_config(path, *owners)  # type: ignore[arg-type]

    assert 1.0 == load(ASYNCSCHED_TRUST_CONFIG=named).scheduler("local_cwd")["grace_period"].value
    monkeypatch.setattr(files, "open_config", flip_and_open)
    setting = load(ASYNCSCHED_TRUST_CONFIG=named).scheduler("local_cwd")["grace_period"]

    assert (1.0, "../asyncsched.toml:2") == setting[:2]
    assert set() == used(load(ASYNCSCHED_TRUST_CONFIG=named))


@pytest.mark.parametrize("through", [None, "second"])
def test_the_folder_that_a_link_leads_to_is_judged(
    work: Path, load: Callable[..., Config], tmp_path: Path, through: str | None
) -> None:
    """Others can put a file of theirs in the place of ours there."""
    (tmp_path / "shared").mkdir()
    target = write(tmp_path / "shared/mine.toml")
    if through:
        (work / through).symlink_to("../../../shared/mine.toml")
    link = work.parent / "asyncsched.toml"
    link.symlink_to(Path("deep") / through if through else target)

    assert ({"env", "grace_period"}, []) == (used(load()), load().warnings)
    target.parent.chmod(0o777)

    assert set() == used(load())
    assert "is not used: it links to " in load().warnings[0]
    assert ", and others may write to its folder (mode 0777); ASYNCSCHED_TRUST_CONFIG=" in load().warnings[0]


@needs_root
@pytest.mark.parametrize("name", TEXTS)
def test_a_file_of_somebody_else(work: Path, load: Callable[..., Config], name: str) -> None:
    file = write(work / "../.." / name, TEXTS[name], owner=NOBODY).resolve()
    who = f"{pwd.getpwuid(NOBODY).pw_name} (uid {NOBODY})"

    assert set() == used(load())
    assert [
        f"../../{name} is not used: it belongs to {who}; ASYNCSCHED_TRUST_CONFIG={file} allows it"
    ] == load().warnings
    write(work / name, TEXTS[name], owner=NOBODY)

    assert {"grace_period"} == used(load())
    assert f"./{name} is used without scheduler.local_cwd.env: it belongs to {who}" in load().warnings[0]


@needs_root
def test_the_owner_of_the_working_directory_is_believed(work: Path, load: Callable[..., Config]) -> None:
    write(work / "../asyncsched.toml", owner=NOBODY)
    for folder in (work, work.parent):
        os.chown(folder, NOBODY, -1)

    assert ({"env", "grace_period"}, []) == (used(load()), load().warnings)


@needs_root
def test_a_folder_of_somebody_else(work: Path, load: Callable[..., Config]) -> None:
    write(work / "../asyncsched.toml")
    os.chown(work.parent, UNNAMED, -1)

    assert set() == used(load())
    assert f"its folder belongs to uid {UNNAMED}" in load().warnings[0]


@needs_root
def test_a_link_of_somebody_else_to_our_own_file(work: Path, load: Callable[..., Config]) -> None:
    write(work / "mine.toml")
    link = work / "../asyncsched.toml"
    link.symlink_to(work / "mine.toml")

    assert {"env", "grace_period"} == used(load())
    os.chown(link, NOBODY, -1, follow_symlinks=False)

    assert set() == used(load())
    link.unlink()
    write(work / "theirs.toml", owner=NOBODY)
    link.symlink_to(work / "theirs.toml")

    assert set() == used(load())


def alone_in_its_group() -> pwd.struct_passwd:
    users = pwd.getpwall()
    groups = {group.gr_gid: group.gr_mem for group in grp.getgrall()}
    return next(
        user
        for user in users
        if user.pw_uid and groups.get(user.pw_gid) == [] and 1 == sum(each.pw_gid == user.pw_gid for each in users)
    )


@needs_root
@pytest.mark.parametrize("above", [True, False])
def test_a_group_that_is_its_owners_alone_is_not_others(work: Path, load: Callable[..., Config], above: bool) -> None:
    """Debian gives each user a group, and some make their files writable for it."""
    user = alone_in_its_group()
    for uid, gid, expected in (
        (user.pw_uid, user.pw_gid, {"env", "grace_period"}),
        (UNNAMED, UNNAMED, {"env", "grace_period"}),
        (user.pw_uid, grp.getgrnam("nogroup").gr_gid, set[str]()),
        (UNNAMED, user.pw_gid, set[str]()),
    ):
        for folder in (work, work.parent):
            os.chown(folder, uid, user.pw_gid if gid == user.pw_gid != uid else gid)
            folder.chmod(0o775 if expected else 0o755)
        write((work.parent if above else work) / "asyncsched.toml", owner=uid, group=gid, mode=0o664)

        assert (expected or (set() if above else {"grace_period"})) == used(load())
        assert bool(expected) == (not load().warnings)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_our_own_file_that_cannot_be_read_is_an_error(work: Path, load: Callable[..., Config]) -> None:
    write(work / "../asyncsched.toml", mode=0)
    with pytest.raises(ConfigError, match=r"\.\./asyncsched\.toml cannot be read"):
        load()


@pytest.mark.slow
def test_each_command_says_it_in_one_line(cli: Cli) -> None:
    (cli.folder / "a/b").mkdir(parents=True)
    cli.environment["HOME"] = "/nonexistent"
    file = write(cli.folder / "asyncsched.toml", "[command.run]\nscheduler = 'x'\n", mode=0o666)
    cli.folder = cli.folder / "a/b"
    warning = f"warning: ../../asyncsched.toml is not used: {DOUBT}; ASYNCSCHED_TRUST_CONFIG={file} allows it"
    done = cli("run", "-s", "stage", "--log", "-o", "json", "utils.sh", "echo a")

    assert (0, 1) == (done.code, done.err.count("warning: "))
    assert done.err.startswith(warning)
    assert "SUCCEEDED" == done.json["state"]
    assert "is not used: others may write to it" in cli("doctor").out
    assert 2 == cli("run", "utils.sh", "echo a", ASYNCSCHED_TRUST_CONFIG=str(file)).code
