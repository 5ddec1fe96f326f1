"""Faults that a test asks for: the answers that no cluster can be made to give."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.kubernetes_fake.errors import StatusError


@dataclass
class Fault:
    """What happens to requests.

    Attributes:
        error: Answered instead of what was asked for.
        cut_after: The connection is cut after so many bytes of the body; 0: before any answer.
        slow: Seconds before the answer.
        after: Whether the request takes effect before it fails: an answer that is lost.
        times: How often it happens; -1 for ever.
        body: Bytes that are sent as a body with status 200, whatever was asked for.
        end_after: The body ends cleanly after so many bytes.
        pause: Seconds between two pieces of the body, of `piece` bytes each.
        meanwhile: What somebody else does, in the cluster's thread, before the request fails or takes effect.
    """

    error: StatusError | None = None
    cut_after: int | None = None
    end_after: int | None = None
    slow: float = 0.0
    after: bool = False
    times: int = 1
    body: bytes | None = None
    pause: float = 0.0
    piece: int = 0
    meanwhile: Callable[[], object] = lambda: None


@dataclass
class Traffic:
    """What was asked for, and what is to go wrong.

    Attributes:
        calls: How often each verb was used on each kind: ``"list pods"``, ``"get pods/log"``.
        requests: Each request's method and path with its query, in order.
        open: The streams that are open now, by the same names as `calls`.
        most_open: The most that were open at a time.
        problems: Faults of the fake itself; a test asserts that there are none.
    """

    calls: Counter[str] = field(default_factory=Counter[str])
    requests: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    agents: Counter[str] = field(default_factory=Counter[str])
    open: Counter[str] = field(default_factory=Counter[str])
    most_open: Counter[str] = field(default_factory=Counter[str])
    problems: list[str] = field(default_factory=list[str])
    faults: list[tuple[re.Pattern[str], Fault]] = field(default_factory=list[tuple[re.Pattern[str], Fault]])

    def fail(self, what: str, fault: Fault | StatusError) -> None:
        """Let requests fail whose verb and kind (``"list pods"``) match a pattern."""
        self.faults.append((re.compile(what), fault if isinstance(fault, Fault) else Fault(error=fault)))

    def fault(self, what: str) -> Fault | None:
        """Return the fault that a request meets, and count it."""
        for number, (pattern, fault) in enumerate(self.faults):
            if pattern.fullmatch(what):
                if fault.times > 0:
                    fault.times -= 1
                if fault.times == 0:
                    del self.faults[number]
                return fault
        return None

    def opened(self, what: str) -> None:
        self.open[what] += 1
        self.most_open[what] = max(self.most_open[what], self.open[what])

    def closed(self, what: str) -> None:
        self.open[what] -= 1
