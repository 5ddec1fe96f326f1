"""One app: its replicas, its end, and the record that others read."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from typing import Any, Protocol

from .files import DISK_FULL, write_atomic
from .layout import FORMAT, STATE
from .replica import Owner, Replica

LARGEST_SEGMENT = 64 << 20
SMALLEST_SEGMENT = 64 << 10
FORMAT_NAME = ".".join(map(str, FORMAT))


class AppOwner(Owner, Protocol):
    """What an app asks of the worker."""

    place: dict[str, str]
    identity: dict[str, Any]

    def app_changed(self, app: App) -> None:
        """Save the app's record and tell its watchers after this round."""

    def terminate(self, app: App, why: str) -> None:
        """Ask every process of the app to end, and see to it that it does."""


class App:
    """What was asked for, what has become of it, and how its end is brought about."""

    def __init__(self, owner: AppOwner, serial: int, spec: dict[str, Any], at: int) -> None:
        self._owner = owner
        self.serial = serial
        self.spec = spec
        self.at = at
        self.app_id: str = spec["app_id"]
        self.detach: bool = spec["detach"]
        self.grace_period: float = spec["grace_period"]
        self.merge_streams: bool = spec["merge_streams"]
        self.max_log_bytes: int = spec["max_log_bytes"]
        self.created_ns = time.time_ns()
        self.started_ns: int | None = None
        self.finished_ns: int | None = None
        self.ended_by = ""
        self.blames = ""
        self._deadline: float | None = None
        self._ended_segments: deque[tuple[Replica, int]] = deque()
        self._ended_bytes = 0
        self.replicas = [Replica(owner, self, number, each) for number, each in enumerate(spec["replicas"])]
        share = self.max_log_bytes // (4 * max(1, len(self.replicas)))
        self.segment_bytes = min(max(share, SMALLEST_SEGMENT), LARGEST_SEGMENT)

    @property
    def is_over(self) -> bool:
        """Whether every replica has ended and nothing of them is left."""
        return self.finished_ns is not None

    @property
    def is_ending(self) -> bool:
        """Whether its end has been asked for."""
        return bool(self.ended_by)

    def has_grace(self) -> bool:
        """Tell whether its processes are still given time to end by themselves."""
        return self._deadline is not None and time.monotonic() < self._deadline

    def start_ending(self, why: str) -> None:
        """Note who ends it, and until when its processes may take their time."""
        self.ended_by = why
        self._deadline = time.monotonic() + self.grace_period
        self.changed()

    def out_of_grace(self) -> None:
        """Give its processes no more time."""
        self._deadline = None

    def changed(self) -> None:
        """Have the record saved and the watchers told."""
        self._owner.app_changed(self)

    def replica_over(self, replica: Replica) -> None:
        """Take note that a replica is over, and of what that means for the others."""
        failed = replica.exit_code != 0
        if all(each.is_over for each in self.replicas):
            ends = [each.finished_ns or 0 for each in self.replicas]
            self.finished_ns = max(*ends, self.started_ns or 0, 0)
        self.changed()
        if failed and self.spec["on_failure"] == "stop" and not self.is_ending and not self.is_over:
            self.blames = f"{replica.role}/{replica.k}"
            self._owner.terminate(self, "stop")

    def segment_ended(self, replica: Replica, size: int) -> None:
        """Count a segment that will not grow any more, and drop the oldest beyond the bound."""
        self._ended_segments.append((replica, size))
        self._ended_bytes += size
        present = sum(each.log.size for each in self.replicas if each.log is not None)
        while self._ended_segments and self._ended_bytes + present > self.max_log_bytes - self.segment_bytes:
            oldest, size = self._ended_segments.popleft()
            self._ended_bytes -= size
            oldest.drop_oldest()

    def save(self) -> bool:
        """Replace the record on the disk; tell whether there was room for it."""
        data = json.dumps(self.record(), separators=(",", ":")).encode()
        try:
            write_atomic(STATE, data, at=self.at)
        except OSError as error:
            # The directory may have been removed under us; the app goes on without a record.
            return error.errno not in DISK_FULL
        return True

    def record(self) -> dict[str, Any]:
        """Return what is told of it, here and in the file."""
        return {
            "format": FORMAT_NAME,
            "app_id": self.app_id,
            "session": self.spec["session"],
            "name": self.spec["name"],
            "digest": self.spec["digest"],
            "place": self._owner.place,
            "supervisor": self._owner.identity,
            "detach": self.detach,
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

    def close(self) -> None:
        """Let go of everything that is open for it."""
        for replica in self.replicas:
            replica.close()
            if replica.log is not None:
                replica.log.release()
        os.close(self.at)
