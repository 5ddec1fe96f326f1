"""Macros: placeholders in a role whose values are known only when a replica starts.

``${img_root}``, ``${app_id}``, ``${replica_id}`` and ``${rank0_env}`` (and the old ``${base_img_root}``) are
replaced in a role's ``args``, in the values of ``env``, and in ``metadata`` at any depth. Write ``$${`` for a literal
``${``: ``$${app_id}`` reaches the program as ``${app_id}``. Nothing else changes: any other ``$$``, the shell's
process id, stays ``$$``, and ``$app_id`` without braces belongs to the user's shell. A text is read from left to right,
so ``$$${app_id}`` is the shell's process id followed by the app's id.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import cast

from asyncsched.specs.app import Role
from asyncsched.specs.secret import Secret
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.specs.value import Value

__all__ = ["escaped", "macros", "unknown_macros"]

_PLACEHOLDER = r"(?a)\$\$(?P<escape>\{)?|\$\{(?P<name>[^\W\d]\w*)\}"
"""Matches ``$$`` for a shell, an escape, or anything that looks like a macro."""

_NAMES = ("img_root", "base_img_root", "app_id", "replica_id", "rank0_env")


def escaped(text: str) -> str:
    """Return the text to write so that a program gets `text`: macros are escaped with ``$${``.

    Raises:
        ValueError: It contains ``$${``, which no text can produce.
    """
    if any(found["escape"] for found in re.finditer(_PLACEHOLDER, text)):
        raise ValueError("it holds $${, which always becomes ${")
    return re.sub(_PLACEHOLDER, lambda found: f"${found[0]}" if found["name"] in _NAMES else found[0], text)


def unknown_macros(text: str) -> list[str]:
    """Return the names in a text that look like macros but are not, each once.

    Names in capitals are taken for environment variables, unless they are a macro's name in capitals.
    """
    names = dict.fromkeys(found["name"] for found in re.finditer(_PLACEHOLDER, text) if found["name"])
    return [name for name in names if name not in _NAMES and (name.upper() != name or name.lower() in _NAMES)]


class macros:  # noqa: N801 - the documents' name
    """The placeholders to use in a role: ``args=["--id", macros.app_id]``."""

    img_root = "${img_root}"
    base_img_root = "${base_img_root}"
    app_id = "${app_id}"
    replica_id = "${replica_id}"
    rank0_env = "${rank0_env}"

    @dataclass(eq=False, repr=False)
    class Values(Value):
        """The values of the placeholders in one replica.

        Args:
            img_root: Where the image's files are.
            app_id: The application's id.
            replica_id: The replica's number in its role; a replacement keeps the number.
            rank0_env: The *name* of the environment variable that holds the address of replica 0.
            base_img_root: Deprecated in the documents.
        """

        img_root: str
        app_id: str
        replica_id: str
        rank0_env: str
        base_img_root: str = "DEPRECATED"

        def apply(self, role: Role) -> Role:
            """Return a copy of the role with the values filled in; the role itself is never changed."""
            result = copy.copy(role)
            for name, value in vars(role).items():
                substituted = name in ("args", "env", "metadata")
                setattr(result, name, self._nested(value) if substituted else copy.deepcopy(value))
            return result

        def substitute(self, arg: str) -> str:
            """Return the text with the values filled in; a secret stays a secret."""
            if isinstance(arg, SecretRef):
                return arg  # the name of the service's secret, not a text of the app
            if isinstance(arg, Secret):
                return Secret(self.substitute(arg.reveal()))
            return re.sub(_PLACEHOLDER, self._value, arg)

        def _value(self, match: re.Match[str]) -> str:
            if match["escape"]:
                return "${"
            return getattr(self, match["name"]) if match["name"] in _NAMES else match[0]

        def _nested(self, value: object) -> object:
            if isinstance(value, str):
                return self.substitute(value)
            if isinstance(value, dict):
                pairs = cast("dict[object, object]", value)
                return {key: self._nested(item) for key, item in pairs.items()}
            if type(value) in (list, tuple):
                items = [self._nested(item) for item in cast("list[object]", value)]
                return items if isinstance(value, list) else tuple(items)
            return copy.deepcopy(value)
