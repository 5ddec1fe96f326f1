"""A submit leaves one app, or nothing, whatever happens on the way."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import pytest

from asyncsched.errors import (
    AsyncSchedError,
    ConfigError,
    ConflictError,
    InvalidRequestError,
    RunOptionError,
    UnavailableError,
)
from asyncsched.schedulers.kubernetes import KubernetesScheduler, names
from asyncsched.specs import AppDef, AppDryRunInfo, AppState, Role, Secret
from asyncsched.testing import VirtualClock
from tests._support import eventually
from tests.kubernetes._apps import JOB, VOLCANO
from tests.kubernetes.conftest import OnFake
from tests.kubernetes_fake import FakeCluster
from tests.kubernetes_fake.errors import StatusError, denied
from tests.kubernetes_fake.faults import Fault

pytestmark = pytest.mark.service("kubernetes-fake")  # its pods are processes, in real time

KINDS = [pytest.param(VOLCANO, "vcjobs", id="volcano"), pytest.param(JOB, "jobs", id="job")]


def app(*roles: str, script: str = "sleep 1000") -> AppDef:
    return AppDef("app", [Role(name, "busybox", entrypoint="sh", args=["-c", script]) for name in roles or ("role",)])


def objects(fake: FakeCluster, *kinds: str) -> list[str]:
    return fake.run(lambda: [each["metadata"]["name"] for kind in kinds for each in fake.store.list(kind)])


@pytest.mark.parametrize(("cfg", "resource"), KINDS)
@pytest.mark.parametrize("times", [1, 2])
async def test_a_lost_answer_leaves_exactly_one_job(
    fake: FakeCluster, scheduler: KubernetesScheduler, cfg: dict[str, Any], resource: str, times: int
) -> None:
    fake.fail(f"create {resource}", Fault(cut_after=0, after=True, times=times))

    app_id = await scheduler.submit(app(), cfg)

    assert [app_id.partition(":")[2]] == objects(fake, "vcjobs", "jobs")


@pytest.mark.parametrize(("cfg", "resource"), KINDS)
async def test_a_request_that_never_arrived_is_sent_again(
    fake: FakeCluster, scheduler: KubernetesScheduler, cfg: dict[str, Any], resource: str
) -> None:
    fake.fail(f"create {resource}", Fault(cut_after=0))

    await scheduler.submit(app(), cfg)

    assert 1 == len(objects(fake, resource))


async def test_a_webhook_that_does_not_answer_is_given_up_in_time(fake: FakeCluster, on_fake: OnFake) -> None:
    broken = StatusError(500, "InternalError", "failed calling webhook: connection refused")
    fake.fail("create vcjobs", Fault(error=broken, times=-1))
    async with VirtualClock() as clock, on_fake(clock=clock) as scheduler:
        with pytest.raises(UnavailableError, match="failed calling webhook"):
            await scheduler.submit(app(), VOLCANO)

    assert [] == objects(fake, "vcjobs")


@pytest.mark.parametrize(("cfg", "resource"), KINDS)
async def test_scheduling_twice_submits_once(
    fake: FakeCluster, scheduler: KubernetesScheduler, on_fake: OnFake, cfg: dict[str, Any], resource: str
) -> None:
    info = await scheduler.submit_dryrun(app(), cfg, key="order-42")
    async with on_fake("session") as another:
        again = await another.submit_dryrun(app(), cfg, key="order-42")
        other = await another.submit_dryrun(app(script="echo other"), cfg, key="order-42")
        ids = await asyncio.gather(scheduler.schedule(info), another.schedule(again))

        assert 1 == len({*ids})
        with pytest.raises(ConflictError, match="another app was submitted as"):
            await another.schedule(other)

    assert 1 == len(objects(fake, resource))


@pytest.mark.parametrize(("cfg", "resource"), KINDS)
async def test_somebody_elses_job_of_that_name_is_not_touched(
    fake: FakeCluster, scheduler: KubernetesScheduler, cfg: dict[str, Any], resource: str
) -> None:
    info = await scheduler.submit_dryrun(app(), cfg)
    name = info.app_id.partition(":")[2]
    containers = [{"name": "theirs", "image": "busybox"}]
    template = {"spec": {"containers": containers, "restartPolicy": "Never", "nodeSelector": {"zone": "moon"}}}
    specs: dict[str, Any] = {
        "jobs": {"suspend": True, "completionMode": "NonIndexed", "template": template},
        "vcjobs": {
            "minAvailable": 1,
            "schedulerName": "volcano",
            "queue": "default",
            "tasks": [{"name": "a", "replicas": 1, "template": template}],
        },
    }
    fake.create(resource, name, spec=specs[resource])

    with pytest.raises(ConflictError, match=f"the namespace default already has a job {name}"):
        await scheduler.schedule(info)

    assert [name] == objects(fake, resource)
    assert await scheduler.describe(info.app_id) is None


@pytest.mark.parametrize(("cfg", "resource"), KINDS)
@pytest.mark.parametrize("fault", [Fault(slow=0.5), Fault(slow=0.5, after=True)])
async def test_a_submit_that_is_cancelled_leaves_nothing(
    fake: FakeCluster, scheduler: KubernetesScheduler, cfg: dict[str, Any], resource: str, fault: Fault
) -> None:
    info = await scheduler.submit_dryrun(app(), cfg)
    fake.fail(f"create {resource}", fault)
    sending = asyncio.ensure_future(scheduler.schedule(info))
    await eventually(lambda: fake.traffic.calls[f"create {resource}"])

    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending

    await asyncio.sleep(0.6)  # until the request that was slow has been looked at
    assert [] == objects(fake, resource)


async def test_a_cancelled_retry_leaves_the_first_ones_app(
    fake: FakeCluster, scheduler: KubernetesScheduler, on_fake: OnFake
) -> None:
    info = await scheduler.submit_dryrun(app(), VOLCANO, key="k")
    await scheduler.schedule(info)
    async with on_fake("session") as another:
        again = await another.submit_dryrun(app(), VOLCANO, key="k")
        before = fake.traffic.calls["create vcjobs"]
        fake.fail("create vcjobs", Fault(slow=0.5))
        sending = asyncio.ensure_future(another.schedule(again))
        await eventually(lambda: fake.traffic.calls["create vcjobs"] > before)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

    assert 1 == len(objects(fake, "vcjobs"))


# Several roles as Jobs


async def test_several_roles_are_created_suspended_and_released_last(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    app_id = await scheduler.submit(app("one", "two", "three"), JOB)

    name = app_id.partition(":")[2]
    writes = [path for method, path in fake.traffic.requests if method in ("POST", "PATCH")]
    assert writes[0].startswith("/apis/batch/v1/namespaces/default/jobs")
    assert writes[-1].startswith(f"/apis/batch/v1/namespaces/default/jobs/{name}")
    assert {writes[-1]} == {*writes[4:]}  # it is tried again where the controller writes at the same moment
    jobs = fake.run(lambda: fake.store.list("jobs"))
    assert [False] * 3 == [bool(job["spec"].get("suspend")) for job in jobs]
    uid = next(job["metadata"]["uid"] for job in jobs if job["metadata"]["name"] == name)
    assert {uid} == {each["uid"] for job in jobs for each in job["metadata"].get("ownerReferences", [])}


@pytest.mark.parametrize(
    ("what", "cut_after"),
    [
        pytest.param("create services", None, id="before the release"),
        pytest.param("patch jobs", None, id="at the same moment"),
        pytest.param("patch jobs", 0, id="before it is sent again"),
    ],
)
async def test_a_release_does_not_undo_a_cancel(
    fake: FakeCluster, scheduler: KubernetesScheduler, what: str, cut_after: int | None
) -> None:
    info = await scheduler.submit_dryrun(app("one", "two"), JOB)
    name = info.app_id.partition(":")[2]

    def cancel() -> None:
        fake.store.update("jobs", fake.store.get("jobs", "default", name), _cancelled)

    fake.fail(what, Fault(meanwhile=cancel, cut_after=cut_after))

    with pytest.raises(ConflictError, match=f"{name} was cancelled during its submit"):
        await scheduler.schedule(info)

    assert name not in _released(fake)


def _cancelled(job: dict[str, Any]) -> None:
    """Change a Job as the cancel of another process does."""
    job["spec"]["suspend"] = True
    job["metadata"]["annotations"][names.CANCELLED] = "2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize("after", [False, True])
async def test_a_release_whose_answer_is_lost_is_sent_again(
    fake: FakeCluster, scheduler: KubernetesScheduler, *, after: bool
) -> None:
    fake.fail("patch jobs", Fault(cut_after=0, after=after))

    await scheduler.submit(app("one", "two"), JOB)

    assert 2 == len(_released(fake))


def _released(fake: FakeCluster) -> list[str]:
    """Return the names of the Jobs that are not suspended."""
    jobs = fake.run(lambda: fake.store.list("jobs"))
    return [job["metadata"]["name"] for job in jobs if not job["spec"].get("suspend")]


async def test_a_lost_answer_to_the_service_leaves_exactly_one(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    """The user may look at the Service that is there: only its owner tells whether it is this app's."""
    fake.fail("create services", Fault(cut_after=0, after=True))
    app_id = await scheduler.submit(app("one", "two"), JOB)

    assert [app_id.partition(":")[2]] == objects(fake, "services")
    assert 1 == fake.traffic.calls["get services"]


