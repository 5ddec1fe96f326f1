"""Start all replicas of an app, or none."""

from __future__ import annotations

import itertools
import os

from . import TYPE_CHECKING
from .between_fork_and_exec import Plan, Setup, become, describe, errno_of, search_path
from .exec_checks import check_arguments, variable_sizes
from .files import OpenedParents
from .formats import MARK, NOT_EXECUTED
from .host import start_time
from .process_tree import kill_group

if TYPE_CHECKING:
    from collections.abc import Callable

    from .app import App
    from .events import Loop
    from .limits import Limits
    from .ownership import Ownership
    from .replica import Replica

FORKS_PER_ROUND = 16
"""Forks in one round of the loop, so that the output of running apps is read in between."""


class LaunchError(Exception):
    """An app cannot start; the message names the replica and the reason.

    Args:
        why: The reason.
        code: The kind of error in the message.
        errno: The errno; 0 if there is none.
        ours: Whether the error concerns the supervisor, not the app.
    """

    def __init__(self, why: str, *, code: str = "refused", errno: int | None = 0, ours: bool = False) -> None:
        super().__init__(why)
        self._code, self._errno, self._ours = code, errno or 0, ours

    def told(self) -> dict[str, object]:
        """Return it as a message."""
        return {"error": self._code, "message": str(self), "errno": self._errno, "ours": self._ours}


class ReplicaLaunch:
    """Forks every replica up to its gate, and opens the gate when all have reported that they are ready.

    Args:
        loop: The worker's loop.
        app: The app to start; its directory exists.
        ownership: Registers the forked processes.
        null: The descriptor of their standard input.
        limits: The limits to restore in them.
        done: Called once, with None just before the gate opens, or with the reason why no replica has run.
    """

    def __init__(
        self,
        loop: Loop,
        app: App,
        *,
        ownership: Ownership,
        null: int,
        limits: Limits,
        done: Callable[[LaunchError | None], None],
    ) -> None:
        self._loop = loop
        self._app = app
        self._ownership = ownership
        self._done = done
        self._setup = Setup(null, limits)
        self._buffer = b""
        self._ready = 0
        self._is_open = False
        self._has_failed = False
        self._to_fork = iter(app.replicas)
        self._forked: set[Replica] = set()
        self._parents = OpenedParents(app.at)
        self._common_sizes: dict[str, int] | None = None
        self._found: set[tuple[str, ...]] = set()

    def start(self) -> None:
        """Begin; `done` is called from the loop, or from here if this fails at once."""
        self._step()

    def _step(self) -> None:
        """Fork some, and continue after a round of the loop."""
        if self._has_failed:
            return
        batch = list(itertools.islice(self._to_fork, FORKS_PER_ROUND))
        if not batch:
            self._all_forked()
            return
        try:
            self._fork(batch)
        except LaunchError as error:
            self.abort(error)
            return
        except Exception as error:  # noqa: BLE001 - the requester gets any error
            # So far the only directory of the user that was touched is the one for logs.
            self.abort(LaunchError(describe(error), errno=errno_of(error), ours=not batch[0].spec["logs"]))
            return
        self._loop.call_later(0, self._step)

    def _fork(self, batch: list[Replica]) -> None:
        # Do nothing else between two forks: each page that is written is copied.
        setup, env, pids = self._setup, self._app.env, list[int]()
        plans: list[Plan] = []
        try:
            plans.extend(map(self._plan, batch))  # if one fails, those before it are in the list too
            for plan in plans:
                pid = os.fork()
                if pid == 0:
                    become(setup, plan, env)
                pids.append(pid)
        finally:
            for replica, pid in zip(batch, pids, strict=False):
                self._enter(replica, pid)
            for plan in plans:
                for fd in plan.outputs:
                    os.close(fd)

    def _plan(self, replica: Replica) -> Plan:
        spec, mark = replica.spec, self._ownership.mark(replica)
        try:
            if self._common_sizes is None:
                self._common_sizes = variable_sizes(self._app.env)
            check_arguments(spec["argv"], {**replica.env, MARK: mark}, self._common_sizes)
        except (OSError, ValueError) as error:
            raise LaunchError(_cannot_start(replica, describe(error)), errno=errno_of(error)) from None
        program = *spec["argv"][:1], spec["cwd"], search_path(spec, self._app.env)
        finds_program = program not in self._found
        self._found.add(program)
        outputs = replica.open_log(self._app.at, self._parents)
        return Plan(replica.number, spec, outputs, self._ownership.tag(replica), mark, finds_program)

    def _enter(self, replica: Replica, pid: int) -> None:
        replica.pid = pid
        self._ownership.enter(replica)
        self._forked.add(replica)
        _make_group(pid)

    def _all_forked(self) -> None:
        self._parents.close()
        self._setup.close_childrens_ends()
        self._loop.add(self._setup.reports_read, self._on_report)

    def _on_report(self, _mask: int) -> int:
        self._read_reports()
        if self._ready == len(self._app.replicas) and not self._is_open and not self._has_failed:
            self._open()
        return 0

    def _read_reports(self) -> None:
        try:
            data = os.read(self._setup.reports_read, 65536)
        except BlockingIOError:
            return
        if not data:
            self._end_reports()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._reported(line.decode("utf-8", "replace"))

    def _end_reports(self) -> None:
        """Handle the end of the reports: every child has executed its program or ended."""
        self._loop.remove(self._setup.reports_read)
        self._setup.close()

    def _reported(self, line: str) -> None:
        which, code, problem = [*line.split(" ", 2), "", ""][:3]
        replica = self._app.replicas[int(which)]
        if not problem:
            self._ready += 1
        elif self._is_open:
            # It passed the checks but the kernel refused it: this one has failed, the others run.
            replica.problem = f"{NOT_EXECUTED}{problem}"
            self._app.changed()
        else:
            self.abort(LaunchError(_cannot_start(replica, problem), errno=int(code)))

    def ended(self, replica: Replica) -> None:
        """Handle the end of a child before the gate has opened."""
        self._forked.discard(replica)
        self._read_reports()  # it has probably reported the reason
        self.abort(LaunchError(_cannot_start(replica, "it ended during its setup"), ours=True))

    def _open(self) -> None:
        try:
            for replica in self._app.replicas:
                replica.start = start_time(replica.pid)
            self._app.mark_started()
        except LaunchError as error:
            self.abort(error)
            return
        except OSError as error:
            why = f"its processes cannot be identified: {error.strerror}"
            self.abort(LaunchError(why, errno=error.errno or 0, ours=True))
            return
        self._is_open = True
        self._app.begin()
        # Answer first: once the gate is open, hundreds of programs compete with this process for the processors.
        self._done(None)
        self._setup.open_gate(len(self._app.replicas))

    def abort(self, why: LaunchError) -> None:
        """Run no replica; no effect once the launch is decided."""
        if self._has_failed or self._is_open:
            return
        self._has_failed = True
        self._parents.close()
        # No user code runs before the gate, so no grace period is needed.
        for replica in self._forked:
            kill_group(replica.pid)
        self._loop.remove(self._setup.reports_read)
        self._setup.close()
        self._done(why)


def _cannot_start(replica: Replica, why: str) -> str:
    return f"replica {replica.role}/{replica.k} cannot start: {why}"


def _make_group(pid: int) -> None:
    """Make its process group, as the child also does: it must exist for both, whichever comes first."""
    try:
        os.setpgid(pid, pid)
    except OSError:
        pass  # it has ended already
