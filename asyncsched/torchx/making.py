"""Which TorchX scheduler is made for a name, and of what."""

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
"""Those for which TorchX builds an image of a workspace."""

_of_runners: weakref.WeakKeyDictionary[Runner, dict[str, AsyncSchedScheduler]] = weakref.WeakKeyDictionary()
"""What was made for each runner, by name."""


def make(name: str, session_name: str, parameters: Mapping[str, Any]) -> AsyncSchedScheduler:
    """Make the TorchX scheduler `name`, which runs on asyncsched.

    A runner gets one of each name: threads that ask it for the first one together would else get several, of which it
    keeps one, and closes no other. Which runner asks is seen by who calls.

    Args:
        name: The name, the same in both.
        session_name: The session that submitted apps are marked with.
        parameters: What TorchX gives all of its schedulers, every ``TORCHX_*`` of the environment among it; those
            that this one does not know are left out.

    Raises:
        ModuleNotFoundError: An extra is missing; TorchX's ``runopts`` and ``configure`` pass over that.
    """
    runner = _asking_runner()
    if runner is None:
        return _make(name, session_name, parameters)
    # No lock, which a fork could leave held: what comes second has no thread yet, and is dropped.
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
"""The parameters that mean the same in both; from the environment they come as text."""
