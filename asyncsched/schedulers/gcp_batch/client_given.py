"""Take credentials and address from a caller's client; the client itself is not used for calls."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from asyncsched._typing import NamedTuple
from asyncsched.errors import ConfigError
from asyncsched.schedulers.gcp_batch.client_credentials import Token
from asyncsched.schedulers.gcp_batch.client_files import is_header

__all__ = ["GivenGCPClient", "accept"]


_NAMES = ("project_id", "quota_project_id")


@dataclass(frozen=True, slots=True)
class GivenGCPClient:
    """What is taken from a client.

    Attributes:
        token: The object that exchanges its credentials.
        names: The projects in its credentials: ``project_id``, ``quota_project_id``.
        endpoint: Its address, if it has one.
    """

    token: Token
    names: Mapping[str, str]
    endpoint: str | None = None


class _Answer(NamedTuple):
    value: str
    expires_in: float


class _OfGoogleAuth:
    """Credentials of google-auth; exchanging them blocks, so it runs in a worker thread."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials
        self._returned: str | None = None

    async def refresh(self, *, timeout: int) -> _Answer:
        return await asyncio.to_thread(self._exchange)

    def _exchange(self) -> _Answer:
        # A token that was returned before has expired or was refused, even if the credentials consider it valid.
        if not self._credentials.valid or (self._returned and self._returned == self._credentials.token):
            transport = importlib.import_module("google.auth.transport.requests")
            self._credentials.refresh(transport.Request())
        expiry: datetime | None = self._credentials.expiry
        lasts = (expiry.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds() if expiry is not None else 3600.0
        self._returned = self._credentials.token
        return _Answer(str(self._credentials.token), lasts)


def accept(client: object | None) -> GivenGCPClient | None:
    """Return credentials and address of a caller's client; None without a client.

    Args:
        client: A ``Token`` of gcloud-aio-auth, a ``BatchServiceClient`` of google-cloud-batch, or credentials of
            google-auth.

    Raises:
        ConfigError: The client is something else.
    """
    if client is None:
        return None
    if any(each.__module__ == "unittest.mock" for each in type(client).__mro__):
        raise _unfit(client, "a mock has no token that Google, or a test server, would accept")
    refresh: Any = getattr(client, "refresh", None)
    if inspect.iscoroutinefunction(refresh) and "timeout" not in inspect.signature(refresh).parameters:
        raise _unfit(client, "its refresh is a coroutine without the parameter timeout, unlike that of gcloud-aio-auth")
    if inspect.iscoroutinefunction(refresh):
        names = getattr(client, "service_data", None)
        return GivenGCPClient(client, _named(names if isinstance(names, dict) else {}))  # type: ignore[arg-type]  # just checked
    transport = getattr(client, "transport", None)
    credentials = getattr(transport, "_credentials", None) if transport is not None else client
    if not callable(getattr(credentials, "refresh", None)) or not isinstance(getattr(credentials, "valid", None), bool):
        raise _unfit(client, "it has no Google credentials")
    host = str(getattr(transport, "_host", "") or "")
    names = {name: getattr(credentials, name, None) for name in _NAMES}
    return GivenGCPClient(_OfGoogleAuth(credentials), _named(names), host if host.startswith("http") else None)


def _unfit(client: object, why: str) -> ConfigError:
    fix = "pass a gcloud.aio.auth.Token, a BatchServiceClient, or credentials of google-auth, or omit client"
    return ConfigError(f"client must have Google credentials, got {type(client).__name__}", why=why, fix=fix)


def _named(data: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name in _NAMES if isinstance(value := data.get(name), str) and is_header(value)}
