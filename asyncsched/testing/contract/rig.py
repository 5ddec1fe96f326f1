"""A backend's description for the contract suite."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from asyncsched.logs.line import LogLine
from asyncsched.logs.stream import LogStream
from asyncsched.schedulers.api import Scheduler
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.run_options import CfgVal
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.specs.state import AppState

__all__ = ["ContractRig", "echo", "impatient", "texts"]

ItemT = TypeVar("ItemT")


def echo(*texts: str, err: bool = False) -> str:
    """Return a script that writes each text as a line."""
    return "\n".join(f"echo {shlex.quote(text)}{' >&2' if err else ''}" for text in texts)


@dataclass
class ContractRig:
    """A backend under test, and what it can do.

    Attributes:
        scheduler: The scheduler.
        another: Creates another one on the same service, as another process would, with the session ``other``; the
            caller closes it.
        cfg: Run options that every submit needs.
        image: An image that has ``sh``.
        patience: Seconds after which something that should have happened counts as failed.
        tells_streams: Whether stdout and stderr can be separated.
        tells_attempts: Whether lines know their attempt.
        keeps_cancelled_logs: Whether the log of a cancelled app stays readable. If not, a read returns a gap.
        keeps_attempts: Whether unread lines of earlier attempts stay until the app is deleted. If not, a gap may
            replace them.
        misses_attempts: Whether lines of an attempt that ended before it was seen may not know their attempt.
        restarts: Whether failed replicas are restarted (`Role.max_retries`).
        exact_times: Whether lines have their time, so that ``since`` and ``until`` can be tested.
        unstartable: An app that passes the dry-run but cannot be launched as a whole; None if there is none.
        unknown_id: A well-formed id of an app that does not exist.
        long_sleep: A script line that waits until it is cancelled.
        timeout: A value of the option ``timeout`` that a test can wait for; None if there is no such option.
        never_starts: An app that stays pending; None if there is none, or no option ``pending_timeout``.
        pending_timeout: A value of the option ``pending_timeout`` that a test can wait for.
        reads_results: Whether the files that ``ASYNCSCHED_RESULT_FILE`` names can be read.
        secret: A secret that the service keeps, and its value; None if there is none to test with.
        runs_workspaces: Whether the rig can run apps with a workspace, if the backend supports workspaces: not if its
            images would have to be pushed, and nothing here could run them.
    """

    scheduler: Scheduler[Any, Any]
    another: Callable[[], Scheduler[Any, Any]]
    cfg: Mapping[str, CfgVal] = field(default_factory=dict[str, CfgVal])
    image: str = "fake"
    patience: float = 60.0
    tells_streams: bool = True
    tells_attempts: bool = True
    keeps_cancelled_logs: bool = True
    keeps_attempts: bool = True
    misses_attempts: bool = False
    restarts: bool = True
    exact_times: bool = True
    unstartable: AppDef | None = None
    unknown_id: str = "nosuchapp-x1"
    long_sleep: str = "sleep 3600"
    timeout: float | None = None
    never_starts: AppDef | None = None
    pending_timeout: float = 1.0
    reads_results: bool = False
    secret: tuple[SecretRef, str] | None = None
    runs_workspaces: bool = True

    def role(self, script: str, name: str = "main", **more: Any) -> Role:
        """Return a role that runs a shell script."""
        return Role(name, self.image, entrypoint="sh", args=["-c", script], **more)

    def app(self, script: str = "", *, name: str = "job", replicas: int = 1, **more: Any) -> AppDef:
        """Return an app of one role that runs a shell script."""
        return AppDef(name, [self.role(script, num_replicas=replicas, **more)])

    async def listed(self) -> set[str]:
        """Return the ids of all apps; other fields of a shared service's list may change at any time."""
        return {row.app_id for row in await self.scheduler.list()}

    async def submit(self, app: AppDef, **more: Any) -> str:
        """Launch an app."""
        return await self.scheduler.submit(app, self.cfg, **more)

    async def until(
        self,
        app_id: str,
        condition: Callable[[DescribeAppResponse], bool],
        scheduler: Scheduler[Any, Any] | None = None,
    ) -> DescribeAppResponse:
        """Watch an app until it fulfils a condition."""
        seen: list[str] = []
        async with asyncio.timeout(self.patience):
            async with (scheduler or self.scheduler).watch([app_id]) as watch:
                async for event in watch:
                    seen.append(f"{event.state}{' gone' if event.gone else ''}")
                    if event.current is not None and condition(event.current):
                        return event.current
        raise AssertionError(f"{app_id} ended before the condition was met; its states were {', '.join(seen)}")

    async def ended(self, app_id: str) -> DescribeAppResponse:
        """Wait until an app has ended."""
        return await self.until(app_id, lambda app: app.state.is_terminal())

    async def running(self, app_id: str) -> DescribeAppResponse:
        """Wait until every replica runs."""
        return await self.until(
            app_id, lambda app: bool(app.replicas) and all(r.state is AppState.RUNNING for r in app.replicas)
        )

    async def running_or_pending(self, app_id: str) -> DescribeAppResponse:
        """Describe an app that has not ended."""
        found = await self.scheduler.describe(app_id)
        assert found is not None
        return found

    async def lines(self, app_id: str, **query: Any) -> list[LogLine]:
        """Read a log to its end."""
        return await self.read(self.scheduler.log_iter(app_id, **query))

    async def read(self, stream: LogStream, count: int | None = None) -> list[LogLine]:
        """Read `count` lines of a stream, or all."""
        lines: list[LogLine] = []
        async with asyncio.timeout(self.patience):
            while count is None or len(lines) < count:
                line = await anext(stream, None)
                if line is None:
                    break
                lines.append(line)
        return lines


async def impatient(stream: AsyncGenerator[ItemT, None]) -> ItemT:
    """Take a step, but cancel it if it has not finished after three iterations of the loop (TimeoutError)."""
    step: asyncio.Future[ItemT] = asyncio.ensure_future(anext(stream))
    for _ in range(3):
        await asyncio.sleep(0)
    step.cancel()
    try:
        return await step
    except asyncio.CancelledError:
        raise TimeoutError from None


def texts(lines: Iterable[LogLine]) -> list[str]:
    """Return the lines without newlines."""
    return [line.text for line in lines]
