"""Bind an object to one event loop, that of its first operation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from asyncsched.errors import UsageError, WrongLoopError

__all__ = ["AsyncOnly", "one_loop"]


OUTSIDE = "use it in a coroutine, or the blocking asyncsched.sync"
OTHERWISE = "make one for each loop; from several loops or threads, use asyncsched.sync"


def one_loop(known: asyncio.AbstractEventLoop | None, what: str, fix: str = OTHERWISE) -> asyncio.AbstractEventLoop:
    """Return the running loop; it must be the known one, if there is one.

    Raises:
        WrongLoopError: It is another loop, or none runs here; `what` is the subject of the message, and `fix` its
            advice.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        why = "no event loop runs in this thread"
        raise WrongLoopError(f"{what} is used outside of an event loop", why=why, fix=OUTSIDE) from None
    if known is not None and known is not loop:
        raise WrongLoopError(f"{what} belongs to another event loop", fix=fix)
    return loop


class AsyncOnly:
    """Raises a helpful error for ``with`` instead of ``async with``; type checkers see no ``with`` at all."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __enter__(self) -> None:
            raise UsageError(
                f"{type(self).__name__} does not support with", fix="use `async with`, or the blocking asyncsched.sync"
            )

        def __exit__(self, *error: object) -> None: ...  # looked up before `__enter__` is called
