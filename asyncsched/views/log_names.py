"""Short names for the replicas that write log lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from asyncsched.logs.line import LogOrigin
    from asyncsched.schedulers.responses import DescribeAppResponse
    from asyncsched.specs.app import AppDef
    from asyncsched.views.apps import AppView

__all__ = ["WIDEST", "Names", "Who"]

Who: TypeAlias = tuple[str, str, int]
"""App ("" if there is only one), role and replica."""

WIDEST = 32
"""Longer names are shortened in the middle on a terminal, to leave room for the line."""

MEASURED = 1000
"""How many apps are measured for the width of names."""


class Names:
    """The names of replicas in prefixes.

    Args:
        apps: The names of the apps by id, if there are several.
        single: The apps with only one role, which is not shown.
        replicas: The replicas, as far as known; shorter prefixes are padded to the longest.
    """

    def __init__(
        self, apps: Mapping[str, str] | None = None, single: Iterable[str] = (), replicas: Iterable[Who] = ()
    ) -> None:
        self._apps = apps
        self._single = frozenset(single)
        self.width = min(max((len(self.of(who)) for who in replicas), default=0), WIDEST)

    @classmethod
    def of_app(cls, app: AppDef) -> Names:
        """Return the names for one app."""
        return cls(replicas=[("", role.name, role.num_replicas - 1) for role in app.roles])

    @classmethod
    def of_apps(cls, apps: Mapping[str, DescribeAppResponse]) -> Names:
        """Return the names for apps by id: their names if these are distinct, else their ids."""
        if len(apps) == 1:
            replicas = [each for answer in apps.values() for each in answer.replicas]
            return cls(replicas=[("", each.role, each.id) for each in replicas])
        counts = Counter(answer.name for answer in apps.values())
        names = {app_id: answer.name if counts[answer.name] == 1 else "" for app_id, answer in apps.items()}
        return cls(
            {app_id: name or app_id for app_id, name in names.items()},
            [app_id for app_id, answer in apps.items() if len(answer.roles_statuses) == 1],
            [(app_id, each.role, each.id) for app_id, answer in apps.items() for each in answer.replicas],
        )

    @classmethod
    def of_views(cls, apps: Mapping[str, AppView]) -> Names:
        """Return the names for shown apps, by the name that each is shown with."""
        app_ids = {name: view.app_id if len(apps) > 1 else "" for name, view in apps.items()}
        return cls(
            {view.app_id: name for name, view in apps.items()} if len(apps) > 1 else None,
            [view.app_id for view in apps.values() if len(view.roles) == 1],
            [
                (app_ids[name], role.role, role.replicas[-1].id)
                for name, view in islice(apps.items(), MEASURED)
                for role in view.roles
                if role.replicas
            ],
        )

    def who(self, source: LogOrigin) -> Who:
        """Return the replica that wrote a line."""
        return (source.app_id if self._apps is not None else "", source.role, source.replica)

    def of(self, who: Who) -> str:
        """Return a name such as ``worker/3``, or ``train-1/3`` of several apps."""
        app, role, replica = who
        if not app or self._apps is None:
            return f"{role}/{replica}"
        name = self._apps.get(app, app)
        return f"{name}/{replica}" if app in self._single else f"{name}/{role}/{replica}"

    def app(self, app_id: str) -> str:
        """Return what an app is called."""
        return (self._apps or {}).get(app_id, app_id)
