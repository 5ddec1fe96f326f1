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
"""Environment variable: 1 has ``describe`` show the values of secrets, as TorchX does."""

DEFAULTS: Mapping[str, Mapping[str, CfgVal]] = {"local_docker": {"pull": "always"}, "kubernetes": {"kind": "volcano"}}
"""Where TorchX does something else when nothing is said: it always looks whether an image is outdated, and its jobs are
Volcano's, for which a dry-run asks no cluster."""

LISTED_BY: Mapping[str, Mapping[str, str]] = {
    "gcp_batch": {"project": "project"},
    "kubernetes": {"namespace": "namespaces"},
}
"""Run options that say where a list looks, and the parameters by which a scheduler of asyncsched does."""

OTHER_NAMES: Mapping[str, Mapping[str, str]] = {"slurm": {"mail-user": "mail_user", "mail-type": "mail_type"}}
"""Where TorchX spells a run option in another way."""

_log = logging.getLogger("asyncsched.torchx")

_INNER = "_asyncsched"
"""The attribute of TorchX's dry-run that holds ours."""


class AsyncSchedScheduler(Scheduler[Mapping[str, CfgVal]]):
    """A scheduler of asyncsched, as TorchX calls one.

    It starts a thread with an event loop at the first call that needs one, and may be used from any thread, inside a
    running loop and after a fork.

    Args:
        backend: Its name.
        session_name: The session that submitted apps are marked with.
        create: Makes the scheduler of asyncsched; called again after a fork, and to list elsewhere.
    """

    def __init__(
        self, backend: str, session_name: str, create: Callable[..., OurScheduler[Any, Any]], **parameters: object
    ) -> None:
        super().__init__(backend, session_name, **parameters)
        made = create()
        self._options = _with_defaults(specs.runopts.of(made.options), DEFAULTS.get(backend, {}))
        self._create = create
        self._facades = {os.getpid(): SyncScheduler(made)}  # the parent's stays: its thread is not in this process
        self._made = threading.local()  # from `_submit_dryrun` to `submit_dryrun`
        self._closed = False

    @property
    def _facade(self) -> SyncScheduler:
        pid = os.getpid()
        if pid not in self._facades:
            self._facades.setdefault(pid, SyncScheduler(self._create()))
        return self._facades[pid]

    def close(self) -> None:
        """End everything of this scheduler; apps of ``local_cwd`` and readers of logs end with it. Never raises."""
        self._closed = True
        self._facade.close()

    # Submitting

    def _run_opts(self) -> runopts:
        return to_opts(self._options, OTHER_NAMES.get(self.backend, {}))

    def _validate(self, app: AppDef, scheduler: str, *_: object) -> None:
        """Leave the checks to asyncsched; a role may go without resources."""

    def submit_dryrun(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> AppDryRunInfo[Any]:
        """Return the request that would be sent; it may be edited, then given to `schedule`."""
        info = super().submit_dryrun(app, cfg)
        setattr(info, _INNER, self._made.inner)  # a role's `pre_proc` may have made another info
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
        """Return the options that there are: 0.7 lets unknown ones pass."""
        options = {name: value for name, value in cfg.items() if name in self._options}
        if self.backend == "aws_batch" and options.get("share_id") is None and options.pop("priority", None):
            _log.warning("priority is left out, as TorchX does: it counts inside a share only; give share_id")
        for other, name in OTHER_NAMES.get(self.backend, {}).items():
            if cfg.get(other) is not None:
                options[name] = cfg[other]
        return options

    def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> str:
        """Launch what a dry-run has shown, and return its app id; the second time nothing happens."""
        inner = getattr(dryrun_info, _INNER, None)
        if inner is None:  # made by hand: its request names the app
            return self._facade.schedule(specs.AppDryRunInfo(dryrun_info.request))
        return self._facade.schedule(_with_request(inner, dryrun_info.request))

    # Looking

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        """Return what is known of an app, from whatever process it was submitted; None if it does not exist.

        After `close` it asks through a scheduler of its own: TorchX closes runners while threads of its command line
        look at apps, and its schedulers answer all the same.
        """
        try:
            found = self._facade.describe(app_id)
        except ClosedError:
            if not self._closed:  # the interpreter ends
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
        """Iterate over the lines of one replica, each with its newline; the scheduler's close ends it.

        That there is no such role or replica is an error of the logger: TorchX would print two tracebacks of it.
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
        except ConflictError:  # it runs; TorchX cancels it first
            self._facade.cancel(app_id)
            self._wait(app_id)
            self._facade.delete(app_id)

    def _wait(self, app_id: str) -> None:
        with self._facade.watch([app_id]) as events:
            for event in events:
                if event.over:
                    return

    # `list` stands last: as a method it would hide the builtin for the annotations below it.

    def list(self, cfg: Mapping[str, CfgVal] | None = None) -> list[ListAppResponse]:
        """Return one row for each app that was submitted through asyncsched, newest first.

        Args:
            cfg: Run options that were given: a project, a namespace and a queue say where to look.
        """
        given = cfg or {}
        elsewhere = {to: given[name] for name, to in LISTED_BY.get(self.backend, {}).items() if given.get(name)}
        if elsewhere:
            with SyncScheduler(self._create(**elsewhere)) as there:
                rows = there.list()
        else:
            rows = self._facade.list()
        queue = given.get("queue") if self.backend == "aws_batch" else None
        return [from_row(row) for row in rows if not queue or row.app_id.startswith(f"{queue}:")]


class _Texts(Iterator[str]):
    """The lines as TorchX wants them: plain texts, and holes in a log as records of a logger."""

    def __init__(self, lines: Iterator[LogLine]) -> None:
        self._lines = lines

    def __next__(self) -> str:
        try:
            for line in self._lines:
                if line.gap is None:  # a program's last line may be without one; another's would stand behind it
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
    """Return the tags by which TorchX's own ``list``, and cost reports, know its jobs."""
    own = {"version": torchx.__version__, "app-name": app.name, "user": str(options.get("user"))}
    return {f"torchx.pytorch.org/{name}": value for name, value in own.items()}


def _texts(tags: CfgVal) -> dict[str, str]:
    return tags if isinstance(tags, dict) else {}
