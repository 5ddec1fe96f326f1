"""For tests: a scheduler in memory, a clock that does not wait, and the contract that every backend is held to.

The contract suite needs pytest and stands in `asyncsched.testing.contract`.
"""

from __future__ import annotations

from asyncsched.testing.clock import VirtualClock
from asyncsched.testing.fake import FakeOptions, FakeRequest, FakeScheduler
from asyncsched.testing.service import FakeService

__all__ = ["FakeOptions", "FakeRequest", "FakeScheduler", "FakeService", "VirtualClock"]
