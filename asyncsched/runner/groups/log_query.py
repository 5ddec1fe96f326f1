"""The arguments of `Runner.log_lines`, for those who hand them on."""

from __future__ import annotations

from asyncsched.logs.query import LogSelection

__all__ = ["LogArguments"]


class LogArguments(LogSelection, total=False):
    """What may be asked of logs; see `Scheduler.log_iter`."""

    should_tail: bool
