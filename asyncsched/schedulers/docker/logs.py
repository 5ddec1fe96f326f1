"""Read a container's lines: its log, streamed from the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import TYPE_CHECKING

from asyncsched._typing import override
from asyncsched.errors import LogStreamError, SchedulerError
from asyncsched.logs.connection import ConnectionSource
from asyncsched.logs.line import LogLine
from asyncsched.schedulers.docker.logs_frames import FrameReader
from asyncsched.schedulers.docker.logs_resume import DISORDER, DockerResume
from asyncsched.schedulers.docker.status_containers import with_details
from asyncsched.specs.stream import Stream

if TYPE_CHECKING:
    from aiohttp import StreamReader

    from asyncsched._dockerd import Daemon
    from asyncsched.clock import Clock
    from asyncsched.logs.query import LogQuery
    from asyncsched.schedulers.docker.logs_attempts import ContainerRuns
    from asyncsched.schedulers.docker.status_containers import Container
    from asyncsched.specs.state import ReplicaStatus

__all__ = ["ContainerLog"]

_END = 4096
"""How many bytes of a stream's end are kept to compare with the log's end; most lines are shorter."""

_LONG_SEARCH = 2.0
"""Seconds after which a connection no longer waits for the daemon to find the position in the log."""


class ContainerLog(ConnectionSource):
    """Reads one container's log.

    The daemon ends a stream when the container ends, even if it will be restarted, and when the daemon itself is
    stopped; a reader cannot tell these apart. If ends are not marked, which reads faster, it cannot tell an end from a
    break either. So a log is over when its container has ended for good and the stream has delivered its last line.

    Args:
        daemon: The daemon that has the log.
        container: The container.
        query: The selection; the engine selects exactly, the daemon roughly.
        attempts: What is known of the container's runs.
        clock: Used for pauses.
        retry_for: Seconds of failures without progress after which the log fails.
    """

    def __init__(
        self,
        daemon: Daemon,
        container: Container,
        query: LogQuery,
        attempts: ContainerRuns,
        *,
        clock: Clock,
        retry_for: float,
    ) -> None:
        super().__init__(
            attempts.origin(Stream.COMBINED, 0),
            clock=clock,
            since_ns=query.since_ns,
            follow=query.tail,
            retry_for=retry_for,
            resume=(place := DockerResume(terminal=container.identity.terminal)),
        )
        self._place = place
        self._daemon = daemon
        self._container = container
        self._until_ns = query.until_ns
        self._attempts = attempts
        self._frames = self._new_frames()
        self._past = query.tail_lines is not None
        self._is_over = container.over
        self._parameters: dict[str, str] = {}
        self._marked = False  # whether the current stream marks its end, so that a break cannot look like it
        self._last_stream = False
        self._in_doubt = False
        self._fresh_before = 0
        self._end = b""

    @property
    @override
    def backlog(self) -> bool:
        return self._past

    @override
    def observe(self, status: ReplicaStatus) -> None:
        self._is_over = self._is_over or status.state.is_terminal()
        super().observe(status)

    @override
    def finish(self) -> None:
        if self._is_over:  # the open stream ends without help, however much there is to read
            self._follow = False
            self._told.set()
        else:
            super().finish()

    @override
    async def connect(self, since_ns: int | None) -> AsyncGenerator[bytes]:
        apart = self._place.apart
        if apart is None or self._place.begins:
            self._last_stream = self._is_over or not self.following
        follow = apart is None and not (self._last_stream or self._past)
        self._parameters = self._asked(since_ns, apart, follow=follow)
        self._marked = apart is not None or (
            not follow and (self._in_doubt or not self._is_over or "until" in self._parameters)
        )
        self._end = b""
        self._fresh_before = self._fresh
        try:
            async with AsyncExitStack() as open_stream:
                async with self._daemon.searches if self._resume.replaying else nullcontext():
                    stream = self._stream(self._parameters, end_is_marked=self._marked)
                    content = await open_stream.enter_async_context(stream)
                    chunk = await _soon(content) if self._resume.replaying else None
                # Not before it is open: it ends with the run that is the last one then, or with an earlier one.
                await self._attempts.learn(self._daemon, self._container)
                while chunk is None or chunk:
                    if chunk:
                        self._end = (self._end + chunk[-_END:])[-_END:]
                        yield chunk
                    chunk = await content.readany()
        except SchedulerError as error:
            raise await self._explained(error) from error

    @override
    def parse(self, data: bytes) -> Sequence[LogLine]:
        return self._frames.feed(data)

    @override
    def restart(self) -> None:
        self._frames = self._new_frames()

    @override
    def flush(self) -> Sequence[LogLine]:
        return self._frames.flush()

    @override
    async def over(self) -> bool:
        if self._frames.trouble:
            raise LogStreamError(
                f"cannot read the rest of the log of {self._container.name}",
                why=f"the daemon says: {self._frames.trouble}",
                fix="check the daemon's disk: the log's file is damaged there",
                backend=self._daemon.backend,
            )
        if self._place.apart is not None and not self._place.caught_up():
            if self._last_stream:
                self._lines.extend(self._new(self.flush()))
            return False
        if self._past:
            self._past = False
            self._wake()
        return self._last_stream if self._marked else await self._has_brought_all()

    async def _has_brought_all(self) -> bool:
        """Return whether a stream that ended without a mark ended with the log's last line."""
        try:
            if not self._is_over:
                inspected = await self._daemon.inspect_container(self._container.id, operation="log_iter")
                self._is_over = with_details(self._container, inspected).over
            if not self._is_over:
                return False
            async with self._stream({**self._parameters, "follow": "0", "tail": "1"}) as content:
                if self._end.endswith(await content.read()):
                    return True
        except SchedulerError:
            return False  # if the error persists, the next stream fails too
        self._in_doubt = self._fresh == self._fresh_before
        return False

    def _stream(
        self, parameters: Mapping[str, str], *, end_is_marked: bool = True
    ) -> AbstractAsyncContextManager[StreamReader]:
        return self._daemon.stream(
            f"containers/{self._container.id}/logs",
            parameters,
            what=f"cannot read the log of the container {self._container.name}",
            operation="log_iter",
            end_is_marked=end_is_marked,
        )

    def _new_frames(self) -> FrameReader:
        attempts, terminal = self._attempts, self._container.identity.terminal
        return FrameReader(attempts.origin, terminal=terminal, one_origin=attempts.one_origin)

    def _asked(self, since_ns: int | None, apart: Stream | None, *, follow: bool) -> dict[str, str]:
        parameters = {
            "stdout": "0" if apart is Stream.STDERR else "1",
            "stderr": "0" if apart is Stream.STDOUT else "1",
            "timestamps": "1",
            "follow": "1" if follow else "0",
        }
        if since_ns is not None:
            parameters["since"] = _stamp(since_ns)
        if self._until_ns is not None and not follow:
            # The daemon stops at the first later line, so leave room for lines out of order.
            parameters["until"] = _stamp(self._until_ns + DISORDER)
        return parameters

    async def _explained(self, error: SchedulerError) -> SchedulerError:
        if "does not support reading" not in error.why:
            return error
        inspected = await self._daemon.inspect_container(self._container.id, operation="log_iter")
        driver = inspected["HostConfig"]["LogConfig"]["Type"]
        return LogStreamError(
            f"cannot read the log of {self._container.name}",
            why=f"the daemon's log driver is {driver!r}, which does not keep logs",
            fix="configure the daemon with the log driver json-file, local or journald",
            backend=error.backend,
        )


async def _soon(content: StreamReader) -> bytes | None:
    """Return the first bytes of a stream, or None if they take too long."""
    try:
        async with asyncio.timeout(_LONG_SEARCH):
            return await content.readany()
    except TimeoutError:
        return None


def _stamp(ns: int) -> str:
    return f"{ns // 1_000_000_000}.{ns % 1_000_000_000:09d}"
