"""The part of `Runner` that runs groups of jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict, Unpack

from asyncsched.logs.loop_time import budget_of
from asyncsched.runner.runner_host import RunnerHost, _HostedRunner
from asyncsched.specs.app import AppDef
from asyncsched.specs.given import is_a, unexpected

if TYPE_CHECKING:
    import os

    from asyncsched._torchx import TorchXApp
    from asyncsched.runner.groups.group import JobGroup
    from asyncsched.runner.groups.job import Job
    from asyncsched.runner.groups.settings import CfgOf, OnFailure, OnLeave, Reuse


class GroupArguments(TypedDict, total=False):
    """What a group may be given; see `Runner.group`."""

    limit: int | None
    retries: int
    timeout: float | None
    on_failure: OnFailure
    max_failures: float | None
    key: str | None
    reuse: Reuse
    on_leave: OnLeave | None
    workspace: str | None
    keep_logs: str | os.PathLike[str] | None


class _GroupingRunner(_HostedRunner):
    """The operations on groups of jobs."""

    def group(
        self,
        scheduler: str | None = None,
        cfg: CfgOf = None,
        *,
        limit: int | None = None,
        retries: int = 0,
        timeout: float | None = None,
        on_failure: OnFailure = "cancel",
        max_failures: float | None = None,
        key: str | None = None,
        reuse: Reuse = "succeeded",
        on_leave: OnLeave | None = None,
        workspace: str | None = None,
        keep_logs: str | os.PathLike[str] | None = None,
    ) -> JobGroup:
        """Return a group of jobs: start them in its ``async with`` block, which waits for all.

        Args:
            scheduler: Where its jobs run; the first that the runner may use by default.
            cfg: Their run options, or a function of the attempt (1, 2, ...) that returns them: more memory each time,
                or the cheap queue first.
            limit: How many jobs may run at a time, from launch to end, over all schedulers.
            retries: How often a job is started again after it failed or timed out. A job that lost its host is started
                again without counting.
            timeout: Seconds that a job may run, from when it is first seen running. The service is told, too, where it
                takes a time limit.
            on_failure: What the first failure does: ``cancel`` ends the group, ``continue`` goes on with the others.
            max_failures: How many failures are put up with before the group is ended: a number, or a share of the jobs
                below 1.0.
            key: Makes the group durable: started again with this key, in whatever process, what is done is done, and
                what runs is followed.
            reuse: Which ends of a durable group's jobs are taken as they are: those that ``succeeded``, ``any``, or
                ``never`` one.
            on_leave: What becomes of running jobs if the block is left by an exception: ``cancel`` ends them, ``leave``
                lets them run. By default a group with a key leaves them.
            workspace: Files to lay over the apps' images.
            keep_logs: A folder where the log of every job is kept from its start, as
                ``GROUP/JOB/APP/ROLE-REPLICA.stdout.log``. The files are complete when the group has been left;
                `JobGroup.lost_logs` tells which are not.

        Raises:
            ConfigError: An argument is wrong; the message names it and its bounds.
            UnknownSchedulerError: No scheduler has this name.
        """
        self._check_open()
        from asyncsched.runner.groups.durable import DurableEngine  # loaded with the first group
        from asyncsched.runner.groups.engine import Engine
        from asyncsched.runner.groups.group import JobGroup
        from asyncsched.runner.groups.settings import GroupSettings

        scheduler = self._backends.chosen(scheduler)
        self._backends.check([scheduler])
        settings = GroupSettings.of(
            scheduler,
            cfg,
            limit=limit,
            retries=retries,
            timeout=timeout,
            on_failure=on_failure,
            max_failures=max_failures,
            key=key,
            reuse=reuse,
            on_leave=on_leave,
            workspace=workspace,
            keep_logs=keep_logs,
        )
        host = RunnerHost(self)
        return JobGroup(Engine(host, settings) if key is None else DurableEngine(host, settings, key))

    def job(
        self,
        app: AppDef | TorchXApp,
        scheduler: str | None = None,
        cfg: CfgOf = None,
        **settings: Unpack[GroupArguments],
    ) -> Job:
        """Launch an app as a group of one, and return its job: await it, or use it as ``async with``.

        A block that is left before the job's end ends the job, unless it has a key. The arguments are those of `group`.

        Raises:
            ValueError: The app cannot be run as it is described, or an argument is wrong.
        """
        self._enter()
        return self.group(scheduler, cfg, **settings)._start_single(app)

    async def run_all(
        self,
        apps: Iterable[AppDef | TorchXApp],
        scheduler: str | None = None,
        cfg: CfgOf = None,
        **settings: Unpack[GroupArguments],
    ) -> list[Job]:
        """Run many apps to their ends, and return their jobs in order; raises nothing for those that failed.

        The arguments are those of `group`, but that a failure does not end the others unless ``on_failure="cancel"``
        is asked for. Cancelled, it ends what runs.
        """
        self._enter()
        if is_a(apps, str, bytes) or not is_a(apps, Iterable):
            fix = "one app is started by job(app)" if is_a(apps, AppDef) else "write run_all([app, ...])"
            raise unexpected("apps", apps, "an iterable of AppDefs", fix)
        if "max_failures" not in settings:
            settings.setdefault("on_failure", "continue")
        budget = budget_of(asyncio.get_running_loop())
        group = self.group(scheduler, cfg, **settings)
        group._raises = False
        async with group:
            for app in apps:
                group.start(app)
                await budget.breathe()
        return [*group.jobs]
