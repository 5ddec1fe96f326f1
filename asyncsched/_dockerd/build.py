"""Builds: the daemon makes an image from a context that is streamed to it, with BuildKit or the classic builder.

Both builders are behind ``/build``, and both take a plain tar archive as the body of the request. BuildKit needs no
session for that. Secrets and SSH keys do need one; a build that uses them fails with an error that says so.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from asyncsched._dockerd.client import Daemon
from asyncsched._dockerd.images import inspect_image, list_labelled, remove_image, tag_image
from asyncsched._dockerd.trace import Trace, read_trace
from asyncsched._tasks import outlast
from asyncsched.errors import AsyncSchedError, ConflictError, NotFoundError, SchedulerError, WorkspaceError
from asyncsched.specs.image_progress import ImageProgress

__all__ = ["BUILD_LABEL", "Build", "Reader", "build_image", "closed"]

_log = logging.getLogger("asyncsched.dockerd")

BUILD_LABEL = "asyncsched.build"
"""The label of everything that one build makes: an interrupted builder may leave an image without telling its id."""

_LAST_LINES = 20
_LONGEST_LINE = 4096
_CLEANUP = 10.0
_TRACE, _IMAGE = "moby.buildkit.trace", "moby.image.id"
_STEP = re.compile(r"Step \d+/\d+ : (?P<instruction>\S+)")
_RESULT = re.compile(r" ---> (?P<id>[0-9a-f]{12,64})$")
_RUNNING = re.compile(r" ---> Running in (?P<id>[0-9a-f]{12,64})$")
_OWN = re.compile(r"Step \d+/\d+ : | ---> |Removing intermediate container |Successfully ")
"""How the classic builder's own lines begin: each is a new line, even if a command's last line has no end."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_WRAPPING = re.compile(r"^(failed to solve( with frontend [\w.]+)?: |failed to create LLB definition: )+")


async def build_image(
    daemon: Daemon,
    name: str,
    context: Callable[[], AsyncGenerator[bytes]],
    *,
    dockerfile: str,
    build_args: Mapping[str, str],
    labels: Mapping[str, str],
    platform: str | None = None,
    network: str | None = None,
    buildkit: bool = True,
    on_progress: Callable[[ImageProgress], None],
    operation: str = "submit",
) -> str:
    """Build an image, tag it, and return its id. Cancelling before its end leaves neither an image nor a container.

    Args:
        daemon: The daemon that builds the image.
        name: The image's name and tag.
        context: Returns a new stream of the context's tar archive; called again after a broken connection.
        dockerfile: The path of the Dockerfile in the archive.
        build_args: The build arguments.
        labels: Labels of the image.
        platform: The platform to build for, such as ``linux/arm64``; by default the daemon's.
        network: The network of RUN instructions; by default the daemon's.
        buildkit: Whether to use BuildKit instead of the classic builder.
        on_progress: Called with each line that the builder writes.
        operation: The operation that errors name.

    Raises:
        WorkspaceError: The build failed; the message has the builder's last lines.
        SchedulerError: The daemon cannot be reached.
    """
    build = secrets.token_hex(16)
    params = {
        "version": "2" if buildkit else "1",
        "dockerfile": dockerfile,
        "buildargs": json.dumps(dict(build_args)),
        "labels": json.dumps({**labels, BUILD_LABEL: build}),
        "buildid": build,
        "rm": "1",
        "forcerm": "1",
        **({"platform": platform} if platform else {}),
        **({"networkmode": network} if network else {}),
    }
    reader = _BuildKit(name, on_progress) if buildkit else _Classic(name, on_progress)
    return await Build(daemon, name, context, params, reader, operation).run()


