"""Create the TorchX scheduler for a name."""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torchx.runner.api import Runner

from asyncsched.errors import MissingExtraError
from asyncsched.schedulers.registry import get_scheduler
from asyncsched.torchx.job_names import JOB_NAMES, class_by_job_name
from asyncsched.torchx.scheduler import AsyncSchedScheduler

__all__ = ["make"]

_WITH_IMAGES = ("local_docker", "kubernetes", "aws_batch")
"""Schedulers for which TorchX builds an image from a workspace."""

_of_runners: weakref.WeakKeyDictionary[Runner, dict[str, AsyncSchedScheduler]] = weakref.WeakKeyDictionary()
"""The schedulers created for each runner, by name."""


def make(name: str, session_name: str, parameters: Mapping[str, Any]) -> AsyncSchedScheduler:
    """Create the TorchX scheduler `name`, which runs on asyncsched.

    Each runner gets one scheduler per name: if several threads of a runner asked for the first one at the same time,
    they would otherwise create several, of which the runner keeps and closes only one. The runner is found on the call
    stack.

    Args:
        name: The name, the same in TorchX and asyncsched.
        session_name: The session to mark submitted apps with.
        parameters: The parameters that TorchX passes to all schedulers, including every ``TORCHX_*`` variable of the
            environment; unknown ones are ignored.

    Raises:
        ModuleNotFoundError: An extra is missing; TorchX's ``runopts`` and ``configure`` skip such schedulers.
    """
    runner = _asking_runner()
    if runner is None:
        return _make(name, session_name, parameters)
    # Without a lock, which a fork could leave held: a second scheduler has no thread yet, and is dropped.
    known = _of_runners.setdefault(runner, {})
    return known.get(name) or known.setdefault(name, _make(name, session_name, parameters))


def _asking_runner() -> Runner | None:
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "_scheduler":
            caller = frame.f_locals.get("self")
            return caller if isinstance(caller, Runner) else None
        frame = frame.f_back
    return None


def _make(name: str, session_name: str, parameters: Mapping[str, Any]) -> AsyncSchedScheduler:
    taken = _TAKEN.get(name, {})
    ours = {key: read(parameters[key]) for key, read in taken.items() if parameters.get(key) is not None}
    try:
        create = (
            partial(class_by_job_name(name), session_name, **ours)
            if name in JOB_NAMES
            else partial(get_scheduler, name, session_name, **ours)
        )
        if name in _WITH_IMAGES:
            from asyncsched.torchx.images import ImageScheduler

            return ImageScheduler(name, session_name, create)
        return AsyncSchedScheduler(name, session_name, create)
    except MissingExtraError as error:
        raise ModuleNotFoundError(str(error)) from None


def _paths(value: Any) -> list[str]:
    return value.split(os.pathsep) if isinstance(value, str) else list(value)


def _provider(theirs: Callable[..., Any]) -> Callable[..., Any]:
    from asyncsched.torchx.providers import TorchXImages

    return partial(TorchXImages, theirs)


_TAKEN: Mapping[str, Mapping[str, Callable[[Any], object]]] = {
    "local_cwd": {"cache_size": int, "extra_paths": _paths, "image_provider_class": _provider},
    "aws_batch": dict.fromkeys(("region", "profile", "endpoint_url"), str),
    "gcp_batch": dict.fromkeys(("project", "credentials_file", "endpoint_url", "logging_url"), str),
    "kubernetes": dict.fromkeys(("context", "kubeconfig"), str),
}
"""The parameters that mean the same in both; from the environment they come as strings."""
