"""Labels are what anybody can write: whatever they say, they break nothing and hide nobody."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import InvalidRequestError
from asyncsched.schedulers.docker import DockerScheduler
from asyncsched.schedulers.docker import names as labels
from asyncsched.schedulers.docker.options import DockerOpts
from asyncsched.schedulers.docker.request import make_request
from asyncsched.schedulers.docker.status import describe_app, list_row
from asyncsched.schedulers.docker.status_containers import Container, by_app, read_container
from asyncsched.schedulers.responses import fingerprint
from asyncsched.specs import AppState, parse_app_handle
from tests.docker._apps import app, shell
from tests.schedulers._hostile import anything
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd

NAMES = [
    labels.VERSION,
    labels.APP_ID,
    labels.APP_NAME,
    labels.CONTAINER,
    labels.WRITTEN,
    labels.SESSION,
    labels.ROLE,
    labels.ROLE_INDEX,
    labels.REPLICA,
    labels.REQUEST,
    labels.SPEC,
    labels.METADATA,
    labels.RETRIES,
    labels.TERMINAL,
    labels.TIMEOUT,
    labels.RESULT,
    labels.REMOVE_AFTER,
]
GOOD = {labels.APP_ID: "app-x1", labels.SESSION: "me", labels.ROLE: "worker", labels.REPLICA: "0", labels.SPEC: "{}"}


OURS = "ours"
"""An app that no stranger names, for it would have a container of theirs then."""


def container(own: dict[str, str], number: object = 0, state: str = "running") -> Container:
    """A container whose labels say that they are for it, unless they say something else."""
    own = labels.sent_labels(own, "name", "", terminal=False) | own
    return read_container(
        {"Id": f"id{number}", "Names": ["/name"], "State": state, "Created": 1, "Image": "i", "Labels": own}
    )


foreign = st.dictionaries(st.sampled_from(NAMES), anything.filter(lambda text: text != OURS))
nearly_ours = st.builds(lambda own: {**GOOD, **own}, foreign)


@given(st.lists(nearly_ours | foreign, max_size=4))
def test_no_label_breaks_what_is_told(found: list[dict[str, str]]) -> None:
    containers = [container(own, number) for number, own in enumerate(found)]
    apps = by_app([*containers, container(GOOD | {labels.APP_ID: OURS}, 99)])

    for app_id, members in apps.items():
        row = list_row("local_docker", app_id, members)
        assert ("local_docker", row.session, app_id) == parse_app_handle(row.app_handle)
        assert row.app_handle.isprintable()
        told = describe_app(app_id, members)
        assert told is not None
        repr((told, fingerprint(told))).encode()
        for role in told.roles:
            json.dumps([role.image, role.entrypoint, role.args, told.metadata], ensure_ascii=False).encode()
            json.dumps([role.num_replicas, role.resource.cpu, role.resource.memMB], allow_nan=False)
        assert [] == [each for each in members if each.over]
    (ours,) = apps[OURS]
    assert (AppState.RUNNING, "id99") == (list_row("local_docker", OURS, [ours]).state, ours.id)


@given(st.lists(foreign, max_size=3))
def test_no_label_changes_what_is_told_of_an_app_that_is_ours(found: list[dict[str, str]]) -> None:
    strangers = [{**GOOD, **own, labels.APP_ID: "app-x1", labels.REPLICA: "9" * 5000} for own in found]
    members = by_app([container(own, n + 1) for n, own in enumerate(strangers)] + [container(GOOD)])["app-x1"]

    assert ["id0"] == [each.id for each in members]


@pytest.mark.parametrize(
    ("label", "value", "why"),
    [
        (labels.SESSION, "a/b", "contains a slash"),
        (labels.SESSION, "a\x1b[2J", "cannot be printed"),
        (labels.REPLICA, "9" * 5000, "5,000 characters"),
        (labels.REPLICA, "-1", "is not a whole number"),
        (labels.REPLICA, "\u0663", "is not a whole number"),
        (labels.ROLE, "r" * 2000, "2,000 characters"),
        (labels.ROLE_INDEX, "x", "is not a whole number"),
        (labels.RETRIES, "9" * 40, "40 characters"),
        (labels.REMOVE_AFTER, "soon", "is not a number"),
    ],
)
def test_an_app_with_a_label_that_is_none_of_ours_is_unknown(
    label: str, value: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            found = by_app([container({**GOOD, label: value}, (label, value[:9]), "exited")])
    row = list_row("local_docker", "app-x1", found["app-x1"])
    told = describe_app("app-x1", found["app-x1"])

    assert told is not None
    assert (AppState.UNKNOWN, AppState.UNKNOWN) == (row.state, told.state)
    assert label in told.msg
    assert why in told.msg
    assert [1] == [record.getMessage().count(label) for record in caplog.records]
    assert found["app-x1"][0].over  # it can be cancelled and deleted like any other


@pytest.mark.parametrize("value", ["a/b", "", "a\nb", "\ud800", "x" * 300])
def test_a_container_whose_app_cannot_be_named_is_passed_over(value: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = [by_app([container({**GOOD, labels.APP_ID: value}, ("named", value[:9]))]) for _ in range(3)]

    assert [{}, {}, {}] == found
    assert ["ignored"] == ["ignored" for record in caplog.records if "ignored" in record.getMessage()]
    caplog.text.encode()


@pytest.mark.parametrize(
    "spec", ["[" * 60_000, '{"args":' * 900 + "1" + "}" * 900, '{"num_replicas": 1e999}', "{", "9" * 5000]
)
def test_a_spec_that_is_none_of_ours_tells_nothing(spec: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        told = describe_app("app-x1", [container({**GOOD, labels.SPEC: spec}, ("spec", spec[:9]))])

    assert told is not None
    assert (AppState.RUNNING, "", "i") == (told.state, told.roles[0].entrypoint, told.roles[0].image)
    assert [1] == [record.getMessage().count(labels.SPEC) for record in caplog.records]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"session": "s" * 300}, "session"),
        ({"role": "r" * 2000}, "role"),
        ({"metadata": {"k": "v" * 40_000}}, "metadata"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(change: dict[str, Any], named: str) -> None:
    definition = app(shell(":", name=change.get("role", "worker")))
    definition.metadata = change.get("metadata", {})

    with pytest.raises(InvalidRequestError, match=f"{named}.* characters, more than"):
        make_request(definition, "app-x1", DockerOpts(), session=change.get("session", "s"), environ={}, version="1")


@pytest.mark.service("dockerd")
async def test_a_daemon_with_foreign_containers_tells_of_ours(scheduler: DockerScheduler, dockerd: Dockerd) -> None:
    strangers = {
        "slash": {labels.APP_ID: "a/b"},
        "digits": {labels.APP_ID: "digits", labels.REPLICA: "9" * 5000},
        "session": {labels.APP_ID: "session", labels.SESSION: "a/b"},
        "nested": {labels.APP_ID: "nested", labels.SPEC: "[" * 60_000},
    }
    for name, own in strangers.items():
        for_it = labels.sent_labels({**GOOD, **own}, name, "", terminal=False)
        body = {"Image": BUSYBOX_IMAGE, "Cmd": ["true"], "Labels": for_it}
        dockerd.api.json("POST", f"/containers/create?name={name}", body)
    app_id = await scheduler.submit(app(shell("sleep 0.1")))
    ids = [app_id, "a/b", "digits", "session", "nested"]
    ends = [event async for event in scheduler.watch([app_id]) if event.is_terminal()]
    told = await scheduler.describe_many(ids)
    alone = {app_id: await scheduler.describe(app_id) for app_id in ids}
    rows = {row.app_id: (row.state, row.app_handle) for row in await scheduler.list()}
    await scheduler.prune(timedelta(0))

    states = [AppState.SUCCEEDED, None, AppState.UNKNOWN, AppState.UNKNOWN, AppState.PENDING]
    assert [AppState.SUCCEEDED] == [event.state for event in ends]
    assert states == [each and each.state for each in told.values()] == [each and each.state for each in alone.values()]
    assert {
        app_id: (AppState.SUCCEEDED, f"local_docker://session/{app_id}"),
        "digits": (AppState.UNKNOWN, "local_docker://me/digits"),
        "session": (AppState.UNKNOWN, "local_docker:///session"),
        "nested": (AppState.PENDING, "local_docker://me/nested"),
    } == rows
    left = {name for each in dockerd.api.json("GET", "/containers/json?all=1") for name in each["Names"]}
    assert {f"/{name}" for name in strangers} == left
    for stranger in ("digits", "session", "nested"):
        await scheduler.cancel(stranger)
        await scheduler.delete(stranger)
    assert 1 == len(dockerd.api.json("GET", "/containers/json?all=1"))
