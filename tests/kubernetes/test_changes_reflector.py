"""One list and one watch for all apps of a namespace, whatever happens to its connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from asyncsched.clock import Clock
from asyncsched.errors import PermissionDeniedError
from asyncsched.schedulers.kubernetes.changes import Reflector, Reflectors
from asyncsched.schedulers.kubernetes.changes_reflector import SILENCE
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.status_pods import PodRecord
from asyncsched.testing import VirtualClock
from tests._support import eventually
from tests.kubernetes._client import connected, kubeconfig, serving
from tests.kubernetes_fake import FakeCluster
from tests.kubernetes_fake.errors import StatusError, forbidden
from tests.kubernetes_fake.faults import Fault


@pytest.fixture
async def reflectors(client: KubeClient) -> AsyncIterator[Reflectors]:
    made = Reflectors(client, clock=Clock())
    yield made
    await made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kubeconfig"


class Watcher:
    """Subscribes to an app, and keeps what it was told."""

    def __init__(self, reflector: Reflector[PodRecord], app: str = "app") -> None:
        self.reflector = reflector
        self.told: list[str] = []
        self.close = reflector.subscribe(app, self.told.append)

    @property
    def names(self) -> list[str]:
        return [pod.name for pod in self.reflector.snapshot("app")]


def make_pod(fake: FakeCluster, name: str, app: str = "app", **more: Any) -> dict[str, Any]:
    labels = {"asyncsched/app": app, "asyncsched/role": "role", "asyncsched/replica": "0", **more.pop("labels", {})}
    pod: dict[str, Any] = fake.create(
        "pods",
        name,
        metadata={"labels": labels},
        spec={"containers": [{"name": "main", "image": "busybox"}], "nodeSelector": {"none": "such"}},
    )
    return pod


def remove(fake: FakeCluster, name: str) -> None:
    fake.run(lambda: fake.store.remove("pods", fake.store.get("pods", "default", name)))


async def test_it_shows_what_there_is_and_what_changes(fake: FakeCluster, reflectors: Reflectors) -> None:
    make_pod(fake, "a")
    watcher = Watcher(reflectors.pods("default"))
    await watcher.reflector.ready()
    assert ["a"] == watcher.names

    make_pod(fake, "b")
    make_pod(fake, "other", app="another")
    await eventually(lambda: ["a", "b"] == watcher.names)
    remove(fake, "a")
    await eventually(lambda: ["b"] == watcher.names)

    assert {"app"} == set(watcher.told)
    watcher.close()


async def test_many_subscribers_cost_one_list_and_one_watch(fake: FakeCluster, reflectors: Reflectors) -> None:
    watchers = [Watcher(reflectors.pods("default"), f"app-{number}") for number in range(200)]
    await watchers[0].reflector.ready()
    await eventually(lambda: fake.traffic.open["watch pods"])
    make_pod(fake, "a", app="app-17")
    await eventually(lambda: watchers[17].reflector.snapshot("app-17"))

    assert (1, 1) == (fake.traffic.calls["list pods"], fake.traffic.most_open["watch pods"])
    for watcher in watchers:
        watcher.close()
    await eventually(lambda: fake.traffic.open["watch pods"] == 0)


async def test_it_begins_again_after_its_last_subscriber(fake: FakeCluster, reflectors: Reflectors) -> None:
    for _ in range(2):
        watcher = Watcher(reflectors.pods("default"))
        await watcher.reflector.ready()
        watcher.close()
        assert not watcher.reflector.synced
        assert [] == watcher.names

    assert 2 == fake.traffic.calls["list pods"]


async def test_a_cut_watch_goes_on_where_it_was(fake: FakeCluster, reflectors: Reflectors) -> None:
    watcher = Watcher(reflectors.pods("default"))
    await watcher.reflector.ready()
    for number in range(5):
        await eventually(lambda: fake.traffic.open["watch pods"])
        fake.cut("watch pods")
        make_pod(fake, f"pod-{number}")
        await eventually(lambda number=number: number + 1 == len(watcher.names))  # type: ignore[misc]

    assert 1 == fake.traffic.calls["list pods"]
    watcher.close()


@pytest.mark.parametrize("as_status", [True, False])
async def test_what_happened_while_it_was_away_is_found_by_a_new_list(
    fake: FakeCluster, reflectors: Reflectors, as_status: bool
) -> None:
    fake.run(lambda: setattr(fake.pace, "expired_as_status", as_status))
    make_pod(fake, "gone")
    make_pod(fake, "stays")
    watcher = Watcher(reflectors.pods("default"))
    await watcher.reflector.ready()
    await eventually(lambda: fake.traffic.open["watch pods"])

    fake.fail("watch pods", Fault(cut_after=0, times=2))
    fake.cut("watch pods")
    remove(fake, "gone")
    make_pod(fake, "new")
    fake.run(fake.store.compact)
    await eventually(lambda: ["new", "stays"] == watcher.names)

    assert 2 == fake.traffic.calls["list pods"]
    watcher.close()


async def test_an_error_in_the_stream_is_followed_by_a_new_list(fake: FakeCluster, reflectors: Reflectors) -> None:
    watcher = Watcher(reflectors.pods("default"))
    await watcher.reflector.ready()
    await eventually(lambda: fake.traffic.open["watch pods"])
    fake.run(lambda: [watch.expire() for watch in fake.watches])
    make_pod(fake, "a")
    await eventually(lambda: ["a"] == watcher.names)
    watcher.close()


@pytest.mark.parametrize(
    "body",
    [
        b"\n\n",
        b"not json\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "ADDED", "object": 5}\n',
        b'{"type": "ERROR", "object": {}}\n',
        b'{"type": "NEWER", "object": {"metadata": {"name": 5}}}\n',
        b'{"type": "MODIFIED", "object": {"metadata": {"name": "x", "labels": []}}}\n',
        b'{"type": "ADD',
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
    ],
)
async def test_whatever_a_watch_says_the_next_one_goes_on(
    fake: FakeCluster, reflectors: Reflectors, body: bytes
) -> None:
    fake.fail("watch pods", Fault(body=body))
    watcher = Watcher(reflectors.pods("default"))
    await watcher.reflector.ready()
    make_pod(fake, "a")
    await eventually(lambda: ["a"] == watcher.names)
    watcher.close()


async def test_a_watch_that_hears_nothing_is_opened_again(path: Path) -> None:
    """Its peer is gone without a word, or a proxy has forgotten it: a bookmark would have come every minute."""
    clock = VirtualClock()
    watches: list[web.BaseRequest] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "5"}, "items": []})
        watches.append(request)
        response = web.StreamResponse()
        await response.prepare(request)
        await over.wait()
        return response

    over = asyncio.Event()

    async with serving(answer) as url, connected(kubeconfig(path, url), clock=clock) as client:
        made = Reflectors(client, clock=clock)
        watcher = Watcher(made.pods("default"))
        await eventually(lambda: client.streams == 1)
        await clock.advance(SILENCE - 1)
        assert 1 == len(watches)
        await clock.advance(2)
        await eventually(lambda: len(watches) == 2)
        assert ["5", "5"] == [request.query["resourceVersion"] for request in watches]
        watcher.close()
        await made.close()
        over.set()


async def test_a_watch_that_is_refused_for_good_is_told(fake: FakeCluster, reflectors: Reflectors) -> None:
    fake.fail("list pods", Fault(error=forbidden("alice", "list", "pods", "default"), times=2))
    watcher = Watcher(reflectors.pods("default"))

    with pytest.raises(PermissionDeniedError, match="alice may not list pods in the namespace default"):
        await watcher.reflector.ready()
    assert isinstance(watcher.reflector.failure, PermissionDeniedError)
    assert watcher.told
    watcher.close()
    again = Watcher(reflectors.pods("default"))
    await again.reflector.ready()
    again.close()


@pytest.mark.parametrize("error", [StatusError(503, "ServiceUnavailable", "away"), StatusError(500, "", "boom")])
async def test_a_server_that_is_away_is_asked_again(
    fake: FakeCluster, reflectors: Reflectors, error: StatusError
) -> None:
    fake.fail("list pods", Fault(error=error, times=2))
    fake.fail("watch pods", Fault(error=error, times=2))
    make_pod(fake, "a")
    watcher = Watcher(reflectors.pods("default"))
    await watcher.reflector.ready()
    make_pod(fake, "b")
    await eventually(lambda: ["a", "b"] == watcher.names and watcher.reflector.synced)
    watcher.close()


async def test_those_who_wait_are_told_when_it_is_closed(fake: FakeCluster, reflectors: Reflectors) -> None:
    fake.fail("list pods", Fault(slow=30))
    watcher = Watcher(reflectors.pods("default"))
    waiting = asyncio.ensure_future(watcher.reflector.ready())
    await eventually(lambda: fake.traffic.calls["list pods"])
    await reflectors.close()

    with pytest.raises(Exception, match="closed"):
        await waiting


async def test_a_label_that_is_taken_away_takes_the_pod_away(fake: FakeCluster, reflectors: Reflectors) -> None:
    pod = make_pod(fake, "a")
    watcher = Watcher(reflectors.pods("default"))
    await watcher.reflector.ready()
    fake.run(lambda: fake.change("pods", pod, lambda it: it["metadata"].pop("labels")))
    await eventually(lambda: [] == watcher.names)
    watcher.close()


async def test_five_thousand_pods_are_listed_in_short_steps(tmp_path: Path) -> None:
    """The guard looks at the steps: six kilobytes for each pod, as real ones have."""
    pages = [_page(number) for number in range(10)]
    over = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" in request.query:
            await over.wait()
            return web.Response()
        return web.Response(body=pages[int(request.query.get("continue", "0"))], content_type="application/json")

    async with serving(answer) as url, connected(kubeconfig(tmp_path / "config", url)) as client:
        reflectors = Reflectors(client, clock=Clock())
        watchers = [Watcher(reflectors.pods("default"), f"app-{number}") for number in range(10)]
        await watchers[0].reflector.ready()
        assert 5000 == sum(len(each.reflector.snapshot(f"app-{number}")) for number, each in enumerate(watchers))
        over.set()
        await reflectors.close()


def _page(number: int) -> bytes:
    rest = {"continue": str(number + 1)} if number < 9 else {}
    labels: dict[str, str] = {"asyncsched/app": f"app-{number}", "asyncsched/role": "role"}
    pods: list[dict[str, Any]] = [
        {
            "metadata": {
                "name": f"pod-{number}-{index}",
                "uid": f"{number}-{index}",
                "labels": {**labels, "asyncsched/replica": str(index)},
                "managedFields": [{"manager": "kubelet", "fieldsV1": {f"f:{each}": {} for each in range(300)}}],
            },
            "spec": {"containers": [{"name": "main", "env": [{"name": f"N{each}"} for each in range(50)]}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]},
        }
        for index in range(500)
    ]
    return json.dumps({"kind": "PodList", "metadata": {"resourceVersion": "7", **rest}, "items": pods}).encode()
