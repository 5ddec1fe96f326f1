"""The HTML of handles, statuses, dry-runs and lists: complete, escaped, masked, self-contained."""

from __future__ import annotations

import asyncio
import gc
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest
from typing_extensions import override

from asyncsched.errors import AuthError, MissingExtraError, UnavailableError
from asyncsched.runner import AppList
from asyncsched.runner.notebook import AppTable
from asyncsched.schedulers import ListAppResponse
from asyncsched.specs import (
    AppDryRunInfo,
    AppHandle,
    AppState,
    AppStatus,
    ReplicaStatus,
    RoleStatus,
    Secret,
)
from asyncsched.specs.last_seen import LastSeenApps
from asyncsched.specs.rich_display import RichDisplay

HANDLE = AppHandle("fake://me/train-x1")
START = datetime(2026, 1, 1, tzinfo=UTC)


class Page(HTMLParser):
    """Checks that every element is closed, and collects what a reader sees."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)
        assert [] == self.open

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    @override
    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()

    @override
    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def shown(value: RichDisplay) -> str:
    """Return what a notebook's reader sees of it."""
    bundle = value._repr_mimebundle_()

    assert repr(value) == bundle["text/plain"]
    assert value._repr_html_() == bundle["text/html"]
    page = Page(bundle["text/html"])
    # Nothing that loads or runs.
    assert not {"script", "link", "img", "iframe", "style"} & page.tags
    assert page.attributes <= {"style", "title", "href"}
    return page.text


def replica(k: int, state: AppState = AppState.RUNNING, **more: object) -> ReplicaStatus:
    return ReplicaStatus(k, state, "main", "host", started_at=START, **more)  # type: ignore[arg-type]  # its fields


def status(*replicas: ReplicaStatus, state: AppState = AppState.RUNNING, msg: str = "") -> AppStatus:
    return AppStatus(state, msg=msg, roles=[RoleStatus("main", list(replicas))], handle=HANDLE)


def test_a_handle_shows_its_parts_and_what_a_living_owner_has_seen() -> None:
    assert "fake://me/train-x1 scheduler fake · session me · app train-x1 no status read yet" == shown(HANDLE).strip()
    seen = LastSeenApps()
    seen.note(HANDLE, status(replica(0)))
    sighting = seen.get(HANDLE)
    assert sighting is not None
    assert f"RUNNING as of {sighting.at.astimezone():%H:%M:%S}" in shown(HANDLE)
    del seen
    gc.collect()
    assert "no status read yet" in shown(HANDLE)


def test_the_newest_of_several_owners_counts_and_the_oldest_app_is_forgotten() -> None:
    first, second = LastSeenApps(room=2), LastSeenApps()
    first.note(HANDLE, status(replica(0)))
    second.note(HANDLE, status(replica(0), state=AppState.FAILED))

    assert "FAILED" in shown(HANDLE)
    for name in ("a", "b"):
        first.note(f"fake://me/{name}", status())
    assert first.get(HANDLE) is None


def test_a_status_shows_state_replicas_age_and_reasons() -> None:
    failed = replica(1, AppState.FAILED, reason="exited with code 3", finished_at=START + timedelta(minutes=3))
    done = replica(0, AppState.SUCCEEDED, finished_at=START + timedelta(minutes=2))
    text = shown(status(done, failed, state=AppState.FAILED, msg="main/1: exited with code 3"))

    for expected in (HANDLE, "FAILED", "ran 3 min 0 s", "1 SUCCEEDED, 1 FAILED", "main/1: exited with code 3"):
        assert expected in text
    assert 1 == text.count("exited with code 3")


def test_an_app_that_runs_or_waits() -> None:
    assert "running for" in shown(status(replica(0)))
    waiting = ReplicaStatus(0, AppState.PENDING, "main", "", reason="Insufficient nvidia.com/gpu")
    assert "Insufficient nvidia.com/gpu" in shown(status(waiting, state=AppState.PENDING))


@pytest.mark.parametrize("state", AppState)
def test_every_state_is_told_by_its_name(state: AppState) -> None:
    assert state.name in shown(AppStatus(state))


def test_what_others_wrote_is_escaped() -> None:
    evil = "<script>alert('&\"')</script>"
    text = shown(status(replica(0, reason=evil), msg=f"{evil}!"))

    assert evil in text
    assert "javascript" not in AppStatus(AppState.RUNNING, ui_url="javascript:alert(1)")._repr_html_()
    assert "href='https://x/?a=1&amp;b=2'" in AppStatus(AppState.RUNNING, ui_url="https://x/?a=1&b=2")._repr_html_()


