"""A class that is written in several parts is one class to its callers."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import pytest

from asyncsched import Runner
from asyncsched.schedulers import Scheduler
from asyncsched.testing import FakeScheduler


@pytest.mark.parametrize("cls", [Runner, Scheduler], ids=lambda cls: str(cls.__name__))
def test_all_public_methods_bear_the_name_of_the_class(cls: type[Any]) -> None:
    methods = {name: each for name in dir(cls) if isinstance(each := getattr(cls, name), FunctionType)}

    assert len(methods) > 20
    assert {name: f"{cls.__name__}.{name}" for name in methods if name[0] != "_"} == {
        name: each.__qualname__ for name, each in methods.items() if name[0] != "_"
    }


async def test_the_error_for_a_wrong_argument_names_the_class() -> None:
    runner: Any = Runner("me", schedulers={"fake": FakeScheduler("me")})
    scheduler: Any = FakeScheduler("me")

    with pytest.raises(TypeError, match=r"^Runner\.run\(\) got an unexpected keyword argument 'workspaces'"):
        await runner.run(None, workspaces=".")
    with pytest.raises(TypeError, match=r"^Runner\.log_lines\(\) got an unexpected keyword argument"):
        runner.log_lines("fake://me/a", until_done=True, follow=True, x=1)
    with pytest.raises(TypeError, match=r"^Scheduler\.submit\(\) got an unexpected keyword argument 'cgf'"):
        await scheduler.submit(None, cgf={})
