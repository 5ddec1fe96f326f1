"""What is wrong with an app or a cluster is told in words that help, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from asyncsched.errors import AsyncSchedError
from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.schedulers.kubernetes.status import WAITS_FOR_MOMENT
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs import AppDef, AppState, FailureCause, Role, SecretRef
from tests._support import eventually
from tests.kubernetes._apps import BOTH, JOB
from tests.kubernetes._client import Ahead
from tests.kubernetes.conftest import OnFake
from tests.kubernetes_fake import FakeCluster, StatusError

pytestmark = pytest.mark.service("kubernetes-fake")  # its pods are processes, in real time


@pytest.fixture
async def scheduler(on_fake: OnFake) -> AsyncIterator[KubernetesScheduler]:
    """A scheduler whose clock is ahead: what its apps wait for is looked for at once."""
    clock = Ahead()
    clock.ahead = WAITS_FOR_MOMENT
    async with on_fake(clock=clock) as made:
        yield made


def app(**more: Any) -> AppDef:
    return AppDef("app", [Role("main", **{"image": "busybox", "entrypoint": "true", **more})])


async def told(scheduler: KubernetesScheduler, app_id: str, words: str) -> DescribeAppResponse:
    async def tells() -> DescribeAppResponse | None:
        found = await scheduler.describe(app_id)
        return found if found is not None and words in found.msg else None

    found = await eventually(tells)
    assert found is not None
    return found


@BOTH
@pytest.mark.parametrize(
    ("wrong", "words", "cause"),
    [
        ({"image": "missing"}, 'pull and unpack image "missing"', FailureCause.IMAGE),
        ({"env": {"PASS": SecretRef("nosuch", "key")}}, 'secret "nosuch" not found', FailureCause.CONFIG),
    ],
    ids=["image", "secret"],
)
async def test_what_its_pods_cannot_have_is_told(
    scheduler: KubernetesScheduler, cfg: dict[str, Any], wrong: dict[str, Any], words: str, cause: FailureCause
) -> None:
    app_id = await scheduler.submit(app(**wrong), cfg)

    found = await told(scheduler, app_id, words)
    assert (AppState.PENDING, cause) == (found.state, found.cause)
    await _leaves_nothing(scheduler, app_id)


@BOTH
async def test_a_quota_that_refuses_the_pods_is_told(
    fake: FakeCluster, scheduler: KubernetesScheduler, cfg: dict[str, Any]
) -> None:
    said = 'pods "x" is forbidden: exceeded quota: none, requested: pods=1, used: pods=0, limited: pods=0'
    fake.pod_refusal = lambda _: StatusError(403, "Forbidden", said)
    app_id = await scheduler.submit(app(), cfg)

    found = await told(scheduler, app_id, f"its pods are refused: {said}")
    assert FailureCause.QUOTA == found.cause
    if cfg is JOB:  # Volcano gives up by itself
        await _leaves_nothing(scheduler, app_id)


async def _leaves_nothing(scheduler: KubernetesScheduler, app_id: str) -> None:
    async def is_cancelled() -> bool:
        found = await scheduler.describe(app_id)
        return found is not None and found.state is AppState.CANCELLED

    await scheduler.cancel(app_id)
    await eventually(is_cancelled)
    await scheduler.delete(app_id)
    assert await scheduler.describe(app_id) is None


@BOTH
async def test_names_with_eighty_letters_are_shortened(
    fake: FakeCluster, scheduler: KubernetesScheduler, cfg: dict[str, Any]
) -> None:
    long = AppDef(
        "n" * 80, [Role("r" * 80, "busybox", entrypoint="true"), Role("s" * 80, "busybox", entrypoint="true")]
    )
    app_id = await scheduler.submit(long, cfg)

    async def succeeded() -> bool:
        found = await scheduler.describe(app_id)
        return found is not None and found.state is AppState.SUCCEEDED

    await eventually(succeeded)
    hosts = fake.run(lambda: [each["spec"]["hostname"] for each in fake.store.list("pods")])
    found = await scheduler.describe(app_id)
    assert found is not None
    assert 2 == len(hosts)
    assert max(map(len, hosts)) <= 63
    assert ("n" * 80, ["r" * 80, "s" * 80]) == (found.name, [role.name for role in found.roles])


@BOTH
@pytest.mark.parametrize("option", ["namespace", "queue"])
async def test_a_namespace_or_a_queue_with_eighty_letters_is_refused(
    fake: FakeCluster, scheduler: KubernetesScheduler, cfg: dict[str, Any], option: str
) -> None:
    with pytest.raises(AsyncSchedError, match=r"x{80}"):
        await scheduler.submit(app(), {**cfg, option: "x" * 80})

    assert [] == fake.run(lambda: [*fake.store.list("vcjobs"), *fake.store.list("jobs")])
