"""Turn containers into the description of an app: states, reasons, causes. No I/O, no SDK."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import cast

from asyncsched.schedulers._common.exit_codes import cause_of_code, signal_name, signal_of
from asyncsched.schedulers._common.roles import metadata_of_note, role_of_note
from asyncsched.schedulers._common.untrusted import Once
from asyncsched.schedulers.docker import names
from asyncsched.schedulers.docker.status_containers import Container, state_of
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.specs.app import Role
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.state import AppState, FailureCause, ReplicaStatus, RoleStatus, combine, find_cause

__all__ = ["describe_app", "list_row", "members_of"]

_once = Once(logging.getLogger("asyncsched.schedulers.docker"))
_NO_PROGRAM = ("exec: ", "executable file not found", "exec format error")


def _known_state(container: Container) -> AppState:
    """Return the state of a container's replica; UNKNOWN if the labels do not say which replica it is."""
    return AppState.UNKNOWN if container.identity.fault else state_of(container)


def _reason(container: Container) -> str:
    if fault := container.identity.fault:
        return f"{names.base_name(container.name)} was not created by asyncsched: {fault}"
    if container.error:
        return container.error
    ending = _ending(container)
    if container.cancelled and container.exit_code is not None:
        return f"cancelled; {ending}"
    if container.stopped and container.exit_code is not None:
        return f"stopped because another replica failed; {ending}"
    if container.timed_out and container.exit_code is not None:
        return f"stopped because it ran longer than its timeout of {container.timeout:g} s; {ending}"
    if container.state == "restarting":
        return f"waits to be started again after {ending}"
    if container.state == "exited" and container.exit_code != 0:
        return ending
    return {"paused": "paused", "removing": "being removed", "dead": "dead"}.get(container.state, "")


def _cause(container: Container, state: AppState) -> FailureCause | None:
    """Return why a replica in this state failed, or why it will be restarted."""
    if state is AppState.CANCELLED:
        return FailureCause.CANCELLED
    if state in (AppState.RUNNING, AppState.SUCCEEDED, AppState.UNKNOWN):
        return None
    if container.timed_out and state is AppState.FAILED:
        return FailureCause.TIMEOUT
    if container.error:
        no_program = any(phrase in container.error for phrase in _NO_PROGRAM)
        return FailureCause.IMAGE if no_program else FailureCause.CONFIG
    if container.out_of_memory:
        return FailureCause.OOM
    if container.exit_code:
        return cause_of_code(container.exit_code)
    return FailureCause.UNKNOWN if state is AppState.FAILED else None


def _ending(container: Container) -> str:
    code = container.exit_code
    if container.out_of_memory:
        return f"out of memory: killed, exit code {code}"
    number = signal_of(container.exit_code)
    return f"exit code {code}" if number is None else f"killed by {signal_name(number)}, exit code {code}"


def _replica(container: Container) -> ReplicaStatus:
    retries = container.max_retries
    state = _known_state(container)
    return ReplicaStatus(
        id=container.replica,
        state=state,
        role=container.role,
        hostname=names.base_name(container.name),
        exit_code=container.exit_code,
        signal=signal_of(container.exit_code),
        reason=_reason(container),
        num_restarts=container.restarts if retries else 0,
        started_at=container.started_at,
        finished_at=container.finished_at,
        cause=_cause(container, state),
    )


def describe_app(app_id: str, members: Sequence[Container]) -> DescribeAppResponse | None:
    """Describe an app from its containers, in their order; None if there are none."""
    if not members:
        return None
    statuses: dict[str, list[ReplicaStatus]] = {}
    for container in members:
        statuses.setdefault(container.role, []).append(_replica(container))
    replicas = [replica for members_ in statuses.values() for replica in members_]
    state = combine(replicas, cancelled=any(container.cancelled for container in members))
    first = members[0]
    return DescribeAppResponse(
        app_id=app_id,
        state=state,
        num_restarts=sum(replica.num_restarts or 0 for replica in replicas),
        msg=_message(replicas, state),
        roles_statuses=[RoleStatus(role=role, replicas=each) for role, each in statuses.items()],
        roles=_roles(members),
        name=first.identity.app_name,
        session=first.identity.session,
        created_at=_created(members),
        started_at=min((r.started_at for r in replicas if r.started_at), default=None),
        finished_at=_finished(replicas, state),
        metadata=_metadata(first),
        cause=find_cause(state, replicas),
        native=tuple(members),
    )


def members_of(answer: object) -> Sequence[Container]:
    """Return the containers that an app's description was made from."""
    native = answer.native if isinstance(answer, DescribeAppResponse) else None
    return cast("tuple[Container, ...]", native) if isinstance(native, tuple) else ()


def _roles(members: Sequence[Container]) -> list[Role]:
    """Return an app's roles, as far as its containers' labels describe them."""
    first_of_each = {container.role: container for container in reversed(members)}
    return [_role(first_of_each[name]) for name in dict.fromkeys(container.role for container in members)]


def _role(container: Container) -> Role:
    # A list names an image by its digest once the image's name belongs to another image.
    role = role_of_note(_note(container, names.read_role_note), image=container.image)
    role.name, role.max_retries = container.role, container.max_retries
    return role


def _metadata(container: Container) -> dict[str, str]:
    return metadata_of_note(_note(container, names.read_metadata_note))


def _note(container: Container, read: Callable[[Mapping[str, object]], object]) -> object:
    """Read a note in a label; log an unsound one once, and ignore it."""
    try:
        return read(container.labels)
    except ValueError as error:
        _once.warn((container.id, read), "ignoring a label of the container %s: %s", container.name, error)
        return None


def _message(replicas: Sequence[ReplicaStatus], state: AppState) -> str:
    """Return why the app failed or waits: the reason of the first replica that has one."""
    wanted = {
        AppState.FAILED: (AppState.FAILED,),
        AppState.PENDING: (AppState.PENDING, AppState.SUBMITTED),
        AppState.RUNNING: (AppState.FAILED, AppState.PENDING),
        AppState.UNKNOWN: (AppState.UNKNOWN,),
    }.get(state, ())
    for replica in replicas:
        if replica.state in wanted and replica.reason:
            return f"{replica.role}/{replica.id}: {replica.reason}"
    return ""


def _finished(replicas: Sequence[ReplicaStatus], state: AppState) -> datetime | None:
    times = [replica.finished_at for replica in replicas if replica.finished_at is not None]
    return max(times) if state.is_terminal() and len(times) == len(replicas) else None


def _created(members: Sequence[Container]) -> datetime:
    return min(container.created_at for container in members)


def list_row(backend: str, app_id: str, members: Sequence[Container]) -> ListAppResponse:
    """Return an app's row in a list."""
    first = members[0]
    cancelled = any(container.cancelled for container in members)
    return ListAppResponse(
        app_id=app_id,
        state=combine((_known_state(container) for container in members), cancelled=cancelled),
        app_handle=make_app_handle(backend, first.identity.session, app_id),
        name=first.identity.app_name,
        session=first.identity.session,
        created_at=_created(members),
    )
