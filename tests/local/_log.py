"""A replica's log as the supervisor writes it, and readers of it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from asyncsched.clock import Clock
from asyncsched.logs import LogLine, LogOrigin, LogQuery
from asyncsched.logs.inotify import Follower
from asyncsched.logs.open_files import OpenFiles, open_directory
from asyncsched.schedulers.local.logs import STREAMS, LocalReplicaLog
from asyncsched.schedulers.local.logs_cursor import LogCursor
from asyncsched.schedulers.local.logs_files import LogFiles, OpenDirectory
from asyncsched.schedulers.local.logs_lines import StreamText
from asyncsched.schedulers.local.logs_reader import LogReader
from asyncsched.schedulers.local.supervisor.formats import COMBINED, RECORD, STDERR, STDOUT, index_name, log_name
from asyncsched.schedulers.local.supervisor.log_writer import LogDirs, Segments

ORIGIN = LogOrigin(app_id="app", role="worker", replica=0)


def elsewhere(write: Callable[[], object]) -> None:
    """Write as another process would: what it waits for does not count as ours."""
    thread = threading.Thread(target=write)
    thread.start()
    thread.join()


class Log:
    """A log in a directory.

    Args:
        place: Where; it is made if need be.
        merged: Whether both streams go into one.
        time_ns: The supervisor's clock.
    """

    def __init__(self, place: Path, *, merged: bool = False, time_ns: Callable[[], int] = time.time_ns) -> None:
        self.place = place
        place.parent.mkdir(parents=True, exist_ok=True)
        self._time_ns = time_ns
        self._above = os.open(place.parent, os.O_RDONLY)
        elsewhere(lambda: self._open((COMBINED,) if merged else (STDOUT, STDERR)))

    def _open(self, kinds: Sequence[int]) -> None:
        places = LogDirs(self._above, self.place.name, "")
        with places.make() as at:
            self.segments = Segments(places, at, kinds=kinds, limit=1 << 40, time_ns=self._time_ns)

    def write(self, *chunks: tuple[int, bytes]) -> None:
        elsewhere(lambda: [self.segments.add(kind, data) for kind, data in chunks])

    def out(self, *chunks: bytes) -> None:
        self.write(*((STDOUT, data) for data in chunks))

    def err(self, *chunks: bytes) -> None:
        self.write(*((STDERR, data) for data in chunks))

    def both(self, *chunks: bytes) -> None:
        self.write(*((COMBINED, data) for data in chunks))

    def end(self) -> None:
        elsewhere(self.segments.finish)

    def rotate(self) -> None:
        elsewhere(self.segments._rotate)

    def drop_oldest(self) -> None:
        elsewhere(self.segments.drop_oldest)

    def close(self) -> None:
        self.segments.close()
        os.close(self._above)

    def restamp(self, times: Sequence[int], segment: int = 0) -> None:
        """Give the records of a segment these times."""
        path = self.place / index_name(segment)
        records = [list(record) for record in RECORD.iter_unpack(path.read_bytes())]
        for record, ns in zip(records, times, strict=True):
            record[0] = ns
        with path.open("r+b") as file:
            file.write(b"".join(RECORD.pack(*record) for record in records))

    def output(self, kind: int, segment: int = 0) -> Path:
        return self.place / log_name(kind, segment)


def opening(place: Path) -> OpenDirectory:
    return partial(open_directory, str(place.parent), place.name)


def replica_log(
    place: Path, follower: Follower, *, origin: LogOrigin = ORIGIN, clock: Clock | None = None, **query: object
) -> LocalReplicaLog:
    asked = LogQuery(app_id=origin.app_id, **query)  # type: ignore[arg-type]  # what a test asks for
    return LocalReplicaLog(
        origin,
        open_index=opening(place),
        open_logs=None,
        query=asked,
        follower=follower,
        clock=clock,
    )


class Unwatched:
    """A watch that tells nothing: the reader's caller looks by itself."""

    def close(self) -> None: ...


class Reader:
    """Reads a log step by step, without a loop."""

    def __init__(
        self,
        place: Path,
        *,
        kinds: Sequence[int] = (STDOUT, STDERR, COMBINED),
        most: int = 8,
        files: type[LogFiles] = LogFiles,
        opens: Callable[[Path], OpenDirectory] = opening,
        **options: object,
    ) -> None:
        self.lines: list[LogLine] = []
        query = LogQuery(app_id="app", **options)  # type: ignore[arg-type]  # as above
        texts = {kind: StreamText(LogOrigin(app_id="app", role="worker", stream=STREAMS[kind])) for kind in kinds}
        self.files = files(opens(place), None, OpenFiles(most))
        self.cursor = LogCursor(self.files, texts, query, watch=lambda _: Unwatched())
        self.reader = LogReader(ORIGIN, self.cursor, texts, until_ns=query.until_ns)

    def read(self) -> list[LogLine]:
        """Read all there is by now, as after a notice, and return what is new."""
        self.cursor.noticed()
        return self.read_on()

    def read_on(self) -> list[LogLine]:
        """Read as long as that leads on, and return what is new."""
        new: list[LogLine] = []
        while True:
            for ready in self.reader.ready:
                while not ready.empty:
                    new += ready.take(7)
            self.reader.ready.clear()
            past = self.cursor.in_past
            if not self.reader.advance() and past == self.cursor.in_past and not self.reader.ready:
                break
        self.lines += new
        return new

    def close(self) -> list[LogLine]:
        self.reader.close()
        return self.lines


def read_all(place: Path, **options: object) -> list[LogLine]:
    reader = Reader(place, **options)  # type: ignore[arg-type]  # as above
    reader.read()
    return reader.close()
