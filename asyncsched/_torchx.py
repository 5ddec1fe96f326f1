"""Apps that somebody made with TorchX's classes: they are known by name, and TorchX is not imported for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from typing import Any, Protocol

    from asyncsched.specs.app import AppDef

__all__ = ["TorchXApp", "adopted", "is_torchx_app"]


if TYPE_CHECKING:

    class TorchXApp(Protocol):
        """An `AppDef` of ``torchx.specs``, as far as types go."""

        name: str
        roles: list[Any]
        metadata: dict[str, str]

else:

    class TorchXApp:
        """The same where nobody checks types: a protocol takes a millisecond to make."""


def is_torchx_app(kind: type[object]) -> bool:
    """Tell whether a class is TorchX's AppDef, or a subclass of it."""
    return any(each.__name__ == "AppDef" and each.__module__.startswith("torchx.") for each in kind.__mro__)


def adopted(app: AppDef | TorchXApp) -> AppDef:
    """Return an app of TorchX's as ours, and any other object as it is, for others to check.

    Raises:
        ConfigError: The app says something that cannot be said here.
    """
    if not is_torchx_app(type(app)):
        return cast("AppDef", app)
    from asyncsched.torchx.convert import adopt  # loaded only for an app of TorchX

    return adopt(app)
