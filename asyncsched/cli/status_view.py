"""The status of one app as text: its state and times, its replicas, and why it failed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from asyncsched.cli.app_table import clock_time, more_line
from asyncsched.cli.colors import BOLD, FAINT, painted, state_color
from asyncsched.cli.control_sequences import visible
from asyncsched.cli.table import cut
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs.app import NONE, Role
from asyncsched.specs.masking import masked
from asyncsched.specs.state import AppState, ReplicaStatus
from asyncsched.specs.status_text import error_message
from asyncsched.views.apps import AppView
from asyncsched.views.replicas import ReplicaGroup, groups, tally
from asyncsched.views.spans import ago, span

__all__ = ["StatusText"]

LINES = 5
"""How many last lines of the first failed replica are shown."""
_GROUPS = 20
_TITLE = 10


class StatusText:
    """Formats the status of one app.

    Args:
        now: The current time, for ages.
        width: The width to fit into; None cuts nothing.
        color: Whether there are colours.
    """

    def __init__(self, now: datetime, *, width: int | None, color: bool) -> None:
        self._now = now
        self._width = width
        self._color = color

    def lines(
        self,
        view: AppView,
        answer: DescribeAppResponse,
        roles: Iterable[str],
        failed: ReplicaStatus | None,
        stream: str,
        last: Sequence[str],
    ) -> Iterator[str]:
        """Yield the lines.

        Args:
            view: The app.
            answer: The scheduler's description of it.
            roles: The roles to show; empty for all.
            failed: The first failed replica.
            stream: The name of its log that was read; "" if none could be read.
            last: The last lines of that log.
        """
        wanted = {*roles}
        replicas = [each for each in view.replicas if not wanted or each.role in wanted]
        yield f"{self._painted(view.word, state_color(view.state))}  {self._painted(visible(view.handle), BOLD)}"
        yield from self._fact("when", self._when(view))
        yield from self._fact("why", view.reason)
        if failed is not None and failed.structured_error_msg != NONE:
            yield from self._fact("error", error_message(failed.structured_error_msg))
        yield from self._fact("restarts", str(max(answer.num_restarts, 0) or ""))
        yield from self._fact("page", answer.ui_url or "")
        for role in answer.roles:
            if not wanted or role.name in wanted:
                title = "command" if len(answer.roles) == 1 else f"{role.name} runs"
                yield from self._fact(title, _command(role))
        yield from self._replicas(replicas)
        if failed is not None and last:
            name = f"{failed.role}/{failed.id}"
            head = "lines" if len(last) > 1 else "line"
            many = f"{len(last)} " if len(last) > 1 else ""
            yield f"  {stream} of {visible(name)}, the last {many}{head}:"
            yield from (self._cut(f"    {visible(line, one_line=True)}") for line in last)
        elif failed is not None and stream:
            yield self._cut(f"  {visible(f'{failed.role}/{failed.id}')} wrote nothing")
        yield self._painted(_more(view, failed, self._width), FAINT)

    def _when(self, view: AppView) -> str:
        if view.started_at is None:
            since = clock_time(view.created_at, self._now)
            return f"submitted {since} ({ago(view.created_at, self._now)})" if since else ""
        if not view.is_over:
            told = f"running for {span(self._now - view.started_at)}, since {clock_time(view.started_at, self._now)}"
            return told if view.state is AppState.RUNNING else f"started {clock_time(view.started_at, self._now)}"
        if view.finished_at is None:
            return f"started {clock_time(view.started_at, self._now)}"
        ended = f"ended {clock_time(view.finished_at, self._now)} ({ago(view.finished_at, self._now)})"
        return f"ran {span(view.finished_at - view.started_at)}, {ended}"

    def _replicas(self, replicas: Sequence[ReplicaStatus]) -> Iterator[str]:
        found = groups(replicas)
        if len(replicas) == 1:
            name = found[0].name
            host = replicas[0].hostname
            yield from self._fact("replica", f"{name}{f' on {host}' if host else ''}")
            return
        yield from self._fact("replicas", f"{tally(replicas)}")
        size = max((len(visible(group.name, one_line=True)) for group in found), default=0)
        size = min(size, 40 if self._width is None else max(self._width // 2 - 6, 10))
        yield from (self._group(group, size) for group in found[:_GROUPS])
        if len(found) > _GROUPS:
            yield f"    and {len(found) - _GROUPS} more kinds"

    def _group(self, group: ReplicaGroup, size: int) -> str:
        name = cut(group.name, size)
        state = f"{group.state.name:<9}"
        count = f"{len(group.ids)} x " if len(group.ids) > 1 else ""
        restarts = f"restarted {group.restarts} x" if group.restarts else ""
        told = ", ".join(filter(None, [visible(group.why, one_line=True), restarts]))
        rest = f"  {count}{told}" if told else f"  {count.removesuffix(' x ')}"
        room = None if self._width is None else self._width - 4 - size - 2 - len(state)
        rest = rest.rstrip() if room is None else cut(rest.rstrip(), room)
        return f"    {name:<{size}}  {self._painted(state, state_color(group.state))}{rest}".rstrip()

    def _fact(self, title: str, text: str) -> Iterator[str]:
        line = visible(" ".join(text.split()), one_line=True)
        if line:
            yield self._cut(f"  {visible(title, one_line=True):<{_TITLE}}{line}")

    def _cut(self, text: str) -> str:
        return text if self._width is None else cut(text, self._width)

    def _painted(self, text: str, color: str) -> str:
        return painted(text, color) if self._color else text


def _command(role: Role) -> str:
    """Return the command of a role as a shell would take it, without secrets."""
    words = masked([role.entrypoint, *role.args])
    assert isinstance(words, list)
    return shlex.join(" ".join(str(word).split()) for word in words if word)


def _more(view: AppView, failed: ReplicaStatus | None, width: int | None) -> str:
    """Return the command that shows more of the app."""
    if failed is not None and view.tally.of > 1:
        return more_line(view, "log", width, f"/{failed.role}/{failed.id}")
    if view.is_over:
        return more_line(view, "log", width)
    return more_line(view, "log -f" if view.started_at else "describe", width)