def test_a_dryrun_shows_the_request_without_its_secrets() -> None:
    request = {"env": {"API_TOKEN": "hunter2"}, "args": [Secret("hunter3")], "image": "busybox"}
    info = AppDryRunInfo(request, app_id="train-x1", scheduler="fake")
    text = shown(info)

    assert "busybox" in text
    assert "dry-run of train-x1 on fake" in text
    assert "hunter" not in info._repr_html_()


def test_a_list_has_a_row_for_each_app_and_tells_who_could_not_be_asked() -> None:
    rows = [ListAppResponse(f"app-{n}", AppState(n), f"fake://me/app-{n}", created_at=START) for n in range(8)]
    text = shown(AppList(rows, {"docker": AuthError("who are you")}))

    for row in rows:
        assert f"{row.app_handle} ● {row.state.name}" in text
    assert "docker could not be asked: who are you" in text


def test_a_list_is_silent_about_schedulers_that_nobody_has_set_up() -> None:
    unset = UnavailableError("there is no daemon here")
    unset.is_set_up = False
    failures = {"docker": unset, "gcp": MissingExtraError("a package is missing"), "k8s": UnavailableError("away")}
    found = AppList([], failures)
    silent = AppList([], {"docker": unset})

    assert ["k8s could not be asked: away"] == [line for line in str(found).splitlines() if "asked" in line]
    assert 1 == shown(found).count("could not be asked")
    assert ("no apps", True) == (str(silent), "asked" not in shown(silent))
    assert failures == found.failures


def test_a_table_has_a_summary_and_a_bar_and_tells_equal_failures_once() -> None:
    handles = [AppHandle(f"fake://me/app-{n}") for n in range(9)]
    table = AppTable(handles)
    failed = [replica(0, AppState.FAILED, reason="out of memory")]
    for handle in handles[:6]:
        table.statuses[handle] = status(*failed, state=AppState.FAILED, msg="main/0: out of memory")
    for handle in handles[6:]:
        table.statuses[handle] = status(replica(0))
    text, html = shown(table), table._repr_html_()

    assert text.startswith("9 apps: 6 failed, 3 running")
    assert ["FAILED", "RUNNING"] == re.findall(r"<span title='(\w+)' style='flex:", html)
    assert "6 apps that failed in the same way" in text
    assert 1 == text.count("out of memory")
    assert all(handle in text for handle in handles)


def test_columns_that_are_empty_are_left_out() -> None:
    rows = [ListAppResponse("app", AppState.RUNNING, "fake://me/app", created_at=START)]
    heads = re.findall(r"<th[^>]*>(\w+)", AppList(rows)._repr_html_())

    assert ["app", "state", "age"] == heads


def test_a_strip_of_120_replicas_is_wrapped() -> None:
    html = status(*map(replica, range(120)))._repr_html_()

    assert 3 == html.count("<div><span title='main/")
    assert 3 == html.count("&#9632;" * 40 + "</span></div>")
    assert "title='main/80-119 RUNNING'" in html


def test_a_long_dryrun_is_folded_and_monospace() -> None:
    long = AppDryRunInfo({f"key{n}": n for n in range(40)}, app_id="train-x1", scheduler="fake")
    assert re.search("<details><summary>.*<pre style='[^']*monospace", long._repr_html_())
    short = AppDryRunInfo({"key": 1}, app_id="train-x1", scheduler="fake")._repr_html_()
    assert "<details>" not in short
    assert "monospace" in short


@pytest.mark.slow
async def test_a_table_of_thousands_is_small_and_quick() -> None:
    """The guard judges how long the step is in which it is shown."""
    handles = [AppHandle(f"fake://me/app-{n}") for n in range(5000)]
    table = AppTable(handles)
    for number, handle in enumerate(handles):
        table.statuses[handle] = status(*map(replica, range(100)), state=AppState(number % 8))
    await asyncio.sleep(0)
    html = table._repr_mimebundle_()["text/html"]
    await asyncio.sleep(0)

    assert "and 4950 more" in html
    assert "FAILED" in html
    assert "<b>SUCCEEDED</b>" not in html  # those that need attention come first
