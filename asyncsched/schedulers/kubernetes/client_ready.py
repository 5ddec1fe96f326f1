"""Distinguish refusals by a starting server from permanent ones.

An API server that has just started knows neither roles nor tokens, so it refuses calls that it would allow a moment
later. ``/readyz`` shows whether it is ready. A default role lets everybody read it: a server that refuses even
``/readyz`` has not loaded its roles yet, or an administrator has removed that role. Only time tells which.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING

from asyncsched.clock import Clock
from asyncsched.schedulers.kubernetes.client_wire import APICall, send
from asyncsched.schedulers.kubernetes.errors import ApiFailure

if TYPE_CHECKING:
    import aiohttp

    from asyncsched.schedulers.kubernetes.client_credentials import CallAccess

__all__ = ["JUST_STARTED", "UNSYNCED_FOR", "Readiness"]

JUST_STARTED = ApiFailure(503, "", "it has just started and does not know users and roles yet")

UNSYNCED_FOR = 10.0
"""Seconds for which a refusal counts as temporary while ``/readyz`` is refused as well."""
FORGOTTEN_AFTER = 60.0
"""Seconds after which earlier refusals of a call no longer count."""
MOST_CALLS = 4096


class Readiness:
    """Remembers refusals by a server that may not have been ready.

    Args:
        clock: The time source.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused: OrderedDict[tuple[str, str, bool], tuple[float, float]] = OrderedDict()  # first, and last

    async def is_starting(
        self, session: aiohttp.ClientSession, access: CallAccess, call: APICall, refused: ApiFailure
    ) -> bool:
        """Return whether a server that refused a call is still starting; False after `UNSYNCED_FOR` seconds of doubt.

        If the server refused the credentials, it is asked without them: it refuses every token until it can check one.
        """
        with_credentials = refused.code != 401
        status = await _ready_status(session, access, with_credentials=with_credentials)
        if status != 403 and not (status == 401 and with_credentials):
            self.allowed(call)
            return status >= 500
        key, now = _key(call), self._clock.monotonic()
        first, last = self._refused.pop(key, (now, now))
        first = now if now - last > FORGOTTEN_AFTER else first
        self._refused[key] = first, now
        if len(self._refused) > MOST_CALLS:
            self._refused.popitem(last=False)
        return now - first < UNSYNCED_FOR

    def allowed(self, call: APICall) -> None:
        """Forget the refusals of a call that was accepted, or permanently refused."""
        if self._refused:
            self._refused.pop(_key(call), None)


def _key(call: APICall) -> tuple[str, str, bool]:
    return call.method, call.path, "watch" in (call.query or ())


async def _ready_status(session: aiohttp.ClientSession, access: CallAccess, *, with_credentials: bool) -> int:
    if not with_credentials:
        others = {name: value for name, value in access.headers.items() if name.lower() != "authorization"}
        access = replace(access, headers=others)
    response = await send(session, access, APICall("GET", "/readyz", None, None, {"Accept": "*/*"}, "connect"))
    response.close()
    return response.status
