"""What goes over the line: how often each operation is called, how fast, and what goes wrong."""

from __future__ import annotations

import collections
import fnmatch
import threading
from collections.abc import Callable
from dataclasses import dataclass

from tests.aws_emulator.errors import ApiError


class DroppedError(Exception):
    """The connection is cut, and no answer is sent; `resets` says whether by a reset, or with a proper end."""

    def __init__(self, *, resets: bool = False) -> None:
        super().__init__()
        self.resets = resets


@dataclass
class Fault:
    """Something that goes wrong with the next `times` calls of the operations that match.

    `kind` is one of ``throttle``, ``error`` (500), ``unavailable`` (503), ``denied``, ``expired``, ``garbage``
    (half an answer), ``cut`` (the connection ends before anything is done), ``cut_after`` (it ends after
    the operation has taken effect) and ``reset_after`` (it is reset then).
    """

    operation: str
    kind: str
    times: int = 1


class Traffic:
    """Counts, throttles and spoils calls."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.calls: collections.Counter[str] = collections.Counter()
        self.throttled: collections.Counter[str] = collections.Counter()
        self.faults: list[Fault] = []
        #: What operations (in lower case) wait for before they answer, after they have taken effect.
        self.held: dict[str, threading.Event] = {}
        #: What botocore's model finds wrong with requests that were let in, or with answers.
        self.problems: list[str] = []
        #: Access keys that are accepted; None: all of them.
        self.valid_keys: set[str] | None = None
        self._rates: dict[str, tuple[float, float]] = {}
        self._buckets: dict[str, tuple[float, float]] = {}

    def throttle(self, **limits: tuple[float, float]) -> None:
        """Set the rate a second and the burst of operations; none at all takes every limit away."""
        self._rates = dict(limits)
        self._buckets.clear()

    def fail(self, operation: str, kind: str, times: int = 1) -> Fault:
        fault = Fault(operation, kind, times)
        self.faults.append(fault)
        return fault

    def enter(self, service: str, operation: str, key: str = "") -> Fault | None:
        """Let a call in, or refuse it; a fault that comes after the work is given back."""
        self.calls[operation] += 1
        if self.valid_keys is not None and key not in self.valid_keys:
            raise ApiError("ExpiredTokenException", "The security token included in the request is expired", 403)
        fault = self._fault(operation)
        if fault and fault.kind not in ("cut_after", "reset_after", "garbage"):
            raise self._refusal(service, operation, fault.kind)
        if not self._admit(operation):
            raise self._refusal(service, operation, "throttle")
        return fault

    def _fault(self, operation: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fnmatch.fnmatchcase(operation, fault.operation):
                fault.times -= 1
                return fault
        return None

    def _refusal(self, service: str, operation: str, kind: str) -> Exception:
        if kind == "cut":
            return DroppedError()
        if kind == "throttle":
            self.throttled[operation] += 1
            if service == "batch":
                return ApiError("TooManyRequestsException", "Too Many Requests", 429)
            return ApiError("ThrottlingException", "Rate exceeded")
        if kind == "denied":
            who = "User: arn:aws:iam::123456789012:user/test"
            return ApiError("AccessDeniedException", f"{who} is not authorized to perform: {service}:{operation}", 403)
        if kind == "expired":
            return ApiError("ExpiredTokenException", "The security token included in the request is expired", 403)
        status = {"error": 500, "unavailable": 503}[kind]
        code = "ServerException" if service == "batch" else "ServiceUnavailableException"
        return ApiError(code, "The service failed", status)

    def _admit(self, operation: str) -> bool:
        limit = self._rates.get(operation) or self._rates.get("*")
        if limit is None:
            return True
        rate, burst = limit
        now = self._now()
        tokens, then = self._buckets.get(operation, (burst, now))
        tokens = min(burst, tokens + (now - then) * rate)
        self._buckets[operation] = (tokens - 1 if tokens >= 1 else tokens, now)
        return tokens >= 1
