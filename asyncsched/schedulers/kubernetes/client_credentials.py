"""What lets a call in, renewed before it expires and after it was refused."""

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
"""Seconds after which a file with a token is read again: a kubelet replaces a pod's long before it expires."""
PAUSE = 5.0
"""Seconds between two looks for other credentials than those that are refused."""
EARLY = 300.0
"""Seconds before its end at which a token is renewed, but for one that is short-lived: a fifth of its life before."""


@dataclass(frozen=True, slots=True, eq=False)
class CallAccess:
    """What one call is made with.

    Attributes:
        target: The cluster.
        tls: For the connection.
        headers: The header of the credentials, and others of the caller's.
        print: A hash of all that can change.
    """

    target: ClusterTarget
    tls: ssl.SSLContext | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    print: str = field(repr=False)


class ClusterCredentials:
    """The present access to one cluster. It is read and renewed once, however many calls wait for it.

    Args:
        source: Where to look.
        clock: Tells the time.
        plugin_timeout: Seconds that an exec plugin may take.
    """

    def __init__(self, source: ConfigSource, *, clock: Clock, plugin_timeout: float) -> None:
        self._source = source
        self._clock = clock
        self._plugin_timeout = plugin_timeout
        self._lock = asyncio.Lock()
        self._programs = Programs(BACKEND, clock=clock, at_once=1, largest_output=1 << 20)
        self._access: CallAccess | None = None
        self._until = float("inf")  # by the monotonic clock
        self._again_at = 0.0  # what was refused and has not changed is not read again before
        self.target: ClusterTarget | None = None

    def __repr__(self) -> str:
        return f"<ClusterCredentials for {self.target.peer if self.target is not None else 'a cluster not read yet'}>"

    async def access(self) -> CallAccess:
        """Return what to make a call with.

        Raises:
            ConfigError: No cluster is found.
            AuthError: Its credentials cannot be got.
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
        """Return other credentials than those that were refused, None if there are no others.

        All is read again: a kubeconfig may name another certificate or token by now.
        """
        if refused.target.given is not None:
            return None  # they were asked for a moment ago
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
            told = await run_plugin(target.plugin, self._programs, self._plugin_timeout)
            authorization = f"Bearer {told.token}" if told.token else authorization
            pem, until = told.pem, self._renew_at(told.expires)
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
            _log.warning("%s is not verified: insecure-skip-tls-verify is set", target.peer)

    def _renew_at(self, expires: float | None) -> float:
        if expires is None:
            return float("inf")  # until it is refused
        left = expires - self._clock.time_ns() / 1e9
        return self._clock.monotonic() + max(left - min(EARLY, left / 5), 1.0)

    async def _asked(self, access: CallAccess) -> CallAccess:
        """Ask the caller's Configuration, which may have a hook that renews its token."""
        ask = functools.partial(access.target.given.get_api_key_with_prefix, "BearerToken", alias="authorization")
        # That of kubernetes_asyncio is a coroutine; that of kubernetes blocks, if its hook does.
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
            fix="see that the file is there and may be read",
            backend=BACKEND,
            operation="connect",
        ) from None
    if not token or not token.isprintable():
        raise AuthError(
            f"{path} does not hold a token",
            why="it is empty, or has more than one line",
            fix="write one line with the token",
            backend=BACKEND,
            operation="connect",
        )
    return token
