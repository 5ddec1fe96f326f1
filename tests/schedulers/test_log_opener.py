"""Which replicas' logs are open, while an app starts, restarts and ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from asyncsched.errors import UnknownAppError
from asyncsched.logs import LogSource, QueueSource
from asyncsched.logs.query import LogQuery
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.schedulers.state_reports import Answers
from asyncsched.specs import AppDef, AppState, ReplicaStatus, Role
from asyncsched.testing import FakeScheduler, FakeService, VirtualClock
from tests._support import eventually
from tests.logs._fakes import drain, numbered


class Observed(QueueSource):
    """Notes what it is told."""

    def __init__(self, replica: int) -> None:
        super().__init__(role="main", replica=replica)
        self.seen: list[AppState] = []

    def observe(self, status: ReplicaStatus) -> None:
        self.seen.append(status.state)

    def finish(self) -> None:
        self.put(numbered(1, self.replica))
        self.end()


class Observing(FakeScheduler):
    """A fake whose sources note what they are told, and whose replicas may be unknown for a while."""

    def __init__(self, service: FakeService) -> None:
        super().__init__("mine", service, mode="polled")
        self.sources: dict[int, Observed] = {}
        self.asked = 0
        self.blind = False

    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        self.asked += 1
        new = {replica.id: Observed(replica.id) for replica in replicas}
        self.sources.update(new)
        return list(new.values())

    async def _describe_many(self, app_ids: Sequence[str]) -> Answers:
        answers = await super()._describe_many(app_ids)
        for app in answers.values():
            if self.blind and isinstance(app, DescribeAppResponse):
                app.roles, app.roles_statuses = [], []
        return answers


@pytest.fixture
async def service() -> AsyncGenerator[FakeService]:
    async with VirtualClock() as clock:
        service = FakeService(clock, start_delay=None)
        yield service
        service.close()


@pytest.fixture
async def scheduler(service: FakeService) -> AsyncGenerator[Observing]:
    scheduler = Observing(service)
    yield scheduler
    await scheduler.close()


async def launch(scheduler: Observing, replicas: int) -> str:
    return await scheduler.submit(AppDef("job", [Role("main", "i", entrypoint="sh", num_replicas=replicas)]))


async def test_a_source_is_told_of_its_own_replica_and_of_changes_only(
    scheduler: Observing, service: FakeService
) -> None:
    app_id = await launch(scheduler, 3)
    reader = asyncio.create_task(drain(scheduler.log_iter(app_id, should_tail=True)))
    await eventually(lambda: len(scheduler.sources) == 3)
    service.start(app_id, "main", 1)
    await eventually(lambda: len(scheduler.sources[1].seen) == 2)
    service.start(app_id)
    await eventually(lambda: len(scheduler.sources[2].seen) == 2)
    service.exit(app_id)
    await reader

    assert 1 == scheduler.asked
    for source in scheduler.sources.values():
        assert source.seen == list(dict.fromkeys(source.seen))
        assert AppState.SUCCEEDED == source.seen[-1]


async def test_a_role_that_turns_out_not_to_exist_is_told_as_soon_as_that_is_known(
    scheduler: Observing, service: FakeService
) -> None:
    app_id = await launch(scheduler, 1)
    scheduler.blind = True
    step = asyncio.ensure_future(anext(scheduler.log_iter(app_id, "mian", should_tail=True)))
    await service.clock.sleep(5)

    assert not step.done()
    scheduler.blind = False
    service.start(app_id)
    with pytest.raises(UnknownAppError, match="no role 'mian'"):
        await step


async def test_thousands_of_replicas_are_opened_without_holding_the_loop(
    scheduler: Observing, service: FakeService
) -> None:
    """The guard judges the length of each step."""
    app_id = await launch(scheduler, 3000)
    reader = asyncio.create_task(drain(scheduler.log_iter(app_id, should_tail=True)))
    await eventually(lambda: len(scheduler.sources) == 3000)
    service.cancel(app_id)

    assert 3000 == len(await reader)
