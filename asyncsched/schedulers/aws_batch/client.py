"""Call AWS through aiobotocore, with pacing and retries.

This is the only module that uses the SDK. Importing it and reading its models takes half a second, so that runs in a
worker thread.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Protocol

from asyncsched.clock import Clock
from asyncsched.errors import AuthError, ClosedError, ThrottledError, UnavailableError
from asyncsched.schedulers._common.rate_limit import Pacer, RateLimits
from asyncsched.schedulers._common.retry import retry
from asyncsched.schedulers.aws_batch.client_given import GivenAWSClient
from asyncsched.schedulers.aws_batch.errors import BACKEND, translate

__all__ = ["AWSConnection", "Connections", "Location"]

_log = logging.getLogger("asyncsched.schedulers.aws_batch")

RATES = {
    "SubmitJob": 20.0,
    "GetLogEvents": 10.0,
    "FilterLogEvents": 4.0,
    "logs": 4.0,
    "ends": 10.0,
    "batch": 10.0,
    "ecr": 2.0,
}
"""Calls per second, by group with a common limit; AWS's limits apply to the whole account and region."""

ENDS = frozenset({"TerminateJob", "TerminateJobs", "CancelJob", "CancelJobs"})
"""Operations that end jobs; they do not wait for submits or reads."""

SERVICES = ("batch", "logs", "ecr")

_RENEWAL = 0.25
"""Seconds to wait for the renewal of expired credentials."""


