"""One app: its replicas, its end, and the record that others read."""

from __future__ import annotations

import errno
import itertools
import os
import time

from . import TYPE_CHECKING
from .bare import deque, dumps, ref
from .files import DISK_FULL, NOT_EMPTY, open_directory, remove_file, remove_opened, write_atomic
from .formats import FORMAT, STATE, WORKSPACE, unfinished_name
from .launch import LaunchError
from .process_tree import ask_to_end, kill, kill_group
from .replica import KILL_EVERY, Replica

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Protocol

    from .events import Loop
    from .launch import ReplicaLaunch
    from .ownership import Ownership

    class AppOwner(Protocol):
        """The worker, as its apps and replicas see it."""

        loop: Loop
        ownership: Ownership
        place: dict[str, str]
        identity: dict[str, Any]
        largest_file: int

        def look_again(self, replica: Replica) -> None:
            """Call `settle` after this round, with the remaining processes of the replica."""

        def app_changed(self, app: App) -> None:
            """Save the app's record and notify its watchers after this round."""


TAKEN = NOT_EMPTY | {errno.ENOTDIR}
"""Errors of a rename to a name that is in use."""

TIMEOUT = "timeout"
"""The cause of an end by the timeout."""

LARGEST_SEGMENT = 64 << 20
SMALLEST_SEGMENT = 4 << 10
FORMAT_NAME = ".".join(map(str, FORMAT))

_serial = itertools.count(1)


