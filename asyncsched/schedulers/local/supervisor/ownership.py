"""Find the replica that each descendant process belongs to."""

from __future__ import annotations

import itertools
import os

from . import TYPE_CHECKING
from .formats import MARK
from .host import start_time, stat_fields
from .identity_tags import REPLICAS, first_tag, mark_name, marks_of, tag_of
from .process_tree import descendants

if TYPE_CHECKING:
    from collections.abc import Callable

    from .app import App
    from .replica import Replica


class Ownership:
    """The replicas, and the processes that remain when a replica's first process has ended.

    A process that loses its parent becomes a child of the supervisor. The mark in its environment identifies its
    replica or, if it cleared that, its tag or its process group.
    """

    def __init__(self) -> None:
        self._outer = os.environ.get(MARK, "")
        us = (os.getpid(), start_time(os.getpid()) or 0)
        self._us = mark_name(*us)
        self._first_tag = first_tag(*us)
        self._tags = itertools.cycle(range(REPLICAS))
        self._by_tag: dict[int, Replica] = {}
        self._by_pid: dict[int, Replica] = {}
        self._by_mark: dict[str, Replica] = {}
        self._by_group: dict[int, Replica] = {}
        # Adopted children; a number is not reused before the process is reaped.
        self._adopted: dict[int, Replica] = {}

    def mark(self, replica: Replica) -> str:
        """Return the mark for a replica's environment; a supervisor that is itself supervised extends its mark."""
        return f"{self._outer} {self._name(replica)}".strip()

    def tag(self, replica: Replica) -> int:
        """Return the tag for a replica that is about to be forked, and for all its descendants."""
        replica.tag = self._first_tag + next(self._tags)
        self._by_tag[replica.tag] = replica
        return replica.tag

    def _name(self, replica: Replica) -> str:
        return f"{self._us}{replica.app.serial}/{replica.number}"

    def enter(self, replica: Replica) -> None:
        """Register a replica that was just forked."""
        self._by_pid[replica.pid] = replica
        self._by_group[replica.pid] = replica
        self._by_mark[self._name(replica)] = replica

    def reaped(self, pid: int) -> Replica | None:
        """Return the replica whose first process this was, if any; its number is free from now on."""
        self._adopted.pop(pid, None)
        return self._by_pid.pop(pid, None)

    def forget(self, replica: Replica) -> None:
        """Remove a replica without remaining processes."""
        for table in (self._by_pid, self._by_group):
            if table.get(replica.pid) is replica:
                del table[replica.pid]
        self._by_mark.pop(self._name(replica), None)
        self._by_tag.pop(replica.tag, None)
        self._adopted = {pid: owner for pid, owner in self._adopted.items() if owner is not replica}

    @property
    def is_running(self) -> bool:
        """Whether the first process of any replica is running."""
        return bool(self._by_pid)

    def of(self, app: App) -> dict[Replica, list[int]]:
        """Return the processes of each replica of an app, including the first one."""
        found = self._walk(lambda top: (owner := self._whose(top)) is not None and owner.app is app)
        return {owner: pids for owner, pids in found.items() if owner is not None}

    def left_over(self) -> dict[Replica | None, list[int]]:
        """Return the processes left by replicas whose first process has ended; under None those of unknown replicas.

        Running replicas cost nothing.
        """
        return self._walk(lambda top: top not in self._by_pid)

    def _walk(self, wanted: Callable[[int], bool]) -> dict[Replica | None, list[int]]:
        found: dict[Replica | None, list[int]] = {}
        owners: dict[int, Replica | None] = {}
        for pid, top in descendants(os.getpid(), enter=wanted):
            if top not in owners:
                owners[top] = self._whose(top)
            found.setdefault(owners[top], []).append(pid)
        return found

    def _whose(self, top: int) -> Replica | None:
        """Return the replica that a child of ours belongs to."""
        owner = self._by_pid.get(top) or self._adopted.get(top) or self._look_up(top)
        if owner is not None and top not in self._by_pid:
            self._adopted[top] = owner
        return owner

    def _look_up(self, top: int) -> Replica | None:
        for name in marks_of(top):
            if name in self._by_mark:
                return self._by_mark[name]
        if (owner := self._by_tag.get(tag_of(top))) is not None:
            return owner
        try:
            fields = stat_fields(top)
        except OSError:
            return None
        return self._by_group.get(int(fields[2])) if fields is not None else None
