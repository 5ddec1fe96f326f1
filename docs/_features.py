"""Tables of what each backend does, made from the backends themselves each time the docs are built.

Two directives: ``feature-matrix`` compares all backends, and ``not-honoured NAME`` tells what one of them ignores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from asyncsched.schedulers import Scheduler, Stream, get_scheduler
from asyncsched.schedulers.hooks import SchedulerHooks
from asyncsched.schedulers.ignored import FIELDS
from asyncsched.schedulers.registry import find_built_in, known_names
from asyncsched.schedulers.request_checks import TIMEOUTS
from asyncsched.specs import RetryPolicy

AnyScheduler = Scheduler[Any, Any]

LIMITS: Mapping[str, frozenset[str]] = {
    "timeout": TIMEOUTS,
    "pending_timeout": frozenset({"pending_timeout"}),
}
"""The names under which an option may stand."""


def built_in() -> dict[str, AnyScheduler]:
    """Return a scheduler of each backend of this release; making one does no I/O."""
    return {name: get_scheduler(name, "docs") for name in known_names() if find_built_in(name) is not None}


def features() -> dict[str, Callable[[AnyScheduler], str]]:
    """Return what is compared, and how a backend is asked."""
    flags: dict[str, Callable[[AnyScheduler], str]] = {
        "states are": lambda each: "reported" if each.pushes_states else "polled",
        "separate stdout and stderr": lambda each: _yes(Stream.STDOUT in each.log_streams),
        "runs on this machine (`runs_here`)": lambda each: _yes(each.runs_here),
        "ends with its submitter (`ends_with_submitter`)": lambda each: _yes(each.ends_with_submitter),
        "`kill` is faster than `cancel` (`can_kill`)": lambda each: _yes(each.can_kill),
        "an app costs money while it runs (`is_billed`)": lambda each: _yes(each.is_billed),
        "logs stay after `cancel` (`keeps_cancelled_logs`)": lambda each: _yes(each.keeps_cancelled_logs),
        "logs of earlier attempts stay (`keeps_attempts`)": lambda each: _yes(each.keeps_attempts),
        "`SecretRef` (`takes_secret_refs`)": lambda each: _yes(each.takes_secret_refs),
        "workspaces (`workspace_builder`)": _workspaces,
        "`results`": lambda each: _yes(type(each)._results is not SchedulerHooks._results),
        "retry policies": _policies,
    }
    for limit in LIMITS:
        flags[f"run option `{limit}`"] = partial(_limit, limit)
    for name in FIELDS:
        flags[f"`{name}`"] = partial(_taken, name)
    return flags


def matrix() -> list[str]:
    """Return the table of features by backend."""
    schedulers = built_in()
    rows = ([what, *map(told, schedulers.values())] for what, told in features().items())
    return [*_table(["", *(f"`{name}`" for name in schedulers)], rows)]


def options() -> list[str]:
    """Return the table of run options by backend."""
    taken = {name: [field.name for field in fields(each.options)] for name, each in built_in().items()}
    every = sorted({option for names in taken.values() for option in names})
    rows = ([f"`{option}`", *("✔️" if option in names else "" for names in taken.values())] for option in every)
    return [*_table(["option", *(f"`{name}`" for name in taken)], rows)]


def not_honoured(name: str) -> list[str]:
    """Return the table of what a backend takes no notice of."""
    scheduler = built_in()[name]
    rows = [[f"`{field}`", why] for field, why in sorted(scheduler.ignores.items())]
    if scheduler.capabilities is not None:
        rows.append(["`resource.capabilities`", f"only {_capabilities(scheduler)} is used"])
    if "max_retries" not in scheduler.ignores and (missing := {*RetryPolicy} - scheduler.retry_policies):
        others = ", ".join(f"`{policy}`" for policy in sorted(missing))
        rows.append([f"`retry_policy` {others}", f"an app with several replicas is retried by {_policies(scheduler)}"])
    return [*_table(["a role's field", "why it has no effect"], rows)]


def _policies(scheduler: AnyScheduler) -> str:
    return ", ".join(f"`{policy}`" for policy in sorted(scheduler.retry_policies)) or "none"


def _workspaces(scheduler: AnyScheduler) -> str:
    if type(scheduler).workspace_builder is None:
        return "no"
    return "a new image" if scheduler.has_images else "a copy for each app"


def _limit(limit: str, scheduler: AnyScheduler) -> str:
    return _yes(any(field.name in LIMITS[limit] for field in fields(scheduler.options)))


def _taken(field: str, scheduler: AnyScheduler) -> str:
    if field == "resource.capabilities" and scheduler.capabilities is not None:
        return f"only {_capabilities(scheduler)}"
    return f"ignored: {scheduler.ignores[field]}" if field in scheduler.ignores else "used"


def _capabilities(scheduler: AnyScheduler) -> str:
    return ", ".join(f"`{name}`" for name in sorted(scheduler.capabilities or ()))


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(row)} |"


class Made(SphinxDirective):
    """Shows a table as if it stood in the page."""

    optional_arguments = 1
    make: Callable[..., list[str]]
    classes: tuple[str, ...] = ()

    def run(self) -> list[nodes.Node]:
        parent = nodes.container()
        lines = type(self).make(*self.arguments)
        self.state.nested_parse(StringList(lines, source="docs/_features.py"), self.content_offset, parent)
        for table in parent.findall(nodes.table):
            table["classes"] += type(self).classes
        return [*parent.children]


class Matrix(Made):
    make = staticmethod(matrix)
    classes = ("features",)  # smaller, so that all backends fit the page: docs/_static/column.css


class Options(Made):
    make = staticmethod(options)


class NotHonoured(Made):
    make = staticmethod(not_honoured)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("feature-matrix", Matrix)
    app.add_directive("option-matrix", Options)
    app.add_directive("not-honoured", NotHonoured)
    return {"parallel_read_safe": True}
