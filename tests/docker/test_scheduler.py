"""What is the backend's own, on a real daemon; what all backends promise is in the contract suite."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any, cast

import pytest

from asyncsched.errors import ConfigError, ConflictError, InvalidRequestError, NotFoundError, UsageError
from asyncsched.schedulers.docker import DockerContainer, DockerJob, DockerScheduler
from asyncsched.schedulers.docker import names as labels
from asyncsched.specs import (
    AppDef,
    AppDryRunInfo,
    AppState,
    BindMount,
    DeviceMount,
    FailureCause,
    Resource,
    Role,
    Secret,
    VolumeMount,
)
from tests._support import eventually
from tests.docker._apps import IGNORES, OBEYS, Gate, app, shell
from tests.services.dockerd import BUSYBOX_IMAGE, SHELL_LESS_IMAGE, Dockerd

pytestmark = pytest.mark.service("dockerd")


async def end(scheduler: DockerScheduler, app_id: str) -> AppState:
    async for event in scheduler.watch([app_id]):
        if event.is_terminal():
            return event.state
    raise AssertionError("the watch ended before the app")


async def text(scheduler: DockerScheduler, app_id: str, **query: object) -> list[str]:
    return [line.text async for line in scheduler.log_iter(app_id, should_tail=True, **query)]  # type: ignore[arg-type]


async def test_replicas_reach_each_other_by_name(scheduler: DockerScheduler) -> None:
    ping = 'ping -c 1 -w 5 "$TORCHX_RANK0_HOST"'  # which may not run yet, or not be known by its name
    script = f'until {ping} >/dev/null 2>&1; do sleep 0.1; done; echo "${{replica_id}} reached it"'
    first = shell(OBEYS, name="first")
    app_id = await scheduler.submit(app(first, shell(script, name="second", num_replicas=2)))

    lines = await asyncio.gather(*(anext(scheduler.log_iter(app_id, "second", k, should_tail=True)) for k in (0, 1)))

    assert ["0 reached it", "1 reached it"] == [line.text for line in lines]
    await scheduler.cancel(app_id)


async def test_every_app_is_in_one_network(scheduler: DockerScheduler, dockerd: Dockerd) -> None:
    others = [DockerScheduler("other") for _ in range(3)]
    await asyncio.gather(*(each.submit(app(shell(":"))) for each in (scheduler, *others)))
    for each in others:
        await each.close()

    networks = [network["Name"] for network in dockerd.api.json("GET", "/networks")]

    assert ["asyncsched"] == [name for name in networks if name not in ("none", "host")]


async def test_exit_codes_and_reasons(scheduler: DockerScheduler, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    good = shell("exit 0", name="good")
    bad = shell("exit 7", name="bad")
    # Docker hears of a lack of memory only from a while after the beginning on, and until the end.
    eats = "until [ -e /gate/open ]; do dd if=/dev/zero of=/dev/null bs=64M count=1; sleep 0.2; done; exit 137"
    hungry = shell(eats, name="hungry", resource=Resource(cpu=-1, gpu=-1, memMB=8), mounts=gate.mounts)
    app_id = await scheduler.submit(app(good, bad, hungry))
    daemon = await scheduler._docker()
    params = {"filters": json.dumps({"event": ["oom"], "label": [f"{labels.APP_ID}={app_id}"]}), "since": "1"}
    async with daemon.stream("events", params, what="cannot read events", operation="watch") as events:
        await events.readline()
    gate.open()

    assert await end(scheduler, app_id) is AppState.FAILED
    status = await scheduler.describe(app_id)
    assert status is not None
    found = {replica.role: (replica.state, replica.exit_code, replica.reason) for replica in status.replicas}
    assert (AppState.SUCCEEDED, 0, "") == found["good"]
    assert (AppState.FAILED, 7, "exit code 7") == found["bad"]
    assert (AppState.FAILED, 137, "out of memory: killed, exit code 137") == found["hungry"]
    assert "bad/0: exit code 7" == status.msg


async def test_restarts_are_counted_and_attempts_told(scheduler: DockerScheduler, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    script = f"echo begins; {Gate.passed_once}; echo ends; exit 3"
    app_id = await scheduler.submit(app(shell(script, max_retries=2, mounts=gate.mounts)))

    lines: list[tuple[str, int | None]] = []
    async for line in scheduler.log_iter(app_id, should_tail=True):
        lines.append((line.text, line.attempt))
        if line.text == "begins":  # a run that nobody sees is not told apart
            gate.open()
    status = await scheduler.describe(app_id)

    assert [(text, attempt) for attempt in range(3) for text in ("begins", "ends")] == lines
    assert status is not None
    assert (2, AppState.FAILED) == (status.num_restarts, status.state)
    assert status.replicas[0].started_at is not None
    assert status.replicas[0].finished_at is not None
    async with DockerScheduler("later") as later:
        again = [(line.text, line.attempt) async for line in later.log_iter(app_id)]
    assert [None, None, None, None, 2, 2] == [attempt for _, attempt in again]
    assert [text for text, _ in lines] == [text for text, _ in again]


async def test_one_request_describes_any_number(scheduler: DockerScheduler) -> None:
    ids = [await scheduler.submit(app(shell(":", num_replicas=2))) for _ in range(3)]
    for app_id in ids:
        await end(scheduler, app_id)
    daemon = await scheduler._docker()
    daemon.calls.clear()

    statuses = await scheduler.describe_many([*ids, "unknown"])

    assert (1, 0) == (daemon.calls["describe_many"], daemon.calls["describe"])  # the watches may still ask for theirs
    assert [*ids, "unknown"] == list(statuses)
    assert [AppState.SUCCEEDED] * 3 == [statuses[app_id].state for app_id in ids if statuses[app_id]]  # type: ignore[union-attr]
    assert statuses["unknown"] is None


async def test_cancel_marks_for_other_processes(scheduler: DockerScheduler) -> None:
    slow = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done"
    app_id = await scheduler.submit(app(shell(slow, num_replicas=3)), {"grace_period": 4.0})
    ready = scheduler.log_iter(app_id, should_tail=True)
    assert ["ready"] * 3 == [(await anext(ready)).text for _ in range(3)]
    await ready.aclose()
    began = time.monotonic()

    await scheduler.cancel(app_id)
    async with DockerScheduler("another process") as other:
        at_once = await other.describe(app_id)
        asked = time.monotonic() - began
        assert await end(other, app_id) is AppState.CANCELLED
        took = time.monotonic() - began
        rows = await other.list()
        lines = [line async for line in other.log_iter(app_id) if line.text == "asked"]

    assert at_once is not None
    assert not at_once.state.is_terminal() or 4.0 <= asked, "it does not wait for the end"
    assert 4.0 <= took
    assert [0, 1, 2] == sorted(line.replica for line in lines), "each is asked once: there is one grace period"
    assert [(app_id, AppState.CANCELLED)] == [(row.app_id, row.state) for row in rows]
    await scheduler.cancel(app_id)


async def test_who_cancels_has_the_last_word_over_a_stop_for_a_failure(
    scheduler: DockerScheduler, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)
    roles = shell("exit 3", name="bad"), shell(f"trap '' TERM; {Gate.passed}", name="other", mounts=gate.mounts)
    app_id = await scheduler.submit(app(*roles), {"on_failure": "stop", "grace_period": 600.0})

    async def is_being_stopped() -> bool:
        return any(container.stopped for container in await scheduler._lookup.members(app_id, "describe"))

    await eventually(is_being_stopped)
    await scheduler.cancel(app_id)
    gate.open()

    assert AppState.CANCELLED is await end(scheduler, app_id)


async def test_who_was_told_of_an_end_never_hears_otherwise_for_a_late_cancel(scheduler: DockerScheduler) -> None:
    # Lists tell of an end a tenth of a second late: in that time a cancel must not take what has ended for running.
    async def cancelled_at_its_end() -> tuple[AppState, AppState]:
        app_id = await scheduler.submit(app(shell("sleep 0.1")))
        daemon = await scheduler._docker()
        params = {"filters": json.dumps({"event": ["die"], "label": [f"{labels.APP_ID}={app_id}"]}), "since": "1"}
        async with daemon.stream("events", params, what="cannot read events", operation="watch") as events:
            await events.readline()
        ending = asyncio.create_task(end(scheduler, app_id))
        await scheduler.cancel(app_id)
        told = await ending
        status = await scheduler.describe(app_id)
        assert status is not None
        return told, status.state

    for _ in range(5):
        assert (AppState.SUCCEEDED, AppState.SUCCEEDED) == await cancelled_at_its_end()


async def test_cancel_of_what_waits_to_be_started_again(scheduler: DockerScheduler) -> None:
    app_id = await scheduler.submit(app(shell("exit 1", max_retries=50)))

    async def waits() -> bool:
        status = await scheduler.describe(app_id)  # Docker's pauses grow: after three they are long
        return status is not None and status.replicas[0].state is AppState.PENDING and status.num_restarts > 3

    await eventually(waits)
    await scheduler.cancel(app_id)

    assert AppState.CANCELLED is await end(scheduler, app_id)


async def test_cancel_of_what_is_paused(scheduler: DockerScheduler, dockerd: Dockerd) -> None:
    app_id = await scheduler.submit(app(shell(OBEYS)))
    await eventually_running(scheduler, app_id)
    await eventually_paused(dockerd, f"{app_id}-worker-0")
    status = await scheduler.describe(app_id)
    assert status is not None
    assert (AppState.PENDING, "paused") == (status.replicas[0].state, status.replicas[0].reason)

    await scheduler.cancel(app_id)

    assert AppState.CANCELLED is await end(scheduler, app_id)


async def test_cancel_survives_the_end_of_the_canceller(scheduler: DockerScheduler) -> None:
    app_id = await scheduler.submit(app(shell(IGNORES)), {"grace_period": 1.0})
    async with DockerScheduler("brief") as brief:
        await brief.cancel(app_id)

    assert await end(scheduler, app_id) is AppState.CANCELLED


async def eventually_paused(dockerd: Dockerd, container: str) -> None:
    async def is_paused() -> bool:
        try:
            await asyncio.to_thread(dockerd.api.call, "POST", f"/containers/{container}/pause")
        except RuntimeError as error:
            if "unable to freeze" not in str(error):
                raise
            return False  # with version 1 of cgroups runc gives up after a while, and the caller has to repeat
        return True

    await eventually(is_paused)


async def eventually_running(scheduler: DockerScheduler, app_id: str) -> None:
    async def runs() -> bool:
        status = await scheduler.describe(app_id)
        return status is not None and status.state is AppState.RUNNING

    await eventually(runs)


async def test_bad_entrypoint_leaves_nothing(scheduler: DockerScheduler, dockerd: Dockerd) -> None:
    bad = Role("bad", BUSYBOX_IMAGE, entrypoint="/no/such/program")

    with pytest.raises(InvalidRequestError, match=r"/no/such/program.*check the role's entrypoint"):
        await scheduler.submit(app(shell(OBEYS, num_replicas=2), bad))

    assert [] == dockerd.api.json("GET", "/containers/json?all=1")


@pytest.mark.parametrize(
    ("fields", "cfg", "told"),
    [
        ({"resource": Resource(cpu=-1, gpu=1, memMB=-1)}, {}, "could not select device driver.*set gpu to 0"),
        ({"mounts": [DeviceMount("/dev/absent", "/dev/x")]}, {}, "/dev/absent.*check the device's path"),
        ({"mounts": [BindMount("/absent/here", "/x")]}, {}, "bind source path does not exist.*create the directory"),
        ({"resource": Resource(cpu=100_000, gpu=-1, memMB=-1)}, {}, "[Rr]ange of CPUs"),
        ({"resource": Resource(cpu=-1, gpu=-1, memMB=1)}, {}, "[Mm]inimum memory limit"),
        ({}, {"user": "nobody-of-this-name"}, "unable to find user.*use a user that exists in the image"),
        ({}, {"ulimits": ["nonsense=1"]}, "NONSENSE.*check the run option ulimits"),
        ({"image": "Not A Name"}, {}, "invalid reference format"),
    ],
    ids=["gpu", "device", "bind", "cpu", "memory", "user", "ulimit", "image"],
)
async def test_what_the_daemon_refuses_leaves_nothing(
    scheduler: DockerScheduler, dockerd: Dockerd, fields: dict[str, Any], cfg: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidRequestError, match=f"(?s){told}"):
        await scheduler.submit(app(shell(OBEYS), shell(OBEYS, name="refused", **fields)), cfg)

    assert [] == dockerd.api.json("GET", "/containers/json?all=1")


async def test_the_network_of_a_container_that_is_not_there(scheduler: DockerScheduler, dockerd: Dockerd) -> None:
    with pytest.raises(NotFoundError, match="No such container: nobody"):
        await scheduler.submit(app(shell(OBEYS)), {"network": "container:nobody"})

    assert [] == dockerd.api.json("GET", "/containers/json?all=1")


async def test_a_device_is_there(scheduler: DockerScheduler) -> None:
    role = shell("test -c /dev/other && echo there", mounts=[DeviceMount("/dev/null", "/dev/other", "r")])

    assert ["there"] == await text(scheduler, await scheduler.submit(app(role)))


async def test_image_without_a_shell(scheduler: DockerScheduler, dockerd: Dockerd) -> None:
    with pytest.raises(InvalidRequestError, match='"sh": executable file not found'):
        await scheduler.submit(app(shell(":", image=SHELL_LESS_IMAGE)))
    app_id = await scheduler.submit(app(Role("good", SHELL_LESS_IMAGE, entrypoint="/bin/true")))

    assert await end(scheduler, app_id) is AppState.SUCCEEDED


async def test_missing_image(scheduler: DockerScheduler, dockerd: Dockerd) -> None:
    missing = shell(":", name="second", image="no-such-image:1")

    with pytest.raises(NotFoundError, match=r"no image no-such-image:1: .*pull=never"):
        await scheduler.submit(app(shell(OBEYS), missing), {"pull": "never"})

    assert [] == dockerd.api.json("GET", "/containers/json?all=1")


async def test_taken_container_name(scheduler: DockerScheduler, dockerd: Dockerd) -> None:
    info = await scheduler.submit_dryrun(app(shell(OBEYS), shell(OBEYS, name="other")))
    name = info.request.containers[1].name
    dockerd.api.json("POST", f"/containers/create?name={name}", {"Image": BUSYBOX_IMAGE, "Cmd": ["true"]})

    with pytest.raises(ConflictError, match=rf"the container name {name} is taken.*docker rm {name}"):
        await scheduler.schedule(info)

    left = dockerd.api.json("GET", "/containers/json?all=1")
    assert [[f"/{name}"]] == [container["Names"] for container in left]


async def test_equal_beginnings_long_names_and_unicode(scheduler: DockerScheduler, dockerd: Dockerd) -> None:
    same = "a" * 30
    roles = [shell(":", name=f"{same}-first"), shell(":", name=f"{same}-second"), shell(":", name="Größe_1")]
    app_id = await scheduler.submit(app(*roles, name="n" * 80))

    assert await end(scheduler, app_id) is AppState.SUCCEEDED
    status = await scheduler.describe(app_id)

    assert status is not None
    assert [role.name for role in roles] == [role.name for role in status.roles]
    hosts = [replica.hostname for replica in status.replicas]
    assert 3 == len(set(hosts))
    assert all(len(host) <= 63 for host in hosts)


async def test_scheduling_twice_submits_once(scheduler: DockerScheduler, dockerd: Dockerd) -> None:
    info = await scheduler.submit_dryrun(app(shell(OBEYS, num_replicas=2)))
    async with DockerScheduler("session") as other:
        await asyncio.gather(scheduler.schedule(info), other.schedule(info))
        await scheduler.schedule(info)

    assert 2 == len(dockerd.api.json("GET", "/containers/json?all=1"))
    await eventually_running(scheduler, info.app_id)


async def test_a_submit_that_was_killed_is_completed(scheduler: DockerScheduler, dockerd: Dockerd) -> None:
    info = await scheduler.submit_dryrun(app(shell(OBEYS, num_replicas=2)))
    from asyncsched.schedulers.docker.request import to_wire

    first = info.request.containers[0]
    body = to_wire(first, "none", info.digest)
    dockerd.api.json("POST", f"/containers/create?name={first.name}", body)

    await scheduler.schedule(info)

    await eventually_running(scheduler, info.app_id)
    assert 2 == len(dockerd.api.json("GET", "/containers/json"))


async def test_mounts_resources_and_user(scheduler: DockerScheduler, tmp_path: Path) -> None:
    role = shell(
        "echo from the replica >/bound/file; id -u; df /dev/shm | tail -1 | tr -s ' ' | cut -d ' ' -f 2; ulimit -n",
        mounts=[BindMount(str(tmp_path), "/bound"), VolumeMount("asyncsched-tests", "/kept", read_only=True)],
        resource=Resource(cpu=1, gpu=0, memMB=32),
    )
    app_id = await scheduler.submit(app(role), {"user": "0:0", "ulimits": ["nofile=77:88"]})

    assert ["0", "32768", "77"] == await text(scheduler, app_id)
    assert "from the replica\n" == (tmp_path / "file").read_text()


async def test_a_described_app_submitted_again_gets_the_same_of_its_host(
    scheduler: DockerScheduler, dockerd: Dockerd, tmp_path: Path
) -> None:
    role = shell(
        "cat /bound/file; echo $A; test -c /dev/other && echo device; exit 1",
        env={"A": "$${app_id} ${replica_id}"},
        mounts=[
            BindMount(str(tmp_path), "/bound", read_only=True),
            VolumeMount("asyncsched-tests", "/kept"),
            DeviceMount("/dev/null", "/dev/other", "r"),
        ],
        resource=Resource(cpu=1, gpu=0, memMB=32),
        port_map={"http": 80},
        num_replicas=2,
        max_retries=1,
    )
    (tmp_path / "file").write_text("bound\n")
    first_id = await scheduler.submit(app(role))
    assert AppState.FAILED is await end(scheduler, first_id)
    async with DockerScheduler("another process") as other:
        found = await other.describe(first_id)
    assert found is not None
    second_id = await scheduler.submit(AppDef(found.name, found.roles, metadata=found.metadata))
    assert AppState.FAILED is await end(scheduler, second_id)

    assert [role] == found.roles
    said = sorted(4 * ["bound", "device"] + 2 * ["${app_id} 0", "${app_id} 1"])
    for app_id in (first_id, second_id):
        assert said == sorted(await text(scheduler, app_id))
    configs = [
        [dockerd.api.json("GET", f"/containers/{app_id}-worker-{k}/json")["HostConfig"] for k in (0, 1)]
        for app_id in (first_id, second_id)
    ]
    assert configs[0] == configs[1]


async def test_an_app_whose_environment_no_label_can_hold_is_refused_by_name(scheduler: DockerScheduler) -> None:
    app_id = await scheduler.submit(app(shell(":", env={"LONG": "x" * 10_000, "A": "1"})))
    await end(scheduler, app_id)
    found = await scheduler.describe(app_id)
    assert found is not None

    with pytest.raises(ConfigError, match="role 'worker': not all of it was kept") as caught:
        await scheduler.submit(AppDef(found.name, found.roles))
    assert "env did not fit into the service's note" == caught.value.why


async def test_environment_is_merged_and_secrets_arrive(
    scheduler: DockerScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COPIED_ONE", "copied")
    monkeypatch.setenv("COPIED_TWO", "replaced by the option")
    role = shell(
        'echo "$COPIED_ONE $COPIED_TWO $FROM_ROLE $A_TOKEN"', env={"FROM_ROLE": "role", "A_TOKEN": Secret("open")}
    )
    cfg = {"copy_env": ["COPIED_*"], "env": {"COPIED_TWO": "option", "FROM_ROLE": "lost"}}
    info = await scheduler.submit_dryrun(app(role), cfg)  # type: ignore[arg-type]

    assert "open" not in repr(info)
    await scheduler.schedule(info)

    assert ["copied option role open"] == await text(scheduler, info.app_id)


async def test_delete_refuses_what_runs(scheduler: DockerScheduler, dockerd: Dockerd) -> None:
    app_id = await scheduler.submit(app(shell(OBEYS), shell(":", name="done")))

    with pytest.raises(ConflictError, match=r"has not ended.*cancel it first"):
        await scheduler.delete(app_id)
    await scheduler.cancel(app_id)
    await end(scheduler, app_id)
    await scheduler.delete(app_id)
    await scheduler.delete(app_id)

    assert [] == dockerd.api.json("GET", "/containers/json?all=1")
    assert await scheduler.describe(app_id) is None


async def test_reading_removes_nothing(scheduler: DockerScheduler) -> None:
    app_id = await scheduler.submit(app(shell("echo once")))

    assert ["once"] == await text(scheduler, app_id)
    assert ["once"] == await text(scheduler, app_id)
    assert await scheduler.exists(app_id)


async def test_who_watches_an_end_knows_its_times(scheduler: DockerScheduler) -> None:
    app_id = await scheduler.submit(app(shell(OBEYS, num_replicas=3)))
    await eventually_running(scheduler, app_id)
    daemon, lookup = await scheduler._docker(), scheduler._lookup
    await scheduler.cancel(app_id)
    async with scheduler.watch(follow=True):  # an app's end may be told before each of its replicas' events has come
        await end(scheduler, app_id)
        await eventually(lambda: 3 == len({*lookup._ends, *lookup._details}))
    daemon.calls.clear()
    status = await scheduler.describe(app_id)

    assert status is not None
    assert 1 == daemon.calls["describe"]
    assert status.started_at is not None
    assert status.finished_at is not None
    assert [True] * 3 == [bool(each.started_at and each.finished_at) for each in status.replicas]


async def test_a_replica_that_cannot_be_started_again_has_its_config_to_blame(
    scheduler: DockerScheduler, tmp_path: Path
) -> None:
    for name in ("data", "signal/go"):
        (tmp_path / name).mkdir(parents=True)
    mounts = [BindMount(str(tmp_path / name), f"/{name}") for name in ("data", "signal")]
    waits = shell("while [ -e /signal/go ]; do sleep 0.05; done; exit 1", mounts=mounts, max_retries=1)
    app_id = await scheduler.submit(app(waits))
    await eventually_running(scheduler, app_id)

    (tmp_path / "data").rmdir()
    (tmp_path / "signal/go").rmdir()
    await end(scheduler, app_id)
    status = await scheduler.describe(app_id)

    assert status is not None
    assert (AppState.FAILED, FailureCause.CONFIG) == (status.state, status.cause)
    assert str(tmp_path / "data") in status.msg


async def test_a_job_that_is_put_together_by_hand_is_launched_once(scheduler: DockerScheduler) -> None:
    def job(text: str = "me") -> AppDryRunInfo[DockerJob]:
        container = DockerContainer(BUSYBOX_IMAGE, ["sh", "-c", "echo $WHO"], {"environment": {"WHO": text}})
        return AppDryRunInfo(DockerJob("by-hand", [container, container]), repr)

    assert "by-hand" == await scheduler.schedule(job()) == await scheduler.schedule(job())
    assert AppState.SUCCEEDED is await end(scheduler, "by-hand")
    found = await scheduler.describe("by-hand")

    assert found is not None
    assert [("main", 0), ("main", 1)] == [(replica.role, replica.id) for replica in found.replicas]
    assert ("by-hand", scheduler.session_name) == (found.name, found.session)
    assert ["me", "me"] == await text(scheduler, "by-hand")
    assert [("main", 2)] == [(role.name, role.num_replicas) for role in found.roles]
    with pytest.raises(ConfigError, match=r"role 'main': not all of it was kept.*its job was made by hand"):
        await scheduler.submit(AppDef("job", found.roles))
    with pytest.raises(ConflictError):
        await scheduler.schedule(job("another"))
    with pytest.raises(UsageError, match="local_docker needs a DockerJob"):
        await scheduler.schedule(AppDryRunInfo(cast("Any", []), repr))


async def test_an_edited_job_is_not_told_as_it_was(scheduler: DockerScheduler, tmp_path: Path) -> None:
    mine = shell("true", mounts=[BindMount(str(tmp_path), "/mnt/w")], resource=Resource(1, 0, 128), env={"A": "1"})
    info = await scheduler.submit_dryrun(app(mine))
    info.request.containers[0].kwargs |= {"mem_limit": "64m", "mounts": []}
    app_id = await scheduler.schedule(info)
    await end(scheduler, app_id)
    found = await scheduler.describe(app_id)

    assert found is not None
    (role,) = found.roles
    assert ([], Resource(-1, -1, -1), mine.args, "1") == (role.mounts, role.resource, role.args, role.env["A"])
    with pytest.raises(ConfigError, match=r"kwargs\.mounts, containers\.0\.kwargs\.mem_limit; mounts and"):
        await scheduler.submit(AppDef("job", [role]))
