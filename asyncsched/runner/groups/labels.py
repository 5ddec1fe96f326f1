"""The labels that tell an app's replicas, and readers of its description, which group it belongs to."""

from __future__ import annotations

import copy

from asyncsched.runner.role_env import with_env
from asyncsched.specs.app import AppDef

__all__ = ["GROUP", "INDEX", "labelled"]

GROUP = "ASYNCSCHED_GROUP"
"""The variable, and the name in the app's metadata, that hold the group's name."""

INDEX = "ASYNCSCHED_GROUP_INDEX"
"""Those that hold the job's number in its group."""


def labelled(app: AppDef, group: str, index: int) -> AppDef:
    """Return a copy of an app with the labels of its group and job."""
    labels = {GROUP: group, INDEX: str(index)}
    told = copy.copy(app)
    told.roles = [with_env(role, labels) for role in app.roles]
    told.metadata = {**app.metadata, **labels}
    return told
