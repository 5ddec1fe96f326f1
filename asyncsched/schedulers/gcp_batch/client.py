"""Call Google Cloud over aiohttp, with pacing, retries, and one more try after a 401."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, cast

from asyncsched import __version__
from asyncsched.clock import Clock
from asyncsched.errors import ClosedError, ConfigError, SchedulerError, ThrottledError
from asyncsched.schedulers._common.rate_limit import Pacer, RateLimits
from asyncsched.schedulers._common.retry import retry
from asyncsched.schedulers.gcp_batch.client_credentials import AccessToken, GCPCredentials
from asyncsched.schedulers.gcp_batch.client_files import is_header
from asyncsched.schedulers.gcp_batch.errors import GoogleFailure, failure_of, read_failure, translate

if TYPE_CHECKING:
    import aiohttp

__all__ = ["BATCH_ENDPOINT", "LOGGING_ENDPOINT", "GoogleClient"]

BATCH_ENDPOINT = "https://batch.googleapis.com"
LOGGING_ENDPOINT = "https://logging.googleapis.com"
BATCH_VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_BATCH"
LOGGING_VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING"
"""gcloud's variables for other addresses."""

AT_ONCE = 32
"""Most calls in flight; others wait."""
LARGE_BODY = 256 << 10
"""A body of at least this many bytes is parsed in a worker thread."""
LARGEST_REFUSAL = 64 << 10
CONNECT_TIMEOUT = 10.0

RATES = {"jobs.create": 25.0, "jobs.cancel": 25.0, "jobs.delete": 25.0}
"""Writing calls per second; Google allows 100 per region."""
READ_RATE = 100.0
"""Reading calls per second; Google allows 250 per region."""


