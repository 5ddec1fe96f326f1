"""What every test has: the guard on both loops, and word of missing services."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from asyncsched.testing import VirtualClock

pytest_plugins = [
    "tests._interrupts",
    "tests._services",  # before what imports it, as the next one
    "tests._results",
    "tests._time_limit",
    "tests._timed",
    "tests._guard",
    "tests._at_most",
    "tests._heavy",
    "tests._shared",
    "tests.services.fixtures",
    "tests.services.kubernetes.fixtures",
]

# A busy machine is not a wrong result.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("patient"), max_examples=20)  # of `tests/run --fast`
settings.register_profile("thorough", settings.get_profile("patient"), max_examples=2000)  # of a search by hand
settings.load_profile("patient")


# Whoever runs us in the background may ignore these, and every process that a test starts would, too.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


@pytest.fixture(scope="session", autouse=True)
def _state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what tests run on this machine out of the user's own state directory."""
    before = os.environ.get("ASYNCSCHED_HOME")
    os.environ["ASYNCSCHED_HOME"] = str(tmp_path_factory.mktemp("state") / "home")
    yield
    if before is None:
        del os.environ["ASYNCSCHED_HOME"]
    else:
        os.environ["ASYNCSCHED_HOME"] = before


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    """A clock that moves as soon as somebody waits for it."""
    async with VirtualClock() as clock:
        yield clock
