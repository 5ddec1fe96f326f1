"""Translate Google's errors into asyncsched's, without I/O: exception classes of aiohttp are matched by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from asyncsched._platform import WANTS, want_behind
from asyncsched.errors import (
    AuthError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    SchedulerError,
    ThrottledError,
    UnavailableError,
)

__all__ = ["BACKEND", "GoogleFailure", "failure_of", "may_have_happened", "read_failure", "translate"]

BACKEND = "gcp_batch"

_UNREACHED = {"ClientConnectorError", "ClientConnectorDNSError", "ConnectionRefusedError"}
_STATUSES = {"RESOURCE_EXHAUSTED": 429, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403}
_LONGEST = 2000


class GoogleFailure(Exception):  # noqa: N818 - only ever the cause of another error outside this backend
    """A refusal by Google.

    Attributes:
        code: The HTTP status.
        status: Google's name of the status, such as ``NOT_FOUND``.
        message: The message.
        reason: The reason in its `ErrorInfo`, such as ``RATE_LIMIT_EXCEEDED``.
        metadata: The metadata of the reason, such as the quota's value.
        retry_after: The pause in seconds that Google asked for.
    """

    def __init__(
        self,
        code: int,
        status: str = "",
        message: str = "",
        *,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code} {status}: {message}" if message else f"{code} {status}")
        self.code, self.status, self.message = code, status, message
        self.reason, self.metadata, self.retry_after = reason, dict(metadata or {}), retry_after


def read_failure(code: int, body: bytes, headers: Mapping[str, str]) -> GoogleFailure:
    """Read an answer with a status of 400 or more; a body that is not Google's JSON is kept as text."""
    try:
        error = _object(_object(json.loads(body)).get("error"))
    except ValueError:
        error = _object(None)
    said = str(error.get("message", "")) or (body.decode(errors="replace").strip() if not error else "")
    details = error.get("details")
    each = [_object(detail) for detail in cast("list[object]", details)] if isinstance(details, list) else []
    info = next((detail for detail in each if str(detail.get("@type", "")).endswith("ErrorInfo")), _object(None))
    return GoogleFailure(
        code,
        str(error.get("status", "")),
        said[:_LONGEST],
        reason=str(info.get("reason", "")),
        metadata={name: str(value) for name, value in _object(info.get("metadata")).items()},
        retry_after=_seconds(headers.get("Retry-After")),
    )


def failure_of(error: BaseException) -> GoogleFailure | None:
    """Return the answer that caused an error, if any."""
    return error.__cause__ if isinstance(error.__cause__, GoogleFailure) else None


def may_have_happened(error: BaseException) -> bool:
    """Return whether a failed operation may have taken effect: its answer was lost, and it was not refused."""
    return isinstance(error, UnavailableError) and type(error.__cause__).__name__ not in _UNREACHED


def translate(error: Exception, operation: str, *, project: str = "", permission: str = "") -> SchedulerError:
    """Return the error to raise for a refusal by Google, or for a failed connection.

    Args:
        error: The original error.
        operation: The operation, such as ``jobs.create``.
        project: The project, for the advice.
        permission: The IAM permission that the operation needs.
    """
    if isinstance(error, SchedulerError):
        return error
    if not isinstance(error, GoogleFailure):
        why, want = str(error) or type(error).__name__, want_behind(error)
        fix = "check the network" if want is None else WANTS[want]
        return UnavailableError(f"Google Cloud did not answer {operation}", why=why, fix=fix, **_where(operation))
    code, why = _STATUSES.get(error.status, error.code), error.message or error.status
    if code == 429:
        fix = "try again later, or ask Google for a higher quota"
        return ThrottledError(
            f"Google Cloud throttles {operation}",
            retry_after=error.retry_after,
            why=why,
            fix=fix,
            **_where(operation),
        )
    if code == 401:
        fix = "sign in again: gcloud auth application-default login"
        return AuthError("Google Cloud does not accept the credentials", why=why, fix=fix, **_where(operation))
    if code == 403:
        return _denied(error, operation, project, permission)
    if code == 404:
        fix = "check the project, the location and the name"
        return NotFoundError(f"the resource of {operation} does not exist", why=why, fix=fix, **_where(operation))
    if code == 409:
        return ConflictError(f"{operation} was refused", why=why, **_where(operation))
    if (code >= 500 and code != 501) or code == 408:  # 501 means not implemented, so a retry is pointless
        return UnavailableError(f"Google Cloud did not answer {operation}", why=str(error), **_where(operation))
    return InvalidRequestError(f"{operation} was refused", why=why, **_where(operation))


def _denied(error: GoogleFailure, operation: str, project: str, permission: str) -> SchedulerError:
    service = error.metadata.get("service", "batch.googleapis.com")
    if error.reason == "SERVICE_DISABLED" or "has not been used in project" in error.message:
        what = f"the API {service} is not enabled in the project {project}"
        fix = f"run gcloud services enable {service} --project {project}"
    else:
        what = f"Google Cloud does not allow {permission or operation}"
        fix = f"grant the account a role with {permission}" if permission else "grant the account a role that allows it"
        fix += f" in the project {project}, or use another project" if project else ""
    return PermissionDeniedError(what, why=error.message, fix=fix, **_where(operation))


def _object(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text is not None else None
    except ValueError:  # a date, which Google does not send
        return None


def _where(operation: str) -> dict[str, Any]:
    return {"backend": BACKEND, "operation": operation}
