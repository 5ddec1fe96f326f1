from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

class register:
    @classmethod
    def scheduler(cls, name: str | None = ...) -> Callable[[F], F]: ...
