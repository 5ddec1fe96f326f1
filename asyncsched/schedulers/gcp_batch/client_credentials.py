"""Google's credentials: found once, and a token of them that many callers share.

gcloud-aio-auth signs and exchanges; when and how often is decided here. Its own `Token.get` lets one caller who is
cancelled cancel all others, takes a broken key file for none, and repeats what is refused for good.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import io
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from asyncsched._streams import for_one
from asyncsched._tasks import outlast
from asyncsched.clock import Clock
from asyncsched.errors import AuthError, ClosedError, SchedulerError, UnavailableError
from asyncsched.schedulers.gcp_batch.errors import BACKEND

if TYPE_CHECKING:
    import aiohttp

__all__ = ["Access", "Credentials", "Source", "Token"]

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

_TYPES = {"service_account", "authorized_user", "external_account", "impersonated_service_account"}
_SIGN_IN = "run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
_METADATA = "the metadata server"


class Token(Protocol):
    """What exchanges credentials for a token: `gcloud.aio.auth.Token`, or an adapter of another library's."""

    async def refresh(self, *, timeout: int) -> Any:
        """Exchange once; the answer has `value` and `expires_in`."""
        ...


class Source(NamedTuple):
    """Where credentials were found.

    Attributes:
        name: The file, or what else it is, for messages.
        data: What the file holds; empty for the metadata server.
    """

    name: str
    data: Mapping[str, Any]

    @property
    def project(self) -> str:
        """The project that they name; empty where they name none."""
        return str(self.data.get("project_id") or self.data.get("quota_project_id") or "")

    @property
    def quota_project(self) -> str:
        """The project that calls are counted for, where that is not the one that is called."""
        return str(self.data.get("quota_project_id") or "")


class Access(NamedTuple):
    """A token, and until when it is used."""

    token: str
    until: float