class GoogleClient:
    """A client of Google Cloud, as one account. Nothing is read or imported before the first call.

    It belongs to the loop of its first call.

    Args:
        credentials: The account.
        clock: The time source.
        limits: Pacers, possibly shared with other schedulers.
        batch: The address of Batch.
        logging: The address of Cloud Logging.
        quota_project: The project to bill quota to; default: the one in the credentials.
        request_timeout: Most seconds for one try of a call.
        retry_for: Seconds for which a failed call is retried.
    """

    def __init__(
        self,
        credentials: GCPCredentials,
        *,
        clock: Clock,
        limits: RateLimits,
        batch: str | None = None,
        logging: str | None = None,
        quota_project: str | None = None,
        request_timeout: float = 30.0,
        retry_for: float = 60.0,
    ) -> None:
        self.credentials = credentials
        self._clock, self._limits = clock, limits
        self._batch = (batch or os.environ.get(BATCH_VARIABLE) or BATCH_ENDPOINT).rstrip("/")
        self._logging = (logging or os.environ.get(LOGGING_VARIABLE) or LOGGING_ENDPOINT).rstrip("/")
        self._quota_project = _quota_project(quota_project)
        self._request_timeout, self._retry_for = request_timeout, retry_for
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._opening = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self.calls = 0

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open" if self._session is not None else "not connected"
        return f"<GoogleClient of {self._batch}, {state}, {self.calls} calls>"

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        operation: str,
        project: str,
    ) -> dict[str, Any]:
        """Call Batch; retry the call until it succeeds, is refused, or `retry_for` has passed.

        Writing calls can be retried too: they carry an id by which Google recognises a repeated request.

        Args:
            method: ``GET``, ``POST`` or ``DELETE``.
            path: The resource, such as ``projects/P/locations/L/jobs``.
            query: Parameters of the URL.
            body: The JSON body to send.
            operation: The operation, for errors and pacing, such as ``jobs.create``.
            project: The project, for the advice in errors.

        Raises:
            SchedulerError: The call was refused; `failure_of` returns Google's answer.
        """
        url = f"{self._batch}/v1/{path}"
        return await retry(
            lambda: self._once(method, url, query, body, operation, project),
            clock=self._clock,
            retry_for=self._retry_for,
        )

    async def pages(
        self, path: str, *, query: Mapping[str, str], operation: str, project: str
    ) -> AsyncGenerator[dict[str, Any]]:
        """Yield the pages of a list; an empty page may be followed by others."""
        asked = dict(query)
        while True:
            page = await self.request("GET", path, query=asked, operation=operation, project=project)
            yield page
            if not page.get("nextPageToken"):
                return
            asked["pageToken"] = str(page["nextPageToken"])

    async def read_entries(self, body: Mapping[str, Any], project: str) -> dict[str, Any]:
        """Read one page of log entries, in one try: the reader decides about pacing and retries.

        Raises:
            SchedulerError: The call failed.
        """
        url = f"{self._logging}/v2/entries:list"
        return await self._once("POST", url, None, body, "entries.list", project)

    async def token(self) -> str:
        """Return a token of the account, for services that accept it as a password.

        Raises:
            AuthError: The credentials yield no token.
        """
        return (await self.credentials.access(await self._opened())).token

    async def close(self) -> None:
        """Close every connection; later calls raise ClosedError."""
        self._closed = True
        await self.credentials.aclose()
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _once(
        self,
        method: str,
        url: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        operation: str,
        project: str,
    ) -> dict[str, Any]:
        pacer = self._pacer(operation, project)
        if pacer is not None:
            await pacer.turn()
        try:
            return await self._answered(method, url, query, body, operation, project)
        except ThrottledError as error:
            if pacer is not None:
                pacer.throttled(error.retry_after)
            raise

    def _pacer(self, operation: str, project: str) -> Pacer | None:
        if operation == "entries.list":
            return None
        kind = operation if operation in RATES else "read"
        return self._limits.pacer((project, kind), RATES.get(operation, READ_RATE), self._clock)

    async def _answered(
        self,
        method: str,
        url: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        operation: str,
        project: str,
    ) -> dict[str, Any]:
        session = await self._opened()
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        async with self._turns:
            access = await self.credentials.access(session)
            try:
                async with self._clock.deadline(self._request_timeout):
                    try:
                        whole = await self._sent(session, access, method, url, query, data)
                    except GoogleFailure as failure:
                        if failure.code != 401:
                            raise
                        access = await self.credentials.access(session, refused=access.token)
                        whole = await self._sent(session, access, method, url, query, data)
                return await _parsed(whole)
            except SchedulerError:
                raise
            except Exception as error:
                raise translate(
                    error, operation, project=project, permission=_PERMISSIONS.get(operation, "")
                ) from error

    async def _sent(
        self,
        session: aiohttp.ClientSession,
        access: AccessToken,
        method: str,
        url: str,
        query: Mapping[str, str] | None,
        data: bytes | None,
    ) -> bytes:
        self.calls += 1
        headers = {"Authorization": f"Bearer {access.token}"}
        quota_project = self._quota_project or (await self.credentials.source()).quota_project
        if quota_project:
            headers["x-goog-user-project"] = quota_project
        if data is not None:
            headers["Content-Type"] = "application/json"
        async with session.request(
            method, url, params=query, data=data, headers=headers, allow_redirects=False
        ) as response:
            if response.status < 400:
                return await response.read()
            body = await response.content.read(LARGEST_REFUSAL)
            raise read_failure(response.status, body, response.headers)

    async def _opened(self) -> aiohttp.ClientSession:
        self._check_open()
        if self._session is None:
            async with self._opening:
                if self._session is None:
                    await asyncio.to_thread(importlib.import_module, "aiohttp")
                    self._check_open()  # nobody would close what is opened after `close`
                    self._session = _open_session()
        return self._session

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the connection to Google Cloud is closed", fix="make a new scheduler")


_PERMISSIONS = {
    "jobs.create": "batch.jobs.create",
    "jobs.get": "batch.jobs.get",
    "jobs.list": "batch.jobs.list",
    "jobs.cancel": "batch.jobs.cancel",
    "jobs.delete": "batch.jobs.delete",
    "tasks.list": "batch.tasks.list",
    "locations.list": "batch.locations.list",
    "entries.list": "logging.logEntries.list",
}
"""The permission that each operation needs."""


def is_gone(error: SchedulerError) -> bool:
    """Return whether an error means that the resource does not exist."""
    failure = failure_of(error)
    return failure is not None and failure.code == 404


def _quota_project(named: str | None) -> str:
    text = named or os.environ.get("GOOGLE_CLOUD_QUOTA_PROJECT") or ""
    if not is_header(text):
        name = "quota_project" if named else "GOOGLE_CLOUD_QUOTA_PROJECT"
        raise ConfigError(f"{name} must be the name of a project, got {text!r}", fix="correct it, or omit it")
    return text


def _open_session() -> aiohttp.ClientSession:
    import aiohttp  # already imported, in a thread

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=30, keepalive_timeout=30),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": f"asyncsched/{__version__}"},
        trust_env=True,
    )


async def _parsed(whole: bytes) -> dict[str, Any]:
    if not whole:
        return {}
    try:
        value = json.loads(whole) if len(whole) < LARGE_BODY else await asyncio.to_thread(json.loads, whole)
    except ValueError as error:
        raise GoogleFailure(502, "", "the answer is not JSON") from error
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
