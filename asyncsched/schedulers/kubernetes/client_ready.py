"""Tells refusals of a server that is not ready yet from those that stay.

An API server that has just been started knows neither roles nor tokens: it refuses for a moment what it allows
otherwise, and tells by ``/readyz`` whether it is so far. Everybody may ask that, by a role that each cluster has at
first: so a server that refuses even this question does not know its roles yet, or somebody has taken that one away.
Which of the two it is, only time tells.
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

JUST_STARTED = ApiFailure(503, "", "it has just been started, and does not know users and roles yet")

UNSYNCED_FOR = 10.0
"""Seconds for which a call is taken to be refused for the moment only, while ``/readyz`` is refused as well."""
FORGOTTEN_AFTER = 60.0
"""Seconds after which another refusal of a call is none of those before."""
MOST_CALLS = 4096


class Readiness:
    """What a server has refused while nobody could tell whether it was ready.

    Args:
        clock: Tells the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused: OrderedDict[tuple[str, str, bool], tuple[float, float]] = OrderedDict()  # first, and last

    async def is_starting(
        self, session: aiohttp.ClientSession, access: CallAccess, call: APICall, refused: ApiFailure
    ) -> bool:
        """Ask a server that has refused a call whether it is ready; False also once it has been in doubt for too long.

        Where it does not accept the credentials, it is asked without: before it can check tokens it refuses each.
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
        """Take note that a call was let in, or that it was refused for good: its next refusal is a new one."""
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
