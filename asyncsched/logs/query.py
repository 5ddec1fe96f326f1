"""Which lines a caller wants, and the checks of what it asked for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, cast

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
    """What one call of `log_iter` asks for, checked.

    Attributes:
        app_id: The app.
        roles: The roles that are wanted; None for all.
        replicas: The replica numbers that are wanted; None for all.
        regex: What a line has to contain, if anything.
        since_ns: The earliest time, inclusive.
        until_ns: The latest time, exclusive.
        tail: Whether to follow the app until it ends.
        streams: Which stream.
        tail_lines: How many of the last lines of each replica to begin with; None for all.
        attempts: The attempts that are wanted; None for all.
        gaps: Whether a hole in a log is told by a line, or raised.
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
    """The keywords of `Runner.log_lines` that select lines; what they mean stands at `Scheduler.log_iter`."""

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
    """Check the arguments of `log_iter`; raises ConfigError, or UsageError for values of another kind, at the call."""
    check_time("since", since)
    check_time("until", until)
    since_ns, until_ns = to_ns(since, clock), to_ns(until, clock)
    if since_ns is not None and until_ns is not None and since_ns > until_ns:
        raise ConfigError(f"since ({since}) lies after until ({until})")
    if tail_lines is not None and not isinstance(cast("object", tail_lines), int):
        raise unexpected("tail_lines", tail_lines, "a whole number")
    if tail_lines is not None and tail_lines < 0:
        raise ConfigError(f"tail_lines must not be negative, it is {tail_lines}")
    if gaps not in ("tell", "raise"):
        raise ConfigError(f"gaps must be 'tell' or 'raise', it is {gaps!r}")
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


def check_stream(query: LogQuery, supported: Collection[Stream]) -> None:
    """Raise ValueError for a stream that a scheduler does not tell apart."""
    if query.streams not in supported:
        raise ConfigError(
            f"this scheduler does not tell {query.streams.value} apart: "
            f"ask for {' or '.join(stream.value for stream in supported)}"
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
            raise ConfigError(f"{name} must be whole numbers, one is {number!r}")
        if number < 0:
            raise ConfigError(f"{name} must not be negative, one is {number}")
    return numbers


def _pattern(regex: object) -> re.Pattern[str] | None:
    if regex is None or is_a(getattr(regex, "pattern", None), str):
        return cast("re.Pattern[str] | None", regex)
    if not isinstance(regex, str):
        raise unexpected("regex", regex, "a regular expression, as a text")
    try:
        return re.compile(regex)
    except re.error as error:
        raise ConfigError(
            f"regex must be a regular expression, got {regex!r}",
            why=str(error),
            fix=f"for the text itself, write regex=re.escape({regex!r})",
        ) from error


def _stream(streams: object) -> Stream:
    try:
        return Stream.COMBINED if streams is None else Stream(cast("str", streams))
    except ValueError:
        names = ", ".join(f"Stream.{each.name}" for each in Stream)
        given = repr(streams) if isinstance(streams, str) else kind(streams)
        raise ConfigError(f"streams must be a Stream, got {given}", fix=f"write one of {names}") from None


def check_time(name: str, value: object) -> None:
    """Raise UsageError for what is neither a datetime nor a timedelta; None is no limit."""
    if not isinstance(value, (datetime, timedelta, type(None))):
        fix = "write timedelta(hours=1) for the last hour, or a datetime"
        raise unexpected(name, value, "a datetime or a timedelta", fix)


def to_ns(value: datetime | timedelta | None, clock: Clock) -> int | None:
    """Return a time in nanoseconds: a naive datetime is local time, a timedelta means so long ago."""
    if value is None:
        return None
    if isinstance(value, timedelta):
        return clock.time_ns() - round(value / timedelta(microseconds=1)) * 1000
    # timestamp() takes a naive datetime as local time; microseconds are added apart, floats would round them.
    return int(value.replace(microsecond=0).timestamp()) * 1_000_000_000 + value.microsecond * 1000


def is_ranged(query: LogQuery) -> bool:
    """Return whether `in_range` leaves out any line at all."""
    limits = (query.since_ns, query.until_ns, query.attempts)
    return query.streams is not Stream.COMBINED or any(limit is not None for limit in limits)


def in_range(lines: Sequence[LogLine], query: LogQuery) -> Sequence[LogLine]:
    """Return the lines of the asked stream, attempts and time; of gaps those that reach into the time."""
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
    """Return whether it is a gap (stamped with its beginning) in which lines from `since_ns` on may be missing."""
    gap = line.gap
    return gap is not None and (gap.before is None or gap.before.timestamp() * 1e9 >= since_ns)


def matching(lines: Sequence[LogLine], query: LogQuery) -> Sequence[LogLine]:
    """Return the lines that the query's regex is found in, each looked at without its newline; gaps always stay."""
    if query.regex is None:
        return lines
    search = query.regex.search
    return [line for line in lines if search(line.removesuffix("\n")) or line.gap is not None]