class App:
    """One app: its request, its state, and how it is ended.

    Attributes:
        launch: Starts it; None once it is running or has failed to start.
        at: The descriptor of its directory, once that exists.
    """

    def __init__(self, owner: AppOwner, spec: dict[str, Any]) -> None:
        self._owner = owner
        self.serial = next(_serial)
        self.spec = spec
        self.at = -1
        self.launch: ReplicaLaunch | None = None
        self.app_id: str = spec["app_id"]
        self.env: dict[str, str] = spec["env"]
        self.grace_period: float = spec["grace_period"]
        timeout: float | None = spec.get("timeout")  # a client of the first release does not know it
        self._timeout = None if timeout is None else float(timeout)
        self.merge_streams: bool = spec["merge_streams"]
        self.created_ns = time.time_ns()
        self.started_ns: int | None = None
        self.finished_ns: int | None = None
        self.revision = 0
        self.ended_by = ""
        self.blames = ""
        self._deadline = 0.0
        self._asked: set[int] = set()
        self._max_log_bytes: int = spec["max_log_bytes"]
        self._ended_segments: deque[tuple[Replica, int]] = deque()
        self._ended_bytes = 0
        # Segments being written take at most a quarter of the limit; the rest can be dropped.
        share = self._max_log_bytes // (4 * max(1, len(spec["replicas"])))
        self.segment_bytes = min(max(share, SMALLEST_SEGMENT), LARGEST_SEGMENT, owner.largest_file)
        self.replicas = [Replica(owner, self, number, each) for number, each in enumerate(spec["replicas"])]

    @property
    def is_over(self) -> bool:
        """Whether every replica has ended and none of their processes is left."""
        return self.finished_ns is not None

    @property
    def is_ending(self) -> bool:
        """Whether it is being ended."""
        return bool(self.ended_by)

    @property
    def has_grace(self) -> bool:
        """Whether its processes still have grace time."""
        return time.monotonic() < self._deadline

    def changed(self) -> None:
        """Have the record saved and the watchers notified."""
        self.revision += 1
        if self.started_ns is not None:
            self._owner.app_changed(self)

    # Its beginning

    def make_directory(self, apps_at: int) -> None:
        """Make its directory, with a record that shows other processes who is starting it.

        Raises:
            LaunchError: It exists already, or cannot be made.
        """
        name: str = self.spec["dir"]
        workspace: str = self.spec.get("workspace", "")  # a client of the first release does not know it
        if not self.replicas or "/" in name + workspace or name in ("", ".", "..") or workspace in (".", ".."):
            raise LaunchError("the app has no replicas or no directory")
        try:
            self._place(apps_at, workspace)
        except OSError as error:
            if error.errno in TAKEN:
                raise LaunchError(f"there is an app {self.app_id} already", code="exists") from None
            raise _unsaved(error, "the app's directory cannot be created") from None

    def _place(self, apps_at: int, workspace: str = "") -> None:
        """Put its directory in place, with the record already in it.

        It is made under another name and renamed. A directory made in place would be empty for a moment, like what a
        removal leaves of an earlier app; such an empty directory is replaced here.
        """
        name: str = self.spec["dir"]
        unfinished = unfinished_name(self._owner.identity["pid"], self._owner.identity["start"], self.serial, name)
        os.mkdir(unfinished, 0o700, dir_fd=apps_at)
        at = -1
        try:
            at = open_directory(unfinished, at=apps_at)
            write_atomic(STATE, self.encoded(), at=at)
            os.rename(unfinished, name, src_dir_fd=apps_at, dst_dir_fd=apps_at)
            unfinished = name
            if workspace:  # the submitter copied it; from here on it belongs to the app
                os.rename(workspace, WORKSPACE, src_dir_fd=apps_at, dst_dir_fd=at)
        except OSError:
            if at >= 0:
                remove_opened(at, unfinished, at=apps_at)
                os.close(at)
            else:
                os.rmdir(unfinished, dir_fd=apps_at)
            raise
        self.at = at

    def place_again(self, apps_at: int) -> None:
        """Make its directory again after it was removed, and continue its logs there.

        Raises:
            OSError: It cannot be made, or another app has been submitted there.
        """
        before = self.at
        self._place(apps_at)
        os.dup2(self.at, before, inheritable=False)  # its replicas refer to it by this number
        os.close(self.at)
        self.at = before
        for replica in self.replicas:
            replica.begin_log_anew()

    def mark_started(self) -> None:
        """Record that it runs, before it does.

        Raises:
            LaunchError: It cannot be written.
        """
        self.started_ns = time.time_ns()
        try:
            self.save()
        except OSError as error:
            self.started_ns = None
            raise _unsaved(error) from None

    def begin(self) -> None:
        """Read the output of its replicas from now on."""
        for replica in self.replicas:
            replica.begin()
        if self._timeout is not None:
            app = ref(self)  # the app may end long before, and this must not keep it alive
            self._owner.loop.call_later(self._timeout, lambda: _time_out(app()))

    # Its end

    def terminate(self, why: str, *, grace: bool = True) -> None:
        """End every process of the app, at once without `grace`.

        An app that is already ending keeps its grace time, unless this call has no `grace`.
        """
        if self.is_over or self.started_ns is None:
            return
        if not self.is_ending:
            self._start_ending(why)
        elif self.ended_by in ("stop", TIMEOUT) and why == "cancel":
            self._cancel_instead()
        if not grace:
            self._kill(KILL_EVERY[0])

    def _cancel_instead(self) -> None:
        """Turn an app that was ending by itself into a cancelled one."""
        self.ended_by = "cancel"
        for each in self.replicas:
            if each.timed_out and not each.has_exited:
                each.problem, each.timed_out, each.stopped = "", False, True
        self.changed()

    def time_out(self) -> None:
        """End the replicas that exceeded the timeout."""
        live = [each for each in self.replicas if not each.has_exited]
        if self.is_ending or not live:
            return
        for each in live:
            each.timed_out, each.problem = True, f"ran longer than its timeout of {self._timeout:g} s"
        self.terminate(TIMEOUT)

    def _start_ending(self, why: str) -> None:
        live = [each for each in self.replicas if not each.has_exited]
        for each in live:
            each.stopped = not each.timed_out
        self.ended_by = why
        self._deadline = time.monotonic() + self.grace_period
        found = self._owner.ownership.of(self)
        self._asked.update(pid for pids in found.values() for pid in pids)
        ask_to_end([each.pid for each in live], self._asked)
        self._owner.loop.call_later(self.grace_period, lambda: self._kill(KILL_EVERY[0]))
        self.changed()
        for each in self.replicas:
            self._owner.look_again(each)

    def ask(self, pids: Iterable[int]) -> None:
        """Send TERM to processes that appeared after the others got it."""
        new = set(pids) - self._asked
        self._asked |= new
        ask_to_end((), new)

    def _kill(self, look_after: float) -> None:
        """Kill every process, and repeat until none is left that can be killed."""
        self._deadline = 0.0
        if self.is_over:
            return
        found = self._owner.ownership.of(self)
        for replica in self.replicas:
            if not replica.has_exited:
                kill_group(replica.pid)
            self._owner.look_again(replica)
        if kill(pid for pids in found.values() for pid in pids):
            self._owner.loop.call_later(look_after, lambda: self._kill(min(2 * look_after, KILL_EVERY[1])))

    def replica_exited(self, replica: Replica) -> None:
        """Handle the end of a replica's first process, which may stop the others."""
        self.changed()
        failed = replica.exit_code != 0
        if failed and self.spec["on_failure"] == "stop" and not self.is_ending and self.started_ns is not None:
            self.blames = f"{replica.role}/{replica.k}"
            self.terminate("stop")

    def replica_over(self) -> None:
        """Handle the end of a replica."""
        if all(each.is_over for each in self.replicas):
            self.finished_ns = max(self.started_ns or 0, *(each.finished_ns or 0 for each in self.replicas))
        self.changed()

    # Its log

    def segment_ended(self, replica: Replica, size: int) -> None:
        """Count a finished segment, and drop the oldest ones beyond the limit."""
        self._ended_segments.append((replica, size))
        self._ended_bytes += size
        growing = len(self.replicas) * self.segment_bytes
        while self._ended_segments and self._ended_bytes + growing > self._max_log_bytes:
            oldest, size = self._ended_segments.popleft()
            self._ended_bytes -= size
            oldest.drop_oldest()

    # Its record

    def save(self) -> None:
        """Replace the record on the disk; on OSError the old record remains."""
        write_atomic(STATE, self.encoded(), at=self.at)

    def encoded(self) -> bytes:
        """Return the record as JSON."""
        return dumps(self.record())

    def record(self) -> dict[str, Any]:
        """Return its record, for messages and for the file."""
        return {
            "format": FORMAT_NAME,
            "app_id": self.app_id,
            "revision": self.revision,
            "session": self.spec["session"],
            "name": self.spec["name"],
            "digest": self.spec["digest"],
            "place": self._owner.place,
            "supervisor": self._owner.identity,
            "detach": self.spec["detach"],
            "merge_streams": self.merge_streams,
            "created_ns": self.created_ns,
            "started_ns": self.started_ns,
            "finished_ns": self.finished_ns,
            "ended_by": self.ended_by,
            "blames": self.blames,
            "disk_full": any(each.waits_for_disk for each in self.replicas),
            "log_dir": self.spec["log_dir"],
            "spec": self.spec["spec"],
            "replicas": [each.record() for each in self.replicas],
        }

    def remove(self, apps_at: int) -> None:
        """Remove everything made for an app that has run no code."""
        for replica in self.replicas:
            replica.close()  # removing needs descriptors, and no others may be left
        for replica in reversed(self.replicas):
            replica.remove_log()  # the first made the directories that the others share
        try:
            remove_file(STATE, at=self.at)
            remove_opened(self.at, self.spec["dir"], at=apps_at)
        except OSError:
            pass  # nothing has started in what is left, and this process has other apps

    def close(self) -> None:
        """Close everything that is open for it."""
        for replica in self.replicas:
            replica.close()
        if self.at >= 0:
            os.close(self.at)
            self.at = -1


def _time_out(app: App | None) -> None:
    if app is not None:
        app.time_out()


def _unsaved(error: OSError, what: str = "its record cannot be written") -> LaunchError:
    if error.errno in DISK_FULL:
        return LaunchError("no space left on the disk of the state directory", errno=error.errno, ours=True)
    return LaunchError(f"{what}: {error.strerror}", errno=error.errno, ours=True)
