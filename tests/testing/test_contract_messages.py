from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

FAULTY = """
import pytest
from asyncsched.errors import ConflictError
from asyncsched.testing import FakeScheduler, FakeService, VirtualClock
from asyncsched.testing.contract import ContractRig, SchedulerContract

class Forgetful(FakeScheduler):
    async def _describe(self, app_id):
        return None

class TestForgetful(SchedulerContract):
    @pytest.fixture
    async def rig(self):
        async with VirtualClock() as clock, Forgetful("mine", FakeService(clock)) as scheduler:
            yield ContractRig(scheduler, another=lambda: Forgetful("other", FakeService(clock)))
"""


def test_a_failure_of_the_contract_tells_the_values(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAULTY)
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    result = pytester.runpytest_subprocess(
        "-k", "test_submit_returns_an_id_that_describe_knows", "-p", "no:cacheprovider"
    )

    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r"E\s+assert .*None"])
