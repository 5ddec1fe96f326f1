"""Call the API server with deadlines, retries, renewed credentials and paged lists.

kubernetes_asyncio finds the cluster (`client_config`); the calls go straight through aiohttp. The SDK's calls would
parse every object into models (six seconds of the loop for five thousand pods), buffer two megabytes per slow stream,
share a hundred connections between streams and calls, and neither check nor retry anything.
"""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from asyncsched._typing import NamedTuple
from asyncsched.clock import Clock
from asyncsched.errors import AsyncSchedError, ClosedError, SchedulerError, ThrottledError
from asyncsched.logs.backoff import Backoff
from asyncsched.schedulers.kubernetes.client_config import ClusterTarget, ConfigSource
from asyncsched.schedulers.kubernetes.client_credentials import CallAccess, ClusterCredentials
from asyncsched.schedulers.kubernetes.client_discovery import Discovery
from asyncsched.schedulers.kubernetes.client_json import as_object, read_list
from asyncsched.schedulers.kubernetes.client_ready import JUST_STARTED, Readiness
from asyncsched.schedulers.kubernetes.client_wire import (
    STREAM_BUFFER,
    TLS_OF_CALL,
    TLS_OF_STREAM,
    APICall,
    ByteStream,
    open_session,
    read_refusal,
    send,
)
from asyncsched.schedulers.kubernetes.errors import (
    ApiFailure,
    failure_of,
    is_certificate_trouble,
    is_expired,
    translate,
)

if TYPE_CHECKING:
    import aiohttp

__all__ = ["Answer", "ByteStream", "KubeClient", "Page"]

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

AT_ONCE = 32
"""Most calls in flight; others wait. Streams do not count."""
PAGE = 500
"""Objects per page of a list."""
LARGE_BODY = 256 << 10
"""A body of at least this many bytes is encoded and parsed in a worker thread."""
UNREACHED_FOR = 0.5
"""Seconds to retry a server that has never answered: it is more likely absent than still starting."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer with a status below 400.

    Attributes:
        status: The HTTP status.
        headers: The headers, with case-insensitive names.
        json: The parsed body; None if it is empty.
    """

    status: int
    headers: Mapping[str, str]
    json: Any


class Page(NamedTuple, Generic[ItemT]):
    """A page of a list.

    Attributes:
        items: What `read` returned for each item, without the Nones.
        resource_version: The version from which a watch continues.
        next: The token of the next page; empty on the last page.
    """

    items: list[ItemT]
    resource_version: str
    next: str


