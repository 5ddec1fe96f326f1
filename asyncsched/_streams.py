"""The base of all streams: async generators that are classes, so that a cancelled step does not end them."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import copy
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

from asyncsched._loops import AsyncOnly, one_loop
from asyncsched.errors import UsageError

__all__ = ["AsyncStream", "SteppedStream", "StreamCore", "Waiter", "for_one"]

ItemT_co = TypeVar("ItemT_co", covariant=True)
StepT = TypeVar("StepT")

HERE = "use it in the loop of its first step; from several loops or threads, use asyncsched.sync"
STOPPED = "stopped: the apps keep running"
ErrorT = TypeVar("ErrorT", bound=BaseException)


def for_one(error: ErrorT) -> ErrorT:
    """Return a copy of an error that ends several streams, for one of them.

    Raising an exception extends its traceback, and may add notes: if a thousand streams raised the same object, it
    would hold the frames of them all.
    """
    try:
        own = copy.copy(error)
    except Exception:  # noqa: BLE001 - not every vendor's exception can be copied: sharing it is the lesser evil
        return error
    own.__cause__ = error.__cause__
    return own


class AsyncStream(AsyncOnly, AsyncGenerator[ItemT_co, None]):
    """An async generator made of `__anext__` and `aclose`; the rest of the protocol follows from those.

    A native generator is finished by the first step that is cancelled or times out, which looks like its end.
    """

    @abc.abstractmethod
    async def __anext__(self) -> ItemT_co: ...

    @abc.abstractmethod
    async def aclose(self) -> None:
        """End the stream; idempotent."""

    def __aiter__(self) -> Self:
        return self

    if not TYPE_CHECKING:

        def __getitem__(self, index: object) -> None:
            # Without `__iter__`, this is what `for`, `list` and `sorted` call first.
            raise UsageError(
                f"a {type(self).__name__} cannot be indexed, or iterated over with a plain `for`",
                fix="use `async for`, or the blocking asyncsched.sync",
            )

    async def asend(self, value: None) -> ItemT_co:
        """Return the next item; `value` is ignored, because there is no ``yield`` to receive it."""
        return await self.__anext__()

    async def athrow(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> ItemT_co:
        """Close the stream and raise the exception: there is no ``yield`` to raise it at."""
        await self.aclose()
        if isinstance(typ, BaseException):
            raise typ
        raise val if isinstance(val, BaseException) else typ() if val is None else typ(val)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Waiter:
    """Blocks one step until it is woken; cancelling the wait loses nothing."""

    def __init__(self) -> None:
        self._future: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Wait to be woken."""
        self._future = asyncio.get_running_loop().create_future()
        try:
            await self._future
        finally:
            self._future = None

    def wake(self) -> None:
        """Wake the waiting step, if there is one."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class StreamCore(abc.ABC):
    """The state that a stream's tasks hold, so that only its user holds the stream itself.

    Attributes:
        closed: Whether it has ended or was closed.
    """

    WHAT: ClassVar[str]
    """The stream's name, for messages."""

    def __init__(self) -> None:
        self.closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def state(self) -> str:
        """The state in one word, for a repr."""
        return "closed" if self.closed else "new" if self._loop is None else "open"

    @abc.abstractmethod
    async def aclose(self) -> None:
        """End everything that the stream has started."""

    @abc.abstractmethod
    def _detach(self) -> object:
        """Close it without waiting for its tasks to end."""

    def _enter(self) -> bool:
        """Check, at the start of a step, that it runs in the first step's loop; return whether it is the first."""
        known, self._loop = self._loop, one_loop(self._loop, self.WHAT, HERE)
        return known is None

    def abandon(self) -> None:
        """End it from outside: its user has dropped the stream, which may be collected in any thread."""
        if self._loop is not None and not self.closed:
            with contextlib.suppress(RuntimeError):  # the loop has been closed, and its tasks with it
                self._loop.call_soon_threadsafe(self._detach)


CoreT = TypeVar("CoreT", bound=StreamCore)


class SteppedStream(AsyncStream[ItemT_co], Generic[ItemT_co, CoreT]):
    """A stream with a core: it runs one step at a time, and ends when it is dropped, as if it were closed."""

    def __init__(self, core: CoreT) -> None:
        self._core = core
        self._stepping = False

    async def _alone(self, step: Callable[[], Awaitable[StepT]]) -> StepT:
        """Run a step, unless another one is still running."""
        if self._stepping:
            raise RuntimeError(f"another step of {self._core.WHAT} is still running")
        self._stepping = True
        try:
            return await step()
        except asyncio.CancelledError as error:
            if "IPython" in sys.modules:  # the user may have stopped a notebook's cell, which is not an error
                from asyncsched._error_text import quiet

                quiet(error, STOPPED)
            raise
        finally:
            self._stepping = False

    async def aclose(self) -> None:
        """End the stream; the apps are not affected. Idempotent."""
        await self._core.aclose()

    def __del__(self) -> None:
        core: CoreT | None = getattr(self, "_core", None)  # missing if __init__ got wrong arguments
        if core is not None:
            core.abandon()

    @property
    def closed(self) -> bool:
        """Whether it has ended or was closed."""
        return self._core.closed
