"""Schedulers whose macro ``app_id`` is the job's name without queue or namespace, as in TorchX."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from asyncsched.schedulers.api import Scheduler
from asyncsched.specs import AppDef, Role, Secret, SecretRef
from asyncsched.specs.not_kept import NotKept

__all__ = ["JOB_NAMES", "class_by_job_name"]

JOB_NAMES: Mapping[str, tuple[str, str]] = {
    "aws_batch": ("asyncsched.schedulers.aws_batch", "AWSBatchScheduler"),
    "kubernetes": ("asyncsched.schedulers.kubernetes", "KubernetesScheduler"),
    "gcp_batch": ("asyncsched.schedulers.gcp_batch", "GCPBatchScheduler"),
}
"""Schedulers whose app ids are more than a name: module and class."""

_APP_ID = re.compile(r"\$\$\{?|\$\{app_id\}")
"""The macro, or text before it that could be mistaken for one."""


def class_by_job_name(name: str) -> Callable[..., Scheduler[Any, Any]]:
    """Return a scheduler's class, changed so that ``${app_id}`` is the part after the app id's last colon."""
    module, kind = JOB_NAMES[name]
    original: Any = getattr(importlib.import_module(module), kind)

    async def _request(self: Any, app: AppDef, options: Any, app_id: str) -> Any:
        job = app_id.rpartition(":")[2]  # letters, digits and hyphens, which cannot form a macro
        for role in app.roles:  # the app is a copy, made for this call
            _fill_in(role, job)
        return await original._request(self, app, options, app_id)

    changed: Callable[..., Scheduler[Any, Any]] = type(kind, (original,), {"_request": _request})
    return changed


def _fill_in(role: Role, name: str) -> None:
    role.args = _filled(role.args, name)
    role.env = _filled(role.env, name)
    role.metadata = _filled(role.metadata, name)


def _filled(value: Any, name: str) -> Any:
    if isinstance(value, SecretRef | NotKept):
        return value
    if isinstance(value, Secret):
        return Secret(_filled(value.reveal(), name))
    if isinstance(value, str):
        return (
            _APP_ID.sub(lambda found: name if found[0] == "${app_id}" else found[0], value) if "$" in value else value
        )
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value)
        return {key: _filled(each, name) for key, each in pairs.items()}
    if type(value) in (list, tuple):
        items = [_filled(each, name) for each in cast("list[object]", value)]
        return items if isinstance(value, list) else tuple(items)
    return value