class KubeClient:
    """A client of one cluster, as one user. Nothing is read or imported before the first call.

    It belongs to the loop of its first call. Calls and streams use separate connections, so open streams never delay
    a call.

    Args:
        source: Where to look for the cluster.
        clock: The time source.
        request_timeout: Most seconds for one try of a call.
        retry_for: Seconds for which a failed call is retried.

    Attributes:
        discovery: The server's version and resources.
    """

    def __init__(
        self, source: ConfigSource, *, clock: Clock, request_timeout: float = 30.0, retry_for: float = 60.0
    ) -> None:
        self._clock = clock
        self._request_timeout = request_timeout
        self._retry_for = retry_for
        self._credentials = ClusterCredentials(source, clock=clock, plugin_timeout=max(request_timeout, 60.0))
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._opening = asyncio.Lock()
        self._sessions: tuple[aiohttp.ClientSession, aiohttp.ClientSession] | None = None
        self._has_answered = False
        self._readiness = Readiness(clock)
        self._closed = False
        self.discovery = Discovery(self._get, clock=clock)
        self.calls = 0
        self.streams = 0

    def __repr__(self) -> str:
        target = self._credentials.target
        state = "closed" if self._closed else f"{self.streams} streams" if self._sessions else "not connected"
        return f"<KubeClient of {target.peer if target is not None else 'an unknown cluster'}, {state}>"

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | list[Any] | None = None,
        accept: str | None = None,
        content_type: str | None = None,
        is_large: bool = False,
        idempotent: bool = False,
        operation: str = "",
    ) -> Answer:
        """Make a call; retry it until it succeeds, is refused, or `retry_for` has passed.

        GET is always retried. Other methods are retried with `idempotent`, or if the server answers 429: it has not
        started the work then.

        Args:
            method: ``GET``, ``POST``, ``PATCH`` or ``DELETE``.
            path: Such as ``/api/v1/namespaces/default/pods``; the caller quotes its parts.
            query: Parameters of the URL.
            body: The JSON body to send.
            accept: The type of the answer; JSON by default.
            content_type: The type of the body; JSON by default.
            is_large: Whether the body may have `LARGE_BODY` bytes or more.
            idempotent: Whether repeating the call is safe.
            operation: The operation to name in errors: ``submit``, ``describe`` ...

        Raises:
            SchedulerError: The call was refused; `failure_of` returns the server's answer.
        """
        data = None
        if body is not None:
            data = await asyncio.to_thread(_dumped, body) if is_large else _dumped(body)
        headers = {"Accept": accept or "application/json"}
        if data is not None:
            headers["Content-Type"] = content_type or "application/json"

        async def once() -> Answer:
            response, whole = await self._whole(APICall(method, path, query, data, headers, operation))
            parsed = await self._parsed(whole, json.loads, operation) if whole else None
            return Answer(response.status, response.headers, parsed)

        return await self._repeated(once, repeats=idempotent or method == "GET")

    async def page(
        self,
        path: str,
        read: Callable[[Mapping[str, Any]], ItemT | None],
        *,
        query: Mapping[str, str] | None = None,
        accept: str | None = None,
        operation: str = "",
    ) -> Page[ItemT]:
        """Get one page of a list; items are parsed one at a time, so the tree of a whole page is never built.

        `read` runs in a worker thread if the page is large.
        """
        headers = {"Accept": accept or "application/json"}

        async def once() -> Page[ItemT]:
            _, whole = await self._whole(APICall("GET", path, query, None, headers, operation))
            items, others = await self._parsed(whole, lambda text: read_list(text, read), operation)
            metadata = as_object(others.get("metadata"))
            version, rest = metadata.get("resourceVersion"), metadata.get("continue")
            return Page(items, str(version or ""), str(rest or ""))

        return await self._repeated(once, repeats=True)

    async def items(
        self,
        path: str,
        read: Callable[[Mapping[str, Any]], ItemT | None],
        *,
        query: Mapping[str, str] | None = None,
        most_pages: int | None = None,
        operation: str = "",
    ) -> Page[ItemT]:
        """Get a list page by page, or in one piece if its continue token expires."""
        asked, found, pages = {**(query or {}), "limit": str(PAGE)}, list[ItemT](), 0
        while True:
            try:
                page = await self.page(path, read, query=asked, operation=operation)
            except SchedulerError as error:
                if not is_expired(error) or "continue" not in asked:
                    raise
                return await self.page(path, read, query=query, operation=operation)
            found, pages = found + page.items, pages + 1
            if not page.next or pages == most_pages:
                return Page(found, page.resource_version, page.next)
            asked["continue"] = page.next

    def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, operation: str = "log_iter"
    ) -> AbstractAsyncContextManager[ByteStream]:
        """Open a stream (a log, a watch); it is retried only if the token has expired.

        Raises:
            SchedulerError: It was refused, or the server cannot be reached; `failure_of` returns the server's answer.
        """
        return self._stream(path, query, operation)

    @property
    def place(self) -> str:
        """The context and the server, once they are known."""
        target = self._credentials.target
        return "" if target is None else str(target.peer)

    async def target(self) -> ClusterTarget:
        """Return the cluster, with the namespace of its context."""
        return (await self._credentials.access()).target

    async def close(self) -> None:
        """Close every connection; later calls raise ClosedError."""
        self._closed = True
        await self.discovery.close()
        sessions, self._sessions = self._sessions, None
        for session in sessions or ():
            await session.close()

    # One call

    async def _get(self, path: str) -> Any:
        return (await self.request("GET", path, operation="connect")).json

    async def _repeated(self, once: Callable[[], Awaitable[ResultT]], *, repeats: bool) -> ResultT:
        short = min(self._retry_for, UNREACHED_FOR)
        with Backoff(self._clock, retry_for=self._retry_for if self._has_answered else short, shortest=0.25) as backoff:
            while True:
                try:
                    return await once()
                except SchedulerError as error:
                    if is_expired(error) or not (repeats or isinstance(error, ThrottledError)):
                        raise
                    if failure_of(error) is JUST_STARTED:
                        backoff.retry_for = self._retry_for
                    pause = backoff.failed(error)
                await self._clock.sleep(pause)

    async def _whole(self, call: APICall) -> tuple[aiohttp.ClientResponse, bytes]:
        """Make a call once and return its complete answer; raise if it is refused."""
        calls, _ = await self._opened()
        async with self._turns:
            self.calls += 1
            response = None
            try:
                async with self._clock.deadline(self._request_timeout):
                    response = await self._let_in(calls, call)
                    return response, await response.read()
            except AsyncSchedError:
                raise
            except Exception as error:
                raise self._translated(error, call.operation) from error
            finally:
                if response is not None:
                    response.release()

    @asynccontextmanager
    async def _stream(self, path: str, query: Mapping[str, str] | None, operation: str) -> AsyncGenerator[ByteStream]:
        _, streams = await self._opened()
        call = APICall("GET", path, query, None, {"Accept": "*/*", "Accept-Encoding": "identity"}, operation)
        try:
            async with self._clock.deadline(self._request_timeout):
                response = await self._let_in(streams, call)
        except AsyncSchedError:
            raise
        except Exception as error:
            raise self._translated(error, operation) from error
        self.streams += 1
        try:
            yield ByteStream(response, lambda error: self._translated(error, operation))
        finally:
            self.streams -= 1
            response.close()

    async def _let_in(self, session: aiohttp.ClientSession, call: APICall) -> aiohttp.ClientResponse:
        """Return an answer with a status below 400; if the credentials are refused, try renewed ones once."""
        access = await self._credentials.access()
        answer = await self._tried(session, access, call)
        if isinstance(answer, Exception) and (other := await self._credentials.renewed(access)) is not None:
            answer = await self._tried(session, access := other, call)
        if isinstance(answer, ApiFailure):  # the server may have become ready since it refused
            is_starting = await self._readiness.is_starting(session, access, call, answer)
            answer = JUST_STARTED if is_starting else await self._tried(session, access, call)
        if isinstance(answer, Exception):
            raise self._translated(answer, call.operation) from answer
        return answer

    async def _tried(
        self, session: aiohttp.ClientSession, access: CallAccess, call: APICall, *, is_last: bool = False
    ) -> aiohttp.ClientResponse | Exception:
        """Return an answer, or the failure if authentication failed; raise every other refusal."""
        try:
            response = await send(session, access, call)
        except Exception as error:
            if not is_certificate_trouble(error):
                raise
            return error
        self._has_answered = True
        if response.status < 400:
            self._readiness.allowed(call)
            return response
        failure = await read_refusal(response)
        if failure.is_of_unknown_kind:
            self.discovery.forget(call.group_version)
        if failure.code == 401:
            return failure
        if failure.is_about_rights and not is_last:
            if not await self._readiness.is_starting(session, access, call, failure):
                # It may have been starting when it refused.
                return await self._tried(session, access, call, is_last=True)
            failure = JUST_STARTED
        raise self._translated(failure, call.operation)

    async def _opened(self) -> tuple[aiohttp.ClientSession, aiohttp.ClientSession]:
        self._check_open()
        if self._sessions is None:
            async with self._opening:
                if self._sessions is None:
                    await asyncio.to_thread(importlib.import_module, "aiohttp")
                    self._check_open()  # nobody would close what is opened after `close`
                    self._sessions = open_session(1 << 16, TLS_OF_CALL), open_session(STREAM_BUFFER, TLS_OF_STREAM)
        return self._sessions

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the connection to the cluster is closed", fix="create a new scheduler")

    async def _parsed(self, whole: bytes, parse: Callable[[str], ResultT], operation: str) -> ResultT:
        try:
            if len(whole) < LARGE_BODY:
                return parse(whole.decode())
            return await asyncio.to_thread(lambda: parse(whole.decode()))
        except (ValueError, RecursionError) as error:
            broken = ValueError(f"the answer is not the expected JSON: {type(error).__name__}")
            raise self._translated(broken, operation) from error

    def _translated(self, error: Exception, operation: str) -> SchedulerError:
        target = self._credentials.target
        return translate(error, operation, target.peer if target is not None else None)


def _dumped(body: Mapping[str, Any] | list[Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
