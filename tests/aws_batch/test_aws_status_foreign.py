"""Whoever may submit a job writes its tags, its name and its container: nothing in them breaks what is told."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from botocore.model import ListShape, MapShape, Shape, StructureShape
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.schedulers.aws_batch.logs_streams import LogStreamRefs
from asyncsched.schedulers.aws_batch.status import describe_app, job_state, list_row
from asyncsched.schedulers.aws_batch.status_rows import node_ids
from asyncsched.schedulers.responses import fingerprint
from asyncsched.specs import AppState, parse_app_handle
from tests.aws_batch.test_aws_status import JOB, NODES, row
from tests.aws_emulator import shapes
from tests.schedulers._hostile import anything, texts

DETAIL = shapes.operations("batch")["describejobs"].output_shape.members["jobs"].member

#: Written by AWS itself; time of day and counts are what it says they are.
GIVEN = {name: JOB[name] for name in ("jobId", "jobArn", "jobQueue", "jobDefinition", "createdAt")}


counts = st.integers(0, 5) | st.integers(0, 2**31 - 1)


def of_shape(shape: Shape, depth: int = 0) -> st.SearchStrategy[Any]:
    """Whatever the service's model allows: optional members are there or not."""
    if isinstance(shape, StructureShape):
        members = {name: of_shape(member, depth + 1) for name, member in shape.members.items()}
        required = {name: members.pop(name) for name in shape.required_members}
        return st.fixed_dictionaries(required, optional=members)
    if isinstance(shape, ListShape):
        return st.lists(of_shape(shape.member, depth + 1), max_size=2)
    if isinstance(shape, MapShape):
        return st.dictionaries(texts, of_shape(shape.value, depth + 1), max_size=3)
    if shape.type_name in ("integer", "long"):
        return counts
    if shape.type_name in ("float", "double"):
        return st.floats(allow_nan=False)
    if shape.type_name == "boolean":
        return st.booleans()
    return st.sampled_from(shape.enum) if shape.enum and depth > 1 else texts | anything


PROPERTIES = {name: member for name, member in DETAIL.members.items() if name not in GIVEN}
details = st.fixed_dictionaries(
    {"jobName": texts, "status": st.sampled_from(PROPERTIES["status"].enum) | texts},
    optional={name: of_shape(member) for name, member in PROPERTIES.items() if name not in ("jobName", "status")},
).map(lambda found: {**found, **GIVEN})
tags = st.dictionaries(st.sampled_from(["asyncsched/app", "asyncsched/session", "owner"]) | texts, anything, max_size=4)


def check(job: dict[str, Any], nodes: dict[str, Any]) -> None:
    told = describe_app(job, nodes)
    repr((told, fingerprint(told))).encode()
    assert told.state is job_state(job)
    shown = list_row(job)
    assert (shown.session, shown.app_id) == (told.session, told.app_id)
    assert ("aws_batch", told.session, told.app_id) == parse_app_handle(shown.app_handle)
    assert shown.app_handle.isprintable()
    assert len(told.replicas) <= 10_000
    list(LogStreamRefs(job, nodes))


@given(details, st.lists(details, max_size=2))
def test_no_job_that_the_service_can_show_breaks_what_is_told(job: dict[str, Any], nodes: list[dict[str, Any]]) -> None:
    check(job, dict(zip(node_ids(job), nodes, strict=False)))


@given(tags)
def test_no_tag_breaks_what_is_told(own: dict[str, str]) -> None:
    check(row(tags=own), {})


@given(st.integers(0, 9).map(str) | texts | anything, counts)
def test_no_range_of_nodes_breaks_what_is_told(target: str, count: int) -> None:
    groups = [{"targetNodes": target, "container": {}}, {"targetNodes": f"{target}:"}, {"targetNodes": f":{target}"}]
    check(row(nodeProperties={**NODES, "numNodes": count, "nodeRangeProperties": groups}), {})


@pytest.mark.parametrize("session", ["a/b", "a\x1b[2J", "s" * 300])
def test_a_session_that_is_none_is_told_as_none(session: str, caplog: pytest.LogCaptureFixture) -> None:
    job = row(jobId=f"11111111-2222-3333-4444-{len(session):012}", tags={"asyncsched/session": session})
    with caplog.at_level(logging.WARNING):
        told = [(describe_app(job, {}).session, list_row(job).app_handle) for _ in range(3)]

    assert [("", "aws_batch:///torchx:app-x")] * 3 == told
    assert AppState.RUNNING is describe_app(job, {}).state
    assert [1] == [message.count("asyncsched/session") for message in caplog.messages]
