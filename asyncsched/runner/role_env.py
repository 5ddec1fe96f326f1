"""Variables that every replica of an app is given."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from asyncsched.specs.app import Role

__all__ = ["with_env"]


def with_env(role: Role, env: Mapping[str, str]) -> Role:
    """Return a copy of a role with these variables; its own are left as they are."""
    told = copy.copy(role)  # of whatever class: a role may have a `pre_proc` of its own
    told.env = {**role.env, **env}
    return told
