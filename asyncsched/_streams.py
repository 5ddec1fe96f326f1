"""What the streams have in common: async generators that are classes, so that a cancelled step does not end them."""

from __future__ import annotations

import abc
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self

from typing_extensions import TypeVar

__all__ = ["AsyncStream"]

ItemT_co = TypeVar("ItemT_co", covariant=True)


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
