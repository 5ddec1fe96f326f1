"""Keep the credentials of calls; renew them before they expire and after a refusal."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from asyncsched.clock import Clock
from asyncsched.errors import AuthError
from asyncsched.schedulers._common.program import Programs
from asyncsched.schedulers.kubernetes.client_config import ClusterTarget, ConfigSource, load_target
from asyncsched.schedulers.kubernetes.client_exec import run_plugin
from asyncsched.schedulers.kubernetes.client_tls import make_tls
from asyncsched.schedulers.kubernetes.errors import BACKEND

__all__ = ["CallAccess", "ClusterCredentials"]

_log = logging.getLogger("asyncsched.schedulers.kubernetes")

FILE_AGE = 60.0
"""Seconds after which a token file is read again; the kubelet replaces a pod's token long before it expires."""
PAUSE = 5.0
"""Seconds between two attempts to find new credentials after a refusal."""
EARLY = 300.0
"""Seconds before its expiry at which a token is renewed, or a fifth of its life if that is shorter."""


@dataclass(frozen=True, slots=True, eq=False)
class CallAccess:
    """The credentials of one call.

    Attributes:
        target: The cluster.
        tls: The TLS context of the connection.
        headers: The Authorization header, and the headers of the caller's client.
        print: A hash of everything that can change.
    """

    target: ClusterTarget
    tls: ssl.SSLContext | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    print: str = field(repr=False)


class ClusterCredentials:
    """The current credentials of one cluster, read and renewed once for all waiting calls.

    Args:
        source: Where to look for them.
        clock: The time source.
        plugin_timeout: Most seconds that an exec plugin may run.
    """

    def __init__(self, source: ConfigSource, *, clock: Clock, plugin_timeout: float) -> None:
        self._source = source
        self._clock = clock
        self._plugin_timeout = plugin_timeout
        self._lock = asyncio.Lock()
        self._programs = Programs(BACKEND, clock=clock, at_once=1, largest_output=1 << 20)
        self._access: CallAccess | None = None
        self._until = float("inf")  # by the monotonic clock
        self._again_at = 0.0  # credentials that were refused and did not change are not read again before this
        self.target: ClusterTarget | None = None

    def __repr__(self) -> str:
        return f"<ClusterCredentials for {self.target.peer if self.target is not None else 'an unknown cluster'}>"

    async def access(self) -> CallAccess:
        """Return the credentials for a call.

        Raises:
            ConfigError: No cluster is found.
            AuthError: The credentials cannot be obtained.
        """
        if self._access is None or self._clock.monotonic() >= self._until:
            async with self._lock:
                if self._access is None or self._clock.monotonic() >= self._until:
                    await self._renew()
        assert self._access is not None
        if self._access.target.given is not None:
            return await self._asked(self._access)
        return self._access

    async def renewed(self, refused: CallAccess) -> CallAccess | None:
        """Return credentials that differ from the refused ones, or None if there are none.

        Everything is read again: the kubeconfig may name another certificate or token by now.
        """
        if refused.target.given is not None:
            return None  # the caller's Configuration was asked just before the call
        async with self._lock:
            now = self._clock.monotonic()
            if self._access is refused and now >= self._again_at:
                self.target = None
                await self._renew()
                self._again_at = now + PAUSE if self._access is refused else 0.0
        return None if self._access is refused else self._access

    async def _renew(self) -> None:
        target = self.target
        if target is None:
            target = await asyncio.to_thread(load_target, self._source)
        authorization, tls, pem, until = target.authorization, target.tls, None, float("inf")
        if target.plugin is not None:
            credential = await run_plugin(target.plugin, self._programs, self._plugin_timeout)
            authorization = f"Bearer {credential.token}" if credential.token else authorization
            pem, until = credential.pem, self._renew_at(credential.expires)
        elif target.token_file is not None:
            authorization = f"Bearer {await asyncio.to_thread(_token_in, target.token_file)}"
            until = self._clock.monotonic() + FILE_AGE
        stamp = _print(target, authorization, pem)
        if self._access is None or self._access.print != stamp:
            if pem is not None and tls is not None:
                make = functools.partial(make_tls, target.authority, None, verify=target.verify, pem=pem)
                tls = await asyncio.to_thread(make)
            headers = {**target.headers, **({"Authorization": authorization} if authorization else {})}
            self._warn_of(target)
            self._access = CallAccess(target, tls, headers, stamp)
        self.target, self._until = target, until

    def _warn_of(self, target: ClusterTarget) -> None:
        if self._access is None and target.tls is not None and not target.verify:
            _log.warning("the certificate of %s is not verified: insecure-skip-tls-verify is set", target.peer)

    def _renew_at(self, expires: float | None) -> float:
        if expires is None:
            return float("inf")  # until it is refused
        left = expires - self._clock.time_ns() / 1e9
        return self._clock.monotonic() + max(left - min(EARLY, left / 5), 1.0)

    async def _asked(self, access: CallAccess) -> CallAccess:
        """Ask the caller's Configuration, which may have a hook that renews its token."""
        ask = functools.partial(access.target.given.get_api_key_with_prefix, "BearerToken", alias="authorization")
        # The method of kubernetes_asyncio is a coroutine; the one of kubernetes may block in its hook.
        key = await (ask() if inspect.iscoroutinefunction(ask.func) else asyncio.to_thread(ask))
        return access if not key else replace(access, headers={**access.headers, "Authorization": str(key)})


def _print(target: ClusterTarget, authorization: str | None, pem: tuple[str, str] | None) -> str:
    parts = [*target.peer, target.certificates, authorization or "", target.proxy or "", *(pem or ())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _token_in(path: Path) -> str:
    try:
        token = path.read_text().strip()
    except (OSError, ValueError) as error:
        raise AuthError(
            f"the token in {path} cannot be read",
            why=getattr(error, "strerror", None) or type(error).__name__,
            fix="make sure that the file exists and is readable",
            backend=BACKEND,
            operation="connect",
        ) from None
    if not token or not token.isprintable():
        raise AuthError(
            f"{path} does not contain a token",
            why="it is empty or has more than one line",
            fix="write the token on one line",
            backend=BACKEND,
            operation="connect",
        )
    return token
