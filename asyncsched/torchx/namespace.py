"""Register through ``torchx_plugins.schedulers``, the namespace package that newer releases of TorchX search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asyncsched.torchx.factories import NAMES, Factory

__all__ = ["register_all"]


def register_all(module: dict[str, Any]) -> None:
    """Put a registered factory for each name into a module's namespace.

    TorchX reads a module's attributes in the order of their names, and uses the first scheduler as its default; it
    reads only functions that claim to be defined in this module.
    """
    from torchx.plugins import register

    for position, name in enumerate(NAMES):
        factory = _function(Factory(name))
        factory.__module__ = module["__name__"]
        module[f"_{position:02}_{name}"] = register.scheduler(name=name)(factory)


def _function(factory: Factory) -> Callable[..., Any]:
    def create_scheduler(session_name: str, **parameters: Any) -> Any:
        return factory(session_name, **parameters)

    return create_scheduler
