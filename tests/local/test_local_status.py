"""From records to what is told of an app: those of the first release, and changed ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asyncsched.schedulers.local.status import Standing, describe_app
from asyncsched.schedulers.local.status_record import parse_record
from asyncsched.schedulers.local.supervisor.layout import NOT_EXECUTED
from asyncsched.specs import FailureCause
from tests.formats._frozen import HERE
from tests.local._local import ONE_LOOP

pytestmark = ONE_LOOP


def frozen_record(name: str, **replica: Any) -> dict[str, Any]:
    """Return a record of the first release, its last replica changed."""
    (path,) = (HERE / "0.1.0/local/home/apps").glob(f"{name}-*/state.json")
    record: dict[str, Any] = json.loads(path.read_bytes())
    record["replicas"][-1].update(replica)
    return record


def causes(record: dict[str, Any], standing: Standing = Standing.LED) -> list[str | None]:
    """Return the app's cause and those of its replicas."""
    found = describe_app(parse_record(record["app_id"], record), standing)
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
    assert [FailureCause.UNKNOWN] * 3 == causes(frozen_record("detached"), Standing.LOST)
    assert [None] * 3 == causes(frozen_record("detached"), Standing.ELSEWHERE)


def test_a_program_that_the_kernel_refuses_is_a_fault_of_the_configuration() -> None:
    refused = frozen_record("merged", exit_code=127, reason=f"{NOT_EXECUTED}/x: Exec format error")
    unkept = frozen_record("merged", exit_code=127, reason="its output could not be kept: Input/output error")

    assert [FailureCause.CONFIG] * 2 == causes(refused)
    assert [FailureCause.EXIT] * 2 == causes(unkept)
