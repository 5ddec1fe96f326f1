"""Report the states of watched apps.

Each namespace has one watch per kind of object (jobs, pods, PodGroups), however many apps are watched there. The
server is asked only about apps that these watches have not seen, or whose pods lag behind their job.
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
"""Seconds between two checks of a waiting app: often only its events give the reason, and events are not watched."""
AT_ONCE = 50
"""Waiting apps that are checked together, or a tenth of them if that is more; changes meanwhile come after these."""
BETWEEN = 0.25
"""Seconds between two such batches."""


class _Namespace:
    """The reflectors of one namespace, kept while one of its apps is watched."""

    def __init__(
        self,
        jobs: Sequence[Reflector[JobRecord]],
        pods: Reflector[PodRecord],
        groups: Reflector[PodGroupRecord] | None,
        callback: Callable[[str], None],
    ) -> None:
        self._jobs, self._pods, self._groups = jobs, pods, groups
        every: list[Reflector[Any]] = [*jobs, pods, *([groups] if groups is not None else ())]
        self._ends = [each.subscribe("", callback) for each in every]
        self.apps: set[str] = set()

    async def ready(self) -> None:
        """Wait for the first lists.

        PodGroups and one of the two kinds of jobs may be missing: the user may lack the right to them, or the server
        may have moved them to another version.
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
        """Return the known objects of an app."""
        for reflector in self._jobs:
            if jobs := jobs_of_app(reflector.snapshot(name)):
                groups = self._groups.snapshot(name) if self._groups is not None else ()
                return FoundObjects(jobs, self._pods.snapshot(name), next(iter(groups), None), self._groups is not None)
        return FoundObjects()

    def close(self) -> None:
        """Unsubscribe from the reflectors."""
        for end in self._ends:
            end()


class Turns:
    """The waiting apps, and when to check each again.

    Args:
        clock: The time source.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}  # ordered by time

    def add(self, app_id: str) -> None:
        """Schedule checks of an app, the first in `LOOK_AGAIN` seconds."""
        self._due.setdefault(app_id, self._clock.monotonic() + LOOK_AGAIN)

    def discard(self, app_id: str) -> None:
        """Stop checking an app."""
        self._due.pop(app_id, None)

    def clear(self) -> None:
        """Stop checking all apps."""
        self._due.clear()

    @property
    def pause(self) -> float:
        """Seconds until the next check."""
        first = next(iter(self._due.values()), None)
        return LOOK_AGAIN if first is None else max(first - self._clock.monotonic(), BETWEEN)

    def take(self) -> list[str]:
        """Return the apps that are due, and schedule the next check of each."""
        now, most = self._clock.monotonic(), max(AT_ONCE, len(self._due) // 10)
        taken = [app_id for app_id, due in islice(self._due.items(), most) if due <= now]
        for app_id in taken:
            del self._due[app_id]
            self._due[app_id] = now + LOOK_AGAIN
        return taken


class States:
    """Reports changes of watched apps, and their states.

    Args:
        lookup: Asks the server about apps that the reflectors do not know.
        server: Knows which kinds of jobs the server has.
        reflectors: The source of changes.
        clock: The time source.
    """

    def __init__(self, lookup: KubernetesLookup, server: Server, reflectors: Reflectors, *, clock: Clock) -> None:
        self._lookup, self._server, self._reflectors, self._clock = lookup, server, reflectors, clock
        self._namespaces: dict[str, _Namespace] = {}
        self._waiting = Turns(clock)
        self._port: StatePort | None = None
        self._ahead: dict[str, AppState] = {}  # states from the server that no reflector has reached yet

    async def push(self, port: StatePort) -> None:
        """Report changes to a port until cancelled."""
        kinds = await self._server.kinds()

        def add(app_id: str) -> None:
            try:
                namespace, _ = names.split_app_id(app_id)
            except AsyncSchedError:
                return  # the sweep reports it
            if namespace not in self._namespaces:
                jobs = [self._reflectors.jobs(namespace, kind) for kind in kinds]
                groups = self._reflectors.pod_groups(namespace) if "volcano" in kinds else None
                callback = self._reporter(port, namespace)
                self._namespaces[namespace] = _Namespace(jobs, self._reflectors.pods(namespace), groups, callback)
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
        def report(name: str) -> None:
            there = self._namespaces.get(namespace)
            if name:
                port.changed(names.app_id(namespace, name))
            elif there is not None:
                port.changed(*there.apps)

        return report

    async def sweep(self, app_ids: Iterable[str]) -> AsyncGenerator[Answers]:
        """Yield the states of apps, from the reflectors of their namespace if there are some, else from the server."""
        others: list[str] = []
        by_namespace: dict[str, list[str]] = {}
        for app_id in app_ids:
            namespace = app_id.partition(":")[0]
            if namespace in self._namespaces:
                by_namespace.setdefault(namespace, []).append(app_id)
            else:
                others.append(app_id)
        for namespace, watched in by_namespace.items():
            answers, unsure = await self._in(namespace, watched)
            others += unsure
            yield answers
        async for answers in self._lookup.describe_all(others):
            self._note_ahead(answers)
            yield answers

    async def _in(self, namespace: str, app_ids: Sequence[str]) -> tuple[Answers, list[str]]:
        """Return the states that a namespace's reflectors know, and the apps to ask the server about."""
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
        """Remember states from the server: the watches of jobs and pods catch up later, each at its own pace."""
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
    """Return whether the pods lag behind their job: it has a separate watch, which may report its end first."""
    return answer.state.is_terminal() and not all(pod.ended for pod in found.pods)
