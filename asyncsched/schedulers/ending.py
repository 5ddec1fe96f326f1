"""The half of the contract that ends apps: cancelling, killing, removing, and what is left to be read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import timedelta

from asyncsched._tasks import gather_bounded
from asyncsched.errors import ConflictError, SchedulerError
from asyncsched.schedulers.hooks import TERMINAL, OptsT, RequestT, SchedulerHooks
from asyncsched.schedulers.shape import check_app_ids
from asyncsched.specs.state import AppState
from asyncsched.specs.to_plain import JsonValue

__all__ = ["Ending", "not_ended"]


def not_ended(app_id: str, backend: str, why: str = "") -> ConflictError:
    """Return the error for an app that cannot be removed yet; `why` says which part of it goes on."""
    fix = "cancel it first, and wait for its end"
    return ConflictError(f"{app_id} has not ended", why=why, fix=fix, backend=backend, operation="delete")


class Ending(SchedulerHooks[OptsT, RequestT]):
    """What `Scheduler` offers to end apps and to read what they have left."""

    async def cancel(self, app_id: str) -> None:
        """Ask for the app's end and return without waiting for it; nothing happens to an unknown or finished app.

        It ends as ``CANCELLED``, also when another process describes it; its logs stay readable where the service
        allows.
        """
        self._on(app_id)
        await self._within("cancel", self._cancel(app_id))

    async def cancel_many(self, app_ids: Iterable[str]) -> dict[str, SchedulerError | None]:
        """Cancel many apps in as few calls as the service allows; one that fails does not stop the others.

        Cancelling this may have cancelled some of them.

        Returns:
            For each app, in the order of `app_ids`, None or why it could not be cancelled.
        """
        self._enter()
        wanted = check_app_ids(app_ids)
        found = await self._cancel_many(wanted)
        return {app_id: found.get(app_id) for app_id in wanted}

    async def kill(self, app_id: str) -> None:
        """End the app as `cancel` does, but at once where `can_kill` is set: without a grace period."""
        self._on(app_id)
        await self._within("kill", self._kill(app_id))

    async def delete(self, app_id: str) -> None:
        """Remove an app that has ended, with its logs and state; an unknown one is gone already.

        Raises:
            ConflictError: The app still runs.
        """
        self._on(app_id)
        await self._within("delete", self._delete(app_id))

    async def prune(self, older_than: timedelta, states: Collection[AppState] = TERMINAL) -> list[str]:
        """Remove the apps that ended longer ago than this, with their logs; never one that runs or waits.

        Cancelling this may have removed some of them.

        Args:
            older_than: How long ago they must have ended.
            states: Only apps that ended in one of these states.

        Returns:
            The ids of the apps that were removed.

        Raises:
            ValueError: `older_than` is negative, or one of `states` is not an end.
        """
        self._enter()
        if older_than < timedelta(0):
            raise ValueError(f"older_than must not be negative, got {older_than}")
        if running := [state.name for state in states if not state.is_terminal()]:
            raise ValueError(f"states must be ends of an app, got {', '.join(running)}")
        return await self._prune(older_than, frozenset(states))

    async def results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        """Return what replicas have written to the file that ``ASYNCSCHED_RESULT_FILE`` names, as parsed JSON.

        A file that is not JSON, or larger than 64 KiB, is an `UnreadableResult` that says so.

        Returns:
            The results by role and replica number, those only that have written one; None if there is no such app, or
            if this scheduler cannot read results.
        """
        self._on(app_id)
        return await self._within("results", self._results(app_id))

    # What a backend may do better.

    async def _cancel_many(self, app_ids: Collection[str]) -> Mapping[str, SchedulerError | None]:
        """Cancel apps, one call for each; override it where the service takes several at once."""
        return await self._cancel_each(app_ids, self._cancel)

    async def _cancel_each(
        self, app_ids: Collection[str], cancel: Callable[[str], Awaitable[None]]
    ) -> dict[str, SchedulerError | None]:
        """Cancel apps by `cancel`, several at a time, each bounded by `retry_for`; return why some could not be."""

        async def one(app_id: str) -> SchedulerError | None:
            try:
                await self._within("cancel", cancel(app_id))
            except SchedulerError as error:
                return error
            return None

        errors = await gather_bounded(one, app_ids, self.cancel_at_once)
        return dict(zip(app_ids, errors, strict=True))

    async def _prune(self, older_than: timedelta, states: Collection[AppState]) -> list[str]:
        """Remove apps that ended long ago; override it where the service tells their ends with its list."""
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
        """Delete an app; tell whether it is gone: another one may run under its name by now."""
        try:
            await self._within("prune", self._delete(app_id))
        except ConflictError:
            return False
        return True
