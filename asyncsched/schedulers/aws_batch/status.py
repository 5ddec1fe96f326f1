"""Convert a job of AWS Batch to the description of an app, without I/O."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from asyncsched.schedulers._common.exit_codes import signal_of
from asyncsched.schedulers._common.roles import left_out, role_of_command, role_of_note
from asyncsched.schedulers._common.untrusted import Once, read_float
from asyncsched.schedulers.aws_batch.errors import BACKEND
from asyncsched.schedulers.aws_batch.names import is_job_name, queue_name
from asyncsched.schedulers.aws_batch.names_note import read_note
from asyncsched.schedulers.aws_batch.names_tags import (
    app_name,
    is_ours,
    metadata_of,
    session_of,
    was_made_by_hand,
)
from asyncsched.schedulers.aws_batch.request_container import INSTANCE_TYPE, OWN_ENV, RANK0_ENV, SECRET_ARGS_TAG
from asyncsched.schedulers.aws_batch.request_secrets import read_secret_ref
from asyncsched.schedulers.aws_batch.status_by_hand import lost_fields
from asyncsched.schedulers.aws_batch.status_causes import REASON_PENDING, cause_of
from asyncsched.schedulers.aws_batch.status_rows import (
    NodeGroup,
    Row,
    container_of,
    environment_of,
    finished_attempts,
    last_run,
    node_groups,
    node_ids,
    part,
    parts,
    time_of,
)
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.told import listed
from asyncsched.specs.app import Resource, Role
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount
from asyncsched.specs.not_kept import NOT_KEPT, NotKept
from asyncsched.specs.secret import Secret
from asyncsched.specs.state import AppState, FailureCause, ReplicaStatus, RoleStatus, find_cause

__all__ = [
    "REASON_CANCELLED",
    "canonical_id",
    "describe_app",
    "job_state",
    "list_row",
    "pending_reason",
]

_once = Once(logging.getLogger("asyncsched.schedulers.aws_batch"))

STATES: Mapping[str, AppState] = {
    "SUBMITTED": AppState.SUBMITTED,
    "PENDING": AppState.PENDING,
    "RUNNABLE": AppState.PENDING,
    "STARTING": AppState.PENDING,
    "RUNNING": AppState.RUNNING,
    "SUCCEEDED": AppState.SUCCEEDED,
    "FAILED": AppState.FAILED,
}

REASON_CANCELLED = "cancelled through asyncsched"
"""The reason with which asyncsched terminates jobs."""

MAX_REASON = 1024
"""Most characters of a reason."""

STUCK: Mapping[str, str] = {
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE": "raise the compute environment's maxvCpus",
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT": "request less, or add an instance type that has it",
    "MISCONFIGURATION:SERVICE_ROLE_PERMISSIONS": "correct the compute environment's service role",
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY": "AWS has no such instance free; allow other types or zones",
}
"""Prefixes of the reasons of RUNNABLE jobs that are stuck, with advice."""

_CONSOLES = {
    "aws": "console.aws.amazon.com",
    "aws-cn": "console.amazonaws.cn",
    "aws-us-gov": "console.amazonaws-us-gov.com",
}


def job_state(row: Row) -> AppState:
    """Return the state of a row of DescribeJobs or ListJobs."""
    state = STATES.get(row["status"])
    if state is None:
        _once.warn(row["status"], "AWS Batch reported an unknown status of a job: %s", row["status"])
        return AppState.UNKNOWN
    if state is AppState.FAILED and _was_stopped(row):
        return AppState.CANCELLED
    counts = part(part(row, "arrayProperties"), "statusSummary")
    if state is AppState.PENDING and any(counts.get(name) for name in ("RUNNING", "SUCCEEDED", "FAILED")):
        return AppState.RUNNING  # An array's parent stays PENDING while its children run.
    return state


def _was_stopped(row: Row) -> bool:
    reason: str = row.get("statusReason") or ""
    if not row.get("isTerminated") and reason.startswith(REASON_PENDING):
        return False
    # Older servers have no such flags, but return the reason.
    return bool(row.get("isTerminated") or row.get("isCancelled")) or reason == REASON_CANCELLED


def pending_reason(limit: float, msg: str) -> str:
    """Return the reason for cancelling a job that has not run within `limit` seconds.

    It replaces the reason of the job's wait, and so repeats it.
    """
    return f"{REASON_PENDING} of {limit:g} s{msg and ': '}{msg}"[:MAX_REASON]


def canonical_id(row: Row, queue: str = "") -> str:
    """Return the id of the app: ``<queue>:<jobName>``; `queue` is used if the row has none.

    The job's id is used instead of its name for a child of an array, which has its parent's name, and for a job of
    another tool whose name is not valid in an app id.
    """
    is_child = ":" in row["jobId"]
    name = row["jobId"] if is_child or not is_job_name(row["jobName"]) else row["jobName"]
    return f"{queue_name(row.get('jobQueue', queue))}:{name}"


def describe_app(row: Row, nodes: Mapping[str, Row]) -> DescribeAppResponse:
    """Describe an app.

    Args:
        row: The job's row of DescribeJobs.
        nodes: The existing rows of its nodes or array children, by id.
    """
    state = job_state(row)
    children = node_ids(row)
    groups = node_groups(row)
    cause = _cause(row, state)
    roles = [RoleStatus(each.name, list(_replicas(row, state, cause, each, children, nodes))) for each in groups]
    if cause is FailureCause.UNKNOWN:
        cause = find_cause(state, (replica for role in roles for replica in role.replicas))
    return DescribeAppResponse(
        app_id=canonical_id(row),
        state=state,
        num_restarts=_restarts(row, state),
        msg=_message(row, state),
        ui_url=_console(row),
        roles_statuses=roles,
        roles=[_role(row, number, group, children, nodes) for number, group in enumerate(groups)],
        name=app_name(row),
        session=session_of(row),
        created_at=time_of(row.get("createdAt")),
        started_at=time_of(row.get("startedAt")),
        finished_at=time_of(row.get("stoppedAt")) if state.is_terminal() else None,
        metadata=metadata_of(row),
        cause=cause,
        native_id=row["jobId"],
    )


def list_row(row: Row) -> ListAppResponse:
    """Return the list row of an app."""
    session, app_id = session_of(row), canonical_id(row)
    return ListAppResponse(
        app_id,
        job_state(row),
        make_app_handle(BACKEND, session, app_id),
        name=app_name(row),
        session=session,
        created_at=time_of(row["createdAt"]),
        native_id=row["jobId"],
    )


def _replicas(
    row: Row,
    state: AppState,
    cause: FailureCause | None,
    group: NodeGroup,
    children: Sequence[str],
    nodes: Mapping[str, Row],
) -> Iterator[ReplicaStatus]:
    for replica, node in enumerate(group.nodes):
        own = nodes.get(children[node]) if children else row
        if own is None:
            yield ReplicaStatus(replica, _without_row(state), group.name, "", cause=cause)
        else:
            yield _replica(replica, own, group.name, cancelled=state is AppState.CANCELLED)


def _without_row(state: AppState) -> AppState:
    """Return the state of a node without a row: its job's, except that it has not started."""
    return AppState.PENDING if state is AppState.RUNNING else state


