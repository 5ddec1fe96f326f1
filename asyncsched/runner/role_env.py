"""Environment variables for every replica of an app."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from asyncsched.specs.app import Role

__all__ = ["with_env"]


def with_env(role: Role, env: Mapping[str, str]) -> Role:
    """Return a copy of a role with these variables added; the role is not changed."""
    told = copy.copy(role)  # keeps the class: a role may have its own `pre_proc`
    told.env = {**role.env, **env}
    return told