class VendorClient(Protocol):
    """A client of aiobotocore, or an object that behaves like one."""

    def __getattr__(self, name: str) -> Any:
        """Return the function of an operation; it may be a coroutine function or a plain function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """The region, profile and endpoint of calls; None leaves it to the environment and the AWS configuration."""

    region: str | None = None
    profile: str | None = None
    endpoint_url: str | None = None

    def over(self, other: Mapping[str, str]) -> Location:
        """Return this location, overridden by the values in `other`."""
        return replace(self, **other) if other else self

    def resolved(self) -> Location:
        """Return the location with AWS_REGION as its default region, which botocore does not read."""
        return self if self.region else replace(self, region=os.environ.get("AWS_REGION") or None)


class Connections:
    """Connections by location, opened when needed, with the settings of the caller's clients.

    They belong to the loop on which they are opened; `aclose` closes the clients opened here.
    """

    def __init__(
        self,
        location: Location,
        given: Mapping[str, GivenAWSClient],
        *,
        clock: Clock,
        limits: RateLimits,
        request_timeout: float = 30.0,
        retry_for: float = 60.0,
    ) -> None:
        self._location, self._given = location, given
        self._clock, self._limits = clock, limits
        self.request_timeout, self.retry_for = request_timeout, retry_for
        self._open: dict[Location, AWSConnection] = {}
        self._usual: AWSConnection | None = None
        self._closed = False

    def at(self, where: Mapping[str, str] | None = None) -> AWSConnection:
        """Return the connection to a location; nothing is opened before its first call."""
        if not where and self._usual is not None:
            return self._usual
        asked = self._location.over(where or {})
        if asked not in self._open:
            self._open[asked] = AWSConnection(asked, self._given, self)
        if not where:
            self._usual = self._open[asked]
        return self._open[asked]

    def pacer(self, location: Location, operation: str, service: str) -> Pacer:
        """Return the pacer of an operation, shared with others of its group."""
        family = "ends" if operation in ENDS else operation if operation in RATES else service
        return self._limits.pacer((BACKEND, location, family), RATES[family], self._clock)

    @property
    def clock(self) -> Clock:
        """The time source."""
        return self._clock

    def check_open(self) -> None:
        """Raise ClosedError after `aclose`: nobody would close what is opened then."""
        if self._closed:
            raise ClosedError("the connection to AWS is closed", fix="make a new scheduler")

    async def aclose(self) -> None:
        """Close every client opened here; idempotent."""
        self._closed = True
        open_ones = list(self._open.values())
        self._open.clear()
        async with AsyncExitStack() as closing:  # A failure does not keep the others open.
            for connection in open_ones:
                closing.push_async_callback(connection.aclose)


class AWSConnection:
    """Calls AWS at one location, with pacing, a timeout and retries."""

    def __init__(self, asked: Location, given: Mapping[str, GivenAWSClient], owner: Connections) -> None:
        self._asked, self._given = asked, given
        self.location = self._location(self._giver("batch"))
        self._owner = owner
        self._clients: dict[str, VendorClient] = {}
        self._sessions: dict[GivenAWSClient | None, Any] = {}  # AioSessions, which have no types
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<AWSConnection to {self.location.region or 'the default region'}: {', '.join(self._clients) or 'new'}>"

    async def call(self, service: str, operation: str, expect: str = "", **request: object) -> dict[str, Any]:
        """Call an operation; retry it until it succeeds, fails permanently, or `retry_for` has passed.

        Args:
            service: ``batch``, ``logs`` or ``ecr``.
            operation: AWS's name, such as ``DescribeJobs``.
            expect: A member that a valid answer must have.
            request: The operation's parameters.
        """
        return await retry(
            lambda: self.try_once(service, operation, expect, **request),
            clock=self._owner.clock,
            retry_for=self._owner.retry_for,
        )

    async def try_once(self, service: str, operation: str, expect: str = "", **request: object) -> dict[str, Any]:
        """Call an operation once, for calls that must not be repeated blindly.

        With expired credentials it is called once more, because the SDK renews them; the first call had no effect.
        """
        try:
            return await self._answered(service, operation, expect, request)
        except AuthError as error:
            if "have expired" not in error.what:
                raise
        await self._owner.clock.sleep(_RENEWAL)
        return await self._answered(service, operation, expect, request)

    async def _answered(
        self, service: str, operation: str, expect: str, request: Mapping[str, object]
    ) -> dict[str, Any]:
        pacer = self._owner.pacer(self.location, operation, service)
        client = await self._client(service)
        await pacer.turn()
        try:
            async with self._owner.clock.deadline(self._owner.request_timeout):
                call = getattr(client, _snake(operation))(**request)
                # Some mocks answer without a coroutine.
                answer: dict[str, Any] = await call if inspect.isawaitable(call) else call
        except Exception as error:
            if not _is_vendors(error):
                raise  # a bug in asyncsched must stay visible as one
            raise self._translated(error, operation, service, pacer) from _shown(error)
        if expect and expect not in answer:
            raise UnavailableError(
                f"AWS's answer to {operation} is broken",
                why=f"it has no {expect}",
                backend=BACKEND,
                operation=operation,
            )
        return answer

    def _translated(self, error: Exception, operation: str, service: str, pacer: Pacer) -> Exception:
        ours = translate(error, operation, service=service, profile=self.location.profile)
        if isinstance(ours, ThrottledError):
            pacer.throttled(ours.retry_after)
        return ours

    async def _client(self, service: str) -> VendorClient:
        given = self._given.get(service)
        if given is not None and given.stands_in:
            stand_in: VendorClient = given.client
            return stand_in
        client = self._clients.get(service)
        if client is not None:
            return client
        async with self._opening:
            if service not in self._clients:
                self._clients[service] = await self._opened(service)
            return self._clients[service]

    async def _opened(self, service: str) -> VendorClient:
        self._owner.check_open()
        giver = self._giver(service)
        try:
            if giver not in self._sessions:
                credentials = None if giver is None or self._asked.profile else giver.credentials
                self._sessions[giver] = await asyncio.to_thread(_warm_session, self._location(giver), credentials)
            arguments = _client_arguments(self._location(giver), giver, self._endpoint(service))
            opening: Any = self._sessions[giver].create_client(service, **arguments)
            async with AsyncExitStack() as unless_kept:
                client: VendorClient = await unless_kept.enter_async_context(opening)
                self._owner.check_open()
                self._stack.push_async_callback(unless_kept.pop_all().aclose)
        except Exception as error:
            if not _is_vendors(error):
                raise
            raise translate(error, "CreateClient", service=service, profile=self.location.profile) from error
        return client

    def _giver(self, service: str) -> GivenAWSClient | None:
        """Return the caller's client whose settings apply to a service: its own, else the one for ``batch``."""
        return self._given.get(service) or self._given.get("batch")

    def _location(self, giver: GivenAWSClient | None) -> Location:
        """Return the location: explicit settings, then the client's, then the environment's."""
        if giver is None or giver.region is None or self._asked.region is not None:
            return self._asked.resolved()
        return replace(self._asked, region=giver.region)

    def _endpoint(self, service: str) -> str | None:
        given = self._given.get(service)
        if self._asked.endpoint_url or given is None:
            return self._asked.endpoint_url
        return given.endpoint(self._location(given).region)

    async def aclose(self) -> None:
        """Close the clients opened here."""
        self._clients.clear()
        await self._stack.aclose()


