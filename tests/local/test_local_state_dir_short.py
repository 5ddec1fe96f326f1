"""A state directory that cannot be opened for now is never passed over: its apps would be gone, and start twice."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsched.errors import AsyncSchedError, ConfigError, SchedulerError
from asyncsched.runner.groups.state_files import make_folder
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.schedulers.local.state_dir import StateDir
from tests.local._local import ONE_LOOP, app, shell

pytestmark = ONE_LOOP

MAY_PASS = [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EACCES, errno.EMFILE, errno.ELOOP]


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The two places of the state, of which none is there yet."""
    monkeypatch.delenv("ASYNCSCHED_HOME", raising=False)
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
        (tmp_path / name).mkdir()
    return [tmp_path / name / "asyncsched" for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR")]


def _fail(call: str, path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = getattr(os, call)

    def failing(named: object, *args: object, **options: object) -> object:
        if str(named) == str(path):
            raise OSError(number, os.strerror(number), str(named))
        return usual(named, *args, **options)

    monkeypatch.setattr(os, call, failing)


def _may_enter_all_but(place: Path) -> Callable[[object, int], bool]:
    def access(path: object, _mode: int) -> bool:
        return path != place

    return access


@pytest.mark.parametrize("number", MAY_PASS)
async def test_one_that_cannot_be_opened_for_now_has_its_apps(
    homes: list[Path], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    async with LocalScheduler("session") as one, LocalScheduler("session") as two:
        app_id = await one.submit(app(shell("exec sleep 1000")), {"grace_period": 0.1}, key="k")
        with monkeypatch.context() as short:
            _fail("open", homes[0], number, short)
            for look in (two.describe, two.cancel, two.delete):
                with pytest.raises(SchedulerError, match=r"the state directory .* cannot be opened"):
                    await look(app_id)
            with pytest.raises(SchedulerError, match="cannot be opened"):
                await two.list()
            with pytest.raises(SchedulerError, match="cannot be opened"):
                await two.submit(app(shell("exec sleep 1000")), {"grace_period": 0.1}, key="k")

        assert not homes[1].exists()
        found = await two.describe(app_id)
        assert found is not None


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOSPC, errno.EMFILE])
def test_one_that_cannot_be_made_for_now_is_not_replaced(
    homes: list[Path], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    state = StateDir(homes)
    with monkeypatch.context() as short, pytest.raises(AsyncSchedError) as caught:
        _fail("mkdir", homes[0], number, short)
        state.make()

    assert not isinstance(caught.value, ConfigError)
    assert not homes[1].exists()
    state.make()
    assert homes[0] == state.path
    state.close()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_one_that_cannot_be_made_at_all_is_replaced(
    homes: list[Path], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    state = StateDir(homes)
    folders: list[Path] = []
    with monkeypatch.context() as short:
        _fail("mkdir", homes[0], number, short)
        state.make()
        folders.append(make_folder())
    assert homes[1] == state.path
    state.close()

    # The other one has the apps from now on, even where the first can be made again.
    again = StateDir(homes)
    again.make()
    folders.append(make_folder())
    assert homes[1] == again.path
    assert [homes[1] / "groups"] * 2 == folders
    again.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES])
def test_a_group_that_cannot_be_opened_for_now_is_not_kept_elsewhere(
    homes: list[Path], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    folder = make_folder()
    with monkeypatch.context() as short, pytest.raises(OSError, match=os.strerror(number)):
        _fail("stat", homes[0], number, short)
        make_folder()

    assert not homes[1].exists()
    assert folder == make_folder()


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOSPC])
def test_a_group_that_cannot_be_kept_for_now_is_not_kept_elsewhere(
    homes: list[Path], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with monkeypatch.context() as short, pytest.raises(OSError, match=os.strerror(number)):
        _fail("mkdir", homes[0], number, short)
        make_folder()

    assert not homes[1].exists()


def test_a_home_of_another_user_that_we_may_not_enter_has_no_apps_of_ours(
    homes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = StateDir(homes)
    with monkeypatch.context() as kept_out:
        for call in ("open", "stat", "mkdir"):
            _fail(call, homes[0], errno.EACCES, kept_out)
        kept_out.setattr(os, "access", _may_enter_all_but(homes[0].parent))
        with pytest.raises(SchedulerError, match="cannot be opened"):
            state.open()  # our own directory does so: an expired ticket of a file server, for example
        kept_out.setattr("asyncsched._platform.user_id", lambda: os.geteuid() + 1)

        assert not state.open()
        state.choose()
        assert homes[1] == state.path
        state.make()
        assert homes[1] / "groups" == make_folder()
    assert homes[1] == state.path
    state.close()
