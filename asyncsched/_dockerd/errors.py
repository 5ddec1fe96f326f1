"""Translate a Docker daemon's errors, and failures to reach it, into this package's errors."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Generator
from contextlib import contextmanager

import aiohttp
from aiodocker.exceptions import DockerError

from asyncsched import _platform
from asyncsched._dockerd.endpoint import Endpoint
from asyncsched.errors import (
    AsyncSchedError,
    AuthError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    SchedulerError,
    UnavailableError,
)

__all__ = ["IN_BAND", "CutOffError", "ForeignAnswerError", "answer_error", "translate", "translating"]

_START = "start it (sudo systemctl start docker), set DOCKER_HOST, or use the scheduler local_cwd"
_NO_ANSWER = 900  # aiodocker's status for a daemon that could not be reached
_CUT = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED)
IN_BAND = 0
"""The status of an error in a stream of progress: it comes from a registry."""


_BY_STATUS: dict[int, type[SchedulerError]] = {
    400: InvalidRequestError,
    401: AuthError,
    403: PermissionDeniedError,
    404: NotFoundError,
    406: InvalidRequestError,
    409: ConflictError,
    503: UnavailableError,
}


class CutOffError(UnavailableError):
    """Raised if the connection to a daemon is cut before the answer is complete."""


class ForeignAnswerError(Exception):
    """Raised inside `translating` for an answer that does not come from a Docker daemon."""


FOREIGN = (DockerError, aiohttp.ClientError, OSError, json.JSONDecodeError, ForeignAnswerError)
"""The errors of talking to a daemon; TimeoutError, of the loop and of sockets alike, is an OSError."""

_TO_REGISTRY = re.compile(r'\b(?:Get|Head|Patch|Post|Put) "https?://')
"""How a daemon's message begins if a request of its own failed; it sends requests only to registries."""

# Parts of a daemon's messages about requests that it cannot fulfil, and what to do about them.
_REQUESTS = (
    ("could not select device driver", "set gpu to 0, or install the GPU's container toolkit on the daemon's machine"),
    ("gathering device information", "check the device's path on the daemon's machine"),
    ("bind source path does not exist", "create the directory on the daemon's machine, or correct the mount"),
    ("unable to find user", "use a user that exists in the image"),
    ("rlimit", "check the run option ulimits"),
    ("exec: ", "check the role's entrypoint and its image"),
    ("executable file not found", "check the role's entrypoint and its image"),
    ("runtime create failed", "check the role and its run options"),
)


@contextmanager
def translating(endpoint: Endpoint, what: str, *, backend: str, operation: str) -> Generator[None]:
    """Turn exceptions of the body into this package's errors; see `translate`."""
    try:
        yield
    except AsyncSchedError:
        raise  # some of this package's errors are OSErrors, too
    except FOREIGN as error:
        raise translate(error, operation, endpoint=endpoint, what=what, backend=backend) from error


def translate(error: Exception, operation: str, *, endpoint: Endpoint, what: str, backend: str) -> SchedulerError:
    """Return this package's error for one of the SDK, of the network, or of reading the answer.

    Args:
        error: One of `FOREIGN`.
        operation: The scheduler's operation.
        endpoint: The daemon's address.
        what: The beginning of the message: "cannot start the container x".
        backend: The scheduler's name.
    """
    if not isinstance(error, DockerError):
        return _unreachable(endpoint, error, backend, operation)
    cause = error.__context__
    if error.status == _NO_ANSWER and isinstance(cause, Exception):
        return _unreachable(endpoint, cause, backend, operation)
    return answer_error(error.status, error.message, what, backend, operation)


def answer_error(status: int, message: str, what: str, backend: str, operation: str) -> SchedulerError:
    """Return the error for an answer with an error status."""
    text = message.strip()
    lower = text.lower()
    if "no space left on device" in lower:
        return SchedulerError(
            what,
            why=f"the daemon's disk is full ({text})",
            fix="free some space, for example with `docker system prune`",
            backend=backend,
            operation=operation,
        )
    is_of_registry = status >= 500 and _TO_REGISTRY.search(text)  # the registry was unreachable, or cut the connection
    if status == IN_BAND or is_of_registry or "pull access denied" in lower or "no basic auth credentials" in lower:
        return _registry_error(text, what, backend, operation)
    kind = _BY_STATUS.get(status, SchedulerError)
    fix = next((fix for phrase, fix in _REQUESTS if phrase in lower), "")
    if fix and kind is SchedulerError:
        kind = InvalidRequestError  # the daemon answers 500 to some requests that can never succeed
    return kind(what, why=text or f"status {status}", fix=fix, backend=backend, operation=operation)


def _registry_error(text: str, what: str, backend: str, operation: str) -> SchedulerError:
    lower = text.lower()
    if any(word in lower for word in ("unauthorized", "no basic auth", "access denied", "denied:")):
        # A registry also answers "denied" for a repository that does not exist.
        return AuthError(
            what,
            why=text,
            fix="check the name, or log in with `docker login`",
            backend=backend,
            operation=operation,
        )
    if any(word in lower for word in ("not found", "manifest unknown", "does not exist")):
        return NotFoundError(what, why=text, fix="check the image's name and tag", backend=backend, operation=operation)
    return UnavailableError(
        what,
        why=text,
        fix="check the image's name, and that its registry can be reached",
        backend=backend,
        operation=operation,
    )


def _unreachable(endpoint: Endpoint, error: Exception, backend: str, operation: str) -> SchedulerError:
    # aiohttp wraps the operating system's error, and keeps its number in the wrapper.
    number = getattr(error, "errno", None) or getattr(getattr(error, "os_error", None), "errno", None)
    if number in (errno.EACCES, errno.EPERM):
        return PermissionDeniedError(
            "no permission to use Docker",
            why=f"user {_platform.user_id()} cannot open {endpoint}",
            fix="join the group that owns the socket (sudo usermod -aG docker $USER), then log in again",
            backend=backend,
            operation=operation,
        )
    kind = CutOffError if _was_cut(error, number) else UnavailableError
    want = _platform.want_behind(error)
    unavailable = kind(
        "cannot reach Docker",
        why=f"{endpoint}: {_reason(number, error)}",
        fix=_START if want is None else _platform.WANTS[want],
        backend=backend,
        operation=operation,
    )
    unavailable.is_set_up = endpoint.is_found
    return unavailable


def _was_cut(error: Exception, number: object) -> bool:
    if isinstance(error, (aiohttp.ClientConnectorError, TimeoutError)):
        return False  # there was no connection, or no answer for a long time
    return isinstance(error, (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)) or number in _CUT


def _reason(number: object, error: Exception) -> str:
    if isinstance(number, int):
        return os.strerror(number).lower()
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, (json.JSONDecodeError, ForeignAnswerError)):
        return "its answer was cut off, or does not come from Docker"
    return str(error) or type(error).__name__
