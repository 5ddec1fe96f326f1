"""Recognise apps of TorchX's classes by their names, without importing TorchX."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from typing import Any, Protocol

    from asyncsched.specs.app import AppDef

__all__ = ["TorchXApp", "adopted", "is_torchx_app"]


if TYPE_CHECKING:

    class TorchXApp(Protocol):
        """An `AppDef` of ``torchx.specs``, for type checkers."""

        name: str
        roles: list[Any]
        metadata: dict[str, str]

else:

    class TorchXApp:
        """The same at run time: a protocol takes a millisecond to create."""


def is_torchx_app(kind: type[object]) -> bool:
    """Return whether a class is TorchX's AppDef, or a subclass of it."""
    return any(each.__name__ == "AppDef" and each.__module__.startswith("torchx.") for each in kind.__mro__)


def adopted(app: AppDef | TorchXApp) -> AppDef:
    """Convert an app of TorchX's to ours; return any other object unchanged, for others to check.

    Raises:
        ConfigError: The app cannot be converted.
    """
    if not is_torchx_app(type(app)):
        return cast("AppDef", app)
    from asyncsched.torchx.convert import adopt  # imported only for an app of TorchX

    return adopt(app)
