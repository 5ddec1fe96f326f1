"""What the API server refuses, and what keeps it from answering, as errors of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asyncsched.errors import AsyncSchedError

__all__ = ["BACKEND", "ApiFailure", "failure_of", "translate"]

BACKEND = "kubernetes"


class ApiFailure(Exception):  # noqa: N818 - it is the cause of an error of ours, and never raised on its own
    """An answer of the API server with a status of 400 or more; the cause of the error that is raised.

    Attributes:
        code: The HTTP status, or the code of an ERROR event in a watch.
        reason: The Status's reason, such as ``AlreadyExists``; empty where there is none.
        message: The Status's message, or the body's text.
        details: The Status's details.
        retry_after: The pause in seconds that the server asked for, if it did.
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


def failure_of(error: BaseException) -> ApiFailure | None:
    """Return the API server's refusal behind an error of ours; None where there was no answer."""
    cause = error if isinstance(error, ApiFailure) else error.__cause__
    return cause if isinstance(cause, ApiFailure) else None


def translate(error: Exception, operation: str) -> AsyncSchedError:
    """Return our error for a refusal, or for what keeps the server from answering."""
    raise NotImplementedError
