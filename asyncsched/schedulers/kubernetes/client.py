"""Calls of the API server: deadlines, retries, credentials that are renewed, lists that are read in pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from asyncsched.clock import Clock

__all__ = ["Answer", "ByteStream", "KubeClient", "Page", "ServerVersion"]

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer with a status below 400.

    Attributes:
        status: The HTTP status.
        headers: Its headers; the names are read in any case.
        json: The parsed body; None where it is empty.
    """

    status: int
    headers: Mapping[str, str]
    json: Any


class Page(NamedTuple, Generic[ItemT]):
    """A page of a list.

    Attributes:
        items: What `read` has made of each item; what it returned None for is left out.
        resource_version: From where a watch goes on.
        next: The token of the next page; empty on the last one.
    """

    items: list[ItemT]
    resource_version: str
    next: str


class ServerVersion(NamedTuple):
    """The server's version, such as 1.34."""

    major: int
    minor: int


class ByteStream:
    """The body of an answer with a status below 400 (200, or 204), as it comes.

    Attributes:
        status: The HTTP status.
        headers: Its headers.
    """

    status: int
    headers: Mapping[str, str]

    async def read_chunk(self) -> bytes:
        """Return what came next, at most some 64 KiB; empty at the end.

        Raises:
            UnavailableError: The connection broke.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection; the context manager does it, too."""
        raise NotImplementedError


class KubeClient:
    """One cluster, as one user. Nothing is read or imported before the first call.

    It belongs to the loop of its first call. Calls and streams have connections of their own, so that many open
    streams never keep a call waiting.
    """

    def __init__(self, *, clock: Clock, request_timeout: float = 30.0, retry_for: float = 60.0) -> None: ...

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | list[Any] | None = None,
        accept: str | None = None,
        content_type: str | None = None,
        idempotent: bool = False,
        operation: str = "",
    ) -> Answer:
        """Make a call until it succeeds, is refused, or `retry_for` has passed.

        GET is always tried again; what writes only with `idempotent`, and where the server has refused to begin (429).

        Args:
            method: ``GET``, ``POST``, ``PATCH`` or ``DELETE``.
            path: Such as ``/api/v1/namespaces/default/pods``; its parts are quoted by the caller.
            query: Parameters of the URL.
            body: What is sent, as JSON.
            accept: The type of the answer; JSON by default.
            content_type: The type of the body; JSON by default.
            idempotent: Whether a second call does no harm.
            operation: What it is for, as errors name it: ``submit``, ``describe`` ...

        Raises:
            SchedulerError: It was refused; `failure_of` tells by what answer.
        """
        raise NotImplementedError

    async def page(
        self,
        path: str,
        read: Callable[[Mapping[str, Any]], ItemT | None],
        *,
        query: Mapping[str, str] | None = None,
        operation: str = "",
    ) -> Page[ItemT]:
        """Get one page of a list, each item read in a worker thread: the tree of a whole page is never built."""
        raise NotImplementedError

    def stream(
        self, path: str, query: Mapping[str, str] | None = None, *, operation: str = "log_iter"
    ) -> AbstractAsyncContextManager[ByteStream]:
        """Open a stream (a log, a watch); one try, but for a token that has expired.

        Raises:
            SchedulerError: It was refused, or the server cannot be reached; `failure_of` tells by what answer.
        """
        raise NotImplementedError

    async def version(self) -> ServerVersion:
        """Return the server's version, asked for once."""
        raise NotImplementedError

    async def has(self, group_version: str, resource: str) -> bool:
        """Tell by discovery whether the server has a resource, such as ``jobs`` of ``batch.volcano.sh/v1alpha1``."""
        raise NotImplementedError

    async def namespace(self) -> str:
        """Return the context's namespace, ``default`` if it names none."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close every connection; later calls raise ClosedError."""
        raise NotImplementedError
