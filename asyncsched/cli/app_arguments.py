"""The apps that arguments name: handles, ids, starts of ids, names, patterns and groups."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from asyncsched.errors import ConfigError, MalformedHandleError, UnknownAppError, UnknownSchedulerError
from asyncsched.specs.handle import AppHandle

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime, timedelta

    from asyncsched.cli.console import Console
    from asyncsched.runner.results import AppList
    from asyncsched.runner.runner import Runner
    from asyncsched.schedulers.responses import ListAppResponse
    from asyncsched.specs.state import AppState

__all__ = [
    "Found",
    "Target",
    "chosen_schedulers",
    "failures_of",
    "find_apps",
    "list_apps",
    "list_named",
    "parse_replicas",
    "parse_target",
    "typed",
]

SCHEDULERS_VARIABLE = "ASYNCSCHED_SCHEDULERS"

MOST_REPLICAS = 100_000
"""The maximum size of a range of replicas: a larger one is probably a typing error, and every number is listed."""

_FORM = "a handle is scheduler://session/app_id; `asyncsched list` shows the apps that exist"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One argument that names apps.

    Attributes:
        app: A handle, an id, the start of an id, a name or a pattern.
        role: One of the app's roles; empty for all.
        replicas: Some of the role's replicas; None for all.
        is_group: Whether `app` is the name of a group, for all its apps.
        only: The scheduler to search if `app` names none; empty for all.
    """

    app: str
    role: str = ""
    replicas: tuple[int, ...] | None = None
    is_group: bool = False
    only: str = ""

    @property
    def is_handle(self) -> bool:
        """Whether it is a complete handle."""
        return "://" in self.app and not self.is_pattern and not self.is_group

    @property
    def is_pattern(self) -> bool:
        """Whether it is a pattern, which may match several apps."""
        return _is_pattern(self.app)

    @property
    def scheduler(self) -> str:
        """The scheduler to search; empty for all."""
        name, scheme, _ = self.app.partition("://")
        return name if scheme and not _is_pattern(name) and not self.is_group else self.only


@dataclass(slots=True)
class Found:
    """The apps that arguments name, and the errors on the way.

    Attributes:
        apps: Each app with the target that named it, in the order of the arguments.
        failures: Errors of arguments that match no app, and of schedulers.
        missed: Errors of schedulers, for apps that were found on other schedulers.
        notes: Which app was chosen among several.
    """

    apps: list[tuple[AppHandle, Target]] = field(default_factory=list[tuple[AppHandle, Target]])
    failures: list[Exception] = field(default_factory=list[Exception])
    missed: list[Exception] = field(default_factory=list[Exception])
    notes: list[str] = field(default_factory=list[str])

    @property
    def handles(self) -> list[AppHandle]:
        """The apps, each once."""
        return list(dict.fromkeys(handle for handle, _ in self.apps))


def parse_target(text: str, *, parts: bool = False) -> Target:
    """Parse an argument.

    Args:
        text: ``[scheduler://session/]app`` or, with `parts`, also ``.../role`` and ``.../role/0,2-3``.
        parts: Whether arguments may name roles and replicas.

    Raises:
        MalformedHandleError: It has another form.
    """
    scheduler, scheme, rest = text.partition("://")
    words = (rest if scheme else text).split("/")
    own = 2 if scheme else 1
    most = own + 2 if parts else own
    if (
        not all(words[own - 1 :])
        or not own <= len(words) <= most
        or (scheme and not scheduler)
        or ":/" in words[0] + "/"
    ):
        raise MalformedHandleError(f"{text!r} is not a handle", fix=_FORM)
    app = f"{scheduler}://{'/'.join(words[:own])}" if scheme else words[0]
    role, replicas = (*words[own:], "", "")[:2]
    return Target(app=app, role=role, replicas=parse_replicas(replicas, text))


def parse_replicas(text: str, whole: str = "") -> tuple[int, ...] | None:
    """Read numbers and ranges such as ``0,2-3``; None for an empty text.

    Raises:
        MalformedHandleError: It has another form.
    """
    if not text:
        return None
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        is_number = first.isdecimal() and (last.isdecimal() or not dash)
        if not is_number or not 0 <= int(last or first) - int(first) < MOST_REPLICAS:
            fix = "write replicas as numbers and ranges: 0,2-3"
            what = f"{whole or text!r} names no replicas"
            raise MalformedHandleError(what, why=f"{part!r} is not a {'range' if is_number else 'number'}", fix=fix)
        numbers += range(int(first), int(last or first) + 1)
    return tuple(dict.fromkeys(numbers))


def typed(targets: Iterable[Target]) -> list[str]:
    """Return the arguments that name the same apps again."""
    words: list[str] = []
    for target in targets:
        parts = ["/".join([target.app, *filter(None, [target.role, ",".join(map(str, target.replicas or ()))])])]
        words += ["--group", target.app] if target.is_group else parts
        words += ["-s", target.only] if target.only and "-s" not in words else []
    return words


async def find_apps(console: Console, runner: Runner, targets: Sequence[Target], *, newest: bool = True) -> Found:
    """Return the named apps; schedulers list their apps only if some argument is not a complete handle.

    Args:
        console: Shows which app was chosen among several, and which schedulers failed.
        runner: The runner to use.
        targets: The parsed arguments.
        newest: Whether a name that several apps have means the newest; otherwise it is an error.
    """
    found = await _find(runner, targets, newest=newest)
    for note in found.notes:
        console.say(f"note: {note}")
    for error in found.missed:
        console.say(f"note: {' '.join(str(error).split())}")
    return found


