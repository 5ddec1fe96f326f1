"""One structured log record per call of a runner, for counting, tracing and auditing.

Records go to the logger ``asyncsched.events`` at level INFO. They contain names, ids and times, but no arguments,
environments or error messages, which may hold secrets.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["Call", "CallLog"]

_log = logging.getLogger("asyncsched.events")
_log.addHandler(logging.NullHandler())


class Call:
    """A call of a runner. Each field is also an attribute of the `logging.LogRecord`.

    Attributes:
        operation: The runner's method.
        session: The runner's name.
        scheduler: The scheduler's name; empty for calls to several schedulers.
        app_id: The app's id; empty for calls about no app or several.
        outcome: ``ok``, ``cancelled``, or the name of the exception's class.
        duration: How many seconds it took.
    """

    def __init__(self, operation: str, session: str, scheduler: str = "", app_id: str = "") -> None:
        self.operation = operation
        self.session = session
        self.scheduler = scheduler
        self.app_id = app_id
        self.outcome = "ok"
        self.duration = 0.0

    def __str__(self) -> str:
        where = "/".join(filter(None, (self.scheduler, self.app_id)))
        return f"{self.operation} {where or '-'} {self.outcome} {self.duration * 1000:.1f} ms"


class CallLog:
    """Counts a runner's calls and logs each when it has finished.

    Args:
        session: The runner's name.
    """

    def __init__(self, session: str) -> None:
        self._session = session
        self.counts: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def call(self, operation: str, scheduler: str = "", app_id: str = "") -> Generator[Call]:
        """Count and time the block. It may fill in fields that are not known yet."""
        call = Call(operation, self._session, scheduler, app_id)
        began = time.perf_counter()
        with _span(operation) as span:
            try:
                yield call
            except BaseException as error:
                call.outcome = _outcome(error)
                raise
            finally:
                call.duration = time.perf_counter() - began
                self.counts[call.scheduler, operation] += 1
                _tell(call, span)


def _outcome(error: BaseException) -> str:
    return "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__


def _tell(call: Call, span: object) -> None:
    if span is not None:
        for name, value in vars(call).items():
            if value and name not in ("operation", "duration"):
                span.set_attribute(f"asyncsched.{name}", value)  # type: ignore[attr-defined]  # a span, if there is one
    if _log.isEnabledFor(logging.INFO):
        _log.info("%s", call, extra=vars(call))


def _span(operation: str) -> AbstractContextManager[object]:
    """Open a span if the process uses OpenTelemetry, that is, if its API has been imported."""
    trace: ModuleType | None = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return nullcontext()
    span: AbstractContextManager[object] = trace.get_tracer("asyncsched").start_as_current_span(
        f"asyncsched.{operation}", record_exception=False, set_status_on_exception=False
    )
    return span
