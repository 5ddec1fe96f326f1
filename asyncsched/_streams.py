"""What the streams have in common: async generators that are classes, so that a cancelled step does not end them."""

from __future__ import annotations

import abc
import copy
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self

from typing_extensions import TypeVar

__all__ = ["AsyncStream", "for_one"]

ItemT_co = TypeVar("ItemT_co", covariant=True)
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


class AsyncStream(AsyncGenerator[ItemT_co, None]):
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