class Credentials:
    """One account: finds it, and keeps a token of it. Nothing is read before the first use.

    It belongs to the loop of its first use.

    Args:
        clock: Tells the time.
        path: The file of the credentials, where it is not the one that the environment names.
        impersonate: The service account to act as.
        given: What exchanges credentials, where the caller has brought it.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        path: str | None = None,
        impersonate: str | None = None,
        given: Token | None = None,
    ) -> None:
        self._clock, self._path, self._impersonate = clock, path, impersonate
        self._given = given
        self._source: Source | None = None
        self._token: Token | None = given
        self._access: Access | None = None
        self._refreshing: asyncio.Task[Access] | None = None
        self._closed = False
        self.refreshes = 0

    async def source(self) -> Source:
        """Return where the credentials are.

        Raises:
            AuthError: The file cannot be read, or holds no credentials that can be used.
        """
        if self._source is None and self._given is not None:
            self._source = Source("the client that was given", {})
        if self._source is None:
            self._source = await asyncio.to_thread(find_credentials, self._path)
        return self._source

    async def access(self, session: aiohttp.ClientSession, refused: str | None = None) -> Access:
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
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(
                self._refresh(session), name="gcp_batch: getting a token", context=contextvars.Context()
            )
        try:
            return await asyncio.shield(self._refreshing)
        except SchedulerError as error:
            raise for_one(error) from error.__cause__

    async def aclose(self) -> None:
        """Ask for no more tokens."""
        self._closed = True
        if self._refreshing is not None and not self._refreshing.done():
            self._refreshing.cancel()
            await outlast([self._refreshing], 5.0)

    async def _refresh(self, session: aiohttp.ClientSession) -> Access:
        source = await self.source()
        if self._token is None:
            self._token = await self._made(source, session)
        for left in reversed(range(TRIES)):
            try:
                return await self._exchanged(self._token)
            except Exception as error:
                failed = _translated(error, source)
                if not left or not failed.retryable:
                    raise failed from error
                _log.warning("getting a token of Google Cloud failed, trying again: %s", failed)
            await self._clock.sleep(PAUSE * 2 ** (TRIES - 1 - left))
        raise AssertionError("the last try returns or raises")

    async def _exchanged(self, token: Token) -> Access:
        self.refreshes += 1
        begun = self._clock.monotonic()
        async with self._clock.deadline(LONGEST_REFRESH):
            answer = await token.refresh(timeout=LONGEST_REFRESH)
        lasts = max(float(answer.expires_in) - MARGIN, float(answer.expires_in) / 2)
        self._access = Access(str(answer.value), begun + lasts)
        return self._access

    async def _made(self, source: Source, session: aiohttp.ClientSession) -> Token:
        module = await asyncio.to_thread(importlib.import_module, "gcloud.aio.auth")
        # What has been found is handed on, and be it nothing: gcloud-aio-auth does not look for files by itself.
        file = io.StringIO(json.dumps(source.data))
        try:
            made = module.Token(
                service_file=file, session=session, scopes=SCOPES, target_principal=self._impersonate or None
            )
            if self._impersonate and (other := os.environ.get(IAM_VARIABLE)):
                made.impersonation_uri = made.impersonation_uri.replace(IAM_ENDPOINT, other.rstrip("/"))
            if "private_key" in source.data:  # to read it takes 30 ms, which each exchange would hold the loop for
                made.service_data["private_key"] = await asyncio.to_thread(_read_key, source.data["private_key"])
        except Exception as error:
            raise _unusable(source, str(error)) from error
        return cast("Token", made)


def _read_key(text: str) -> object:
    serialization = importlib.import_module("cryptography.hazmat.primitives.serialization")
    key: object = serialization.load_pem_private_key(text.encode(), password=None)
    return key


def find_credentials(path: str | None) -> Source:
    """Read the credentials that are used here: blocks, as files do.

    Args:
        path: Their file; else the environment names one, or gcloud has written one, or there is a metadata server.

    Raises:
        AuthError: A file is named and cannot be used.
    """
    named = path or os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if not named:
        written = gcloud_folder() / "application_default_credentials.json"
        if not written.exists():
            return Source(_METADATA, {})
        named = str(written)
    try:
        data = json.loads(Path(named).read_text(encoding="utf-8"))
    except OSError as error:
        raise AuthError(
            f"The credentials in {named} cannot be read",
            why=error.strerror or str(error),
            fix=_SIGN_IN,
            **_where(),
        ) from error
    except ValueError as error:
        raise AuthError(f"The credentials in {named} are not JSON", fix=_SIGN_IN, **_where()) from error
    source = Source(named, data if isinstance(data, dict) else {})
    _check_usable(source)
    return source


def gcloud_folder() -> Path:
    """Return where gcloud keeps its configuration."""
    named = os.environ.get("CLOUDSDK_CONFIG")
    return Path(named) if named else Path.home() / ".config" / "gcloud"


def _check_usable(source: Source) -> None:
    kind = source.data.get("type")
    if kind not in _TYPES:
        raise _unusable(source, f"their type is {kind!r}, and these are known: {', '.join(sorted(_TYPES))}")
    if kind == "impersonated_service_account":
        inner = source.data.get("source_credentials")
        if not isinstance(inner, dict) or cast("dict[str, object]", inner).get("type") != "authorized_user":
            raise _unusable(source, "they act as a service account through something else than a user")


def _unusable(source: Source, why: str) -> AuthError:
    return AuthError(f"The credentials in {source.name} cannot be used", why=why, fix=_SIGN_IN, **_where())


def _translated(error: Exception, source: Source) -> SchedulerError:
    """Return why there is no token: for good, or for now."""
    if isinstance(error, SchedulerError):
        return error
    status = getattr(error, "status", 0)
    said = str(getattr(error, "message", "")) or str(error) or type(error).__name__
    if source.name == _METADATA and not status:
        return AuthError("There are no Google credentials", why="no file names any", fix=_SIGN_IN, **_where())
    if isinstance(status, int) and (status == 429 or status >= 500):
        return _unavailable(source, said)
    if isinstance(error, (TimeoutError, OSError)) or type(error).__name__.startswith(("Client", "Server")):
        return _unavailable(source, said) if not status else _refused(source, said)
    return _refused(source, f"{type(error).__name__}: {said}")


def _refused(source: Source, why: str) -> AuthError:
    return AuthError(f"Google does not accept the credentials of {source.name}", why=why, fix=_SIGN_IN, **_where())


def _unavailable(source: Source, why: str) -> UnavailableError:
    what = f"No token can be had for the credentials of {source.name}"
    return UnavailableError(what, why=why, fix="check the network", **_where())


def _where() -> dict[str, Any]:
    return {"backend": BACKEND, "operation": "authenticate"}
