"""The part of `Runner` that asks about and cancels many apps in few calls, and reads the results of an app."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from asyncsched._tasks import gather_bounded
from asyncsched.errors import AsyncSchedError
from asyncsched.logs.loop_time import budget_of
from asyncsched.runner.convert import status_of
from asyncsched.runner.results import AppStatuses
from asyncsched.runner.runner_base import _RunnerBase
from asyncsched.runner.waiting import AppKey, apps_of
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppStatus
from asyncsched.specs.to_plain import JsonValue

AnswerT = TypeVar("AnswerT")


class _ManyRunner(_RunnerBase):
    """The methods that act on many apps in few calls."""

    async def status_all(self, handles: str | Iterable[str]) -> AppStatuses:
        """Return the statuses of many apps; each scheduler gets as few requests as it allows.

        Returns:
            The statuses by handle, in the order of `handles`; they print as a table. The status is None for an app that
            its scheduler does not know. If a scheduler fails, its error is in `failures` and its apps are left out.

        Raises:
            AsyncSchedError: All schedulers failed; this is the error of the first.
        """
        self._enter()
        with self._calls.call("status_all"):
            apps = await apps_of(handles)

            async def ask(scheduler: str, ids: Sequence[str]) -> Mapping[str, AppStatus | None]:
                found = await (await self._backends.open(scheduler)).describe_many(ids)
                budget = budget_of(asyncio.get_running_loop())
                told: dict[str, AppStatus | None] = {}
                for app_id, response in found.items():
                    told[app_id] = (
                        None if response is None else status_of(response, AppHandle(f"{scheduler}:///{app_id}"))
                    )
                    await budget.breathe()
                return told

            answers, failures = await self._of_each(apps, ask)
            if failures and not answers:
                raise next(iter(failures.values()))
            statuses = AppStatuses(failures=failures)
            for handle, (scheduler, app_id) in apps.items():
                if scheduler in answers:
                    self._keep(statuses, handle, answers[scheduler][app_id])
            return statuses

    def _keep(self, statuses: AppStatuses, handle: AppHandle, status: AppStatus | None) -> None:
        statuses[handle] = status
        if status is not None:
            status.handle = handle
            self._seen.note(handle, status)

    async def cancel_all(self, handles: str | Iterable[str]) -> dict[AppHandle, AsyncSchedError | None]:
        """Cancel many apps in as few requests as their schedulers allow; return without waiting for their end.

        A failure does not stop the others. If this call is cancelled, some apps may have been cancelled.

        Returns:
            For each app, in the order of `handles`, None or the error that prevented its cancellation.
        """
        self._enter()
        with self._calls.call("cancel_all"):
            apps = await apps_of(handles)

            async def cancel(scheduler: str, ids: Sequence[str]) -> Mapping[str, AsyncSchedError | None]:
                return await (await self._backends.open(scheduler)).cancel_many(ids)

            answers, failures = await self._of_each(apps, cancel)
            return {
                handle: failures[scheduler] if scheduler in failures else answers[scheduler][app_id]
                for handle, (scheduler, app_id) in apps.items()
            }

    async def _of_each(
        self, apps: Mapping[AppHandle, AppKey], ask: Callable[[str, Sequence[str]], Awaitable[Mapping[str, AnswerT]]]
    ) -> tuple[dict[str, Mapping[str, AnswerT]], dict[str, AsyncSchedError]]:
        """Call `ask` for each scheduler with all of its apps, at once; return answers and failures by scheduler."""
        ids: dict[str, list[str]] = {}
        for scheduler, app_id in apps.values():
            ids.setdefault(scheduler, []).append(app_id)
        self._backends.check(ids)
        answers: dict[str, Mapping[str, AnswerT]] = {}
        failures: dict[str, AsyncSchedError] = {}

        async def one(scheduler: str) -> None:
            try:
                answers[scheduler] = await ask(scheduler, ids[scheduler])
            except AsyncSchedError as error:
                failures[scheduler] = error

        await gather_bounded(one, list(ids), max(len(ids), 1))
        return answers, failures

    async def results(self, handle: str) -> Mapping[tuple[str, int], JsonValue] | None:
        """Return the parsed contents of the files that replicas wrote at ``ASYNCSCHED_RESULT_FILE``.

        The value is an `UnreadableResult` for a file that is not JSON, is larger than 64 KiB, or is not a regular file.

        Returns:
            The results by role and replica number, only of replicas that wrote one; None if the app does not exist or
            its scheduler cannot read results.
        """
        handle = self._on(handle)
        with self._calls.call("results", handle.scheduler, handle.app_id):
            return await (await self._backends.open(handle.scheduler)).results(handle.app_id)
