"""Find Google's credentials once, and share their token among callers.

gcloud-aio-auth signs and exchanges tokens; this module decides when and how often. With its `Token.get`, one cancelled
caller cancels all others, a broken key file counts as missing, and permanent refusals are retried.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from asyncsched._typing import NamedTuple
from asyncsched.clock import Clock
from asyncsched.errors import AuthError, ClosedError, SchedulerError, UnavailableError
from asyncsched.schedulers._common.shared_call import SharedCall
from asyncsched.schedulers.gcp_batch.client_files import (
    METADATA,
    SIGN_IN,
    CredentialsFile,
    find_credentials,
    unusable,
    where,
)

if TYPE_CHECKING:
    import aiohttp

__all__ = ["AccessToken", "GCPCredentials", "Token"]

_log = logging.getLogger("asyncsched.schedulers.gcp_batch")

SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
"""The only scope that Batch accepts; it allows reading logs too."""

MARGIN = 60.0
"""Seconds before its expiry after which a token is no longer used."""
TRIES = 3
LONGEST_REFRESH = 10
PAUSE = 0.5

IAM_ENDPOINT = "https://iamcredentials.googleapis.com"
IAM_VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS"
"""gcloud's variable for another address."""

METADATA_VARIABLES = ("GCE_METADATA_HOST", "GCE_METADATA_ROOT")
"""The host of the metadata server, which must then exist; gcloud-aio-auth reads these only when it is imported."""


class Token(Protocol):
    """Exchanges credentials for a token: `gcloud.aio.auth.Token`, or an adapter for another library."""

    async def refresh(self, *, timeout: int) -> Any:
        """Exchange once; the answer has `value` and `expires_in`."""
        ...


class AccessToken(NamedTuple):
    """A token, and until when to use it."""

    token: str
    until: float


