"""A TorchX scheduler that runs on asyncsched's blocking facade."""

from __future__ import annotations

import copy
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import torchx
from torchx.schedulers.api import DescribeAppResponse, ListAppResponse, Scheduler, Stream
from torchx.specs import AppDef, AppDryRunInfo, CfgVal, InvalidRunConfigException, runopts

from asyncsched import specs
from asyncsched.errors import ClosedError, ConflictError, RunOptionError, UnknownAppError
from asyncsched.logs.line import LogLine
from asyncsched.schedulers.api import Scheduler as OurScheduler
from asyncsched.sync import SyncScheduler
from asyncsched.torchx.answers import from_description, from_row, to_opts
from asyncsched.torchx.convert import to_ours

__all__ = ["REVEAL", "AsyncSchedScheduler"]

REVEAL = "ASYNCSCHED_TORCHX_REVEAL"
"""Environment variable: with 1, ``describe`` shows the values of secrets, as TorchX does."""

DEFAULTS: Mapping[str, Mapping[str, CfgVal]] = {"local_docker": {"pull": "always"}, "kubernetes": {"kind": "volcano"}}
"""Run options whose TorchX default differs: TorchX always checks whether an image is outdated, and its jobs are
Volcano's, for which a dry-run makes no request to a cluster."""

LISTED_BY: Mapping[str, Mapping[str, str]] = {
    "gcp_batch": {"project": "project"},
    "kubernetes": {"namespace": "namespaces"},
}
"""Run options that select where to list, and the scheduler parameters that do the same in asyncsched."""

LISTED_IN: Mapping[str, tuple[str, int]] = {"aws_batch": ("queue", 0), "gcp_batch": ("location", 1)}
"""Run options that an app's id tells, and which part of the id between colons: `list` shows only these apps."""

OTHER_NAMES: Mapping[str, Mapping[str, str]] = {"slurm": {"mail-user": "mail_user", "mail-type": "mail_type"}}
"""Run options that TorchX spells differently."""

_log = logging.getLogger("asyncsched.torchx")

_INNER = "_asyncsched"
"""The attribute of TorchX's dry-run that holds asyncsched's."""


