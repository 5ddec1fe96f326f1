"""Many submits at once: the loop goes on between them, and one that is cancelled in the line leaves nothing."""

from __future__ import annotations

import asyncio
import collections
import copy
import time
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from asyncsched.logs.loop_time import BUDGET, budget_of
from asyncsched.specs import AppDef, BindMount, DeviceMount, Resource, RetryPolicy, Role, VolumeMount
from asyncsched.specs.copies import copied
from asyncsched.specs.dryrun import Ignored
from asyncsched.specs.secret import Secret
from asyncsched.testing import FakeScheduler
from asyncsched.testing.fake import FakeOptions, FakeRequest
from tests._support import eventually

pytestmark = pytest.mark.guard(loop_step=False, reason="a submit that takes long to prepare is what is tested")


class Heavy(FakeScheduler):
    """A scheduler to which each app is so much work that it uses up what an iteration of the loop has."""

    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.prepared: collections.Counter[int] = collections.Counter()  # by iteration of the loop

    @override
    async def _request(self, app: AppDef, options: FakeOptions, app_id: str) -> FakeRequest:
        self.prepared[budget_of(asyncio.get_running_loop()).iteration] += 1
        end = time.perf_counter() + 1.1 * BUDGET
        while time.perf_counter() < end:
            pass
        return await super()._request(app, options, app_id)


def app() -> AppDef:
    return AppDef("app", [Role("main", "image", entrypoint="true")])


@pytest.mark.parametrize("released", [1, 256])
@pytest.mark.parametrize("operation", ["submit", "submit_dryrun"])
async def test_an_iteration_prepares_no_more_than_its_budget(operation: str, released: int) -> None:
    # Those who stood in the line before may have needed so little that hundreds went on at once.
    budget_of(asyncio.get_running_loop())._released = released
    async with Heavy("session") as scheduler:
        await asyncio.gather(*(getattr(scheduler, operation)(app()) for _ in range(40)))

    assert 40 == scheduler.prepared.total()
    assert 1 == max(scheduler.prepared.values())


class AfterAThread(FakeScheduler):
    """A scheduler whose requests are all there at once, and each is much work afterwards."""

    def __init__(self, session: str, submits: int) -> None:
        super().__init__(session)
        self.barrier = asyncio.Barrier(submits)
        self.prepared: collections.Counter[int] = collections.Counter()  # by iteration of the loop

    @override
    async def _request(self, app: AppDef, options: FakeOptions, app_id: str) -> FakeRequest:
        request = await super()._request(app, options, app_id)
        await self.barrier.wait()
        return request

    @override
    def _ignored(self, app: AppDef, options: FakeOptions) -> Iterable[Ignored]:
        self.prepared[budget_of(asyncio.get_running_loop()).iteration] += 1
        end = time.perf_counter() + 1.1 * BUDGET
        while time.perf_counter() < end:
            pass
        return super()._ignored(app, options)


@pytest.mark.parametrize("operation", ["submit", "submit_dryrun"])
async def test_what_many_have_waited_for_does_not_let_them_all_go_on_in_one_iteration(operation: str) -> None:
    async with AfterAThread("session", 40) as scheduler:
        await asyncio.gather(*(getattr(scheduler, operation)(app()) for _ in range(40)))

    assert 40 == scheduler.prepared.total()
    assert 1 == max(scheduler.prepared.values())


async def test_a_submit_that_is_cancelled_in_the_line_leaves_nothing_and_holds_up_nobody() -> None:
    async with Heavy("session") as scheduler:
        tasks = [asyncio.create_task(scheduler.submit(app())) for _ in range(20)]
        await eventually(lambda: scheduler.prepared)
        cancelled = tasks[5:15]
        for task in cancelled:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        listed = {row.app_id for row in await scheduler.list()}

    submitted = {outcome for outcome in outcomes if isinstance(outcome, str)}
    assert [asyncio.CancelledError] * 10 == [type(outcome) for outcome in outcomes[5:15]]
    assert 10 == len(submitted) == scheduler.prepared.total()
    assert submitted == listed


TEXTS = st.text(max_size=3) | st.text(max_size=3).map(Secret)
METADATA: st.SearchStrategy[Any] = st.recursive(
    TEXTS | st.integers() | st.none() | st.tuples(TEXTS, st.lists(TEXTS)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
ROLES = st.builds(
    Role,
    name=TEXTS,
    image=TEXTS,
    args=st.lists(TEXTS, max_size=3),
    env=st.dictionaries(TEXTS, TEXTS, max_size=3),
    retry_policy=st.sampled_from(RetryPolicy),
    resource=st.builds(Resource, cpu=st.integers(), gpu=st.integers(), memMB=st.integers()),
    port_map=st.dictionaries(TEXTS, st.integers(), max_size=2),
    metadata=st.dictionaries(st.text(max_size=2), METADATA, max_size=3),
    mounts=st.lists(
        st.builds(BindMount, src_path=TEXTS, dst_path=TEXTS)
        | st.builds(VolumeMount, src=TEXTS, dst_path=TEXTS)
        | st.builds(DeviceMount, src_path=TEXTS, dst_path=TEXTS),
        max_size=2,
    ),
)


def changeable(value: object, found: dict[int, object]) -> dict[int, object]:
    """Return, by identity, whatever in a value could be changed."""
    if isinstance(value, (str, int, float, type(None))):
        return found
    if isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, (list, tuple)):
        inner = list(value)
    else:
        inner = list(vars(value).values())
    if not isinstance(value, tuple):
        found[id(value)] = value
    for item in inner:
        changeable(item, found)
    return found


@given(st.builds(AppDef, name=TEXTS, roles=st.lists(ROLES, max_size=3), metadata=st.dictionaries(TEXTS, TEXTS)))
def test_a_copy_is_equal_and_shares_nothing_that_can_change(given: AppDef) -> None:
    found = copied(given)

    assert copy.deepcopy(given) == found == given
    assert not changeable(given, {}).keys() & changeable(found, {}).keys()
    assert [type(value) for role in given.roles for value in role.env.values()] == [
        type(value) for role in found.roles for value in role.env.values()
    ]
