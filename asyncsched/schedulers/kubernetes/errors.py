"""Translate refusals by the API server, and failures to reach it, into asyncsched's errors.

A refusal is first read as an `ApiFailure`. `translate` then explains it and says what to do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from asyncsched._platform import WANTS, want_behind
from asyncsched._typing import NamedTuple
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

__all__ = [
    "BACKEND",
    "ApiFailure",
    "Peer",
    "failure_of",
    "is_certificate_trouble",
    "is_expired",
    "read_failure",
    "status_failure",
    "translate",
]

BACKEND = "kubernetes"

LONGEST_MESSAGE = 2000
"""Most characters of a refusal to show: an admission webhook may quote the whole object."""

_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_DENIED = re.compile(r"admission webhook \"(?P<webhook>[^\"]*)\" denied the request:?\s*(?P<said>.*)", re.DOTALL)
_TOO_LARGE = re.compile(r"request is too large|trying to send message larger than max|Request entity too large")
_OF_TLS = re.compile(r" ssl:(<[^>]*>|\w+)(?= \[)")
"""The repr of an SSL context in aiohttp's messages."""
_CERTIFICATE = {"ClientConnectorCertificateError", "ClientConnectorSSLError", "ClientSSLError", "SSLError"}


class Peer(NamedTuple):
    """The server, as named in messages.

    Attributes:
        server: The URL of the API server.
        context: The kubeconfig's context, or "" if there is none.
    """

    server: str = ""
    context: str = ""

    def __str__(self) -> str:
        return f"{self.server} (context {self.context})" if self.context else self.server or "the API server"


class ApiFailure(Exception):  # noqa: N818 - only ever the cause of another error, never raised itself
    """An answer of the API server with a status of 400 or more; the cause of the raised error.

    Attributes:
        code: The HTTP status, or the code of an ERROR event in a watch.
        reason: The Status's reason, such as ``AlreadyExists``; empty if there is none.
        message: The Status's message, or the body's text.
        details: The Status's details.
        retry_after: The pause in seconds that the server asked for, if any.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(code, reason, message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    @property
    def is_about_rights(self) -> bool:
        """Whether the user lacks a right, as opposed to a refusal by a quota or a pod policy."""
        return self.code == 403 and " cannot " in self.message

    @property
    def is_of_unknown_kind(self) -> bool:
        """Whether the server does not serve the kind or version, as opposed to a missing object."""
        return self.code == 404 and not self.reason


def failure_of(error: BaseException) -> ApiFailure | None:
    """Return the refusal that caused an error; None if the server did not answer."""
    cause = error if isinstance(error, ApiFailure) else error.__cause__
    return cause if isinstance(cause, ApiFailure) else None


def read_failure(code: int, body: bytes, headers: Mapping[str, str]) -> ApiFailure:
    """Read a refusal; its body is a Status or text (429s, and answers of a proxy)."""
    text = body.decode(errors="replace").strip()
    status: Mapping[str, Any] = {}
    if text.startswith("{"):
        try:
            parsed: Mapping[str, Any] = json.loads(text)  # starts with a brace, so it is an object
        except (ValueError, RecursionError):
            pass  # truncated, or not JSON: shown as text
        else:
            status = parsed if parsed.get("kind") == "Status" else {}
    return status_failure(status, code, text, _seconds(headers.get("Retry-After")))


def status_failure(
    status: Mapping[str, Any], code: int, text: str = "", retry_after: float | None = None
) -> ApiFailure:
    """Make a refusal from a Status: the body of an answer, or the object of a watch's ERROR event."""
    details = status.get("details")
    found: Mapping[str, Any] = cast("Mapping[str, Any]", details) if isinstance(details, Mapping) else {}
    if retry_after is None:
        retry_after = _seconds(found.get("retryAfterSeconds"))
    message = str(status.get("message") or text)
    status_code = status.get("code")
    return ApiFailure(
        status_code if isinstance(status_code, int) else code,
        str(status.get("reason") or ""),
        message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]} ...",
        found,
        retry_after,
    )


def _seconds(value: object) -> float | None:
    try:
        seconds = float(str(value))
    except ValueError:
        return None  # a date, or nothing
    return seconds if 0 < seconds < 3600 else None


def translate(error: Exception, operation: str, peer: Peer | None = None) -> SchedulerError:
    """Return the error to raise for a refusal (`ApiFailure`) or a failure to reach the server."""
    peer = peer or Peer()
    ours = _refusal(error, operation, peer) if isinstance(error, ApiFailure) else _silence(error, operation, peer)
    ours.__cause__ = error
    return ours


def is_expired(error: BaseException) -> bool:
    """Return whether a list or a watch must start over: the server has dropped the version it started from (410)."""
    failure = failure_of(error)
    return failure is not None and (failure.code == 410 or failure.reason == "Expired")