class AsyncSchedScheduler(Scheduler[Mapping[str, CfgVal]]):
    """An asyncsched scheduler with TorchX's interface.

    It starts a thread with an event loop at the first call that needs one, and may be used from any thread, inside a
    running loop and after a fork.

    Args:
        backend: The scheduler's name.
        session_name: The session to mark submitted apps with.
        create: Creates the asyncsched scheduler; called again after a fork, and to list elsewhere.
    """

    def __init__(
        self, backend: str, session_name: str, create: Callable[..., OurScheduler[Any, Any]], **parameters: object
    ) -> None:
        super().__init__(backend, session_name, **parameters)
        made = create()
        self._options = _with_defaults(specs.runopts.of(made.options), DEFAULTS.get(backend, {}))
        self._create = create
        self._facades = {os.getpid(): SyncScheduler(made)}  # the parent's is kept: its thread is not in this process
        self._made = threading.local()  # carries the dry-run from `_submit_dryrun` to `submit_dryrun`
        self._closed = False

    @property
    def _facade(self) -> SyncScheduler:
        pid = os.getpid()
        if pid not in self._facades:
            self._facades.setdefault(pid, SyncScheduler(self._create()))
        return self._facades[pid]

    def close(self) -> None:
        """End this scheduler's work; its apps on ``local_cwd`` and its log readers end too. Never raises."""
        self._closed = True
        self._facade.close()

    # Submitting

    def _run_opts(self) -> runopts:
        return to_opts(self._options, OTHER_NAMES.get(self.backend, {}))

    def _validate(self, app: AppDef, scheduler: str, *_: object) -> None:
        """Leave the checks to asyncsched; a role may have no resource."""

    def submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[Any]:
        """Return the request without sending it; edit it if you like, then pass it to `schedule`."""
        info = super().submit_dryrun(app, cfg)
        setattr(info, _INNER, self._made.inner)  # a role's `pre_proc` may have returned another info
        return info

    def _submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[Any]:
        options = self._known(cfg)
        if "tags" in self._options:
            options["tags"] = {**_tags(app, options), **_texts(options.get("tags"))}
        try:
            inner = self._facade.submit_dryrun(to_ours(app), options)
        except RunOptionError as error:
            raise InvalidRunConfigException(str(error), error.key, cfg) from error
        self._made.inner = inner
        return AppDryRunInfo(inner.request, lambda request: repr(_with_request(inner, request)))

    def _known(self, cfg: Mapping[str, CfgVal]) -> dict[str, CfgVal]:
        """Return the options that exist: 0.7 does not reject unknown ones."""
        options = {name: value for name, value in cfg.items() if name in self._options}
        if self.backend == "aws_batch" and options.get("share_id") is None and options.pop("priority", None):
            _log.warning("ignoring priority, as TorchX does: it has an effect only with share_id")
        for other, name in OTHER_NAMES.get(self.backend, {}).items():
            if cfg.get(other) is not None:
                options[name] = cfg[other]
        return options

    def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> str:
        """Launch a dry-run and return its app id; a second call does nothing."""
        inner = getattr(dryrun_info, _INNER, None)
        if inner is None:  # made by hand: its request names the app
            return self._facade.schedule(specs.AppDryRunInfo(dryrun_info.request))
        return self._facade.schedule(_with_request(inner, dryrun_info.request))

    # Looking

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Describe an app, whichever process submitted it; return None if it does not exist.

        After `close`, this uses a new scheduler: TorchX closes runners while threads of its command line still query
        apps, and TorchX's own schedulers answer then.
        """
        try:
            found = self._facade.describe(app_id)
        except ClosedError:
            if not self._closed:  # the interpreter is exiting
                raise
            with SyncScheduler(self._create()) as other:
                found = other.describe(app_id)
        return None if found is None else from_description(found, reveal=os.environ.get(REVEAL) == "1")

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        should_tail: bool = False,
        streams: Stream | None = None,
    ) -> Iterable[str]:
        """Iterate over the lines of one replica, each with its newline; closing the scheduler ends it.

        An unknown role or replica is logged as an error, because TorchX would print two tracebacks for an exception.
        """
        wanted = None if streams is None else specs.Stream(streams.value)
        try:
            lines = self._facade.log_iter(app_id, role_name, k, regex, since, until, should_tail, wanted)
        except ClosedError:  # TorchX closes runners while its threads read logs
            return iter(())
        return _Texts(lines)

    # Ending

    def _cancel_existing(self, app_id: str) -> None:
        self._facade.cancel(app_id)
        if self.backend.startswith("local"):  # TorchX's local schedulers return when the processes are gone
            self._wait(app_id)

    def _delete_existing(self, app_id: str) -> None:
        try:
            self._facade.delete(app_id)
        except ConflictError:  # it is running; TorchX cancels it first
            self._facade.cancel(app_id)
            self._wait(app_id)
            self._facade.delete(app_id)

    def _wait(self, app_id: str) -> None:
        with self._facade.watch([app_id]) as events:
            for event in events:
                if event.is_terminal():
                    return

    # `list` is last: as a method it hides the builtin in the annotations below it.

    def list(self, cfg: Mapping[str, CfgVal] | None = None) -> list[ListAppResponse]:
        """Return one row for each app that was submitted through asyncsched, newest first.

        Args:
            cfg: Run options; a project, a location, a namespace and a queue select where to list.
        """
        given = cfg or {}
        elsewhere = {to: given[name] for name, to in LISTED_BY.get(self.backend, {}).items() if given.get(name)}
        if elsewhere:
            with SyncScheduler(self._create(**elsewhere)) as there:
                rows = there.list()
        else:
            rows = self._facade.list()
        option, part = LISTED_IN.get(self.backend, ("", 0))
        only = given.get(option)
        return [from_row(row) for row in rows if not only or row.app_id.split(":")[part : part + 1] == [only]]


class _Texts(Iterator[str]):
    """Yields lines as TorchX expects them: plain strings; gaps in a log become log records."""

    def __init__(self, lines: Iterator[LogLine]) -> None:
        self._lines = lines

    def __next__(self) -> str:
        try:
            for line in self._lines:
                if line.gap is None:  # a program's last line may have no newline, and the next would be appended to it
                    return str(line) if line.endswith("\n") else f"{line}\n"
                _log.warning("lines of %s/%s are missing here: %s", line.role, line.replica, line.gap.reason)
        except ClosedError:
            pass
        except UnknownAppError as error:
            _log.error("%s", error)
        raise StopIteration


def _with_defaults(options: specs.runopts, defaults: Mapping[str, CfgVal]) -> specs.runopts:
    for name, default in defaults.items():
        if (opt := options.get(name)) is not None:
            options.add(name, opt.opt_type, opt.help, default, choices=opt.choices)
    return options


def _with_request(inner: specs.AppDryRunInfo[Any], request: Any) -> specs.AppDryRunInfo[Any]:
    changed = copy.copy(inner)
    changed.request = request
    return changed


def _tags(app: AppDef, options: Mapping[str, CfgVal]) -> dict[str, str]:
    """Return the tags by which TorchX's own ``list``, and cost reports, recognise its jobs."""
    own = {"version": torchx.__version__, "app-name": app.name, "user": str(options.get("user"))}
    return {f"torchx.pytorch.org/{name}": value for name, value in own.items()}


def _texts(tags: CfgVal) -> dict[str, str]:
    return tags if isinstance(tags, dict) else {}
