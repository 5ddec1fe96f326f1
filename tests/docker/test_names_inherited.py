"""A container has the labels of its image too: those of an image that was made from our container are not its own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from asyncsched.errors import ConflictError
from asyncsched.schedulers.docker import DockerContainer, DockerJob, DockerOpts, DockerScheduler
from asyncsched.schedulers.docker import names as labels
from asyncsched.schedulers.docker.request import completed, make_request, to_wire
from asyncsched.schedulers.docker.status import describe_app
from asyncsched.schedulers.docker.status_containers import Container, by_app, read_container
from asyncsched.specs import AppDryRunInfo, AppState
from tests.docker._apps import OBEYS, app, shell
from tests.docker.test_scheduler import end, text
from tests.services.dockerd import BUSYBOX_IMAGE, Dockerd

FIRST: Any = {"timeout": 3.0, "remove_after": 0.5}
BEFORE = {labels.APP_ID: "app-x1", labels.SESSION: "me", labels.ROLE: "worker", labels.REPLICA: "0"}
"""The labels of a container that was created before names were among them."""


def sent(app_id: str, **options: Any) -> dict[str, str]:
    """The labels of the request for the first container of an app."""
    definition = app(shell(":", max_retries=2 if options else 0))
    definition.metadata = {"of": app_id} if options else {}
    job = make_request(definition, app_id, DockerOpts(**options), session="me", environ={}, version="1")
    job.containers[0].kwargs["tty"] = bool(options)
    own: dict[str, str] = to_wire(job.containers[0], "none", app_id)["Labels"]
    return own


def container(name: str, own: Mapping[str, str], *more_names: str) -> Container:
    entry = {"Id": name, "Names": [*more_names, f"/{name}"], "State": "running", "Created": 1, "Image": "i"}
    return read_container({**entry, "Labels": own})


def test_an_app_has_none_of_the_settings_of_the_one_that_its_image_was_made_from() -> None:
    first, second = sent("first", **FIRST), sent("second")
    found = container("second-worker-0", first | second)

    assert found.identity == container("second-worker-0", second).identity
    assert ("second", float("inf"), float("inf"), 0, False) == (
        found.app_id,
        found.timeout,
        found.remove_after,
        found.max_retries,
        found.identity.terminal,
    )
    told = describe_app("second", [found])
    assert told is not None
    assert {} == told.metadata
    first_again = container("first-worker-0", first).identity
    assert (3.0, 0.5, 2, True) == (
        first_again.timeout,
        first_again.remove_after,
        first_again.max_retries,
        first_again.terminal,
    )


@pytest.mark.parametrize("own", [sent("app-x1", **FIRST), BEFORE], ids=["now", "before"])
@pytest.mark.parametrize("mark", ["", labels.CANCELLED, labels.STOPPED, labels.TIMED_OUT, ".taken-over-0123abcd"])
def test_a_container_is_of_an_app_by_the_name_that_it_was_created_with(own: dict[str, str], mark: str) -> None:
    found = [container(f"app-x1-worker-0{mark}", own), container(f"my-database{mark}", own)]

    assert {"app-x1": [f"app-x1-worker-0{mark}"]} == {
        app_id: [each.id for each in members] for app_id, members in by_app(found).items()
    }
    assert ("", {}) == (found[1].app_id, found[1].labels)


def test_who_links_to_a_container_gives_it_a_second_name() -> None:
    found = container("app-x1-worker-0.cancelled", sent("app-x1"), "/another/app")

    assert ("app-x1", True) == (found.app_id, found.cancelled)


def test_a_container_may_be_named_by_hand() -> None:
    job = DockerJob("app-x1", [DockerContainer("i", ["true"], {"name": "Mine.cancelled"})])
    (made,) = completed(job, session="me", version="1").containers
    own = to_wire(made, "none")["Labels"]

    assert "app-x1" == container("Mine.cancelled", own).app_id == container("Mine.timeout", own).app_id
    assert "" == container("app-x1-main-0", {**own, labels.ROLE: "other"}).app_id


def test_a_container_that_was_created_by_an_older_asyncsched_in_an_image_of_ours_is_seen() -> None:
    image = sent("first", **FIRST)

    assert "app-x1" == container("app-x1-worker-0", image | BEFORE).app_id


@pytest.mark.parametrize(
    "unsound", [{labels.REPLICA: "9" * 5000}, {labels.REPLICA: "x"}, {labels.ROLE: "r" * 70_000}, {labels.APP_ID: ""}]
)
def test_labels_that_make_no_name_belong_to_no_container(unsound: dict[str, str]) -> None:
    assert "" == container("app-x1-worker-0", BEFORE | unsound).app_id


def test_who_passes_containers_over_says_so_once_for_each_app(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for name in ("database", "cache", "database"):
            container(name, BEFORE | {labels.APP_ID: "app-told"})

    (message,) = caplog.messages
    assert message.startswith("the container database is ignored")
    assert "'app-told'" in message


def committed(dockerd: Dockerd, app_id: str, image: str, *changes: str) -> str:
    """Make an image from the only container of an app."""
    (entry,) = [
        each for each in dockerd.api.json("GET", "/containers/json?all=1") if each["Names"][0].startswith(f"/{app_id}-")
    ]
    asked = {"container": entry["Id"], "repo": image, "tag": "1", **({"changes": changes} if changes else {})}
    dockerd.api.json("POST", f"/commit?{urlencode(asked, doseq=True)}")
    return f"{image}:1"


def run(dockerd: Dockerd, name: str, image: str, script: str = "") -> str:
    """Create a container as anybody does, and start it if it has a script."""
    body = {"Image": image, "Cmd": ["sh", "-c", script], "HostConfig": {"NetworkMode": "none"}}
    found: str = dockerd.api.json("POST", f"/containers/create?name={name}", body)["Id"]
    if script:
        dockerd.api.call("POST", f"/containers/{found}/start")
    return found


def state(dockerd: Dockerd, container_id: str) -> tuple[str, str]:
    found = dockerd.api.json("GET", f"/containers/{container_id}/json")
    return found["Name"], found["State"]["Status"]


@pytest.mark.service("dockerd")
async def test_an_app_of_an_image_that_was_made_from_another_app_runs_as_asked(
    scheduler: DockerScheduler, dockerd: Dockerd
) -> None:
    first = await scheduler.submit(app(shell("echo one")), {"timeout": 1000.0, "remove_after": 0.01})
    await end(scheduler, first)
    image = committed(dockerd, first, "asyncsched-tests/of-an-app", "LABEL asyncsched.terminal=1")
    second = await scheduler.submit(app(shell("echo two", image=image)))
    await end(scheduler, second)
    await scheduler.submit(app(shell(":")))
    told = await scheduler.describe(second)

    assert await scheduler.describe(first) is None
    assert told is not None
    assert [(float("inf"), float("inf"))] == [(each.timeout, each.remove_after) for each in told.native]  # type: ignore[attr-defined]
    assert ["two"] == await text(scheduler, second)


@pytest.mark.service("dockerd")
async def test_a_foreign_container_of_an_image_that_was_made_from_an_app_is_left_alone(
    scheduler: DockerScheduler, dockerd: Dockerd
) -> None:
    kept = await scheduler.submit(app(shell("echo kept")), {"grace_period": 0.0})
    await end(scheduler, kept)
    image = committed(dockerd, kept, "asyncsched-tests/of-an-ended-app")
    foreign = {
        "my-database": (run(dockerd, "my-database", image, OBEYS), "running"),
        "my-draft": (run(dockerd, "my-draft", image), "created"),
        "my-report": (run(dockerd, "my-report", image, "exit 3"), "exited"),
    }
    dockerd.api.call("POST", f"/containers/{foreign['my-report'][0]}/wait")
    before = {f"/{name}": wanted for name, (_, wanted) in foreign.items()}

    told = await scheduler.describe(kept)
    assert told is not None
    assert (AppState.SUCCEEDED, [f"{kept}-worker-0"]) == (told.state, [each.hostname for each in told.replicas])
    assert [(kept, AppState.SUCCEEDED)] == [(row.app_id, row.state) for row in await scheduler.list()]
    assert AppState.SUCCEEDED is await end(scheduler, kept)
    assert ["kept"] == await text(scheduler, kept)

    await scheduler.cancel(kept)
    await scheduler.cancel_many([kept, "another"])
    await scheduler.kill(kept)
    await scheduler.delete(kept)
    assert await scheduler.describe(kept) is None
    assert [] == await scheduler.prune(timedelta(0))
    assert before == dict(state(dockerd, found) for found, _ in foreign.values())


@pytest.mark.service("dockerd")
async def test_a_foreign_container_does_not_take_the_place_of_one_that_is_named_by_hand(
    scheduler: DockerScheduler, dockerd: Dockerd
) -> None:
    def job(name: str) -> AppDryRunInfo[DockerJob]:
        made = DockerContainer(BUSYBOX_IMAGE, ["true"], {"name": name})
        return AppDryRunInfo(DockerJob("by-hand-named", [made]), repr)

    await scheduler.schedule(job("Mine"))
    assert AppState.SUCCEEDED is await end(scheduler, "by-hand-named")
    assert "by-hand-named" == await scheduler.schedule(job("Mine"))
    run(dockerd, "taken", BUSYBOX_IMAGE)

    with pytest.raises(ConflictError):
        await scheduler.schedule(AppDryRunInfo(DockerJob("other", job("taken").request.containers), repr))
    await scheduler.delete("by-hand-named")
    assert await scheduler.describe("by-hand-named") is None
