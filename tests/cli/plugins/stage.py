"""A scheduler for tests of the command line, as an installed package brings it.

``stage`` has ``STAGE_APPS`` apps on it from the start: of ten, one has failed, one has succeeded, the others run. What
is cancelled is written to the file ``STAGE_CANCELLED``. ``STAGE_NAME``, ``STAGE_ROLE`` and ``STAGE_REASON`` are how its
apps and their roles are named and why they failed: an app of somebody else may have any text there. ``STAGE_SAYS`` is
what they write. Each has ``STAGE_REPLICAS``; of those that fail with several, the fourth and the sixth do, and one more
by a signal. ``STAGE_AGAIN`` is what each writes first in a second attempt, before which the first has failed.
``STAGE_AGE`` is how many seconds ago they were launched.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from asyncsched import AppDef, Role
from asyncsched.clock import Clock
from asyncsched.schedulers import ListAppResponse
from asyncsched.testing import FakeScheduler, FakeService


class Ago(Clock):
    """A clock that is some seconds behind."""

    def time_ns(self) -> int:
        return super().time_ns() - int(os.environ.get("STAGE_AGE", "0")) * 10**9


class Stage(FakeScheduler):
    def __init__(self, session_name: str) -> None:
        super().__init__(session_name, FakeService(Ago()))
        self.backend = "stage"
        self._is_set = False

    async def _describe(self, app_id: str) -> Any:
        self._set()
        return await super()._describe(app_id)

    async def _describe_many(self, app_ids: Sequence[str]) -> Any:
        self._set()
        return await super()._describe_many(app_ids)

    async def _push_states(self, port: Any) -> None:
        self._set()
        await super()._push_states(port)

    async def _list(self) -> AsyncGenerator[ListAppResponse]:
        self._set()
        async for row in super()._list():
            yield row

    async def _cancel(self, app_id: str) -> None:
        with Path(os.environ["STAGE_CANCELLED"]).open("a") as file:
            file.write(f"{app_id}\n")
        await super()._cancel(app_id)

    def _set(self) -> None:
        """Launch the apps: timers need a loop."""
        if self._is_set:
            return
        self._is_set = True
        for number in range(int(os.environ.get("STAGE_APPS", "0"))):
            app_id = f"train-{number:03}"
            says = os.environ.get("STAGE_SAYS", "hello from the stage").split("\n")
            script = "".join(f"echo {shlex.quote(line)}\n" for line in says) + "sleep 3600"
            count = int(os.environ.get("STAGE_REPLICAS", "1"))
            name = os.environ.get("STAGE_ROLE", "main")
            again = os.environ.get("STAGE_AGAIN", "")
            role = Role(name, "", entrypoint="sh", args=["-c", script], num_replicas=count, max_retries=bool(again))
            self.service.launch(app_id, AppDef(os.environ.get("STAGE_NAME", "train"), [role]), "old", "")
            self.service.start(app_id)
            if again:
                self.service.exit(app_id, 1)  # and starts again by itself
                self.service.say(app_id, f"{again}\n")
            if number % 10 == 3:
                self.service.set_reason(app_id, os.environ.get("STAGE_REASON", "out of memory"))
                self._fail(app_id, count)
            elif number % 10 == 5:
                self.service.exit(app_id, 0)

    def _fail(self, app_id: str, count: int) -> None:
        if count > 6:
            for k in (3, 5):
                self.service.exit(app_id, 1, k=k)
            self.service.exit(app_id, -9, k=6)
            for k in {*range(count)} - {3, 5, 6}:
                self.service.exit(app_id, 0, k=k)
        else:
            self.service.exit(app_id, 1)


def create_scheduler(session_name: str, **kwargs: object) -> Stage:
    return Stage(session_name)
