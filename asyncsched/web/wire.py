"""Apps and lines as JSON for the page: printable, without secrets, and of limited length. Pure."""

from __future__ import annotations

import json
import re
from datetime import datetime
from functools import lru_cache
from itertools import islice

from asyncsched.logs.line import LogLine
from asyncsched.specs.secret import MASK
from asyncsched.specs.secret_text import replaced
from asyncsched.specs.to_plain import JsonValue
from asyncsched.views.apps import AppView, by_attention
from asyncsched.views.replicas import alike, groups
from asyncsched.views.spans import span
from asyncsched.views.text import one_line, written_out
from asyncsched.views.timeline import TimeLine, time_line

__all__ = ["detail_of", "encoded", "line_of", "note_of", "row_of", "safe"]

LONGEST_LINE = 4096
"""The characters of a line that are shown; the page also gets the number of the others."""
LONGEST_TEXT = 500
_BEHIND = 8192
"""How many characters after those are searched for secrets: more than a URL or a name has before its secret."""
_STRIP = 1200
_PARTS = 120
_GROUPS = 100
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


def encoded(value: JsonValue) -> bytes:
    """Return a value as JSON on one line, in ASCII."""
    return json.dumps(value, separators=(",", ":")).encode()


def safe(text: str, most: int = LONGEST_TEXT) -> str:
    """Return a text as one line, without its secrets, and with unprintable characters escaped."""
    return _cut(one_line(_masked(text, most)), most)


def row_of(view: AppView) -> dict[str, JsonValue]:
    """Return an app's row in the table."""
    parts = alike([*islice(view.replicas, _STRIP)])
    strip: list[JsonValue] = [[part.state.name, len(part.ids), safe(part.name)] for part in parts[:_PARTS]]
    since = None if view.is_over else view.since
    return {
        "handle": view.handle,
        "app": safe(view.handle),
        "name": safe(view.name),
        "session": safe(view.session),
        "state": view.word,
        "over": view.is_over or view.state is None,
        "order": by_attention(view.state),
        "created": _ms(view.created_at) or _ms(view.started_at) or 0,
        "replicas": f"{view.tally}",
        "strip": strip,
        "more": view.tally.of - sum(len(part.ids) for part in parts[:_PARTS]),
        "since": _ms(since),
        "started": view.started_at is not None,
        "ran": _ran(view),
        "reason": safe(view.reason),
    }


def detail_of(view: AppView, now: datetime) -> dict[str, JsonValue]:
    """Return an app's details: its row, its replicas in groups, and their time line."""
    found = groups(view.replicas)
    told: list[JsonValue] = [
        {"name": safe(group.name), "state": group.state.name, "count": len(group.ids), "why": safe(group.why)}
        for group in found[:_GROUPS]
    ]
    line = time_line(view.replicas, now)
    return {
        **row_of(view),
        "groups": told,
        "other_groups": max(len(found) - _GROUPS, 0),
        "time": None if line is None else _time_of(line),
    }


def _time_of(line: TimeLine) -> dict[str, JsonValue]:
    bars: list[JsonValue] = [[safe(bar.name), bar.state.name, bar.start, bar.length] for bar in line.bars]
    return {"begin": _ms(line.begin), "took": span(line.end - line.begin), "bars": bars, "others": line.others}


def line_of(line: LogLine) -> dict[str, JsonValue]:
    """Return a line, or a gap between lines, for the page."""
    source = line.source
    app, replica = _origin(source.app_id, source.role, source.replica)
    shown: dict[str, JsonValue] = {
        "app": app,
        "from": replica,
        "stream": source.stream.value,
        "at": None if line.ns is None else line.ns // 1_000_000,
    }
    if line.gap is not None:
        return {**shown, "text": safe(f"lines are missing: {line.gap.reason}"), "kind": "gap"}
    return {**shown, "text": _text(line)}


@lru_cache(4096)  # each line has one, and few are different
def _origin(app_id: str, role: str, replica: int) -> tuple[str, str]:
    return safe(app_id), safe(f"{role}/{replica}")


def note_of(text: str) -> dict[str, JsonValue]:
    """Return a message of the page itself, to be shown between the lines."""
    return {"app": "", "from": "", "stream": "", "at": None, "text": safe(text, LONGEST_LINE), "kind": "note"}


def _text(line: LogLine) -> str:
    text = line.text.removesuffix("\r")
    left_out = len(text) - LONGEST_LINE - _BEHIND
    more = f" ... and {left_out + _BEHIND} more characters" if left_out > 0 else ""
    return _cut(written_out(_masked(text, LONGEST_LINE)), LONGEST_LINE) + more


def _masked(text: str, most: int) -> str:
    """Mask secrets, also a little past the part that is shown: a secret that is cut off would not be recognised."""
    return replaced(_COLOURS.sub("", text[: most + _BEHIND]), MASK)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _ran(view: AppView) -> str:
    if not view.is_over or view.started_at is None or view.finished_at is None:
        return ""
    return span(view.finished_at - view.started_at)


def _ms(when: datetime | None) -> int | None:
    return None if when is None else int(when.timestamp() * 1000)