@pytest.mark.parametrize("what", ["create services", "create jobs", "patch jobs"])
async def test_a_submit_that_fails_half_way_leaves_nothing(
    fake: FakeCluster, scheduler: KubernetesScheduler, what: str
) -> None:
    info = await scheduler.submit_dryrun(app("one", "two"), JOB)
    refused = StatusError(403, "Forbidden", "exceeded quota: small")
    if what == "create jobs":
        refusals = {"n": 0}

        def second(_: dict[str, Any]) -> StatusError | None:
            refusals["n"] += 1
            return refused if refusals["n"] == 2 else None

        fake.run(lambda: fake.refusals.update(jobs=second))
    else:
        fake.fail(what, refused)

    with pytest.raises(InvalidRequestError, match="exceeded quota"):
        await scheduler.schedule(info)

    await eventually(lambda: [] == objects(fake, "jobs", "services"))


async def test_what_a_dead_submitter_has_begun_is_told_and_finished(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    info = await scheduler.submit_dryrun(app("one", "two", script="true"), JOB)
    await _half(scheduler, info, fake)

    found = await scheduler.describe(info.app_id)
    assert found is not None
    assert AppState.PENDING == found.state
    assert "not released" in found.msg
    assert info.app_id == await scheduler.schedule(info)

    async def succeeded() -> bool:
        app = await scheduler.describe(info.app_id)
        return app is not None and app.state is AppState.SUCCEEDED

    await eventually(succeeded)


async def test_what_a_dead_submitter_has_begun_is_pruned(fake: FakeCluster, scheduler: KubernetesScheduler) -> None:
    from datetime import timedelta

    info = await scheduler.submit_dryrun(app("one", "two"), JOB)
    whole = await scheduler.submit(app("one", "two"), JOB)
    await _half(scheduler, info, fake)

    assert [] == await scheduler.prune(timedelta(hours=1))
    assert [info.app_id] == await scheduler.prune(timedelta(0))
    assert await scheduler.describe(info.app_id) is None
    assert await scheduler.describe(whole) is not None


@pytest.mark.parametrize("by", ["prune", "delete"])
async def test_what_a_dead_submitter_has_not_released_is_removed_though_its_other_roles_run(
    fake: FakeCluster, scheduler: KubernetesScheduler, by: str
) -> None:
    """The Jobs of other roles are not suspended: their pods wait for the first role's."""
    from datetime import timedelta

    from asyncsched.schedulers.kubernetes.request import to_wire

    info = await scheduler.submit_dryrun(app("one", "two", script="sleep 1000"), JOB)
    await _half(scheduler, info, fake)
    path = "/apis/batch/v1/namespaces/default/jobs"
    name = info.app_id.partition(":")[2]
    uid = fake.run(lambda: fake.store.get("jobs", "default", name))["metadata"]["uid"]
    await scheduler._client.request("POST", path, body=to_wire(info.request, info.app_id, info.digest).owned(uid)[1])

    def runs() -> bool:
        pods = fake.run(lambda: fake.store.list("pods"))
        return [pod.get("status", {}).get("phase") for pod in pods] == ["Running"]

    await eventually(runs)
    found = await scheduler.describe(info.app_id)
    assert found is not None
    assert "not released" in found.msg
    if by == "prune":
        assert [info.app_id] == await scheduler.prune(timedelta(0))
    else:
        await scheduler.delete(info.app_id)
    assert await scheduler.describe(info.app_id) is None
    await eventually(lambda: [] == objects(fake, "jobs", "pods"))


async def _half(scheduler: KubernetesScheduler, info: AppDryRunInfo[Any], fake: FakeCluster) -> None:
    """Do what a submitter does that dies after its first request."""
    from asyncsched.schedulers.kubernetes.request import to_wire

    wire = to_wire(info.request, info.app_id, info.digest)
    await scheduler._client.request("POST", "/apis/batch/v1/namespaces/default/jobs", body=wire.job)


# What the cluster refuses


async def test_a_webhooks_denial_is_told(fake: FakeCluster, scheduler: KubernetesScheduler) -> None:
    with pytest.raises(InvalidRequestError, match="unable to find job queue"):
        await scheduler.submit(app(), {"kind": "volcano", "queue": "nosuch"})


async def test_a_webhook_that_quotes_a_secret_does_not_tell_it(
    fake: FakeCluster, scheduler: KubernetesScheduler
) -> None:
    quoting = denied("policy.example", "env PASSWORD=sesame-17 is not from a Secret")
    fake.run(lambda: fake.refusals.update(jobs=lambda _: quoting))
    secret = app()
    secret.roles[0].env["PASSWORD"] = Secret("sesame-17")

    with pytest.raises(InvalidRequestError, match=r"PASSWORD=\*\*\* is not from a Secret") as raised:
        await scheduler.submit(secret, JOB)

    shown = "".join(traceback.format_exception(raised.value))
    assert "sesame" not in shown + repr(raised.value.__cause__)


async def test_a_missing_queue_is_told_before_anything_is_sent(scheduler: KubernetesScheduler) -> None:
    with pytest.raises(RunOptionError, match="queue"):
        await scheduler.submit_dryrun(app(), {"kind": "volcano"})


async def test_a_namespace_that_is_not_there_is_told(fake: FakeCluster, scheduler: KubernetesScheduler) -> None:
    with pytest.raises(AsyncSchedError, match="nowhere"):
        await scheduler.submit(app(), {"kind": "job", "namespace": "nowhere"})


async def test_a_dry_run_may_ask_the_server(fake: FakeCluster, scheduler: KubernetesScheduler) -> None:
    info = await scheduler.submit_dryrun(app(), {**VOLCANO, "validate_spec": True})
    assert [] == objects(fake, "vcjobs")
    assert info.request.kind == "volcano"

    fake.run(lambda: fake.refusals.update(vcjobs=lambda _: denied("policy.example", "no cost centre")))
    with pytest.raises(InvalidRequestError, match="no cost centre"):
        await scheduler.submit_dryrun(app(), {**VOLCANO, "validate_spec": True})


async def test_without_volcano_auto_takes_jobs_and_volcano_is_refused(tmp_path: Any) -> None:
    with FakeCluster(volcano=False) as fake:
        path = str(fake.kubeconfig(tmp_path / "config"))
        async with KubernetesScheduler("session", kubeconfig=path) as scheduler:
            info = await scheduler.submit_dryrun(app())
            assert "job" == info.request.kind
            with pytest.raises(InvalidRequestError, match=r"has no Volcano.*install Volcano, or use kind=job"):
                await scheduler.submit(app(), VOLCANO)
            with pytest.raises(InvalidRequestError, match="has no Kueue"):
                await scheduler.submit(app(), {"kind": "job", "queue": "team"})


@pytest.mark.parametrize(("cfg", "resource"), KINDS)
async def test_a_job_that_was_made_by_hand_names_what_its_pods_are_made_with(
    scheduler: KubernetesScheduler, cfg: dict[str, Any], resource: str
) -> None:
    request = (await scheduler.submit_dryrun(app(script="true"), cfg)).request
    spec = request.resource["spec"]
    pod = (spec["tasks"][0] if "tasks" in spec else spec)["template"]["spec"]
    pod["containers"][0]["securityContext"] = {"runAsUser": 0}
    pod["hostNetwork"] = False
    spec["ttlSecondsAfterFinished"] = 600
    found = await scheduler.describe(await scheduler.schedule(AppDryRunInfo(request, repr)))

    assert found is not None
    assert [("role", 1)] == [(role.name, role.num_replicas) for role in found.roles]
    with pytest.raises(ConfigError, match=r"role 'role': not all of it was kept.*its job was made by hand") as caught:
        await scheduler.submit(AppDef("job", found.roles), cfg)
    named = ("pod.hostNetwork", "container.securityContext", "job.ttlSecondsAfterFinished")
    assert all(name in str(caught.value) for name in named)


@pytest.mark.parametrize("cfg", [VOLCANO, JOB], ids=["volcano", "job"])
async def test_what_is_too_large_is_refused_before_the_server_is_asked(
    fake: FakeCluster, scheduler: KubernetesScheduler, cfg: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="too large"):
        await scheduler.submit(app(script="x" * 1_500_000), cfg)

    assert [] == fake.traffic.requests
