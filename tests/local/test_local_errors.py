"""What the machine is short of is told as such, and may be tried again; mistakes of an app are not."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from asyncsched._platform import WANTS
from asyncsched.errors import InvalidRequestError, LogStreamError, SchedulerError, UnavailableError
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.schedulers.local.ending import read_results
from asyncsched.schedulers.local.errors import translate
from asyncsched.schedulers.local.state_dir import StateDir
from asyncsched.specs import Role, Secret
from asyncsched.specs.result import RESULT_FILE
from tests.local._local import LOOKS_AROUND, ONE_LOOP, Other, app, app_directory, ended, read, shell

pytestmark = ONE_LOOP

PASSING = {
    "EAGAIN",
    "EDQUOT",
    "EIO",
    "EMFILE",
    "ENFILE",
    "ENOBUFS",
    "ENOMEM",
    "ENOSPC",
    "ESTALE",
    "ETIMEDOUT",
    "ETXTBSY",
}
BY_REQUEST = {"E2BIG", "EILSEQ", "EINVAL", "ENAMETOOLONG"}


def refused(answer: dict[str, object]) -> SchedulerError:
    """Return what an answer to a submit means."""
    return translate(answer, "submit", app_id="a")


@pytest.mark.parametrize("number", [0, *errno.errorcode, 9999])
def test_every_error_of_the_kernel_has_its_kind_and_says_what_to_do(number: int) -> None:
    of_the_app = refused({"error": "refused", "message": "why", "errno": number, "ours": False})
    of_the_supervisor = translate(
        {"error": "refused", "message": "why", "errno": number, "ours": True}, "submit", app_id="a"
    )

    passing = errno.errorcode.get(number) in PASSING
    assert (UnavailableError if passing else InvalidRequestError) is type(of_the_app)
    assert passing == of_the_app.retryable
    by_request = errno.errorcode.get(number) in BY_REQUEST
    assert (InvalidRequestError if by_request else UnavailableError) is type(of_the_supervisor)
    assert by_request != of_the_supervisor.retryable
    for error in (of_the_app, of_the_supervisor):
        assert ("cannot start a", "why") == (error.what, error.why)
        assert "submit again" in error.fix


def test_a_supervisor_of_another_release_says_less_and_is_understood() -> None:
    assert InvalidRequestError is type(refused({"error": "refused", "message": "no such program"}))


def test_more_replicas_than_there_are_descriptors_for_can_be_tried_again(home: Path) -> None:
    code = """
        import resource

        async def main():
            resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
            async with LocalScheduler("session") as scheduler:
                for replicas in (60, 1):
                    try:
                        app_id = await scheduler.submit(app(shell("true", num_replicas=replicas)))
                        say((await ended(scheduler, app_id)).state.name)
                    except AsyncSchedError as error:
                        say(type(error).__name__, error.retryable, error.why, error.fix)
        asyncio.run(main())
    """
    with Other(code) as owner:
        said = owner.hear()
        assert said.startswith("UnavailableError True")
        assert "Too many open files" in said
        assert "ulimit -n" in said
        assert "SUCCEEDED" in owner.hear()


@LOOKS_AROUND
async def test_a_state_directory_that_has_gone_is_no_mistake_of_the_app(scheduler: LocalScheduler, home: Path) -> None:
    await ended(scheduler, await scheduler.submit(app(shell("true"))))
    shutil.rmtree(home / "apps")

    with pytest.raises(UnavailableError, match="state directory") as caught:
        await scheduler.submit(app(shell("true")))
    assert "No such file" in caught.value.why
    assert caught.value.retryable


async def test_a_program_that_is_not_there_is(scheduler: LocalScheduler) -> None:
    with pytest.raises(InvalidRequestError, match="correct it"):
        await scheduler.submit(app(Role("main", "", entrypoint="/no/such/program")))


@pytest.mark.parametrize(
    "role",
    [
        Role("main", "", entrypoint=Secret("/nope/Zq1aaaaaaa9"), args=["x"]),
        Role("main", "", entrypoint=Secret("Zq1aaaaaaa9")),
        Role("main", "", entrypoint=Secret("it's \\ Zq1aaaaaaa9")),
        Role("main", "", entrypoint="/nope/Zq1aaaaaaa9", env={"API_TOKEN": "Zq1aaaaaaa9"}),
        Role("main", "", entrypoint="true", env={"A=Zq1aaaaaaa9": "1", "PIN": Secret("Zq1aaaaaaa9")}),
        Role("main", "", entrypoint="true", env={"DB_PASSWORD=Zq1aaaaaaa9": ""}),
        Role("main", "", entrypoint="true", args=cast("list[str]", "--password Zq1aaaaaaa9")),
    ],
)
async def test_an_app_that_cannot_start_says_no_secret(scheduler: LocalScheduler, role: Role) -> None:
    with pytest.raises((SchedulerError, ValueError)) as caught:
        await scheduler.submit(app(role))

    assert "Zq1aaaaaaa9" not in "".join([str(caught.value), repr(caught.value), repr(vars(caught.value))])


def short_of(number: int, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Let a call fail as it does where the machine is short of something."""

    def fail(*args: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(call, fail)


@pytest.mark.parametrize("number", sorted(WANTS))
@pytest.mark.parametrize("missing", ["home", "apps"])
def test_a_state_directory_that_cannot_be_made_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, number: int
) -> None:
    home = tmp_path / "home"
    if missing == "apps":
        home.mkdir(0o700)
    state = StateDir([home])
    with monkeypatch.context() as short, pytest.raises(UnavailableError) as caught:
        short_of(number, short, "os.mkdir")
        state.make()

    assert caught.value.retryable
    assert os.strerror(number) == caught.value.why
    assert caught.value.fix
    assert "remove" not in caught.value.fix
    state.make()
    state.close()


