"""Belonging to one event loop, which is known with the first operation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from asyncsched.errors import UsageError, WrongLoopError

__all__ = ["AsyncOnly", "one_loop"]


OTHERWISE = "make one for each loop; from several loops or threads, use asyncsched.sync"


def one_loop(known: asyncio.AbstractEventLoop | None, what: str, fix: str = OTHERWISE) -> asyncio.AbstractEventLoop:
    """Return the running loop, which must be the one that is known already, if any is.

    Raises:
        WrongLoopError: It is another; `what` begins the sentence that says so, and `fix` tells what to do.
    """
    loop = asyncio.get_running_loop()
    if known is not None and known is not loop:
        raise WrongLoopError(f"{what} belongs to another event loop", fix=fix)
    return loop


class AsyncOnly:
    """Answers ``with`` where ``async with`` is meant; type checkers know that there is no ``with``."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __enter__(self) -> None:
            raise UsageError(
                f"with is not for {type(self).__name__}", fix="write `async with`, or use asyncsched.sync, which blocks"
            )

        def __exit__(self, *error: object) -> None: ...  # looked up before `__enter__` is called
