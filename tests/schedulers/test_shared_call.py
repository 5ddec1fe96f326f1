"""One call for all who want its answer at a time."""

from __future__ import annotations

import asyncio

import pytest

from asyncsched.errors import ClosedError, UnavailableError
from asyncsched.schedulers._common.shared_call import SharedCall
from tests._support import eventually


class Asked:
    """Something that is asked, and answers when it is told to."""

    def __init__(self) -> None:
        self.times = 0
        self.answers: list[asyncio.Future[int]] = []

    async def ask(self) -> int:
        self.times += 1
        self.answers.append(asyncio.get_running_loop().create_future())
        return await self.answers[-1]


async def begun(asked: Asked, times: int) -> None:
    await eventually(lambda: asked.times == times)


async def test_all_who_ask_at_a_time_get_one_answer_though_one_of_them_leaves() -> None:
    asked, call = Asked(), SharedCall[int]("asking")
    waiting = [asyncio.create_task(call.join(asked.ask)) for _ in range(1000)]
    await begun(asked, 1)
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    asked.answers[0].set_result(7)

    assert [7] * 999 == await asyncio.gather(*waiting[1:])
    assert waiting[0].cancelled()
    assert 1 == asked.times


async def test_who_comes_after_it_was_parted_from_asks_anew() -> None:
    asked, call = Asked(), SharedCall[int]("asking")
    first = asyncio.create_task(call.join(asked.ask))
    await begun(asked, 1)
    call.part()
    second = asyncio.create_task(call.join(asked.ask))
    await begun(asked, 2)
    asked.answers[1].set_result(2)
    asked.answers[0].set_result(1)

    assert [1, 2] == await asyncio.gather(first, second)


async def test_each_gets_an_error_of_its_own_and_the_next_asks_anew() -> None:
    asked, call = Asked(), SharedCall[int]("asking")
    waiting = [asyncio.create_task(call.join(asked.ask)) for _ in range(2)]
    await begun(asked, 1)
    asked.answers[0].set_exception(UnavailableError("gone"))
    first, second = await asyncio.gather(*waiting, return_exceptions=True)
    again = asyncio.create_task(call.join(asked.ask))
    await begun(asked, 2)
    asked.answers[1].set_result(2)

    assert isinstance(first, UnavailableError)
    assert isinstance(second, UnavailableError)
    assert first is not second
    assert 2 == await again


async def test_who_waits_when_it_is_closed_is_told() -> None:
    asked, call = Asked(), SharedCall[int]("asking")
    waiting = asyncio.create_task(call.join(asked.ask))
    await begun(asked, 1)
    call.part()
    await call.aclose(10.0)

    with pytest.raises(ClosedError, match="asking was stopped"):
        await waiting
    await call.aclose(10.0)
