from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")

CfgVal: TypeAlias = str | int | float | bool | list[str] | dict[str, str] | None

class AppDef:
    name: str
    roles: list[Role]
    metadata: dict[str, str]

class Role:
    name: str

class RoleStatus: ...
class AppState: ...

class AppDryRunInfo(Generic[T]):
    request: T
    def __init__(self, request: T, fmt: Callable[[T], str]) -> None: ...

class runopts:
    def add(self, cfg_key: str, type_: type[Any], help: str, default: CfgVal = ..., required: bool = ...) -> None: ...

class InvalidRunConfigException(Exception):
    def __init__(self, invalid_reason: str, cfg_key: str, cfg: Mapping[str, CfgVal]) -> None: ...