class GCPCredentials:
    """Finds one account, and keeps a token of it. Nothing is read before the first use.

    It belongs to the loop of its first use.

    Args:
        clock: The time source.
        path: The credentials file; default: the one in the environment.
        impersonate: The service account to impersonate.
        given: The caller's object that exchanges credentials, if any.
        names: The projects of the caller's credentials: ``project_id``, ``quota_project_id``.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        path: str | None = None,
        impersonate: str | None = None,
        given: Token | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._clock, self._path, self._impersonate = clock, path, impersonate
        self._given, self._names = given, names or {}
        self._source: CredentialsFile | None = None
        self._token: Token | None = given
        self._access: AccessToken | None = None
        self._refreshing = SharedCall[AccessToken]("getting a token of Google Cloud")
        self._closed = False
        self.refreshes = 0

    async def source(self) -> CredentialsFile:
        """Return the source of the credentials.

        Raises:
            AuthError: The file cannot be read, or has no usable credentials.
        """
        if self._source is None and self._given is not None:
            self._source = CredentialsFile("the given client", self._names)
        if self._source is None:
            self._source = await asyncio.to_thread(find_credentials, self._path)
        return self._source

    async def access(self, session: aiohttp.ClientSession, refused: str | None = None) -> AccessToken:
        """Return a token; get a new one if the old one has expired or was refused.

        Callers share one exchange; cancelling one caller does not cancel it.

        Args:
            session: The session for the exchange.
            refused: The token that the service refused.
        """
        if self._closed:
            raise ClosedError("the connection to Google Cloud is closed", fix="create a new scheduler")
        known = self._access
        if known is not None and known.token != refused and self._clock.monotonic() < known.until:
            return known
        return await self._refreshing.join(lambda: self._refresh(session))

    async def aclose(self) -> None:
        """Stop requesting tokens."""
        self._closed = True
        await self._refreshing.aclose(5.0)

    async def _refresh(self, session: aiohttp.ClientSession) -> AccessToken:
        source = await self.source()
        if self._token is None:
            self._token = await self._made(source, session)
        for left in reversed(range(TRIES)):
            try:
                return await self._exchanged(self._token)
            except Exception as error:
                failed = _translated(error, source, is_missing=self._may_be_missing(source, error))
                if not left or not failed.retryable:
                    raise failed from error
                _log.warning("getting a token of Google Cloud failed, trying again: %s", failed)
            await self._clock.sleep(PAUSE * 2 ** (TRIES - 1 - left))
        raise AssertionError("the last try returns or raises")

    def _may_be_missing(self, source: CredentialsFile, error: Exception) -> bool:
        """Return whether there may be no metadata server: none is configured, and none has ever returned a token."""
        if source.name != METADATA or self._access is not None or _metadata_host():
            return False
        return str(getattr(error, "host", "")) in getattr(self._token, "token_uri", "")

    async def _exchanged(self, token: Token) -> AccessToken:
        self.refreshes += 1
        begun = self._clock.monotonic()
        async with self._clock.deadline(LONGEST_REFRESH):
            answer = await token.refresh(timeout=LONGEST_REFRESH)
        lasts = max(float(answer.expires_in) - MARGIN, float(answer.expires_in) / 2)
        self._access = AccessToken(str(answer.value), begun + lasts)
        return self._access

    async def _made(self, source: CredentialsFile, session: aiohttp.ClientSession) -> Token:
        module = await asyncio.to_thread(importlib.import_module, "gcloud.aio.auth")
        # Pass on the data found, even if empty, so that gcloud-aio-auth does not search for files itself.
        file = io.StringIO(json.dumps(source.data))
        try:
            made = module.Token(
                service_file=file, session=session, scopes=SCOPES, target_principal=self._impersonate or None
            )
            if self._impersonate and (other := os.environ.get(IAM_VARIABLE)):
                made.impersonation_uri = made.impersonation_uri.replace(IAM_ENDPOINT, other.rstrip("/"))
            if source.name == METADATA and (host := _metadata_host()):
                made.token_uri = f"http://{host}/computeMetadata/{made.token_uri.partition('/computeMetadata/')[2]}"
            if "private_key" in source.data:  # parsing it takes 30 ms, and would block the loop in each exchange
                made.service_data["private_key"] = await asyncio.to_thread(_read_key, source.data["private_key"])
        except Exception as error:
            raise unusable(source, str(error)) from error
        return cast("Token", made)


def _read_key(text: str) -> object:
    serialization = importlib.import_module("cryptography.hazmat.primitives.serialization")
    key: object = serialization.load_pem_private_key(text.encode(), password=None)
    return key


def _translated(error: Exception, source: CredentialsFile, *, is_missing: bool) -> SchedulerError:
    """Return the error for a failed exchange, retryable or not.

    Args:
        error: Why the exchange failed.
        source: The credentials.
        is_missing: Whether the machine may have no metadata server.
    """
    if isinstance(error, SchedulerError):
        return error
    status = getattr(error, "status", 0)
    said = str(getattr(error, "message", "")) or str(error) or type(error).__name__
    if is_missing and not status:
        return AuthError("no Google credentials found", why="there is no credentials file", fix=SIGN_IN, **where())
    if isinstance(status, int) and (status == 429 or status >= 500):
        return _unavailable(source, said)
    if status:
        return _refused(source, said)
    if isinstance(error, (TimeoutError, OSError)) or type(error).__name__.startswith(("Client", "Server")):
        return _unavailable(source, said)
    return unusable(source, f"{type(error).__name__}: {said}")


def _metadata_host() -> str | None:
    return next((host for name in METADATA_VARIABLES if (host := os.environ.get(name))), None)


def _refused(source: CredentialsFile, why: str) -> AuthError:
    return AuthError(f"Google does not accept the credentials of {source.name}", why=why, fix=SIGN_IN, **where())


def _unavailable(source: CredentialsFile, why: str) -> UnavailableError:
    what = f"cannot get a token for the credentials of {source.name}"
    return UnavailableError(what, why=why, fix="check the network", **where())
