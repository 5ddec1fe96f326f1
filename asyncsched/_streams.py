"""What the streams have in common: async generators that are classes, so that a cancelled step does not end them."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import copy
from collections.abc import AsyncGenerator, Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

from asyncsched._error_text import quiet
from asyncsched._loops import AsyncOnly, one_loop
from asyncsched.errors import UsageError

__all__ = ["AsyncStream", "SteppedStream", "StreamCore", "Waiter", "for_one"]

ItemT_co = TypeVar("ItemT_co", covariant=True)
StepT = TypeVar("StepT")

HERE = "use it where its first step was; from several loops or threads, use asyncsched.sync"
STOPPED = "stopped: what was followed runs on"
ErrorT = TypeVar("ErrorT", bound=BaseException)


def for_one(error: ErrorT) -> ErrorT:
    """Return a copy of an error that several streams end with, for one of them.

    Whoever raises an exception adds to its traceback, and may add notes: raised by a thousand streams, one and the
    same object would hold the frames of them all.
    """
    try:
        own = copy.copy(error)
    except Exception:  # noqa: BLE001 - not every vendor's exception can be copied: to share it is the lesser evil
        return error
    own.__cause__ = error.__cause__
    return own


class AsyncStream(AsyncOnly, AsyncGenerator[ItemT_co, None]):
    """An async generator made of `__anext__` and `aclose`; what else the protocol asks for follows from those.

    A native generator is finished by the first step that is cancelled or times out, and that looks like its end.
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
            # Where there is no `__iter__`, this is what `for`, `list` and `sorted` call first.
            raise UsageError(
                f"a {type(self).__name__} is neither iterated over by a plain `for` nor indexed",
                fix="write `async for`, or use asyncsched.sync, which blocks",
            )

    async def asend(self, value: None) -> ItemT_co:
        """Return the next item; `value` is ignored, as there is no ``yield`` to receive it."""
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
    """Holds up one step until it is woken; cancelling the wait loses nothing."""

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
        """Wake the step that waits, if one does."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class StreamCore(abc.ABC):
    """What a stream's tasks hold, so that nothing but its user holds the stream itself.

    Attributes:
        closed: Whether it has ended or was closed.
    """

    WHAT: ClassVar[str]
    """The stream, for messages."""

    def __init__(self) -> None:
        self.closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def state(self) -> str:
        """One word for a repr."""
        return "closed" if self.closed else "new" if self._loop is None else "open"

    @abc.abstractmethod
    async def aclose(self) -> None:
        """End everything that the stream has begun."""

    @abc.abstractmethod
    def _detach(self) -> object:
        """Close it without waiting for what that ends."""

    def _enter(self) -> bool:
        """Check, at the beginning of a step, that it runs in the loop of the first one; return whether it is that."""
        known, self._loop = self._loop, one_loop(self._loop, self.WHAT, HERE)
        return known is None

    def abandon(self) -> None:
        """End it from outside: its user has dropped the stream, in whatever thread it was collected."""
        if self._loop is not None and not self.closed:
            with contextlib.suppress(RuntimeError):  # the loop has been closed, and its tasks with it
                self._loop.call_soon_threadsafe(self._detach)


CoreT = TypeVar("CoreT", bound=StreamCore)


class SteppedStream(AsyncStream[ItemT_co], Generic[ItemT_co, CoreT]):
    """A stream with a core: one step at a time, and dropped it ends like one that was closed."""

    def __init__(self, core: CoreT) -> None:
        self._core = core
        self._stepping = False

    async def _alone(self, step: Callable[[], Awaitable[StepT]]) -> StepT:
        """Take a step, unless another one has not ended yet."""
        if self._stepping:
            raise RuntimeError(f"another step of {self._core.WHAT} has not ended yet")
        self._stepping = True
        try:
            return await step()
        except asyncio.CancelledError as error:
            quiet(error, STOPPED)  # a cell of a notebook was stopped, which is no fault
            raise
        finally:
            self._stepping = False

    async def aclose(self) -> None:
        """End the stream; the apps are not touched. Idempotent."""
        await self._core.aclose()

    def __del__(self) -> None:
        core: CoreT | None = getattr(self, "_core", None)  # missing if __init__ was given wrong arguments
        if core is not None:
            core.abandon()

    @property
    def closed(self) -> bool:
        """Whether it has ended or was closed."""
        return self._core.closed