def _replica(replica: int, row: Row, role: str, *, cancelled: bool) -> ReplicaStatus:
    state = job_state(row)
    if cancelled and state is AppState.FAILED:
        state = AppState.CANCELLED
    last = last_run(row)
    code = last.get("exitCode") if state.is_terminal() else None
    return ReplicaStatus(
        replica,
        state,
        role,
        _address(row),
        exit_code=code,
        signal=signal_of(code),
        reason=_message(row, state),
        num_restarts=_restarts(row, state),
        started_at=time_of(row.get("startedAt")),
        finished_at=time_of(row.get("stoppedAt")) if state.is_terminal() else None,
        cause=_cause(row, state),
    )


def _cause(row: Row, state: AppState) -> FailureCause | None:
    last = last_run(row)
    reasons = [text for text in (row.get("statusReason"), last.get("reason")) if text]
    return cause_of(state, reasons, last.get("exitCode"), on_spot=_is_for_spot(row))


def _is_for_spot(row: Row) -> bool:
    """Return whether a job is retried after its host was reclaimed, as set by the option `spot_retries`."""
    rules = parts(part(row, "retryStrategy"), "evaluateOnExit")
    return any((rule.get("onStatusReason") or "").lower().startswith(("host ec2", "your spot")) for rule in rules)


def _restarts(row: Row, state: AppState) -> int:
    ended = len(finished_attempts(row))
    return max(0, ended - 1) if state.is_terminal() else ended


def _message(row: Row, state: AppState) -> str:
    """Return why a job failed, or what it waits for."""
    if state in (AppState.SUCCEEDED, AppState.RUNNING):
        return ""
    reason: str = row.get("statusReason", "")
    for prefix, advice in STUCK.items():
        if reason.startswith(prefix):
            return f"{reason}; {advice}"
    last = last_run(row)
    parts = [reason]
    if state.is_terminal():
        code = last.get("exitCode")
        parts += [last.get("reason", ""), f"exit code {code}" if code else ""]
    return ": ".join(dict.fromkeys(part for part in parts if part))


def _address(row: Row) -> str:
    for place in (container_of(row), last_run(row)):
        for interface in parts(place, "networkInterfaces"):
            if address := interface.get("privateIpv4Address"):
                return str(address)
    return ""


def _console(row: Row) -> str | None:
    _, partition, _, region, *_ = row.get("jobArn", "::::").split(":")
    if partition not in _CONSOLES:
        return None
    kind = "mnp-job" if "nodeProperties" in row else "array-job" if row.get("arrayProperties") else "detail"
    return f"https://{region}.{_CONSOLES[partition]}/batch/home?region={region}#jobs/{kind}/{row['jobId']}"


