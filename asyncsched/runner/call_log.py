"""One structured record for each call of a runner, for whoever wants to count, trace or audit them.

Records go to the logger ``asyncsched.events`` at level INFO and nowhere else. They carry names, ids and times; never
arguments, environments or messages of errors, which may hold what nobody should read.
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
    """A call of a runner, as its record tells it (each field is an attribute of the `logging.LogRecord` too).

    Attributes:
        operation: The runner's method.
        session: The runner's name.
        scheduler: The scheduler's name; empty if several are asked.
        app_id: The app; empty if there is none, or several.
        outcome: ``ok``, ``cancelled``, or the name of the exception's class.
        duration: Seconds that it took.
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
    """Counts a runner's calls and tells each of them once it is over.

    Args:
        session: The runner's name.
    """

    def __init__(self, session: str) -> None:
        self._session = session
        self.counts: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def call(self, operation: str, scheduler: str = "", app_id: str = "") -> Generator[Call]:
        """Count and time what is done inside; what is not known yet may be filled in there."""
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
    """Open a span if the process uses OpenTelemetry; whoever has set up a tracer has imported its API."""
    trace: ModuleType | None = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return nullcontext()
    span: AbstractContextManager[object] = trace.get_tracer("asyncsched").start_as_current_span(
        f"asyncsched.{operation}", record_exception=False, set_status_on_exception=False
    )
    return span
