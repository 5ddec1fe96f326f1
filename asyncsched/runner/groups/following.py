"""The apps that a group follows. Each occupies a slot until it has ended."""

from __future__ import annotations

import abc
import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from asyncsched.runner.convert import GONE, AppEvent
from asyncsched.runner.groups.flight import Flight
from asyncsched.runner.groups.host import Host
from asyncsched.runner.groups.job import Job, Phase
from asyncsched.runner.groups.ledger import Ledger
from asyncsched.runner.groups.outcome import End, Verdict, judge
from asyncsched.runner.groups.settings import GroupSettings, JobSettings
from asyncsched.runner.groups.tasks import GroupTasks
from asyncsched.runner.watch import AppEventStream
from asyncsched.specs.handle import AppHandle
from asyncsched.specs.state import AppState, AppStatus

__all__ = ["Following"]

UNKNOWN_FOR = 600.0
"""Seconds for which a job keeps its slot while its scheduler cannot say how it is."""

WATCH_PAUSE = 5.0
"""Seconds after which a watch that has failed is tried again."""

_log = logging.getLogger("asyncsched.runner")


class Following(abc.ABC):
    """Follows attempts with one watch, and cancels them.

    Attributes:
        host: The runner.
        settings: The arguments of the group.
        ledger: The jobs and their phases.
        flights: The attempts that occupy slots, by handle.
        handles: The apps of all attempts, in the order of their launches.
        lost: The jobs that were given up while their state was unknown.
        error: Why jobs are no longer followed, if the group was closed.
        tasks: The tasks in progress; `cancels` are those that cancel apps.
    """

    def __init__(self, host: Host, settings: GroupSettings) -> None:
        self.host = host
        self.settings = settings
        self.ledger = Ledger()
        self.flights: dict[AppHandle, Flight] = {}
        self.handles: list[AppHandle] = []
        self.lost: list[Job] = []
        self.error: Exception | None = None
        self.tasks = GroupTasks(settings.name, self.ledger.wake)
        self.cancels: set[asyncio.Task[None]] = set()
        self._cancelling = False
        self._events: AppEventStream | None = None

    @property
    def strays(self) -> Sequence[Flight]:
        """The attempts that no job follows: of an earlier run, or left by a failed launch."""
        return [flight for flight in self.flights.values() if flight.job is None]

    def settings_of(self, job: Job) -> JobSettings:
        """Return the settings of a job: its own, or its group's."""
        return self.settings_for(job._settings)

    def settings_for(self, settings: JobSettings | None) -> JobSettings:
        """Return the given settings of a job, or its group's."""
        group = self.settings
        return settings or JobSettings(group.scheduler, group.cfg, group.workspace, group.retries, group.timeout)

    def fly(self, of: Job, handle: AppHandle, attempt: int, *, is_stray: bool = False) -> Flight:
        """Follow an attempt of a job; with `is_stray`, the job itself does not follow it."""
        flight = self.flights[handle] = Flight(handle, of, attempt)
        self.handles.append(handle)
        if self._events is None:
            self._events = self.host.watch()
            self.tasks.spawn(self._follow(self._events), "watch of a group")
        self._events.add(handle)
        if not is_stray:
            self.board(of, flight)
        if self._cancelling or (not is_stray and of._is_asked):
            self.send_cancels([flight])
        return flight

    def board(self, job: Job, flight: Flight) -> None:
        """Give an attempt to its job."""
        flight.of = flight.job = job
        job.attempts = (*(each for each in job.attempts if each != flight.handle), flight.handle)
        job._last = flight.status or AppStatus(AppState.SUBMITTED, handle=flight.handle)
        self.ledger.move(job, Phase.RUNNING)
        self._time(flight, job, job._last.state)
        self.ledger.wake()

    async def _follow(self, events: AppEventStream) -> None:
        async with events:
            while True:
                try:
                    self._note(await anext(events))
                except StopAsyncIteration:
                    return
                except Exception as error:  # noqa: BLE001 - whatever is wrong with one scheduler, it may come back
                    self._miss(error, events)
                    await self.host.clock.sleep(WATCH_PAUSE)
                    events.add(*self.flights)

    def _miss(self, error: Exception, events: AppEventStream) -> None:
        _log.warning("group %s: its jobs cannot be watched, and this is tried again: %s", self.settings.name, error)
        for flight in self.flights.values():
            if flight.handle not in events._core.watched:
                self._know_nothing(flight, AppStatus(AppState.UNKNOWN, msg=str(error), handle=flight.handle))

    def _note(self, event: AppEvent) -> None:
        flight = self.flights.get(event.handle)
        if flight is None:
            return
        status = event.current or AppStatus(AppState.UNKNOWN, msg=GONE, handle=event.handle)
        if event.is_terminal():
            self.landed(flight, judge(status, gone=event.gone, asked=flight.asked, late=flight.late))
            return
        if status.state is AppState.UNKNOWN:
            self._know_nothing(flight, status)
            return
        if flight.lost is not None:
            flight.lost.cancel()
            flight.lost = None
        flight.status = status
        if flight.job is not None:
            flight.job._last = status
            self._time(flight, flight.job, status.state)

    def _time(self, flight: Flight, job: Job, state: AppState) -> None:
        timeout = self.settings_of(job).timeout
        if state is AppState.RUNNING and timeout is not None and flight.deadline is None:
            flight.deadline = self.host.clock.call_later(timeout, partial(self._expire, flight, timeout))

    def _expire(self, flight: Flight, timeout: float) -> None:
        if not flight.asked:
            flight.late = timeout
            self.tasks.spawn(self.cancel([flight.handle]), "end of a job that took too long")

    def _know_nothing(self, flight: Flight, status: AppStatus) -> None:
        if flight.job is not None:
            flight.job._last = status
        if flight.lost is None:
            flight.lost = self.host.clock.call_later(UNKNOWN_FOR, partial(self._give_up, flight))

    def _give_up(self, flight: Flight) -> None:
        """Mark an attempt with an unknown state as failed, and cancel it, because it is no longer followed."""
        self.tasks.spawn(self.cancel([flight.handle]), "end of a job of which nothing is known")
        job = flight.job
        last = (job._last if job is not None else None) or AppStatus(AppState.UNKNOWN)
        why = f"nothing is known of it since {UNKNOWN_FOR:g} s: {last.msg}"
        if job is not None:
            self.lost.append(job)
        self.landed(flight, Verdict(End.FAILED, replace(last, state=AppState.UNKNOWN, msg=why)))

    def send_cancels(self, flights: Collection[Flight]) -> None:
        """Cancel attempts without waiting."""
        for flight in flights:
            flight.asked = True
        if flights:
            task = self.tasks.spawn(self.cancel([flight.handle for flight in flights]), "end of a group's jobs")
            self.cancels.add(task)
            task.add_done_callback(self.cancels.discard)

    async def cancel(self, handles: Collection[AppHandle]) -> None:
        """Cancel apps; log errors."""
        for handle, error in (await self.host.cancel(handles)).items():
            _log.warning("group %s: %s could not be cancelled: %s", self.settings.name, handle, error)

    @abc.abstractmethod
    def landed(self, flight: Flight, verdict: Verdict) -> None:
        """Record an attempt's end."""

    def forget(self, flight: Flight) -> None:
        """Stop following an attempt."""
        flight.rest()
        del self.flights[flight.handle]
        if self._events is not None:
            self._events.discard(flight.handle)
