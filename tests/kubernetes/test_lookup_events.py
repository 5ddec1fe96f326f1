"""Events are read in one request at a look, however many a namespace has."""

from __future__ import annotations

from typing import Any

import pytest

from asyncsched.schedulers.kubernetes.changes_states import LOOK_AGAIN
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.lookup_events import FRESH, JUST_READ, PAGE, PASSED_OVER, REFUSED_FOR, Events
from asyncsched.schedulers.kubernetes.status import WAITS_FOR_MOMENT
from asyncsched.schedulers.kubernetes.status_reasons import POD_EVENTS
from asyncsched.specs import AppDef, FailureCause, Resource, Role
from tests.kubernetes._apps import VOLCANO
from tests.kubernetes._client import Ahead
from tests.kubernetes._logs import until
from tests.kubernetes.conftest import OnFake
from tests.kubernetes_fake import FakeCluster, StatusError, expired
from tests.kubernetes_fake.faults import Fault

pytestmark = pytest.mark.service("kubernetes-fake")

LIMIT = 10
"""Events on a page."""
FORBIDDEN = 'events is forbidden: User "alice" cannot list resource "events" in API group "" in the namespace "default"'
OURS = {"name": "ours", "namespace": "default", "uid": "5a1e0000-0000-4000-8000-000000000001"}
OTHERS = {"name": "others", "namespace": "default", "uid": "5a1e0000-0000-4000-8000-000000000002"}


@pytest.fixture
def clock() -> Ahead:
    return Ahead()


@pytest.fixture
def events(client: KubeClient, clock: Ahead) -> Events:
    return Events(client, clock=clock, page=LIMIT)


def tell(fake: FakeCluster, about: dict[str, str], reason: str, times: int = 1) -> None:
    """Record events about a pod, in the order of their objects' names."""

    for _ in range(times):
        fake.run(lambda: fake.event("pods", {"metadata": about}, reason, "why", warning=True))


async def look(events: Events, clock: Ahead, times: int = 1) -> list[str]:
    """Look again and again, each time when what is known is too old; return the reasons of our pod."""
    found: list[str] = []
    for _ in range(times):
        clock.ahead += FRESH
        found = [event.reason for event in await events.about("default", [OURS["uid"]])]
    return found


def test_what_is_passed_over_explains_nothing() -> None:
    told = {*POD_EVENTS, "Unschedulable", "FailedCreate", "FailedCreatePod", "PodGroupError", "PluginError"}

    assert told.isdisjoint(PASSED_OVER)


async def test_a_waiting_job_is_described_in_four_requests_whatever_else_happens_there(
    fake: FakeCluster, on_fake: OnFake, clock: Ahead
) -> None:
    role = Role("main", "busybox", entrypoint="sh", num_replicas=100, resource=Resource(cpu=900, gpu=0, memMB=64))
    async with on_fake(clock=clock) as scheduler:
        app_id = await scheduler.submit(AppDef("app", [role]), VOLCANO)
        await until(fake, lambda: [each for each in fake.store.list("events") if "overused" in each["message"]])
        tell(fake, OTHERS, "FailedScheduling", 2 * PAGE)
        tell(fake, {**OTHERS, "name": "zothers"}, "FailedMount", PAGE)
        clock.ahead += WAITS_FOR_MOMENT
        before = fake.traffic.calls.total()
        found = await scheduler.describe(app_id)

    assert found is not None
    assert "overused cpu" in found.msg
    assert FailureCause.UNSCHEDULABLE == found.cause
    assert 4 >= fake.traffic.calls.total() - before, fake.traffic.requests[-8:]


async def test_events_are_asked_for_when_something_has_waited_for_a_while(
    fake: FakeCluster, on_fake: OnFake, clock: Ahead
) -> None:
    role = Role("main", "busybox", entrypoint="sh", resource=Resource(cpu=9000, gpu=0, memMB=64))
    async with on_fake(clock=clock) as scheduler:
        app_id = await scheduler.submit(AppDef("app", [role]), VOLCANO)
        clock.ahead = -3600.0  # this machine's clock is behind the server's
        await scheduler.describe(app_id)
        assert 1 == fake.traffic.calls["list events"]
        clock.ahead = 0.0
        await until(fake, lambda: [each for each in fake.store.list("events") if "overused" in each["message"]])
        clock.ahead = WAITS_FOR_MOMENT
        found = await scheduler.describe(app_id)

    assert found is not None
    assert "overused cpu" in found.msg


