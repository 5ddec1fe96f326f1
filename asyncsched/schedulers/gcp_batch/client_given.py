"""What a caller's own client tells: whose credentials, and where Google is. The client itself is not used."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from asyncsched.errors import ConfigError
from asyncsched.schedulers.gcp_batch.client_credentials import Token

__all__ = ["GivenClient", "accept"]


@dataclass(frozen=True, slots=True)
class GivenClient:
    """What is taken from a client: what exchanges its credentials, and its address where it has one."""

    token: Token
    endpoint: str | None = None


class _Answer(NamedTuple):
    value: str
    expires_in: float


class _OfGoogleAuth:
    """Credentials of google-auth, which block: they are exchanged in a worker thread."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials
        self._told: str | None = None

    async def refresh(self, *, timeout: int) -> _Answer:
        return await asyncio.to_thread(self._exchange)

    def _exchange(self) -> _Answer:
        # A token that was told before is over by now, or was refused, whatever its credentials believe of it.
        if not self._credentials.valid or (self._told and self._told == self._credentials.token):
            transport = importlib.import_module("google.auth.transport.requests")
            self._credentials.refresh(transport.Request())
        expiry: datetime | None = self._credentials.expiry
        lasts = (expiry.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds() if expiry is not None else 3600.0
        self._told = self._credentials.token
        return _Answer(str(self._credentials.token), lasts)


def accept(client: object | None) -> GivenClient | None:
    """Return what a caller's client tells; None where there is none.

    Args:
        client: A ``Token`` of gcloud-aio-auth, a ``BatchServiceClient`` of google-cloud-batch, or credentials of
            google-auth.

    Raises:
        ConfigError: It is something else.
    """
    if client is None:
        return None
    if inspect.iscoroutinefunction(getattr(client, "refresh", None)):
        return GivenClient(client)  # type: ignore[arg-type]  # just looked at
    transport = getattr(client, "transport", None)
    credentials = getattr(transport, "_credentials", None) if transport is not None else client
    if not hasattr(credentials, "refresh") or not hasattr(credentials, "valid"):
        raise ConfigError(
            f"the client is a {type(client).__name__}, and has no credentials of Google",
            fix="give a gcloud.aio.auth.Token, a BatchServiceClient, or credentials of google-auth",
        )
    host = str(getattr(transport, "_host", "") or "")
    return GivenClient(_OfGoogleAuth(credentials), host if host.startswith("http") else None)
