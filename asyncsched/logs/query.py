"""The query of a log stream, and the checks of its arguments."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypedDict, cast

from asyncsched._typing import NamedTuple
from asyncsched.errors import ConfigError, UsageError
from asyncsched.specs.given import as_several, is_a, kind, unexpected
from asyncsched.specs.stream import Stream

if TYPE_CHECKING:
    from asyncsched.clock import Clock
    from asyncsched.logs.line import LogLine

__all__ = [
    "LogArguments",
    "LogQuery",
    "LogSelection",
    "check_names",
    "check_stream",
    "check_time",
    "in_range",
    "is_ranged",
    "make_query",
    "matching",
]


class LogQuery(NamedTuple):
    """The checked arguments of one call of `log_iter`.

    Attributes:
        app_id: The app.
        roles: The wanted roles; None for all.
        replicas: The wanted replica numbers; None for all.
        regex: The pattern that a line must match, if any.
        since_ns: The earliest time, inclusive.
        until_ns: The latest time, exclusive.
        tail: Whether to follow the app until it ends.
        streams: The stream.
        tail_lines: How many of the last lines of each replica to begin with; None for all.
        attempts: The wanted attempts; None for all.
        gaps: Whether a gap is reported as a line (``tell``) or raised (``raise``).
    """

    app_id: str
    roles: frozenset[str] | None = None
    replicas: frozenset[int] | None = None
    regex: re.Pattern[str] | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    tail: bool = False
    streams: Stream = Stream.COMBINED
    tail_lines: int | None = None
    attempts: frozenset[int] | None = None
    gaps: Literal["tell", "raise"] = "tell"

    def wants(self, role: str, replica: int) -> bool:
        """Return whether this replica is asked for."""
        return (self.roles is None or role in self.roles) and (self.replicas is None or replica in self.replicas)


class LogSelection(TypedDict, total=False):
    """The keywords of `Runner.log_lines` that select lines; see `Scheduler.log_iter`."""

    role_name: str | Collection[str]
    k: int | Iterable[int] | None
    regex: str | None
    since: datetime | timedelta | None
    until: datetime | timedelta | None
    streams: Stream | None
    tail_lines: int | None
    attempts: int | Iterable[int] | None
    gaps: Literal["tell", "raise"]


class LogArguments(LogSelection, total=False):
    """The keywords of `Runner.log_lines`."""

    should_tail: bool


def check_names(given: Iterable[str]) -> None:
    """Raise UsageError for an argument that `log_lines` does not have."""
    known = [*LogArguments.__annotations__]
    for name in given:
        if name not in known:
            from difflib import get_close_matches  # loaded only for a mistake

            near = get_close_matches(name, known, n=1)
            fix = f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}"
            raise UsageError(f"log_lines has no argument {name!r}", fix=fix)


def make_query(
    app_id: str,
    role_name: str | Collection[str] = "",
    k: int | Iterable[int] | None = None,
    regex: str | None = None,
    since: datetime | timedelta | None = None,
    until: datetime | timedelta | None = None,
    should_tail: bool = False,
    streams: Stream | None = None,
    *,
    tail_lines: int | None = None,
    attempts: int | Iterable[int] | None = None,
    gaps: Literal["tell", "raise"] = "tell",
    clock: Clock,
) -> LogQuery:
    """Check the arguments of `log_iter`; raise ConfigError, or UsageError for a value of the wrong type."""
    check_time("since", since)
    check_time("until", until)
    since_ns, until_ns = to_ns(since, clock), to_ns(until, clock)
    if since_ns is not None and until_ns is not None and since_ns > until_ns:
        raise ConfigError(f"since must not be after until, got since={since} and until={until}")
    if tail_lines is not None and not isinstance(cast("object", tail_lines), int):
        raise unexpected("tail_lines", tail_lines, "a whole number")
    if tail_lines is not None and tail_lines < 0:
        raise ConfigError(f"tail_lines must be at least 0, got {tail_lines}")
    if gaps not in ("tell", "raise"):
        raise ConfigError(f"gaps must be 'tell' or 'raise', got {gaps!r}")
    return LogQuery(
        app_id=app_id,
        roles=_names(role_name),
        replicas=_numbers("k", k),
        regex=_pattern(regex),
        since_ns=since_ns,
        until_ns=until_ns,
        tail=should_tail,
        streams=_stream(streams),
        tail_lines=tail_lines,
        attempts=_numbers("attempts", attempts),
        gaps=gaps,
    )


def check_stream(query: LogQuery, supported: Collection[Stream], schedulers: Collection[str]) -> None:
    """Raise ValueError for a stream that these schedulers, or one of them, cannot separate."""
    if query.streams not in supported:
        whose = f"{'one of ' if len(schedulers) > 1 else ''}{', '.join(sorted(schedulers))}"
        raise ConfigError(
            f"{whose} cannot separate stdout from stderr; got streams={query.streams}",
            fix=f"use streams={' or '.join(f'Stream.{stream.name}' for stream in sorted(supported))}",
        )


def _names(role_name: str | Collection[str]) -> frozenset[str] | None:
    if isinstance(role_name, str):
        return frozenset((role_name,)) if role_name else None
    names = frozenset(as_several("role_name", role_name, "a role's name"))
    for name in names:
        if not isinstance(cast("object", name), str):
            raise unexpected("role_name", name, "a role's name or an iterable of them", "the number of a replica is k")
    return names


def _numbers(name: str, value: int | Iterable[int] | None) -> frozenset[int] | None:
    if value is None:
        return None
    if not isinstance(cast("object", value), Iterable):
        value = (cast("int", value),)
    numbers = frozenset(cast("Iterable[int]", value))
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            # callers without types
            raise ConfigError(f"{name} must contain whole numbers only, got {number!r}")
        if number < 0:
            raise ConfigError(f"{name} must be at least 0, got {number}")
    return numbers


def _pattern(regex: object) -> re.Pattern[str] | None:
    if regex is None or is_a(getattr(regex, "pattern", None), str):
        return cast("re.Pattern[str] | None", regex)
    if not isinstance(regex, str):
        raise unexpected("regex", regex, "a regular expression, as a str")
    try:
        return re.compile(regex)
    except re.error as error:
        raise ConfigError(
            f"regex must be a regular expression, got {regex!r}",
            why=str(error),
            fix=f"to search for the text itself, write regex=re.escape({regex!r})",
        ) from error


def _stream(streams: object) -> Stream:
    try:
        return Stream.COMBINED if streams is None else Stream(cast("str", streams))
    except ValueError:
        names = ", ".join(f"Stream.{each.name}" for each in Stream)
        given = repr(streams) if isinstance(streams, str) else kind(streams)
        raise ConfigError(f"streams must be a Stream, got {given}", fix=f"write one of {names}") from None


def check_time(name: str, value: object) -> None:
    """Raise UsageError for a value that is neither a datetime, a timedelta nor None."""
    if not isinstance(value, (datetime, timedelta, type(None))):
        fix = "write timedelta(hours=1) for the last hour, or a datetime"
        raise unexpected(name, value, "a datetime or a timedelta", fix)


def to_ns(value: datetime | timedelta | None, clock: Clock) -> int | None:
    """Return a time in nanoseconds: a naive datetime is local time, a timedelta is a time before now."""
    if value is None:
        return None
    if isinstance(value, timedelta):
        return clock.time_ns() - round(value / timedelta(microseconds=1)) * 1000
    # timestamp() reads a naive datetime as local time; microseconds are added separately, since floats round them.
    return int(value.replace(microsecond=0).timestamp()) * 1_000_000_000 + value.microsecond * 1000


def is_ranged(query: LogQuery) -> bool:
    """Return whether `in_range` may leave out lines."""
    limits = (query.since_ns, query.until_ns, query.attempts)
    return query.streams is not Stream.COMBINED or any(limit is not None for limit in limits)


def in_range(lines: Sequence[LogLine], query: LogQuery) -> Sequence[LogLine]:
    """Return the lines of the wanted stream, attempts and time, and the gaps that overlap the time."""
    since, until, attempts = query.since_ns, query.until_ns, query.attempts
    if since is not None:
        lines = [line for line in lines if line.ns is None or line.ns >= since or _reaches(line, since)]
    if until is not None:
        lines = [line for line in lines if line.ns is None or line.ns < until]
    if attempts is not None:
        lines = [line for line in lines if line.source.attempt in attempts or line.gap is not None]
    if query.streams is not Stream.COMBINED:
        lines = [line for line in lines if line.source.stream is query.streams or line.gap is not None]
    return lines


def _reaches(line: LogLine, since_ns: int) -> bool:
    """Return whether a line is a gap in which lines from `since_ns` on may be missing."""
    gap = line.gap
    return gap is not None and (gap.before is None or gap.before.timestamp() * 1e9 >= since_ns)


def matching(lines: Sequence[LogLine], query: LogQuery) -> Sequence[LogLine]:
    """Return the lines that match the query's regex, without their newlines; gaps are always kept."""
    if query.regex is None:
        return lines
    search = query.regex.search
    return [line for line in lines if search(line.removesuffix("\n")) or line.gap is not None]
