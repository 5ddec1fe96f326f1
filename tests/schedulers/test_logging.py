"""The library logs, and never writes."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import asyncio, math
from asyncsched.errors import UnavailableError
from asyncsched.specs import AppDef, Role
from asyncsched.testing import FakeScheduler, FakeService, VirtualClock

async def main():
    async with VirtualClock() as clock:
        service = FakeService(clock)
        scheduler = FakeScheduler("mine", service)
        app_id = await scheduler.submit(AppDef("job", [Role("main", "i", entrypoint="sh")]))
        service.fail("describe", UnavailableError("not now"))
        await anext(scheduler.watch([app_id]))
        assert scheduler.watch_statistics().calls
        await scheduler.close()

asyncio.run(main())
"""


def test_a_warning_of_ours_does_not_appear_where_nobody_set_up_logging() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)

    assert ("", "") == (done.stdout, done.stderr)
