"""Blocking twins of coroutines and async generators, each one line, with the exact types of the originals."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from types import FunctionType, GenericAlias, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from asyncsched._bridge import Bridge
from asyncsched._tasks import outlast
from asyncsched.errors import ClosedError, UsageError

__all__ = [
    "BlockingIterator",
    "BlockingWatch",
    "Facade",
    "blocking",
    "blocking_iter",
    "blocking_watch",
    "on_loop",
    "set_return",
]

P = ParamSpec("P")
R = TypeVar("R")
ItemT = TypeVar("ItemT")
WrappedT = TypeVar("WrappedT")
ItemT_co = TypeVar("ItemT_co", covariant=True)

CLOSE_TIMEOUT = 11.0


class Facade(Generic[WrappedT]):
    """The base of the blocking classes: the wrapped object, and the bridge to its loop.

    A loop does not survive a fork. After a fork both are created again if possible; the parent's stay with the parent.

    Args:
        wrapped: The object.
        bridge: The bridge to its loop.
        again: Creates both in another process; without it, an object that was used before a fork is refused after it.
    """

    def __init__(
        self, wrapped: WrappedT, bridge: Bridge, again: Callable[[], tuple[WrappedT, Bridge]] | None = None
    ) -> None:
        self._first = wrapped, bridge
        self._again = again
        # By process. The parent's are kept: collecting them here would remove its sockets from its own loop.
        self._made = {os.getpid(): self._first}

    @property
    def _wrapped(self) -> WrappedT:
        return self._here()[0]

    @property
    def _bridge(self) -> Bridge:
        return self._here()[1]

    def _here(self) -> tuple[WrappedT, Bridge]:
        """Return the object and the bridge of this process."""
        made = self._made.get(os.getpid())
        # If several threads come here at once, all get the first thread's.
        return self._made.setdefault(os.getpid(), self._after_fork()) if made is None else made

    def _after_fork(self) -> tuple[WrappedT, Bridge]:
        wrapped, bridge = self._first
        if bridge.state == "closed":
            return self._first
        if bridge.state == "new":  # it has nothing in the parent
            return wrapped, bridge.again()
        if self._again is not None:
            return self._again()
        raise UsageError(
            "this object belongs to the parent process",
            why="its thread was not forked",
            fix="make one after fork, or pass a factory instead of a scheduler",
        )

    def __repr__(self) -> str:
        wrapped, bridge = self._made.get(os.getpid(), self._first)
        return f"<{type(self).__name__} {bridge.state} of {wrapped!r}>"

    def close(self) -> None:
        """End everything that is open, and the thread; calls of other threads get a ClosedError. Never raises."""
        made = self._made.setdefault(os.getpid(), (self._first[0], self._first[1].again()))
        made[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """Return the blocking twin of a coroutine method, for a `Facade` of its class."""

    @functools.wraps(method)
    def twin(self: Facade[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        # Looked up by name, so that a subclass can override the method.
        own: Callable[P, Coroutine[Any, Any, R]] = getattr(self._wrapped, method.__name__)
        return self._bridge.call(functools.partial(own, *args, **kwargs))

    return twin


def on_loop(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return the twin of a method that is not a coroutine but reads objects of the loop."""

    @functools.wraps(method)
    def twin(self: Facade[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        async def call() -> R:
            return method(self._wrapped, *args, **kwargs)

        return self._bridge.call(call)

    return twin


if TYPE_CHECKING:

    class Items(Protocol[ItemT_co]):
        """The methods of an async generator that an iterator needs."""

        def __aiter__(self) -> AsyncIterator[ItemT_co]: ...
        def __anext__(self) -> Awaitable[ItemT_co]: ...
        def aclose(self) -> Awaitable[None]: ...

    class Watch(Items[ItemT_co], Protocol[ItemT_co]):
        """An async generator whose set of apps can be changed while it runs."""

        def add(self, *names: str | Iterable[str]) -> None: ...
        def discard(self, *names: str | Iterable[str]) -> None: ...


def blocking_iter(
    method: Callable[Concatenate[Any, P], Items[ItemT]], item: object, *, ahead: int = 1
) -> Callable[Concatenate[Any, P], BlockingIterator[ItemT]]:
    """Return the blocking twin of a method that returns an async generator.

    Args:
        method: The method.
        item: The type of its items, for `inspect.signature` and the docs.
        ahead: How many items to fetch at a time.
    """

    @functools.wraps(method)
    def twin(self: Facade[Any], /, *args: P.args, **kwargs: P.kwargs) -> BlockingIterator[ItemT]:
        make = functools.partial(getattr(self._wrapped, method.__name__), *args, **kwargs)
        return BlockingIterator(self._bridge, make, ahead)

    set_return(twin, GenericAlias(BlockingIterator, item))
    return twin


def set_return(twin: Callable[..., object], annotation: object) -> None:
    """Set a twin's own return annotation, in place of the wrapped method's.

    `inspect` reads the wrapped method, so the twin wraps a copy of it: to make signatures here takes a millisecond.
    """
    method: FunctionType = twin.__wrapped__  # type: ignore[attr-defined]  # set by functools.wraps
    copy = FunctionType(method.__code__, method.__globals__, method.__name__, method.__defaults__, method.__closure__)
    copy.__kwdefaults__ = method.__kwdefaults__
    copy.__annotations__ = twin.__annotations__ = {**twin.__annotations__, "return": annotation}
    twin.__wrapped__ = copy  # type: ignore[attr-defined]  # as above


def blocking_watch(
    method: Callable[Concatenate[Any, P], Watch[ItemT]], item: object
) -> Callable[Concatenate[Any, P], BlockingWatch[ItemT]]:
    """Return the blocking twin of a method that returns a watch.

    Args:
        method: The method.
        item: The type of its items, as in `blocking_iter`.
    """

    @functools.wraps(method)
    def twin(self: Facade[Any], /, *args: P.args, **kwargs: P.kwargs) -> BlockingWatch[ItemT]:
        make = functools.partial(getattr(self._wrapped, method.__name__), *args, **kwargs)
        return BlockingWatch(self._bridge, make)

    set_return(twin, GenericAlias(BlockingWatch, item))
    return twin


class BlockingIterator(Iterator[ItemT_co]):
    """Iterates over an async generator from other threads, fetching several items at a time.

    To leave it, call `close` (or use ``with``), break out of the loop and drop it, or read to its end: each closes the
    generator in its loop. An interrupted `next` loses nothing. Threads may share it: each item goes to one of them.

    Args:
        bridge: The bridge to the loop.
        make: Creates the generator; called in the loop. Its exceptions are raised here.
        ahead: How many items to fetch at a time.
    """

    def __init__(self, bridge: Bridge, make: Callable[[], Items[ItemT_co]], ahead: int) -> None:
        async def open_pump() -> _Pump[ItemT_co]:
            return _Pump(make(), ahead)

        self._bridge = bridge
        self._pump = bridge.call(open_pump)
        self._ready = self._pump.ready
        weakref.finalize(self, bridge.post, self._pump.aclose).atexit = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ItemT_co:
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                pass
            if not self._bridge.call(self._pump.more):
                raise StopIteration

    def close(self) -> None:
        """Close the generator; drop fetched items. Idempotent."""
        with contextlib.suppress(ClosedError):  # the loop has ended, and has closed its objects
            self._bridge.call(self._pump.aclose)
        self._ready.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingWatch(BlockingIterator[ItemT_co]):
    """A watch for other threads: `add` and `discard` change its set of apps, even while another thread waits."""

    def __init__(self, bridge: Bridge, make: Callable[[], Watch[ItemT_co]]) -> None:
        async def open_watch() -> Watch[ItemT_co]:
            return make()

        self._watch = bridge.call(open_watch)
        super().__init__(bridge, lambda: self._watch, ahead=1)

    def add(self, *names: str | Iterable[str]) -> None:
        """Watch these apps too; one that is already watched, or whose end was reported, is not changed."""
        self._do(self._watch.add, names)

    def discard(self, *names: str | Iterable[str]) -> None:
        """Stop watching these apps; drop their pending events."""
        self._do(self._watch.discard, names)

    def _do(self, change: Callable[..., None], names: Iterable[str | Iterable[str]]) -> None:
        async def call() -> None:
            change(*names)

        self._bridge.call(call)


class _Pump(Generic[ItemT]):
    """An iterator's part in the loop: reads the generator, as many items ahead as it is told."""

    def __init__(self, items: Items[ItemT], ahead: int) -> None:
        self.ready: deque[ItemT] = deque()  # filled in the loop, emptied in other threads: both ends are atomic
        self._items = items
        self._ahead = ahead
        self._asked = asyncio.Event()
        self._told = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._error: Exception | None = None

    async def more(self) -> bool:
        """Wait for an item, and return whether there is one; raise the generator's exception once."""
        if self._task is None:
            self._task = asyncio.create_task(self._read())
            self._task.add_done_callback(lambda _: self._told.set())
        self._asked.set()
        while not self.ready and not self._task.done():
            self._told.clear()
            await self._told.wait()
        if not self.ready and self._error is not None:
            error, self._error = self._error, None
            raise error
        return bool(self.ready)

    async def _read(self) -> None:
        try:
            async for item in self._items:
                self.ready.append(item)
                self._told.set()
                if len(self.ready) >= self._ahead:
                    self._asked.clear()
                    await self._asked.wait()
        except Exception as error:  # noqa: BLE001 - raised when the next item is requested
            self._error = error

    async def aclose(self) -> None:
        """Close the generator."""
        if self._task is None:
            self._task = asyncio.create_task(asyncio.sleep(0))  # stop reading
        self._task.cancel()
        try:
            await outlast([self._task], CLOSE_TIMEOUT)
        finally:
            await self._items.aclose()