async def test_the_end_of_an_app_is_not_told_by_what_was_known_while_it_waited(
    fake: FakeCluster, on_fake: OnFake, clock: Ahead
) -> None:
    role = Role("main", "busybox", entrypoint="sh", resource=Resource(cpu=9000, gpu=0, memMB=64))
    async with on_fake(clock=clock) as scheduler:
        app_id = await scheduler.submit(AppDef("app", [role]), VOLCANO)
        clock.ahead = WAITS_FOR_MOMENT
        await scheduler.describe(app_id)
        job = fake.run(lambda: fake.store.get("vcjobs", "default", app_id.partition(":")[2]))
        fake.run(lambda: fake.event("vcjobs", job, "FailedCreate", "Error creating: exceeded quota: q", warning=True))
        fake.run(lambda: fake.change("vcjobs", job, _give_up))
        clock.ahead += JUST_READ
        found = await scheduler.describe(app_id)

    assert found is not None
    assert (FailureCause.QUOTA, "its pods are refused: exceeded quota: q") == (found.cause, found.msg)


def _give_up(job: dict[str, Any]) -> None:
    """Change a job as Volcano does that ends it."""
    job["status"] = {"state": {"phase": "Terminated"}}


async def test_events_behind_the_first_page_are_found_by_later_looks(
    fake: FakeCluster, events: Events, clock: Ahead
) -> None:
    tell(fake, {**OTHERS, "name": "before"}, "FailedMount", 2 * LIMIT)
    tell(fake, OURS, "FailedMount")

    assert [] == await look(events, clock, 2)
    assert ["FailedMount"] == await look(events, clock)
    assert ["FailedMount"] == await look(events, clock)  # the first page again: the others are still known
    assert 4 == fake.traffic.calls["list events"]
    fake.run(lambda: [fake.store.remove("events", each) for each in list(fake.store.list("events"))])
    assert [] == await look(events, clock, 2)


async def test_each_check_of_a_waiting_app_reads_although_a_read_takes_time(
    fake: FakeCluster, events: Events, clock: Ahead
) -> None:
    fake.fail("list events", Fault(slow=0.2, times=1))
    began = clock.monotonic()
    await events.about("default", [OURS["uid"]])
    clock.ahead += began + LOOK_AGAIN - clock.monotonic()
    await events.about("default", [OURS["uid"]])

    assert 2 == fake.traffic.calls["list events"]


async def test_a_list_that_expires_while_it_is_read_begins_again(
    fake: FakeCluster, events: Events, clock: Ahead
) -> None:
    tell(fake, {**OTHERS, "name": "before"}, "FailedMount", LIMIT)
    tell(fake, OURS, "FailedMount")
    await look(events, clock)
    fake.fail("list events", expired("too old"))

    assert [] == await look(events, clock)
    assert ["FailedMount"] == await look(events, clock, 2)
    assert 4 == fake.traffic.calls["list events"]


async def test_no_more_than_some_pages_are_read(fake: FakeCluster, client: KubeClient, clock: Ahead) -> None:
    tell(fake, {**OTHERS, "name": "before"}, "FailedMount", 20)
    tell(fake, OURS, "FailedMount")

    assert [] == await look(Events(client, clock=clock, page=10, most_pages=2), clock, 4)
    assert ["FailedMount"] == await look(Events(client, clock=clock, page=10, most_pages=3), clock, 4)


async def test_where_the_role_does_not_allow_it_nobody_asks_again_for_some_time(
    fake: FakeCluster, events: Events, clock: Ahead
) -> None:
    fake.fail("list events", Fault(error=StatusError(403, "Forbidden", FORBIDDEN), times=2))
    tell(fake, OURS, "FailedMount")

    assert [] == await look(events, clock, 2)
    assert 2 == fake.traffic.calls["list events"]  # a refusal is believed when it is said again
    clock.ahead += REFUSED_FOR
    assert ["FailedMount"] == await look(events, clock)
