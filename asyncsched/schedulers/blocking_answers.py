"""Convert between our types and those of a foreign object: responses, rows, run options and errors.

Answers of any class are read by the field names of the TorchX documents.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, cast

from asyncsched._typing import Doc, NamedTuple
from asyncsched.errors import (
    AsyncSchedError,
    ConfigError,
    InvalidRequestError,
    PermissionDeniedError,
    SchedulerError,
    UnavailableError,
)
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.specs.app import NONE, AppDef, Role
from asyncsched.specs.copies import copied
from asyncsched.specs.not_kept import NotKept
from asyncsched.specs.run_options import CfgVal
from asyncsched.specs.secret import redact, reveal, revealed, revealed_env
from asyncsched.specs.state import AppState, ReplicaStatus, RoleStatus

__all__ = ["Submitted", "in_clear", "options_of", "read_response", "read_row", "translate"]

_log = logging.getLogger("asyncsched.schedulers")

_WHY = "a scheduler made by from_blocking reads only its name, image and number of replicas"


class Submitted(NamedTuple):
    """The facts about an app that was submitted here; empty for other apps.

    Attributes:
        name: Its name.
        session: Its session.
        sizes: The number of replicas of each role.
    """

    name: str = ""
    session: str = ""
    sizes: Sequence[tuple[str, int]] = ()


def read_response(answer: Any, app_id: str, submitted: Submitted) -> DescribeAppResponse | None:
    """Convert the answer of an object's `describe`.

    Args:
        answer: The answer.
        app_id: The app.
        submitted: The facts about the app, if it was submitted here.
    """
    if answer is None:
        return None
    state = _state(getattr(answer, "state", None))
    if isinstance(answer, DescribeAppResponse):
        own = dataclasses.replace(answer, app_id=answer.app_id if _is_told(answer.app_id) else app_id)
        own.roles = [_role(each) for each in own.roles]
    else:
        own = DescribeAppResponse(
            app_id=_text(answer, "app_id", app_id),
            state=state,
            num_restarts=int(getattr(answer, "num_restarts", -1) or 0),
            msg=_text(answer, "msg", ""),
            structured_error_msg=_text(answer, "structured_error_msg", NONE),
            ui_url=getattr(answer, "ui_url", None),
            roles_statuses=[_role_status(each) for each in getattr(answer, "roles_statuses", None) or ()],
            roles=[_role(each) for each in getattr(answer, "roles", None) or ()],
            name=_text(answer, "name", ""),
        )
    own.name, own.session = own.name or submitted.name, own.session or submitted.session
    if own.msg == NONE:
        own.msg = ""
    if not own.replicas:
        sizes = submitted.sizes or [(role.name, role.num_replicas) for role in own.roles]
        own.roles_statuses = [
            RoleStatus(name, [ReplicaStatus(number, state, name, "") for number in range(size)]) for name, size in sizes
        ]
    return own


def read_row(row: Any, known: Mapping[str, Submitted]) -> ListAppResponse:
    """Convert a row of an object's list; `known` are the apps that were submitted here."""
    own = dataclasses.replace(row) if isinstance(row, ListAppResponse) else None
    if own is None:
        own = ListAppResponse(str(row.app_id), _state(getattr(row, "state", None)), name=_text(row, "name", ""))
    submitted = known.get(own.app_id, Submitted())
    own.name, own.session = own.name or submitted.name, own.session or submitted.session
    return own


def options_of(told: Any, backend: str) -> type[object]:
    """Return the class of run options for an object's `run_opts`; `told` is None if it has none.

    Raises:
        ConfigError: They are not run options.
    """
    required: list[tuple[str, Any, Any]] = []
    optional: list[tuple[str, Any, Any]] = []
    try:
        for name, option in told or ():
            kind: Any = Annotated[option.opt_type, Doc(str(option.help or ""))]
            if option.is_required:
                required.append((name, kind, dataclasses.field()))
            else:
                optional.append((name, Annotated[option.opt_type | None, Doc(str(option.help or ""))], _field(option)))
        return dataclasses.make_dataclass("BlockingOpts", [*required, *optional], frozen=True, kw_only=True)
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"the run options of {backend} cannot be read",
            why=f"{type(error).__name__}: {error}",
            fix="have run_opts return runopts, as the documents have them",
        ) from error


def translate(error: BaseException, backend: str, operation: str, secrets: Iterable[str] = ()) -> AsyncSchedError:
    """Convert an exception of an object to our errors, without the secrets that the object got."""
    if isinstance(error, AsyncSchedError):
        return error
    said = redact(f"{type(error).__name__}: {error}", secrets)
    if operation == "dryrun" and isinstance(error, (ValueError, TypeError, LookupError)):
        return ConfigError(f"{backend} refused the app or its run options", why=said)
    if isinstance(error, NotImplementedError):
        return InvalidRequestError(f"{backend} does not support it", why=said, backend=backend, operation=operation)
    kind: type[SchedulerError] = SchedulerError
    if isinstance(error, PermissionError):
        kind = PermissionDeniedError
    elif isinstance(error, (ConnectionError, TimeoutError)):
        kind = UnavailableError
    return kind(f"{operation} failed on {backend}", why=said, backend=backend, operation=operation)


def in_clear(app: AppDef, *, without_hooks: bool) -> AppDef:
    """Return a copy of an app with its secrets in clear text, without the hooks of its roles, which are run here."""
    sent = copied(app)
    for number, role in enumerate(sent.roles):
        if without_hooks and type(role) is not Role:
            names = [field.name for field in dataclasses.fields(Role)]
            role = sent.roles[number] = Role(**{name: getattr(role, name) for name in names})
        role.entrypoint = reveal(role.entrypoint)
        role.args = [reveal(arg) for arg in role.args]
        role.env = revealed_env(role.env)
        role.metadata = revealed(role.metadata)
    sent.metadata = revealed(sent.metadata)
    return sent


def _field(option: Any) -> Any:
    default = cast("CfgVal", option.default)
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=lambda: copied(default))
    return dataclasses.field(default=default)


def _role_status(told: Any) -> RoleStatus:
    role = str(told.role)
    if isinstance(told, RoleStatus):
        return copied(told)
    return RoleStatus(role, [_replica(each, role) for each in told.replicas])


def _replica(told: Any, role: str) -> ReplicaStatus:
    return ReplicaStatus(
        int(told.id),
        _state(told.state),
        role,
        _text(told, "hostname", ""),
        _text(told, "structured_error_msg", NONE),
    )


def _role(told: Any) -> Role:
    """Return a role without its program and environment, because the object may return secrets in clear text."""
    image = NotKept(_WHY) if not getattr(told, "image", "") else str(told.image)
    return Role(str(told.name), image, entrypoint=NotKept(_WHY), num_replicas=int(getattr(told, "num_replicas", 1)))


def _state(told: object) -> AppState:
    if isinstance(told, AppState):
        return told
    name = told.name if isinstance(told, Enum) else str(told).upper()
    try:
        return AppState[name]
    except KeyError:
        _log.warning("the state %r is not an AppState, using UNKNOWN", told)
        return AppState.UNKNOWN


def _text(told: object, name: str, default: str) -> str:
    value = getattr(told, name, None)
    return str(value) if _is_told(value) else default


def _is_told(value: object) -> bool:
    return value is not None and value not in ("", "<NOT_SET>")
