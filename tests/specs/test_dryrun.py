from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, field

import pytest

from asyncsched.errors import UsageError
from asyncsched.specs import AppDef, AppDryRunInfo, Role, Secret, Stream, WorkspacePlan, show_secrets
from asyncsched.testing import FakeScheduler


@dataclass
class Request:
    name: str
    env: dict[str, str] = field(default_factory=dict)
    script: str = "set -e\necho $$\n"
    count: int = 2
    stream: Stream = Stream.STDERR


def test_the_request_is_printed_readably() -> None:
    info = AppDryRunInfo(Request("app-1", {"A": "b", "A_TOKEN": "marker"}))

    assert repr(info) == (
        "name: app-1\nenv:\n  A: b\n  A_TOKEN: '***'\nscript: |\n  set -e\n  echo $$\ncount: 2\nstream: stderr"
    )


def test_an_edited_request_is_the_one_that_is_printed() -> None:
    info = AppDryRunInfo(Request("app-1"), lambda request: f"<{request.name}>", app_id="app-1")
    info.request.name = "edited"

    assert "<edited>" == repr(info) == str(info)
    info.request = Request("replaced")

    assert "<replaced>" == repr(info)


def test_a_format_that_knows_nothing_of_secrets_cannot_show_them() -> None:
    app = AppDef("a", [Role("r", "i", env={"A_TOKEN": "marker-1"}, args=[Secret("marker-2")])])
    cfg = {"env": {"DB_PASSWORD": "marker-3"}}
    info = AppDryRunInfo("marker-1 marker-2 marker-3", lambda request: f"run {request}", app=app, cfg=cfg)

    assert "run *** *** ***" == repr(info)
    with show_secrets():
        assert "run marker-1 marker-2 marker-3" == repr(info)


def test_show_secrets_shows_them() -> None:
    info = AppDryRunInfo({"env": [{"name": "A_KEY", "value": "marker"}], "args": [Secret("marker2")]})

    assert "marker" not in repr(info)
    with show_secrets():
        assert "env:\n- name: A_KEY\n  value: marker\nargs:\n- marker2" == repr(info)


def test_what_it_knows() -> None:
    app = AppDef("a")
    info = AppDryRunInfo(
        1,
        app_id="a-1",
        app=app,
        cfg={"queue": "q"},
        scheduler="aws_batch",
        session="me",
        plan=WorkspacePlan(app, "/w", {"i": "1", "": "2"}),
    )

    assert ("a-1", app, {"queue": "q"}) == (info.app_id, info.app, info.cfg)
    assert ("aws_batch", "me") == (info.scheduler, info.session)
    assert "i + workspace 1, directory + workspace 2" == info.workspace
    assert {} == AppDryRunInfo(1).cfg


async def test_renew_asks_the_scheduler() -> None:
    made: list[AppDryRunInfo[str]] = []

    async def renew() -> AppDryRunInfo[str]:
        made.append(AppDryRunInfo("request", app_id=f"app-{len(made)}", renew=renew))
        return made[-1]

    first = await renew()
    second = await first.renew()

    assert ["app-0", "app-1"] == [first.app_id, second.app_id]
    assert "app-2" == (await second.renew()).app_id


async def test_a_copy_by_pickle_is_scheduled_and_cannot_be_renewed() -> None:
    async with FakeScheduler("me") as scheduler:
        info = await scheduler.submit_dryrun(
            AppDef("job", [Role("main", "i", entrypoint="sh", env={"A": Secret("b")})])
        )
        again = pickle.loads(pickle.dumps(info))
        shared = copy.deepcopy(info)

        assert (repr(info), info.request, info.digest) == (repr(again), again.request, again.digest)
        assert info.app_id == await scheduler.schedule(again) == await scheduler.schedule(info)
        assert info.app_id != (await copy.copy(info).renew()).app_id != (await shared.renew()).app_id
        with pytest.raises(UsageError, match="cannot be renewed: it is a copy from another process, or"):
            await again.renew()


async def test_what_no_scheduler_has_made_cannot_be_renewed() -> None:
    with pytest.raises(UsageError, match="cannot be renewed: it is a copy from another process, or was not made by"):
        await AppDryRunInfo("request").renew()
