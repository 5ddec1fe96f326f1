"""Report settings of roles that a backend does not support, in every dry-run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import cast

from asyncsched.specs.app import AppDef, RetryPolicy, Role
from asyncsched.specs.dryrun import Ignored
from asyncsched.specs.macros import unknown_macros
from asyncsched.specs.masking import masked
from asyncsched.specs.secret_ref import SecretRef

__all__ = ["FIELDS", "Notices", "find_ignored", "find_unknown_macros", "kept_by_submitter"]

_log = logging.getLogger("asyncsched.schedulers")

_COST = "%s bills an app while it runs, and this app has no time limit: set the run option timeout"

FIELDS: Mapping[str, Callable[[Role], bool]] = {
    "max_retries": lambda role: role.max_retries > 0,
    "min_replicas": lambda role: role.min_replicas not in (None, role.num_replicas),
    "mounts": lambda role: bool(role.mounts),
    "port_map": lambda role: bool(role.port_map),
    "resource.cpu": lambda role: role.resource.cpu > 0,
    "resource.gpu": lambda role: role.resource.gpu > 0,
    "resource.memMB": lambda role: role.resource.memMB > 0,
    "resource.capabilities": lambda role: bool(role.resource.capabilities),
    "resource.devices": lambda role: bool(role.resource.devices),
}
"""The fields that a backend may declare in `Scheduler.ignores`, and whether a role uses them."""


QUIET = frozenset({"resource.cpu", "resource.memMB"})
"""Fields that are reported in a dry-run but not logged, because most components set them without the user."""


def find_ignored(
    app: AppDef,
    ignores: Mapping[str, str],
    retry_policies: Collection[RetryPolicy],
    backend: str,
    capabilities: Collection[str] | None = None,
) -> Iterator[Ignored]:
    """Yield the settings of an app's roles that have no effect.

    Args:
        app: The app.
        ignores: The fields that the backend does not support, and why.
        retry_policies: The retry policies that the backend supports.
        backend: The backend's name.
        capabilities: The capabilities of a resource that the backend uses; None if `ignores` covers all of them.
    """
    alone = sum(role.num_replicas for role in app.roles) == 1  # then all policies mean the same
    for role in app.roles:
        for field, why in ignores.items():
            if FIELDS[field](role):
                yield Ignored(role.name, field, why)
        if capabilities is not None and (unread := role.resource.capabilities.keys() - capabilities):
            why = f"{backend} uses {', '.join(sorted(capabilities))}, not {', '.join(sorted(unread))}"
            yield Ignored(role.name, "resource.capabilities", why)
        retried = role.max_retries > 0 and "max_retries" not in ignores and not alone
        if retried and role.retry_policy not in retry_policies:
            yield Ignored(role.name, "retry_policy", _policies(role.retry_policy, retry_policies, backend))


def kept_by_submitter(app: AppDef, option: str) -> Iterator[Ignored]:
    """Yield, for each role, that a limit applies only while the submitting process runs."""
    for role in app.roles:
        yield Ignored(role.name, option, "enforced only while the submitting process runs")


class Notices:
    """Logs each notice for submitters once; each dry-run shows them in full.

    Args:
        backend: The scheduler's name.
    """

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._told: set[str] = set()

    def tell_ignored(self, ignored: Iterable[Ignored]) -> None:
        """Log the settings that have no effect here."""
        new = {each.field: str(each) for each in ignored if each.field not in self._told | QUIET}
        if new:
            self._told.update(new)
            _log.warning("%s ignores %s", self._backend, "; ".join(new.values()))

    def tell_cost(self) -> None:
        """Log that an app costs money while it runs, and has no time limit."""
        if _COST not in self._told:
            self._told.add(_COST)
            _log.warning(_COST, self._backend)


def _policies(asked: RetryPolicy, offered: Collection[RetryPolicy], backend: str) -> str:
    return f"{backend} retries by {', '.join(sorted(offered))}, not by {asked.value}"


def find_unknown_macros(app: AppDef) -> Iterator[Ignored]:
    """Yield texts that look like macros but are not, in fields with macros; possible secrets are skipped."""
    for role in app.roles:
        env = {name: value for name, value in role.env.items() if not isinstance(value, SecretRef)}
        for field, value in {"args": role.args, "env": env, "metadata": role.metadata}.items():
            if not any(map(unknown_macros, _texts(value))):  # so it is for most, and masking takes much longer
                continue
            names = dict.fromkeys(name for text in _texts(masked(value)) for name in unknown_macros(text))
            for name in names:
                why = f"it is not a macro; write $${{{name}}} in {field} if a program should get it"
                yield Ignored(role.name, f"${{{name}}}", why)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in cast("Mapping[object, object]", value).values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in cast("list[object]", value):
            yield from _texts(item)
