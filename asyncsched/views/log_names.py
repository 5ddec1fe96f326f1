"""Who wrote a line, as short as it can be told."""

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
"""App ("" where there is but one), role and replica."""

WIDEST = 32
"""Where there is little room, names that are longer are cut in their middle: who wrote a line must leave it room."""

MEASURED = 1000
"""Apps whose names are measured at most."""


class Names:
    """The names of replicas in prefixes.

    Args:
        apps: What the apps are called, by their ids, where there are several.
        single: The apps that have one role, which goes without saying.
        replicas: Who is going to write, as far as that is known: shorter prefixes are filled up to the longest.
    """

    def __init__(
        self, apps: Mapping[str, str] | None = None, single: Iterable[str] = (), replicas: Iterable[Who] = ()
    ) -> None:
        self._apps = apps
        self._single = frozenset(single)
        self.width = min(max((len(self.of(who)) for who in replicas), default=0), WIDEST)

    @classmethod
    def of_app(cls, app: AppDef) -> Names:
        """Return the names for one app that was just launched."""
        return cls(replicas=[("", role.name, role.num_replicas - 1) for role in app.roles])

    @classmethod
    def of_apps(cls, apps: Mapping[str, DescribeAppResponse]) -> Names:
        """Return the names for apps by their ids: the names that they were given while these are distinct."""
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
        """Return the names for apps that are shown, by what each is called there."""
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
        """Return who wrote a line."""
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