async def _find(runner: Runner, targets: Sequence[Target], *, newest: bool) -> Found:
    found = Found()
    lists: dict[str, AppList] = {}  # by scheduler; the empty name is for all
    failed: dict[str, list[Exception]] = {}
    missed: dict[str, list[Exception]] = {}
    for target in targets:
        if target.is_handle:
            found.apps.append((AppHandle(target.app), target))
            continue
        if target.is_group:
            await _find_group(runner, target, found)
            continue
        scope = target.scheduler
        if scope not in lists:
            lists[scope] = await list_apps(runner, only=scope)
        if scope and lists[scope].failures:
            failed[scope] = [*lists[scope].failures.values()]
            continue
        try:
            rows = _matching(target, lists[scope], newest=newest, notes=found.notes)
        except (UnknownAppError, ConfigError) as error:
            found.failures.append(error)
            rows = []
        found.apps += [(AppHandle(row.app_handle), target) for row in rows]
        # An app found by its full id cannot be on another scheduler too, so failures of others do not matter.
        if [row.app_id for row in rows] != [target.app]:
            told = missed if rows and not target.is_pattern else failed
            told[scope] = failures_of(lists[scope])
    found.failures[:0] = [error for errors in failed.values() for error in errors]
    found.missed = [error for scope, errors in missed.items() if scope not in failed for error in errors]
    return found


async def _find_group(runner: Runner, target: Target, found: Found) -> None:
    rows = await list_apps(runner, only=target.only, group=target.app)
    if not rows:
        fix = "name a group by its key, or by the name it had when it ran"
        found.failures.append(UnknownAppError(f"no app belongs to the group {target.app!r}", fix=fix))
    found.apps += [(AppHandle(row.app_handle), target) for row in rows]
    found.failures += failures_of(rows)


async def list_apps(
    runner: Runner,
    limit: int | None = None,
    *,
    only: str = "",
    states: Collection[AppState] | None = None,
    since: datetime | timedelta | None = None,
    group: str | None = None,
) -> AppList:
    """Return the apps of one scheduler (`only`), of those in ``ASYNCSCHED_SCHEDULERS``, or of all; newest first.

    Args:
        runner: The runner to use.
        limit: The maximum number of apps.
        only: The scheduler to list.
        states: Only apps in these states.
        since: Only apps submitted from this time on.
        group: Only apps in this group.
    """
    chosen = [only] if only else chosen_schedulers()
    if not chosen:
        return await runner.list(states=states, since=since, limit=limit, group=group)
    from asyncsched.cli.run_async import answers
    from asyncsched.runner.results import AppList

    told = await answers(lambda name: runner.list(name, states=states, since=since, limit=limit, group=group), chosen)
    failures = {name: answer for name, answer in told.items() if isinstance(answer, Exception)}
    for answer in failures.values():
        if isinstance(answer, UnknownSchedulerError):  # a wrong name, not a scheduler that is down
            raise answer
    rows = [row for answer in told.values() if not isinstance(answer, Exception) for row in answer]
    rows.sort(key=lambda row: row.created_at.timestamp() if row.created_at is not None else 0.0, reverse=True)
    return AppList(rows[:limit], failures)


async def list_named(runner: Runner, targets: Iterable[Target]) -> AppList:
    """Return the apps that match patterns and groups now, which may be none; newest first."""
    from asyncsched.runner.results import AppList

    found: dict[str, ListAppResponse] = {}
    failures: dict[str, Exception] = {}
    for target in targets:
        rows = await list_apps(runner, only=target.scheduler, group=target.app if target.is_group else None)
        failures |= rows.failures
        found |= {row.app_handle: row for row in rows if target.is_group or _fits(row, target.app)}
    newest = sorted(found.values(), key=lambda row: row.created_at.timestamp() if row.created_at else 0.0, reverse=True)
    return AppList(newest, failures)


def chosen_schedulers() -> list[str]:
    """Return the schedulers in ``ASYNCSCHED_SCHEDULERS``, to use if none is named; an empty list means all."""
    return [name.strip() for name in os.environ.get(SCHEDULERS_VARIABLE, "").split(",") if name.strip()]


def failures_of(lists: AppList) -> list[Exception]:
    """Return the errors of schedulers, without those that are not installed or not set up here."""
    from asyncsched.runner.results import is_set_up

    return [error for error in lists.failures.values() if is_set_up(error)]


def _matching(
    target: Target, rows: Iterable[ListAppResponse], *, newest: bool, notes: list[str]
) -> list[ListAppResponse]:
    """Return the apps that match: a pattern, or else the app with this id, name, or start of an id."""
    rows = list(rows)
    if target.is_pattern:
        matching = [row for row in rows if _fits(row, target.app)]
        if not matching:
            raise UnknownAppError(f"no app matches {target.app!r}", fix="`asyncsched list` shows the apps that exist")
        return matching
    exact = [row for row in rows if row.app_id == target.app]
    named = [row for row in rows if row.name == target.app]
    if not exact and newest and len(named) > 1:
        notes.append(f"{named[0].app_handle} is the newest of {len(named)} apps named {target.app}")
        return named[:1]
    matching = exact or named or [row for row in rows if row.app_id.startswith(target.app)]
    if not matching:
        raise UnknownAppError(f"no app {target.app!r}", fix=_FORM)
    if len(matching) > 1:
        which = ", ".join(row.app_handle for row in matching[:3]) + (", ..." if len(matching) > 3 else "")
        fix = "write more of the id" if matching != named else f"write an id, or '{target.app}*' for all"
        raise ConfigError(f"{target.app!r} matches {len(matching)} apps", why=which, fix=fix)
    return matching


def _is_pattern(text: str) -> bool:
    return any(char in text for char in "*?[")


def _fits(row: ListAppResponse, pattern: str) -> bool:
    names = (row.app_handle,) if "://" in pattern else (row.app_id, row.name)
    return any(fnmatchcase(name, pattern) for name in names)
