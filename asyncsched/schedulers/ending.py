"""The part of the scheduler interface that ends apps: cancel, kill, delete, prune, and results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import timedelta

from asyncsched._tasks import gather_bounded
from asyncsched.errors import ConflictError, SchedulerError
from asyncsched.schedulers.arguments import check_app_ids, check_prune
from asyncsched.schedulers.hooks import TERMINAL, OptsT, RequestT, SchedulerHooks
from asyncsched.specs.state import AppState
from asyncsched.specs.to_plain import JsonValue

__all__ = ["Ending", "not_ended"]


def not_ended(app_id: str, backend: str, why: str = "") -> ConflictError:
    """Return the error for an app that cannot be removed yet; `why` says which part of it is still running."""
    fix = "cancel it first, and wait for its end"
    return ConflictError(f"{app_id} has not ended", why=why, fix=fix, backend=backend, operation="delete")


class Ending(SchedulerHooks[OptsT, RequestT]):
    """The methods of `Scheduler` that end apps and read their results."""

    async def cancel(self, app_id: str) -> None:
        """Request the app's end and return without waiting; an unknown or ended app is ignored.

        It ends as ``CANCELLED``, in other processes too. Its logs stay readable if the service allows it.
        """
        self._on(app_id)
        await self._within("cancel", self._cancel(app_id))

    async def cancel_many(self, app_ids: Iterable[str]) -> dict[str, SchedulerError | None]:
        """Cancel many apps in as few calls as the service allows; one failure does not stop the others.

        If this call is cancelled, some apps may have been cancelled.

        Returns:
            For each app, in the order of `app_ids`, None or why it could not be cancelled.
        """
        self._enter()
        wanted = check_app_ids(app_ids)
        found = await self._cancel_many(wanted)
        return {app_id: found.get(app_id) for app_id in wanted}

    async def kill(self, app_id: str) -> None:
        """End the app like `cancel`, but without a grace period if `can_kill` is set."""
        self._on(app_id)
        await self._within("kill", self._kill(app_id))

    async def delete(self, app_id: str) -> None:
        """Remove an app that has ended, with its logs and state; an unknown app is ignored.

        Raises:
            ConflictError: The app is still running.
        """
        self._on(app_id)
        await self._within("delete", self._delete(app_id))

    async def prune(self, older_than: timedelta, states: Collection[AppState] = TERMINAL) -> list[str]:
        """Remove the apps that ended longer ago than this, with their logs; running and waiting apps are kept.

        If this call is cancelled, some apps may have been removed.

        Args:
            older_than: How long ago they must have ended.
            states: Only apps that ended in these states.

        Returns:
            The ids of the removed apps.

        Raises:
            ConfigError: `older_than` is negative, or one of `states` is not final.
        """
        self._enter()
        check_prune(older_than, states)
        return await self._prune(older_than, frozenset(states))

    async def results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        """Return the results that replicas wrote to the file in ``ASYNCSCHED_RESULT_FILE``, as parsed JSON.

        A file that is not JSON, or larger than 64 KiB, gives an `UnreadableResult` with the reason.

        Returns:
            The results by role and replica number, without replicas that wrote none; None if there is no such app, or
            if this scheduler cannot read results.
        """
        self._on(app_id)
        return await self._within("results", self._results(app_id))

    # Backends may override these.

    async def _cancel_many(self, app_ids: Collection[str]) -> Mapping[str, SchedulerError | None]:
        """Cancel apps, one call each; override it if the service can cancel several at once."""
        return await self._cancel_each(app_ids, self._cancel)

    async def _cancel_each(
        self, app_ids: Collection[str], cancel: Callable[[str], Awaitable[None]]
    ) -> dict[str, SchedulerError | None]:
        """Cancel apps with `cancel`, several at a time, each within `retry_for`; return the errors."""

        async def one(app_id: str) -> SchedulerError | None:
            try:
                await self._within("cancel", cancel(app_id))
            except SchedulerError as error:
                return error
            return None

        errors = await gather_bounded(one, app_ids, self.cancel_at_once)
        return dict(zip(app_ids, errors, strict=True))

    async def _prune(self, older_than: timedelta, states: Collection[AppState]) -> list[str]:
        """Remove apps that ended long ago; override it if the service's list has their end times."""
        limit = self.clock.time_ns() / 1e9 - older_than.total_seconds()
        ended = [row.app_id async for row in self._list() if row.state in states]
        removed: list[str] = []
        async for answers in self._sweep(ended):
            for app_id, answer in answers.items():
                if isinstance(answer, Exception) or answer is None or answer.state not in states:
                    continue
                end = answer.finished_at or answer.created_at
                if end is not None and end.timestamp() <= limit and await self._is_deleted(app_id):
                    removed.append(app_id)
        return removed

    async def _is_deleted(self, app_id: str) -> bool:
        """Delete an app; return False if another app with its id is running by now."""
        try:
            await self._within("prune", self._delete(app_id))
        except ConflictError:
            return False
        return True
