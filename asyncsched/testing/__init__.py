"""For tests: an in-memory scheduler, a clock that does not wait, and the contract suite for backends.

The contract suite is in `asyncsched.testing.contract`, and needs pytest.
"""

from __future__ import annotations

from asyncsched.testing.clock import VirtualClock
from asyncsched.testing.fake import FakeOptions, FakeRequest, FakeScheduler
from asyncsched.testing.service import FakeService

__all__ = ["FakeOptions", "FakeRequest", "FakeScheduler", "FakeService", "VirtualClock"]