class Reader:
    """Reads a builder's records.

    Attributes:
        lines: The last lines of output.
        image: The image's id, once it is built.
        made: The ids of images that this build has added, as far as the builder tells them.
        container: The id of the container that runs now, if the builder tells it.
    """

    def __init__(self, name: str, on_progress: Callable[[ImageProgress], None]) -> None:
        self._name, self._on_progress = name, on_progress
        self.lines: deque[str] = deque(maxlen=_LAST_LINES)
        self.image = ""
        self.made: list[str] = []
        self.container = ""
        self._begun: dict[object, str] = {}  # lines that have no end yet, by their source

    def read(self, record: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def say(self, text: str, source: object = None) -> None:
        """Report the lines of a text; if its last line has no end, the source's next text continues it."""
        *whole, begun = (self._begun.pop(source, "") + _COLOUR.sub("", text)).replace("\r", "\n").split("\n")
        if begun:
            self._begun[source] = begun[-_LONGEST_LINE:]
        for line in whole:
            self._tell(line[-_LONGEST_LINE:].rstrip())

    def finish(self) -> None:
        """Report the lines that have no end."""
        for line in self._begun.values():
            self._tell(line.rstrip())
        self._begun.clear()

    def _tell(self, line: str) -> None:
        if line:
            self.lines.append(line)
            self._on_progress(ImageProgress(image=self._name, status=line))

    def transferred(self, size: int) -> None:
        self._on_progress(ImageProgress(image=self._name, status="Sending the workspace", current=size))


class _Classic(Reader):
    """Reads the classic builder's lines. Each of its steps makes an image, and a RUN makes a container."""

    def __init__(self, name: str, on_progress: Callable[[ImageProgress], None]) -> None:
        super().__init__(name, on_progress)
        self._is_ours = False  # whether the current step makes a new image

    def read(self, record: Mapping[str, Any]) -> None:
        text = str(record.get("stream", ""))
        if step := _STEP.match(text):
            self._is_ours = step["instruction"].upper() != "FROM"
        elif "Using cache" in text:
            self._is_ours = False
        elif running := _RUNNING.match(text.rstrip()):
            self.container = running["id"]
        elif result := _RESULT.match(text.rstrip()):
            self.container = ""
            if self._is_ours:
                self.made.append(result["id"])
        aux: Any = record.get("aux")
        if isinstance(aux, dict) and "ID" in aux:
            self.image = str(aux["ID"])  # pyright: ignore[reportUnknownArgumentType] - any JSON
        if _OWN.match(text):
            self.finish()
        self.say(text, "stderr" if text.startswith("\x1b") else "stdout")


class _BuildKit(Reader):
    """Reads BuildKit's records of its steps."""

    def __init__(self, name: str, on_progress: Callable[[ImageProgress], None]) -> None:
        super().__init__(name, on_progress)
        self._told: set[str] = set()

    def read(self, record: Mapping[str, Any]) -> None:
        if record.get("id") == _TRACE:
            for trace in read_trace(base64.b64decode(record["aux"])):
                self._read_trace(trace)
        elif record.get("id") == _IMAGE:
            self.image = str(record["aux"]["ID"])
            self.made.append(self.image)

    def _read_trace(self, trace: Trace) -> None:
        if trace.name and trace.started and trace.step not in self._told:
            self._told.add(trace.step)
            self.say(f"{trace.name}{' (cached)' if trace.cached else ''}\n")
        self.say(trace.output.decode(errors="replace"), (trace.step, trace.stream))


class Build:
    """A build in progress; nothing of it is left if it is cancelled.

    Args:
        daemon: The daemon that builds.
        name: The image's name and tag.
        context: Returns a new stream of the context's archive.
        params: The request's parameters; `buildid` is the value of the label of everything that the build makes.
        reader: Reads the daemon's records.
        operation: The operation that errors name.
    """

    def __init__(
        self,
        daemon: Daemon,
        name: str,
        context: Callable[[], AsyncGenerator[bytes]],
        params: Mapping[str, str],
        reader: Reader,
        operation: str,
    ) -> None:
        self._daemon, self._name, self._context, self._reader = daemon, name, context, reader
        self._operation = operation
        self._what = f"cannot build the image {name}"
        self._params = params
        self._can_cut = True  # whether the daemon stops when the connection is cut
        self._is_named = False  # true as soon as the tag was requested
        self._is_given_up = False
        self._broken: Exception | None = None  # the error of the context
        self._task: asyncio.Task[None] | None = None

    async def run(self) -> str:
        self._task = asyncio.create_task(self._build_and_name())
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            if self._broken is not None and self._task.cancelled():
                raise self._broken from None
            await self._undo(self._task)
            raise
        except SchedulerError as error:
            raise self._failed(error) from error
        return self._reader.image

    async def _build_and_name(self) -> None:
        await self._daemon.repeated(self._request)
        if not self._is_given_up:
            self._is_named = True
            await tag_image(self._daemon, self._reader.image, self._name, operation=self._operation)

    async def _request(self) -> None:
        self._can_cut = True  # the daemon makes nothing before it has the whole context
        body = self._body()
        headers = {"Content-Type": "application/x-tar"}
        what, operation = self._what, self._operation
        try:
            async with self._daemon.progress(
                "build", self._params, headers, what=what, operation=operation, body=body
            ) as records:
                async for record in records:
                    self._reader.read(record)
                    if self._is_given_up:
                        await self._interrupt()
        finally:
            self._reader.finish()
            await closed(body)
        if not self._reader.image:
            raise SchedulerError(
                what,
                why="the builder's answer was cut off",
                backend=self._daemon.backend,
                operation=operation,
                retryable=True,
            )

    async def _body(self) -> AsyncGenerator[bytes]:
        """Yield the context; an error in it ends the request, which would otherwise wait for more forever."""
        size = 0
        try:
            async with aclosing(self._context()) as pieces:
                async for piece in pieces:
                    yield piece
                    size += len(piece)
                    self._reader.transferred(size)
        except Exception as error:
            self._broken = error
            assert self._task is not None
            self._task.cancel()
            raise
        self._can_cut = False

    def _failed(self, error: SchedulerError) -> AsyncSchedError:
        if error.what != self._what:  # not from the build itself
            return error
        text = _WRAPPING.sub("", error.why)
        fix = "correct the Dockerfile or the workspace"
        if "no active session" in text or "unset secret" in text.lower():
            fix = "secrets and SSH keys need a session: build the image with `docker build`, and name it in the role"
        lines = [line for line in self._reader.lines if line not in text.splitlines()]
        why = "\n  ".join([f"{text}; the builder's last lines:", *lines]) if lines else text
        return WorkspaceError(self._what, why=why, fix=("\n" if lines else "") + fix)

    # Cancellation

    async def _undo(self, task: asyncio.Task[None]) -> None:
        """End the build and remove what it has made, even if this is cancelled again."""
        undoing = asyncio.create_task(self._remove(task))
        try:
            await outlast([undoing], _CLEANUP)
        except asyncio.CancelledError:
            pass  # `outlast` has waited all the same, and the caller raises the first cancellation
        if not undoing.done():
            undoing.cancel()
            task.cancel()  # closes the connection, which ends the build too, but later
            await asyncio.wait([undoing, task], timeout=1.0)
            _log.warning("the build of %s did not end within %g s: parts of it may be left", self._name, _CLEANUP)
        elif (error := undoing.exception()) is not None:
            _log.warning("parts of the build of %s may be left: %s", self._name, error)

    async def _remove(self, task: asyncio.Task[None]) -> None:
        if not task.done():
            self._is_given_up = True
            if self._can_cut:
                task.cancel()
            else:
                await self._interrupt()
            await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        named = await inspect_image(self._daemon, self._name, operation=self._operation) if self._is_named else None
        if named is not None and named["Id"] == self._reader.image:
            await remove_image(self._daemon, self._name, operation=self._operation)
        untold = await list_labelled(
            self._daemon, f"{BUILD_LABEL}={self._params['buildid']}", operation=self._operation
        )
        for image in dict.fromkeys([*untold, *reversed(self._reader.made)]):
            await remove_image(self._daemon, image, unnamed=True, operation=self._operation)

    async def _interrupt(self) -> None:
        """Ask the daemon to end the build: a closed connection would not show when it has ended."""
        if self._params["version"] == "2":
            path, params = "build/cancel", {"id": self._params["buildid"]}
            what = f"cannot end the build of {self._name}"
            async with self._daemon.progress(path, params, {}, what=what, operation=self._operation) as records:
                async for _ in records:
                    pass
        elif self._reader.container:
            try:
                await self._daemon.kill_container(self._reader.container, operation=self._operation)
            except (ConflictError, NotFoundError):
                pass  # the build has ended


async def closed(body: AsyncGenerator[bytes]) -> None:
    """Close the generator of a request's body if the request no longer reads it."""
    try:
        await body.aclose()
    except RuntimeError:
        pass  # aiohttp is still reading it, and closes it when it notices that the request has ended