def is_certificate_trouble(error: BaseException) -> bool:
    """Return whether a connection failed because of a certificate; the server's or the client's may have changed."""
    seen: BaseException | None = error
    while seen is not None:
        if any(kind.__name__ in _CERTIFICATE for kind in type(seen).__mro__):
            return True
        seen = seen.__cause__ or getattr(seen, "os_error", None)
    return False


def _silence(error: Exception, operation: str, peer: Peer) -> SchedulerError:
    said = _OF_TLS.sub("", str(error)) or type(error).__name__
    if is_certificate_trouble(error):
        return AuthError(
            f"no trusted connection to {peer}",
            why=said,
            fix="check certificate-authority and the client certificate of the context in the kubeconfig",
            **_where(operation),
        )
    if isinstance(error, TimeoutError):
        said = f"no answer in time{f' ({error})' if str(error) else ''}"
    want = want_behind(error)
    check = "check that the cluster runs, and that the server and the proxy of the context are right"
    return UnavailableError(
        f"{peer} did not answer",
        why=said,
        fix=check if want is None else WANTS[want],
        **_where(operation),
    )


def _refusal(failure: ApiFailure, operation: str, peer: Peer) -> SchedulerError:
    where, why = _where(operation), failure.message
    match failure.code:
        case 401:
            return AuthError(
                f"{peer} does not accept the credentials",
                why=why or "they are wrong or have expired",
                fix="sign in again, or correct the user of the context in the kubeconfig",
                **where,
            )
        case 403:
            return _forbidden(failure, operation, peer)
        case 404:
            if not failure.is_of_unknown_kind:
                return NotFoundError("no such object", why=why, fix="check name and namespace", **where)
            fix = "check the API group: it may be missing, or served in another version"
            return NotFoundError("the API server does not know this kind of object", why=why, fix=fix, **where)
        case 409:
            return ConflictError("the object already exists or has changed", why=why, **where)
        case 410:
            return SchedulerError(
                "the server no longer has the version that this list or watch started from",
                why=why,
                fix="list again",
                retryable=True,
                **where,
            )
        case 429:
            return ThrottledError(
                f"{peer} throttles calls",
                why=why,
                fix="try again later; an administrator can raise the limits of API Priority and Fairness",
                retry_after=failure.retry_after,
                **where,
            )
        case _:
            return _other(failure, operation, peer)


def _other(failure: ApiFailure, operation: str, peer: Peer) -> SchedulerError:
    where, why = _where(operation), failure.message
    if failure.code == 413 or _TOO_LARGE.search(why):
        fix = "submit fewer or smaller roles: an object can have at most 1.5 MB"
        return InvalidRequestError("the object is too large for the cluster", why=why, fix=fix, **where)
    if failure.code >= 500:
        fix = "try again; see the server's log for details"
        return UnavailableError(f"{peer} failed", why=f"{failure.code}: {why}", fix=fix, **where)
    if denied := _DENIED.search(why):
        said = denied["said"].strip().rstrip(";").strip()
        fix = f"correct the request: the admission webhook {denied['webhook']} denied it"
        return InvalidRequestError("the cluster refused the request", why=said, fix=fix, **where)
    fields = ", ".join(dict.fromkeys(_fields(failure.details)))
    fix = f"correct {fields}" if fields else ""
    return InvalidRequestError("the cluster refused the request", why=why, fix=fix, **where)


def _forbidden(failure: ApiFailure, operation: str, peer: Peer) -> SchedulerError:
    where, why = _where(operation), failure.message
    if "system:anonymous" in why:
        return AuthError(
            f"{peer} got a request without credentials",
            why=why,
            fix="give the user of the context a token, a certificate or an exec plugin in the kubeconfig",
            **where,
        )
    if found := _FORBIDDEN.search(why):
        resource = f"{found['resource']}.{found['group']}" if found["group"] else found["resource"]
        place = f" in the namespace {found['namespace']}" if found["namespace"] else ""
        return PermissionDeniedError(
            f"{found['user']} may not {found['verb']} {resource}{place}",
            why=why,
            fix=f"ask an administrator to allow {found['verb']} on {resource}; the docs show the whole role",
            **where,
        )
    if failure.is_about_rights:
        fix = "ask an administrator to allow it; the docs show the whole role"
        return PermissionDeniedError("the cluster does not allow the request", why=why, fix=fix, **where)
    # A quota, a pod policy or a namespace that is being deleted: more rights would not help.
    return InvalidRequestError("the cluster refused the request", why=why, **where)


def _fields(details: Mapping[str, Any]) -> Iterable[str]:
    causes = details.get("causes")
    if not isinstance(causes, list):
        return
    for cause in cast("list[object]", causes):
        if isinstance(cause, Mapping) and (field := cast("Mapping[str, object]", cause).get("field")):
            yield str(field)


def _where(operation: str) -> dict[str, Any]:
    return {"backend": BACKEND, "operation": operation}
