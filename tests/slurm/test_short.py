"""Files of an app that cannot be read for now are an error that passes, and never what the app looks like."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsched.errors import SchedulerError, UnavailableError
from asyncsched.schedulers.slurm import names
from asyncsched.schedulers.slurm.lookup import AppLinks, StoredApp, _describe_all, _results
from asyncsched.specs.result import UnreadableResult

pytestmark = pytest.mark.one_loop

APP_ID = "a-0123456789abcd"


@pytest.fixture
def links(tmp_path: Path) -> AppLinks:
    """The place of one app, with a job and a result."""
    directory = tmp_path / "jobs" / APP_ID
    (directory / names.EVENTS).mkdir(parents=True)
    directory.chmod(0o700)
    replica = {"role": "main", "k": 0, "stem": "main.0"}
    record = {"app_id": APP_ID, "session": "s", "name": "a", "digest": "x", "created_ns": 10**18, "replicas": [replica]}
    (directory / names.APP).write_text(json.dumps(record))
    (directory / names.NUMBER).write_text("42\n")
    (directory / names.result_name("main.0")).write_text("1")
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / APP_ID).symlink_to(directory)
    return AppLinks(tmp_path)


def _fail(monkeypatch: pytest.MonkeyPatch, call: str, name: str, number: int) -> None:
    usual = getattr(os, call)

    def failing(path: object, *args: object, **options: object) -> object:
        if str(path).endswith(f"/{name}"):
            raise OSError(number, os.strerror(number), str(path))
        return usual(path, *args, **options)

    monkeypatch.setattr(os, call, failing)


def _found(links: AppLinks) -> StoredApp:
    app = links.find(APP_ID)
    assert app is not None
    return app


LOOKS: dict[str, tuple[str, str, Callable[[AppLinks], object]]] = {
    "list": ("listdir", "apps", AppLinks.app_ids),
    "link": ("readlink", APP_ID, _found),
    "record": ("open", names.APP, _found),
    "record's place": ("stat", names.APP, _found),
    "job": ("open", names.NUMBER, _found),
    "events": ("open", names.events_name("main.0"), lambda links: _describe_all({APP_ID: _found(links)}, {})),
    "result": ("open", names.result_name("main.0"), lambda links: _results(_found(links))),
}


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.ESTALE, errno.EIO])
@pytest.mark.parametrize("what", LOOKS)
def test_what_cannot_be_read_for_now_is_an_error_that_passes(
    links: AppLinks, monkeypatch: pytest.MonkeyPatch, what: str, number: int
) -> None:
    call, name, look = LOOKS[what]
    with monkeypatch.context() as short, pytest.raises(UnavailableError, match="cannot be read") as caught:
        _fail(short, call, name, number)
        look(links)

    assert caught.value.retryable
    assert os.strerror(number) == caught.value.why
    look(links)


def test_a_submit_whose_lock_cannot_be_looked_at_was_not_cut_off(
    links: AppLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = links.directory_of(APP_ID, "describe")
    Path(f"{directory}/{names.NUMBER}").unlink()
    Path(f"{directory}/{names.LOCK}").touch()
    with monkeypatch.context() as short, pytest.raises(UnavailableError, match="cannot be read"):
        _fail(short, "open", names.LOCK, errno.EMFILE)
        links.find(APP_ID)

    assert not _found(links).found.is_cut_off


def test_another_error_is_told_and_does_not_pass(links: AppLinks, monkeypatch: pytest.MonkeyPatch) -> None:
    _fail(monkeypatch, "open", names.APP, errno.EBUSY)
    with pytest.raises(SchedulerError, match="cannot be read") as caught:
        links.find(APP_ID)

    assert not caught.value.retryable


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO])
def test_what_a_replica_may_have_done_to_its_files_is_no_error(
    links: AppLinks, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    app = _found(links)
    for name in (names.APP, names.NUMBER, names.result_name("main.0")):
        _fail(monkeypatch, "open", name, number)

    assert "" == _found(AppLinks(links.root)).found.job_id
    assert isinstance(_results(app)["main", 0], UnreadableResult)
