"""Nodes without containers: the command is a list of steps, played on the timeline.

An image named ``script`` has as the last part of its command a JSON list such as
``[["line", "hello from $AWS_BATCH_JOB_NODE_INDEX"], ["sleep", 2], ["exit", 0]]``:

* ``["line", text]``, where ``$NOW`` is the time, or ``["line", text, late]`` for one that CloudWatch sees
  `late` seconds later;
* ``["lines", count, interval, text]``, where ``$i`` counts from 0;
* ``["sleep", seconds]``;
* ``["if_node", index, steps]``: steps that only this node takes;
* ``["if_attempt", number, steps]``: steps that only this attempt takes; the first is 1;
* ``["exit", code]``, or a list with one code for each attempt; without one the code is 0;
* ``["ignore_term"]``: from here on SIGTERM is ignored, as by a shell script that traps it;
* ``["fail", reason]``: the container cannot be started, or is killed, for this reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from string import Template
from typing import Any

from tests.aws_emulator.lifecycle import Task
from tests.aws_emulator.timeline import Event, Timeline

IMAGE = "script"


def run_script(timeline: Timeline, task: Task) -> Callable[[], None]:
    """Play a node's script; returns what stops it as SIGTERM, and a grace later SIGKILL, would."""
    play = _Play(timeline, task)
    play.step()
    return play.stop


class _Play:
    def __init__(self, timeline: Timeline, task: Task) -> None:
        self._timeline, self._task = timeline, task
        node = int(task.environment.get("AWS_BATCH_JOB_NODE_INDEX", 0))
        self._steps = _flat(json.loads(task.command[-1]), {"if_node": node, "if_attempt": task.number})
        self._next: Event | None = None
        self._traps = False
        self._over = False

    def step(self) -> None:
        for verb, *words in self._steps:
            if verb == "line":
                self._line(*words)
            elif verb == "sleep":
                self._next = self._timeline.after(words[0], self.step)
                return
            elif verb == "ignore_term":
                self._traps = True
            elif verb == "fail":
                self._end(None, words[0])
                return
            elif verb == "exit":
                self._end(_code(words[0], self._task.number))
                return
            else:
                raise ValueError(f"unknown step {verb!r}")
        self._end(0)

    def stop(self) -> None:
        if self._traps:
            self._timeline.after(self._task.grace, lambda: self._end(137))
        else:
            self._timeline.after(0, lambda: self._end(143))

    def _line(self, text: str, late: float = 0.0) -> None:
        values = {**self._task.environment, "NOW": f"{self._timeline.now:.3f}"}
        self._task.line(Template(text).safe_substitute(values), late=late)

    def _end(self, code: int | None, reason: str | None = None) -> None:
        if self._over:
            return
        self._over = True
        if self._next:
            self._next.cancel()
        # A node never ends inside the call that starts it: that would be before anybody knows of it.
        self._timeline.after(0, lambda: self._task.exited(code, reason))


def _flat(steps: list[list[Any]], here: Mapping[str, int]) -> Iterator[list[Any]]:
    for step in steps:
        if step[0] in here:
            yield from _flat(step[2] if step[1] == here[step[0]] else [], here)
            continue
        if step[0] != "lines":
            yield step
            continue
        _, count, interval, text = step
        for i in range(count):
            yield ["line", text.replace("$i", str(i))]
            yield ["sleep", interval]


def _code(wanted: int | list[int], attempt: int) -> int:
    return wanted if isinstance(wanted, int) else wanted[min(attempt, len(wanted)) - 1]
