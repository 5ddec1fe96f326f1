"""Tells the states of watched apps.

Each namespace has one watch for each kind of object (jobs, pods, PodGroups), however many apps are watched there. The
server is only asked about an app that these watches know nothing of, or whose pods they have not caught up with.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from asyncsched.clock import Clock
from asyncsched.errors import AsyncSchedError, NotFoundError, PermissionDeniedError, SchedulerError
from asyncsched.logs.loop_time import budget_of
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.changes import Reflector, Reflectors
from asyncsched.schedulers.kubernetes.lookup import FoundObjects, KubernetesLookup
from asyncsched.schedulers.kubernetes.lookup_server import Server
from asyncsched.schedulers.kubernetes.status import waits
from asyncsched.schedulers.kubernetes.status_jobs import JobRecord, PodGroupRecord, jobs_of_app
from asyncsched.schedulers.kubernetes.status_pods import PodRecord
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.schedulers.state_reports import Answers, StatePort, as_answer
from asyncsched.specs.state import AppState

__all__ = ["LOOK_AGAIN", "States", "Turns"]

LOOK_AGAIN = 5.0
"""Seconds between two looks at an app that waits: often only events, which nothing watches, tell what it waits for."""
AT_ONCE = 50
"""So many of them are looked at together, or a tenth of all: what changes in the meantime is told after these."""
BETWEEN = 0.25
"""Seconds between two such looks."""


class _Namespace:
    """The reflectors of one namespace, as long as one of its apps is watched."""

    def __init__(
        self,
        jobs: Sequence[Reflector[JobRecord]],
        pods: Reflector[PodRecord],
        groups: Reflector[PodGroupRecord] | None,
        told: Callable[[str], None],
    ) -> None:
        self._jobs, self._pods, self._groups = jobs, pods, groups
        every: list[Reflector[Any]] = [*jobs, pods, *([groups] if groups is not None else ())]
        self._ends = [each.subscribe("", told) for each in every]
        self.apps: set[str] = set()

    async def ready(self) -> None:
        """Wait for the first lists.

        The user may lack the right to PodGroups, and to one of the two kinds of jobs; either may be served in another
        version by now.
        """
        await self._pods.ready()
        refused: list[SchedulerError] = []
        for reflector in self._jobs:
            try:
                await reflector.ready()
            except (NotFoundError, PermissionDeniedError) as error:
                refused.append(error)
        if len(refused) == len(self._jobs):
            raise refused[-1]
        if self._groups is not None:
            with suppress(NotFoundError, PermissionDeniedError):
                await self._groups.ready()

    def find(self, name: str) -> FoundObjects:
        """Return what is known of an app."""
        for reflector in self._jobs:
            if jobs := jobs_of_app(reflector.snapshot(name)):
                groups = self._groups.snapshot(name) if self._groups is not None else ()
                return FoundObjects(jobs, self._pods.snapshot(name), next(iter(groups), None), self._groups is not None)
        return FoundObjects()

    def close(self) -> None:
        """Let go of the reflectors."""
        for end in self._ends:
            end()


class Turns:
    """The apps that wait, and when each is looked at again.

    Args:
        clock: Tells the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}  # in the order of their times

    def add(self, app_id: str) -> None:
        """Have an app looked at, from `LOOK_AGAIN` seconds after this on."""
        self._due.setdefault(app_id, self._clock.monotonic() + LOOK_AGAIN)

    def discard(self, app_id: str) -> None:
        """Look at an app no more."""
        self._due.pop(app_id, None)

    def clear(self) -> None:
        """Look at none any more."""
        self._due.clear()

    @property
    def pause(self) -> float:
        """Seconds until the next turn."""
        first = next(iter(self._due.values()), None)
        return LOOK_AGAIN if first is None else max(first - self._clock.monotonic(), BETWEEN)

    def take(self) -> list[str]:
        """Return the apps whose turn it is; each has its next one later."""
        now, most = self._clock.monotonic(), max(AT_ONCE, len(self._due) // 10)
        taken = [app_id for app_id, due in islice(self._due.items(), most) if due <= now]
        for app_id in taken:
            del self._due[app_id]
            self._due[app_id] = now + LOOK_AGAIN
        return taken


class States:
    """Reports changes of watched apps, and tells their states.

    Args:
        lookup: Asks the server for what the reflectors do not know.
        server: Tells which kinds of jobs there are.
        reflectors: Where changes come from.
        clock: Tells the time.
    """

    def __init__(self, lookup: KubernetesLookup, server: Server, reflectors: Reflectors, *, clock: Clock) -> None:
        self._lookup, self._server, self._reflectors, self._clock = lookup, server, reflectors, clock
        self._namespaces: dict[str, _Namespace] = {}
        self._waiting = Turns(clock)
        self._port: StatePort | None = None
        self._ahead: dict[str, AppState] = {}  # what the server told, where no reflector has got as far since

    async def push(self, port: StatePort) -> None:
        """Report changes to a port, until this is cancelled."""
        kinds = await self._server.kinds()

        def add(app_id: str) -> None:
            try:
                namespace, _ = names.split_app_id(app_id)
            except AsyncSchedError:
                return  # the sweep says so
            if namespace not in self._namespaces:
                jobs = [self._reflectors.jobs(namespace, kind) for kind in kinds]
                groups = self._reflectors.pod_groups(namespace) if "volcano" in kinds else None
                told = self._reporter(port, namespace)
                self._namespaces[namespace] = _Namespace(jobs, self._reflectors.pods(namespace), groups, told)
            self._namespaces[namespace].apps.add(app_id)

        def discard(app_id: str) -> None:
            self._waiting.discard(app_id)
            self._ahead.pop(app_id, None)
            namespace = app_id.partition(":")[0]
            if (there := self._namespaces.get(namespace)) is not None:
                there.apps.discard(app_id)
                if not there.apps:
                    self._namespaces.pop(namespace).close()

        port.on_add, port.on_discard = add, discard
        self._port = port
        try:
            for app_id in port.app_ids:
                add(app_id)
            port.connected()
            while True:
                await self._clock.sleep(self._waiting.pause)
                port.changed(*self._waiting.take())
        finally:
            self._port = None
            for each in self._namespaces.values():
                each.close()
            self._namespaces.clear()
            self._waiting.clear()
            self._ahead.clear()

    def _reporter(self, port: StatePort, namespace: str) -> Callable[[str], None]:
        def told(name: str) -> None:
            there = self._namespaces.get(namespace)
            if name:
                port.changed(names.app_id(namespace, name))
            elif there is not None:
                port.changed(*there.apps)

        return told

    async def sweep(self, app_ids: Iterable[str]) -> AsyncGenerator[Answers]:
        """Tell the states of apps: from the reflectors where some run, else from the server."""
        others: list[str] = []
        by_namespace: dict[str, list[str]] = {}
        for app_id in app_ids:
            namespace = app_id.partition(":")[0]
            if namespace in self._namespaces:
                by_namespace.setdefault(namespace, []).append(app_id)
            else:
                others.append(app_id)
        for namespace, them in by_namespace.items():
            told, unsure = await self._in(namespace, them)
            others += unsure
            yield told
        async for answers in self._lookup.describe_all(others):
            self._note_ahead(answers)
            yield answers

    async def _in(self, namespace: str, app_ids: Sequence[str]) -> tuple[Answers, list[str]]:
        """Return what the reflectors of a namespace tell, and the apps that the server has to be asked about."""
        there = self._namespaces[namespace]
        try:
            await there.ready()
        except AsyncSchedError as error:
            return dict.fromkeys(app_ids, as_answer(error)), []
        budget = budget_of(asyncio.get_running_loop())
        budget.begin()
        told: dict[str, DescribeAppResponse | AsyncSchedError | None] = {}
        unsure: list[str] = []
        for app_id in app_ids:
            found = there.find(app_id.partition(":")[2])
            answer = await self._lookup.told(app_id, found, later=self._changed)
            if answer is None or _is_behind(answer, found) or answer.state < self._ahead.get(app_id, answer.state):
                unsure.append(app_id)
            else:
                self._ahead.pop(app_id, None)
                told[app_id] = answer
                self._note_wait(app_id, found)
            await budget.breathe()
        return told, unsure

    def _note_ahead(self, answers: Answers) -> None:
        """Keep what the server told: of jobs and of pods watches tell one by one, and later."""
        for app_id, answer in answers.items():
            there = self._namespaces.get(app_id.partition(":")[0])
            if isinstance(answer, DescribeAppResponse) and there is not None and app_id in there.apps:
                self._ahead[app_id] = answer.state

    def _changed(self, app_id: str) -> None:
        if self._port is not None:
            self._port.changed(app_id)

    def _note_wait(self, app_id: str, found: FoundObjects) -> None:
        if waits(found.jobs, found.pods):
            self._waiting.add(app_id)
        else:
            self._waiting.discard(app_id)


def _is_behind(answer: DescribeAppResponse, found: FoundObjects) -> bool:
    """Tell whether the pods are older than their job: it has its own watch, which may tell of its end first."""
    return answer.state.is_terminal() and not all(pod.ended for pod in found.pods)
