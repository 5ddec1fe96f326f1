"""The prefix of a line: the replica that wrote it, and a mark for stderr."""

from __future__ import annotations

from asyncsched.cli.colors import BOLD, painted
from asyncsched.specs.stream import Stream
from asyncsched.views.log_names import WIDEST

__all__ = ["prefix_of"]


def prefix_of(name: str, stream: Stream, color: str, *, is_drawn: bool, width: int) -> str:
    """Return the prefix of a line; on a terminal, prefixes have equal width, and ``!`` marks stderr."""
    if not name:
        return ""
    if not is_drawn:
        return f"{name} "
    if len(name) > WIDEST:
        name = f"{name[: WIDEST // 2]}…{name[-(WIDEST - WIDEST // 2 - 1) :]}"
    mark = painted("!", f"{BOLD};{color}" if color else "") if stream is Stream.STDERR else painted("|", color)
    return f"{painted(name, color)}{' ' * max(width - len(name), 0)} {mark} "
