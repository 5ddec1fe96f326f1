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
        """The keyword arguments of `Runner.group`."""

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
    """The methods for groups of jobs."""

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
        """Return a group of jobs. Start jobs in its ``async with`` block, which waits for all of them.

        Args:
            scheduler: The scheduler that runs the jobs; by default the runner's first.
            cfg: The run options, or a function that returns them for an attempt (1, 2, ...), for example with more
                memory each time.
            limit: The maximum number of jobs at a time, from launch to end, over all schedulers.
            retries: How often a job is restarted after it failed or timed out. Restarts after the loss of a host do not
                count.
            timeout: The maximum run time of a job in seconds, from when it is first seen running. It is also passed to
                services that support time limits.
            on_failure: What happens on the first failure: ``cancel`` ends the group, ``continue`` runs the other jobs.
            max_failures: How many failures are accepted before the group is ended: a number, or a fraction of the jobs
                below 1.0.
            key: Makes the group durable: when it is started again with this key, in any process, finished jobs are not
                repeated, and running jobs are followed.
            reuse: Which finished jobs of a durable group are not repeated: those that ``succeeded``, ``any``, or
                ``never``.
            on_leave: What happens to running jobs if an exception leaves the block: ``cancel`` ends them, ``leave``
                lets them run. The default is ``leave`` for a group with a key, else ``cancel``.
            workspace: Files to lay over the apps' images.
            keep_logs: A folder in which the log of every job is saved from its start, as
                ``GROUP/JOB/APP/ROLE-REPLICA.stdout.log``. The files are complete when the block has been left;
                `JobGroup.lost_logs` lists those that are not.

        Raises:
            ConfigError: An argument is invalid; the message names it and its bounds.
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
        """Launch an app as a group of one job and return the job; await it, or use it with ``async with``.

        Leaving the block before the job has ended ends the job, unless it has a key. The arguments are those of
        `group`.

        Raises:
            ValueError: The app definition or an argument is invalid.
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
        """Run many apps until they have ended and return their jobs in order. Failed jobs do not raise.

        The arguments are those of `group`, except that ``on_failure`` is ``"continue"`` by default. Cancelling the call
        ends the running jobs.
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
