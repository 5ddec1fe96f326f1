"""How a line begins: who wrote it, as short as it can be told, and whether it is of stderr."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from asyncsched.cli.colors import BOLD, painted
from asyncsched.specs.stream import Stream

if TYPE_CHECKING:
    from asyncsched.logs.line import LogOrigin
    from asyncsched.schedulers.responses import DescribeAppResponse
    from asyncsched.specs.app import AppDef

__all__ = ["Names", "Who", "prefix_of"]

Who: TypeAlias = tuple[str, str, int]
"""App ("" where there is but one), role and replica."""

WIDEST = 32
"""On a terminal, names that are longer are cut in their middle: who wrote a line must leave it room."""


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


def prefix_of(name: str, stream: Stream, color: str, *, is_drawn: bool, width: int) -> str:
    """Return the beginning of a line; on a terminal all are of one width, and ``!`` tells stderr from the rest."""
    if not name:
        return ""
    if not is_drawn:
        return f"{name} "
    if len(name) > WIDEST:
        name = f"{name[: WIDEST // 2]}…{name[-(WIDEST - WIDEST // 2 - 1) :]}"
    mark = painted("!", f"{BOLD};{color}" if color else "") if stream is Stream.STDERR else painted("|", color)
    return f"{painted(name, color)}{' ' * max(width - len(name), 0)} {mark} "
