"""Google's credentials: found once, and a token of them that many callers share.

gcloud-aio-auth signs and exchanges; when and how often is decided here. Its own `Token.get` lets one caller who is
cancelled cancel all others, takes a broken key file for none, and repeats what is refused for good.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

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
"""The only one that Batch takes; it allows reading logs, too."""

MARGIN = 60.0
"""Seconds before its end from which on a token is not used any more."""
TRIES = 3
LONGEST_REFRESH = 10
PAUSE = 0.5

IAM_ENDPOINT = "https://iamcredentials.googleapis.com"
IAM_VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS"
"""Names another address, for gcloud as well."""

METADATA_VARIABLES = ("GCE_METADATA_HOST", "GCE_METADATA_ROOT")
"""Name the host of the metadata server, which is there then: gcloud-aio-auth reads them when it is imported only."""


class Token(Protocol):
    """What exchanges credentials for a token: `gcloud.aio.auth.Token`, or an adapter of another library's."""

    async def refresh(self, *, timeout: int) -> Any:
        """Exchange once; the answer has `value` and `expires_in`."""
        ...


class AccessToken(NamedTuple):
    """A token, and until when it is used."""

    token: str
    until: float


class GCPCredentials:
    """One account: finds it, and keeps a token of it. Nothing is read before the first use.

    It belongs to the loop of its first use.

    Args:
        clock: Tells the time.
        path: The file of the credentials, where it is not the one that the environment names.
        impersonate: The service account to act as.
        given: What exchanges credentials, where the caller has brought it.
        names: The projects that these name, as a file does: ``project_id``, ``quota_project_id``.
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
        """Return where the credentials are.

        Raises:
            AuthError: The file cannot be read, or holds no credentials that can be used.
        """
        if self._source is None and self._given is not None:
            self._source = CredentialsFile("the client that was given", self._names)
        if self._source is None:
            self._source = await asyncio.to_thread(find_credentials, self._path)
        return self._source

    async def access(self, session: aiohttp.ClientSession, refused: str | None = None) -> AccessToken:
        """Return a token, a new one where the old one is over or was refused.

        Callers share one exchange; one that is cancelled leaves it to the others.

        Args:
            session: What to make the exchange with.
            refused: The token that the service has not accepted.
        """
        if self._closed:
            raise ClosedError("the connection to Google Cloud is closed", fix="make a new scheduler")
        known = self._access
        if known is not None and known.token != refused and self._clock.monotonic() < known.until:
            return known
        return await self._refreshing.join(lambda: self._refresh(session))

    async def aclose(self) -> None:
        """Ask for no more tokens."""
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
        """Tell whether there may be no metadata server: none is named, and none has ever given a token."""
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
        # What has been found is handed on, and be it nothing: gcloud-aio-auth does not look for files by itself.
        file = io.StringIO(json.dumps(source.data))
        try:
            made = module.Token(
                service_file=file, session=session, scopes=SCOPES, target_principal=self._impersonate or None
            )
            if self._impersonate and (other := os.environ.get(IAM_VARIABLE)):
                made.impersonation_uri = made.impersonation_uri.replace(IAM_ENDPOINT, other.rstrip("/"))
            if source.name == METADATA and (host := _metadata_host()):
                made.token_uri = f"http://{host}/computeMetadata/{made.token_uri.partition('/computeMetadata/')[2]}"
            if "private_key" in source.data:  # to read it takes 30 ms, which each exchange would hold the loop for
                made.service_data["private_key"] = await asyncio.to_thread(_read_key, source.data["private_key"])
        except Exception as error:
            raise unusable(source, str(error)) from error
        return cast("Token", made)


def _read_key(text: str) -> object:
    serialization = importlib.import_module("cryptography.hazmat.primitives.serialization")
    key: object = serialization.load_pem_private_key(text.encode(), password=None)
    return key


def _translated(error: Exception, source: CredentialsFile, *, is_missing: bool) -> SchedulerError:
    """Return why there is no token: for good, or for now.

    Args:
        error: Why an exchange has failed.
        source: The credentials.
        is_missing: Whether the machine may have no metadata server at all.
    """
    if isinstance(error, SchedulerError):
        return error
    status = getattr(error, "status", 0)
    said = str(getattr(error, "message", "")) or str(error) or type(error).__name__
    if is_missing and not status:
        return AuthError("There are no Google credentials", why="no file names any", fix=SIGN_IN, **where())
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
    what = f"No token can be had for the credentials of {source.name}"
    return UnavailableError(what, why=why, fix="check the network", **where())