def _role(row: Row, number: int, group: NodeGroup, children: Sequence[str], nodes: Mapping[str, Row]) -> Role:
    """Return a role from its note, or without one from AWS's data.

    AWS's data has macros filled in for this job, so variables and arguments that did not fit into a note are not taken
    from it. A role without a note can be shown, but not submitted again.
    """
    note = read_note(row, number)
    if note is not None and "everything" not in left_out(note):
        role = role_of_note(note)
        role.name = group.name
        return role
    shown = _shown_role(row, group, children, nodes)
    if note is not None:
        shown.args, shown.env = [], role_of_note(note).env
    elif not is_ours(row) or was_made_by_hand(row):
        shown.env = {name: value for name, value in shown.env.items() if not _is_ours(row, name, value)}
        if lost := lost_fields(row, _shown_container(group, children, nodes), number):
            why = f"the job was written by hand: a role cannot have its {listed(iter(lost))}; run options may"
            if isinstance(first := shown.env.get(NOT_KEPT), NotKept):
                why = f"{why}; {first.why}"
            shown.env = {**shown.env, NOT_KEPT: NotKept(why)}
    else:
        why = "env and args are shown as sent to AWS Batch: the job's tags do not contain the originals"
        shown.env = {**shown.env, NOT_KEPT: NotKept(why)}
    return shown


def _is_ours(row: Row, name: str, value: str) -> bool:
    """Return whether every submit sets this variable to this value."""
    return name in OWN_ENV and (name != RANK0_ENV or (value == "localhost" and "nodeProperties" not in row))


def _shown_role(row: Row, group: NodeGroup, children: Sequence[str], nodes: Mapping[str, Row]) -> Role:
    """Rebuild a role from its container; the container of a node includes the overrides of the submit."""
    first = _first_node(group, children, nodes)
    container = _shown_container(group, children, nodes)
    command: list[str] = container.get("command") or [""]
    if part(row, "tags").get(SECRET_ARGS_TAG):
        command = [command[0], *map(Secret, command[1:])]
    role = role_of_command(
        group.name, container.get("image", ""), command, _told_environment(container), len(group.nodes)
    )
    if children and first is None:  # the definition lacks the overrides of the submit
        role.env = {NOT_KEPT: NotKept("AWS Batch shows env and args once the first node of the role exists")}
    role.max_retries = max(0, part(row, "retryStrategy").get("attempts", 1) - 1)
    role.resource, role.mounts = _resource(container), list(_mounts(container))
    return role


def _first_node(group: NodeGroup, children: Sequence[str], nodes: Mapping[str, Row]) -> Row | None:
    return nodes.get(children[group.nodes[0]]) if children and group.nodes else None


def _shown_container(group: NodeGroup, children: Sequence[str], nodes: Mapping[str, Row]) -> Row:
    return {**group.container, **container_of(_first_node(group, children, nodes) or {})}


def _told_environment(container: Row) -> dict[str, str]:
    # AWS does not show which of them were secrets.
    env: dict[str, str] = {k: v if k in OWN_ENV else Secret(v) for k, v in environment_of(container).items()}
    secrets = {row.get("name", ""): row.get("valueFrom") for row in parts(container, "secrets")}
    return env | {name: read_secret_ref(source) for name, source in secrets.items() if source}


def _resource(container: Row) -> Resource:
    wanted: dict[str, str] = {row["type"]: row["value"] for row in parts(container, "resourceRequirements")}
    cpu = _amount(wanted.get("VCPU") or container.get("vcpus"), 1)
    memory = _amount(wanted.get("MEMORY") or container.get("memory"), -1)
    kind = container.get("instanceType")
    return Resource(cpu, _amount(wanted.get("GPU"), 0), memory, {INSTANCE_TYPE: kind} if kind else {})


def _amount(value: str | int | None, default: int) -> int:
    try:
        number = read_float(str(value))
        whole = int(number)
    except (ValueError, OverflowError):  # not a number, or infinite
        return default
    return whole if whole == number else cast("int", number)  # Fargate has tasks with half a CPU


def _mounts(container: Row) -> Iterator[Mount]:
    volumes = {volume.get("name"): volume for volume in parts(container, "volumes")}
    for point in parts(container, "mountPoints"):
        volume = volumes.get(point.get("sourceVolume"), {})
        path, read_only = point.get("containerPath", ""), point.get("readOnly", False)
        if efs := volume.get("efsVolumeConfiguration"):
            yield VolumeMount(efs["fileSystemId"], path, read_only)
        elif host := volume.get("host"):
            yield BindMount(host.get("sourcePath", ""), path, read_only)
    for device in parts(part(container, "linuxParameters"), "devices"):
        flags = "".join(name[0].lower() for name in device.get("permissions", ("READ", "WRITE", "MKNOD")))
        yield DeviceMount(device["hostPath"], device.get("containerPath", device["hostPath"]), flags)