def test_only_what_stands_in_the_way_is_to_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "apps").touch()
    state = StateDir([tmp_path])
    with pytest.raises(SchedulerError, match="remove what is there") as in_the_way:
        state.make()
    short_of(errno.EROFS, monkeypatch, "os.mkdir")
    with pytest.raises(SchedulerError, match="mount the disk") as read_only:
        state.make()
    state.close()

    assert [False, False] == [each.value.retryable for each in (in_the_way, read_only)]


@pytest.mark.parametrize("way", ["delete", "prune", "submit"])
async def test_a_removal_that_was_cut_off_is_completed(
    scheduler: LocalScheduler, home: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    app_id = await scheduler.submit(app(shell("true")), key="k")
    await ended(scheduler, app_id)
    for remove in (scheduler.delete(app_id), scheduler.prune(timedelta(0))):
        with monkeypatch.context() as short, pytest.raises(UnavailableError, match=f"{app_id} cannot be") as caught:
            short_of(errno.EMFILE, short, "os.rmdir")
            await remove
        assert caught.value.retryable
    assert [] == await scheduler.list()
    assert app_directory(home, app_id).exists()

    if way == "submit":
        assert app_id == await scheduler.submit(app(shell("true")), key="k")
        await ended(scheduler, app_id)
    else:
        await (scheduler.delete(app_id) if way == "delete" else scheduler.prune(timedelta(0)))

    assert (way == "submit") == app_directory(home, app_id).exists()


async def test_a_supervisor_that_cannot_be_started_for_now_says_once_what_to_do(
    scheduler: LocalScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as short, pytest.raises(UnavailableError) as caught:
        short_of(errno.ENOSPC, short, "os.mkdir")
        await scheduler.submit(app(shell("true")))

    assert ("No space left on device", "free some disk space") == (caught.value.why, caught.value.fix)


@pytest.mark.parametrize(("number", "passes"), [(errno.EMFILE, True), (errno.EACCES, False)])
async def test_a_log_that_cannot_be_read_for_now_may_be_read_again(
    scheduler: LocalScheduler, monkeypatch: pytest.MonkeyPatch, number: int, passes: bool
) -> None:
    app_id = await scheduler.submit(app(shell("echo hello")))
    await ended(scheduler, app_id)
    with monkeypatch.context() as short, pytest.raises(LogStreamError) as caught:
        short_of(number, short, "asyncsched.schedulers.local.logs.open_directory")
        await read(scheduler, app_id)

    assert passes == caught.value.retryable
    assert ["hello\n"] == await read(scheduler, app_id)


@pytest.mark.parametrize(
    "call", ["asyncsched.schedulers.local.state_dir.open_path", "asyncsched.schedulers.local.ending.open_file"]
)
async def test_a_result_that_cannot_be_read_for_now_is_no_result(
    scheduler: LocalScheduler, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    app_id = await scheduler.submit(app(shell(f"echo 1 > ${RESULT_FILE}")))
    await ended(scheduler, app_id)
    found = await scheduler._apps.find_one(app_id)
    assert found is not None
    with monkeypatch.context() as short, pytest.raises(UnavailableError) as caught:
        short_of(errno.EMFILE, short, call)
        await asyncio.to_thread(read_results, scheduler._home, found.record)

    assert caught.value.retryable
    assert {("main", 0): 1} == await scheduler.results(app_id)
