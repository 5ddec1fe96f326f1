"""From records to what is told of an app: those of the first release, and changed ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from asyncsched.errors import ConfigError
from asyncsched.logs.query import LogQuery
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.schedulers.local.status import SupervisorState, describe_app
from asyncsched.schedulers.local.status_record import parse_record
from asyncsched.schedulers.local.supervisor.formats import NOT_EXECUTED
from asyncsched.schedulers.validation import check_app
from asyncsched.specs import (
    AppDef,
    BindMount,
    DeviceMount,
    FailureCause,
    Resource,
    Role,
    Secret,
    VolumeMount,
)
from asyncsched.specs.not_kept import NotKept
from tests.formats._frozen import HERE
from tests.local._local import EACH_LOOP, ONE_LOOP, app_directory, ended

pytestmark = ONE_LOOP


def frozen_record(name: str, **replica: Any) -> dict[str, Any]:
    """Return a record of the first release, its last replica changed."""
    (path,) = (HERE / "0.1.0/local/home/apps").glob(f"{name}-*/state.json")
    record: dict[str, Any] = json.loads(path.read_bytes())
    record["replicas"][-1].update(replica)
    return record


def causes(record: dict[str, Any], supervisor_state: SupervisorState = SupervisorState.LED) -> list[str | None]:
    """Return the app's cause and those of its replicas."""
    found = describe_app(parse_record(record["app_id"], record), supervisor_state)
    return [found.cause, *(replica.cause for replica in found.replicas)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cancelled", [FailureCause.CANCELLED] * 3),
        ("closed", [FailureCause.CANCELLED] * 2),
        ("killed", [FailureCause.CANCELLED] * 2),
        ("finished", [FailureCause.EXIT, None, FailureCause.EXIT, FailureCause.SIGNAL]),
        ("stopped", [FailureCause.EXIT, FailureCause.EXIT, FailureCause.CANCELLED]),
        ("merged", [None, None]),
        ("detached", [None] * 3),
    ],
)
def test_a_record_of_the_first_release_has_a_cause(name: str, expected: list[str | None]) -> None:
    assert expected == causes(frozen_record(name))


def test_the_cause_of_what_nobody_has_seen_is_unknown() -> None:
    assert [FailureCause.UNKNOWN] * 3 == causes(frozen_record("detached"), SupervisorState.LOST)
    assert [None] * 3 == causes(frozen_record("detached"), SupervisorState.ELSEWHERE)


def test_a_program_that_the_kernel_refuses_is_a_fault_of_the_configuration() -> None:
    refused = frozen_record("merged", exit_code=127, reason=f"{NOT_EXECUTED}/x: Exec format error")
    unkept = frozen_record("merged", exit_code=127, reason="its output could not be kept: Input/output error")

    assert [FailureCause.CONFIG] * 2 == causes(refused)
    assert [FailureCause.EXIT] * 2 == causes(unkept)


FULL = Role(
    "full",
    "image",
    entrypoint="sh",
    args=["-c", "true", Secret("marker-1")],
    env={"PLAIN": "value", "A_TOKEN": "marker-2", "KEY": Secret("marker-3")},
    max_retries=3,
    port_map={"http": 80},
    mounts=[BindMount("/src", "/dst", read_only=True), VolumeMount("v", "/vol"), DeviceMount("/dev/null", "/dev/x")],
    resource=Resource(cpu=1, gpu=0, memMB=10, capabilities={"c": "d"}),
    metadata={"some": {"thing": 1}},
)


@EACH_LOOP
async def test_roles_are_told_as_they_were_submitted_but_for_secrets(scheduler: LocalScheduler, home: Path) -> None:
    app_id = await scheduler.submit(AppDef("job", [FULL], metadata={"a": "b"}))
    await ended(scheduler, app_id)
    async with LocalScheduler("other") as other:
        found = await other.describe(app_id)
    assert found is not None
    (role,) = found.roles

    assert {"a": "b"} == found.metadata
    assert isinstance(role.args[-1], NotKept)
    assert ["value", True, True] == [
        role.env["PLAIN"], isinstance(role.env["A_TOKEN"], NotKept), isinstance(role.env["KEY"], NotKept)
    ]  # fmt: skip
    assert FULL == replace(role, args=FULL.args, env=FULL.env)
    assert b"marker" not in (app_directory(home, app_id) / "state.json").read_bytes()


@EACH_LOOP
async def test_a_described_role_submitted_again_is_the_same(scheduler: LocalScheduler) -> None:
    role = replace(FULL, args=FULL.args[:-1], env={"PLAIN": "value", "A": "$${app_id}"})
    found = await ended(scheduler, await scheduler.submit(AppDef("job", [role], metadata={"a": "b"})))
    again = AppDef(found.name, found.roles, metadata=found.metadata)
    first = await scheduler.submit_dryrun(AppDef("job", [role], metadata={"a": "b"}), key="the same")
    second = await scheduler.submit_dryrun(again, key="the same")

    assert [role] == found.roles
    assert (first.app_id, first.digest, first.request) == (second.app_id, second.digest, second.request)


def test_a_role_of_the_first_release_is_not_submitted_without_its_environment() -> None:
    record = frozen_record("finished")
    found = describe_app(parse_record(record["app_id"], record), SupervisorState.LED)

    assert NotKept is type(found.metadata["api_key"])
    with pytest.raises(ConfigError, match=r"app 'a': metadata api_key; role 'trainer': .* were not kept"):
        check_app(AppDef("a", found.roles, metadata=found.metadata))
    with pytest.raises(ConfigError, match="role 'trainer': not all of it was kept") as caught:
        check_app(AppDef("a", found.roles))
    assert "env and mounts were not recorded" == caught.value.why


def test_roles_of_the_first_release_are_told() -> None:
    record = frozen_record("finished")
    found = describe_app(parse_record(record["app_id"], record), SupervisorState.LED)

    assert [(each["name"], each["args"], each["num_replicas"]) for each in record["spec"]["roles"]] == [
        (role.name, role.args, role.num_replicas) for role in found.roles
    ]


@EACH_LOOP
async def test_the_logs_of_a_described_app_are_opened_without_another_look(
    scheduler: LocalScheduler, home: Path
) -> None:
    app_id = await scheduler.submit(AppDef("job", [Role("main", "", entrypoint="true")]))
    found = await ended(scheduler, app_id)
    described = await scheduler.describe(app_id)
    assert described is not None
    (app_directory(home, app_id) / "state.json").unlink()

    assert 1 == len(await scheduler._log_sources(described, described.replicas, LogQuery(app_id)))
    assert [] == await scheduler._log_sources(found, found.replicas, LogQuery(app_id))  # a watch keeps less