def _warm_session(location: Location, credentials: Any) -> Any:
    """Create a session, and let it read everything it needs from disk; runs in a worker thread.

    Args:
        location: The location of the session's clients.
        credentials: The credentials of the caller's client; None to let the session find some.
    """
    from aiobotocore.session import AioSession  # pyright: ignore[reportMissingTypeStubs] - it has none

    session: Any = AioSession(profile=location.profile)
    nobody = {"aws_access_key_id": "warming", "aws_secret_access_key": "up"}
    for service in SERVICES:
        arguments = _client_arguments(location, None, location.endpoint_url)
        context = session.create_client(service, **arguments, **nobody)
        if _driven(context.__aenter__()) is not None:
            _driven(context.__aexit__(None, None, None))
    if credentials is not None:
        session.register_component("credential_provider", _Provider(_for_the_loop(credentials)))
    _find_credentials(session)
    return session


class _Provider:
    """A credential provider for a session that returns given credentials."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    async def load_credentials(self) -> Any:
        """Return the credentials."""
        return self._credentials


def _for_the_loop(credentials: Any) -> Any:
    """Return credentials for aiobotocore; renewing those of boto3 blocks, so it runs in a worker thread."""
    from aiobotocore.credentials import AioCredentials  # pyright: ignore[reportMissingTypeStubs] - it has none

    frozen = credentials.get_frozen_credentials
    if inspect.iscoroutinefunction(frozen):
        return credentials

    class Renewed(AioCredentials):  # type: ignore[misc] # it has no types
        async def get_frozen_credentials(self) -> Any:
            is_due = getattr(credentials, "refresh_needed", None)
            return await asyncio.to_thread(frozen) if is_due is not None and is_due() else frozen()

    return Renewed("", "", method=credentials.method)  # It signs only with `get_frozen_credentials`.


def _find_credentials(session: Any) -> None:
    """Find credentials that are read from files; those from the network are fetched later on the loop."""
    try:
        _driven(session.get_credentials())
    except Exception:  # noqa: BLE001 - any error will occur again, and be reported, at the first call
        _log.debug("no credentials were found without the network", exc_info=True)


def _driven(step: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that needs no loop, and return its result; return None if it needs the network."""
    try:
        step.send(None)
    except StopIteration as done:
        return done.value
    step.close()
    return None


def _client_arguments(location: Location, giver: GivenAWSClient | None, endpoint_url: str | None) -> dict[str, Any]:
    from aiobotocore.config import AioConfig  # pyright: ignore[reportMissingTypeStubs] - it has none

    overridden = endpoint_url or any(name.startswith("AWS_ENDPOINT_URL") for name in os.environ)
    config = AioConfig(
        connect_timeout=10,
        read_timeout=30,
        max_pool_connections=20,
        # asyncsched retries itself, with pacing and protection from double submits.
        retries={"total_max_attempts": 1, "mode": "standard"},
        user_agent_extra="asyncsched",
        inject_host_prefix=not overridden,
        **(giver.connector() if giver is not None else {}),
        # An address that is given is of one kind, and must not be given with another.
        **(giver.endpoint_kind() if giver is not None and endpoint_url is None else {}),
    )
    verify = giver.verify if giver is not None else None
    return {"region_name": location.region, "endpoint_url": endpoint_url, "verify": verify, "config": config}


def _is_vendors(error: Exception) -> bool:
    """Return whether an error is the SDK's or the network's, as opposed to a bug in asyncsched."""
    if isinstance(error, (TimeoutError, OSError)) or "nvalid endpoint" in str(error):
        return True
    return type(error).__module__.partition(".")[0] in ("botocore", "aiobotocore", "aiohttp")


def _shown(error: Exception) -> Exception | None:
    """Return the error to show as the cause; the SDK's validation errors quote secrets, so they are omitted."""
    return None if type(error).__name__ == "ParamValidationError" else error


def _snake(operation: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in operation).lstrip("_")
