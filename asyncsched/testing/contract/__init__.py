"""One suite that checks a backend against the contract, for authors of backends.

::

    class TestMyScheduler(SchedulerContract):
        @pytest.fixture
        async def rig(self):
            scheduler = MyScheduler("test")
            yield ContractRig(scheduler, another=lambda: MyScheduler("other"))
            await scheduler.close()

It needs pytest and pytest-asyncio (in auto mode).
"""

from __future__ import annotations

from asyncsched.testing.contract import _rewrite as _rewrite  # first: it is for the modules that follow
from asyncsched.testing.contract.endings import EndContract
from asyncsched.testing.contract.logs import LogContract
from asyncsched.testing.contract.rig import ContractRig, echo, texts
from asyncsched.testing.contract.states import StateContract
from asyncsched.testing.contract.submitting import SubmitContract
from asyncsched.testing.contract.workspaces import WorkspaceContract

__all__ = ["ContractRig", "SchedulerContract", "echo", "texts"]


class SchedulerContract(SubmitContract, WorkspaceContract, StateContract, EndContract, LogContract):
    """The whole contract; a subclass supplies the fixture ``rig``."""
