"""The page on the interface, at every place."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from asyncsched.schedulers import (
    DescribeAppResponse,
    ListAppResponse,
    Stream,
    filter_regex,
    get_default_scheduler_name,
    split_lines,
    split_lines_iterator,
)
from asyncsched.specs import AppDef, AppDryRunInfo, AppState, Role, runopts
from tests.documents.table import everywhere, row
from tests.documents.ways import Way

LONG = "sleep 3600"


@row("scheduler", "The first factory is that of the default scheduler; each is called with a session's name.")
async def factories(way: Way) -> None:
    made = way.factories()

    assert next(iter(made)) == get_default_scheduler_name()
    assert {"local_cwd", "local_docker", "aws_batch"} <= {*made}
    for name, factory in made.items():
        scheduler = way.made(factory("session"))
        assert (name, "session") == (scheduler.backend, scheduler.session_name)


@row("scheduler", "A stream is one of stdout, stderr and combined, and is text.")
async def streams(way: Way) -> None:
    assert ["stdout", "stderr", "combined"] == [*Stream]
    assert Stream("stderr") is Stream.STDERR


@row("scheduler", "A response is made without arguments, and its fields are set one by one.")
async def describe_response(way: Way) -> None:
    response = DescribeAppResponse()
    assert ("<NOT_SET>", AppState.UNSUBMITTED, -1, "<NONE>", "<NONE>", None, [], []) == (
        response.app_id,
        response.state,
        response.num_restarts,
        response.msg,
        response.structured_error_msg,
        response.ui_url,
        response.roles_statuses,
        response.roles,
    )

    response.app_id, response.state = "job-x1", AppState.RUNNING
    response.roles.append(Role("main", "image"))
    assert DescribeAppResponse("job-x1", AppState.RUNNING, roles=[Role("main", "image")]) == response
    by_position = DescribeAppResponse("a", AppState.FAILED, 1, "why", "{}", "http://page", [], [])
    assert ("why", "http://page") == (by_position.msg, by_position.ui_url)


@row("scheduler", "A row has id, state and handle; the handle is set later, and rows can be compared and looked up.")
async def list_response(way: Way) -> None:
    found = ListAppResponse("job-x1", AppState.RUNNING)
    assert "<NOT_SET>" == found.app_handle

    found.app_handle = "fake://session/job-x1"
    same = ListAppResponse("job-x1", AppState.RUNNING, "fake://session/job-x1")
    assert same == found
    assert found in [ListAppResponse("other-x1", AppState.RUNNING), same]
    assert hash(same) == hash(found)
    assert 1 == len({same, found})


@row("scheduler", "Text is split after newlines, which stay; lines are filtered by a regular expression.")
async def lines(way: Way) -> None:
    assert ["a\n", "\n", "b\r", "c"] != split_lines("a\n\nb\rc")
    assert ["a\n", "\n", "b\rc"] == split_lines("a\n\nb\rc")
    assert [] == split_lines("")
    assert ["a\n", "b", "c\n"] == list(split_lines_iterator(["a\nb", "c\n"]))
    assert ["step 1\n"] == list(filter_regex(r"step \d+", ["step 1\n", "loss\n"]))


@everywhere("What does not exist is described as None; cancelling it does nothing.")
async def unknown(way: Way) -> None:
    assert way.place is not None
    scheduler, app_id = way.scheduler(), way.place.unknown_id

    assert await way(scheduler.describe(app_id)) is None
    assert await way(scheduler.exists(app_id)) is False
    assert await way(scheduler.cancel(app_id)) is None


@everywhere("Submitting gives the id that the app is described, listed and found by.")
async def submitted(way: Way) -> None:
    assert way.place is not None
    scheduler = way.scheduler()
    app_id = await way.submit(scheduler, way.role("echo hello", num_replicas=way.place.replicas))

    ended = await way.ended(scheduler, app_id)
    assert (app_id, AppState.SUCCEEDED, "", "<NONE>") == (
        ended.app_id,
        ended.state,
        ended.msg,
        ended.structured_error_msg,
    )
    assert [("main", [*range(way.place.replicas)])] == [
        (status.role, [each.id for each in status.replicas]) for status in ended.roles_statuses
    ]
    assert [("main", way.place.replicas)] == [(each.name, each.num_replicas) for each in ended.roles]
    described = await way(scheduler.describe(app_id))
    assert (app_id, AppState.SUCCEEDED) == (described.app_id, described.state)
    assert await way(scheduler.exists(app_id)) is True

    rows = await way(scheduler.list())
    assert [(app_id, AppState.SUCCEEDED)] == [(each.app_id, each.state) for each in rows]
    assert rows == await way(scheduler.list())
    rows[0].app_handle = "mine"
    assert ["mine"] == [each.app_handle for each in rows]
    assert ["mine"] != [each.app_handle for each in await way(scheduler.list())]


@everywhere("A dry run has the request, prints it, and submits nothing until it is scheduled.")
async def dry_run(way: Way) -> None:
    assert way.place is not None
    scheduler = way.scheduler()
    app = AppDef("job", [way.role("echo hello")])
    info = await way(scheduler.submit_dryrun(app, way.place.cfg))

    assert isinstance(info, AppDryRunInfo)
    assert "echo hello" in str(info)
    assert "echo hello" in repr(info.request)
    assert [] == await way(scheduler.list())
    app_id = await way(scheduler.schedule(info))
    assert AppState.SUCCEEDED is (await way.ended(scheduler, app_id)).state


@everywhere("Submitting is a dry run that is scheduled; `pre_proc` may change the request in between.")
async def pre_proc(way: Way) -> None:
    class Noting(Role):
        def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[object]) -> AppDryRunInfo[object]:  # type: ignore[override]
            seen.append((scheduler, self.name))
            return dryrun_info

    assert way.place is not None
    seen: list[tuple[str, str]] = []
    scheduler = way.scheduler()
    names = ["first", "second"][: way.place.roles]
    roles = [Noting(**vars(way.role("echo hello", name))) for name in names]
    app_id = await way.submit(scheduler, *roles)

    await way.ended(scheduler, app_id)
    assert [(scheduler.backend, name) for name in names] == seen


@everywhere("What was put together by hand is launched; the app's id is that of the request.")
async def by_hand(way: Way) -> None:
    assert way.place is not None
    scheduler = way.scheduler()
    made = await way(scheduler.submit_dryrun(AppDef("job", [way.role("echo hello")]), way.place.cfg))
    app_id = await way(scheduler.schedule(AppDryRunInfo(made.request, repr)))

    ended = await way.ended(scheduler, app_id)
    assert (app_id, AppState.SUCCEEDED) == (ended.app_id, ended.state)
    assert ["hello\n"] == await way.all(scheduler.log_iter(app_id, ended.roles_statuses[0].role, 0))


@everywhere("What is described can be launched again.")
async def again(way: Way) -> None:
    assert way.place is not None
    scheduler = way.scheduler()
    role = way.role("echo $COLOR", env={"COLOR": "red"}, max_retries=1, port_map={"http": 80}, metadata={"a": "b"})
    first = await way.ended(scheduler, await way.submit(scheduler, role))
    app_id = await way(scheduler.submit(AppDef("again", first.roles), way.place.cfg))
    second = await way.ended(scheduler, app_id)

    for ended in (first, second):
        (found,) = ended.roles
        assert (role.image, role.entrypoint, role.args) == (found.image, found.entrypoint, found.args)
        assert ("red", 1, {"http": 80}) == (found.env["COLOR"], found.max_retries, found.port_map)
        assert {"a": "b"} == found.metadata
        assert ["red\n"] == await way.all(scheduler.log_iter(ended.app_id, "main", 0))


@everywhere("The lines of the k-th replica keep their white space and newlines; a last one may have none.")
async def log_lines(way: Way) -> None:
    assert way.place is not None
    scheduler = way.scheduler()
    script = "echo '  two  spaces'\necho\nprintf %s 'step 1'"
    app_id = await way.submit(scheduler, way.role(script, num_replicas=way.place.replicas))
    await way.ended(scheduler, app_id)

    for k in range(way.place.replicas):
        found = await way.all(scheduler.log_iter(app_id, "main", k))
        last = "step 1" if way.place.tells_streams else "step 1\n"
        assert ["  two  spaces\n", "\n", last] == found
        assert {("main", k)} == {(line.role, line.replica) for line in found}


@everywhere("The iterator is not stateful: another call begins anew.")
async def log_again(way: Way) -> None:
    scheduler = way.scheduler()
    app_id = await way.submit(scheduler, way.role("echo one\necho two"))
    await way.ended(scheduler, app_id)

    for _ in range(2):
        assert ["one\n", "two\n"] == await way.all(scheduler.log_iter(app_id, "main", 0))


@everywhere("A tail ends when the app has ended and all is read; every argument may be given by position.")
async def log_tail(way: Way) -> None:
    scheduler = way.scheduler()
    app_id = await way.submit(scheduler, way.role("echo one\nsleep 0.1\necho two\necho loss"))
    hour = timedelta(hours=1)
    now = datetime.now()  # noqa: DTZ005 - the documents' times have no zone

    found = await way.all(scheduler.log_iter(app_id, "main", 0, "one|two", now - hour, now + hour, False, None))
    assert [] == [line for line in found if line == "loss\n"]
    found = await way.all(scheduler.log_iter(app_id, "main", 0, "one|two", now - hour, None, True, Stream.COMBINED))
    assert ["one\n", "two\n"] == found
    assert (await way(scheduler.describe(app_id))).state.is_terminal()


@everywhere("A stream is chosen, or refused with a ValueError where it cannot be told apart.")
async def log_streams(way: Way) -> None:
    assert way.place is not None
    scheduler = way.scheduler()
    app_id = await way.submit(scheduler, way.role("echo out\necho err >&2"))
    await way.ended(scheduler, app_id)

    both = await way.all(scheduler.log_iter(app_id, "main", 0, streams=Stream.COMBINED))
    assert ["err\n", "out\n"] == sorted(both)
    for stream, text in ((Stream.STDOUT, "out\n"), (Stream.STDERR, "err\n")):
        if way.place.tells_streams:
            assert [text] == await way.all(scheduler.log_iter(app_id, "main", 0, streams=stream))
        else:
            with pytest.raises(ValueError, match=stream.value):
                scheduler.log_iter(app_id, "main", 0, streams=stream)


@everywhere("Cancelling does not wait, and may be repeated; the app ends as cancelled.")
async def cancelled(way: Way) -> None:
    scheduler = way.scheduler()
    app_id = await way.submit(scheduler, way.role(LONG))
    for _ in range(2):
        await way(scheduler.cancel(app_id))

    assert AppState.CANCELLED is (await way.ended(scheduler, app_id)).state
    await way(scheduler.cancel(app_id))
    assert AppState.CANCELLED is (await way(scheduler.describe(app_id))).state


@everywhere("A replica that fails makes the app fail; the message says why.")
async def failed(way: Way) -> None:
    scheduler = way.scheduler()
    app_id = await way.submit(scheduler, way.role("exit 3"))
    ended = await way.ended(scheduler, app_id)

    assert AppState.FAILED is ended.state
    assert "3" in ended.msg


@everywhere("The run options are those of `runopts`, and print as their help.")
async def run_options(way: Way) -> None:
    options = await way(way.scheduler().run_opts())

    assert isinstance(options, runopts)
    assert "usage:" in repr(options)
    assert len(options) == len([*options])


@everywhere("Closing raises nothing and may be repeated.")
async def closed(way: Way) -> None:
    assert way.place is not None
    scheduler = way.scheduler()
    await way(scheduler.describe(way.place.unknown_id))
    for _ in range(2):
        assert await way(scheduler.close()) is None
