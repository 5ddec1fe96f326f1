"""From an app to the job that the cluster is asked for: no I/O.

The result is a plain value: it prints readably with its secrets masked, and may be edited before it is sent. `to_wire`
makes of it the files of the app's directory and the arguments of ``sbatch``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from asyncsched.errors import InvalidRequestError, RunOptionError
from asyncsched.schedulers._common.roles import app_note, role_of_command
from asyncsched.schedulers.prepare import check_seconds
from asyncsched.schedulers.slurm import names
from asyncsched.schedulers.slurm.options import SlurmOpts
from asyncsched.schedulers.slurm.request_scripts import RANK0, RUN_SCRIPT, batch_script, task_script
from asyncsched.specs.app import AppDef, Resource, RetryPolicy, Role
from asyncsched.specs.dryrun import pretty
from asyncsched.specs.macros import macros
from asyncsched.specs.mounts import BindMount
from asyncsched.specs.not_kept import NOT_KEPT, NotKept
from asyncsched.specs.result import RESULT_FILE
from asyncsched.specs.secret import reveal, revealed_env

__all__ = ["SlurmJob", "SlurmTask", "Wire", "make_request", "to_wire"]

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"

_TIME = re.compile(r"\d+|\d+:\d\d(:\d\d)?|\d+-\d+(:\d\d){0,2}|UNLIMITED|INFINITE", re.ASCII | re.IGNORECASE)
_OF_THE_JOB = ("comment", "mail_user", "mail_type")
_OF_A_COMPONENT = ("partition", "account", "qos", "constraint", "nodelist", "exclude", "reservation", "gres")


@dataclass(repr=False)
class SlurmTask:
    """One replica: a task of the job.

    Attributes:
        args: The program and its arguments.
        env: Its variables, beside those of the submitter.
        role: The role's name.
        replica: Its number in the role.
        max_retries: How often it is started again by itself.
        cwd: The directory that it starts in.
    """

    args: list[str]
    env: dict[str, str]
    role: str = field(default="main", kw_only=True)
    replica: int = field(default=0, kw_only=True)
    max_retries: int = field(default=0, kw_only=True)
    cwd: str = field(default="/", kw_only=True)

    def __repr__(self) -> str:
        return pretty(self)


@dataclass(repr=False)
class SlurmJob:
    """An app as one job.

    Attributes:
        app_id: The app's id.
        directory: Where its files are, on a file system that the nodes share.
        components: The arguments of ``sbatch`` for each component; one for an app whose roles are all of one size.
        tasks: The tasks of each component, in the order of their ranks.
        options: Arguments of ``sbatch`` for the whole job.
        max_retries: How often all replicas are started again when one has failed.
        modules: Environment modules that are loaded first.
        prolog: A line of shell that is run first.
        timestamps: Whether each line of the logs has its time.
        requeue: Whether the cluster may start the job again.
    """

    app_id: str
    directory: str
    components: list[list[str]]
    tasks: list[list[SlurmTask]]
    options: list[str] = field(default_factory=list[str], kw_only=True)
    max_retries: int = field(default=0, kw_only=True)
    modules: list[str] = field(default_factory=list[str], kw_only=True)
    prolog: str = field(default="", kw_only=True)
    timestamps: bool = field(default=False, kw_only=True)
    requeue: bool = field(default=False, kw_only=True)

    def __repr__(self) -> str:
        return pretty(self)


def make_request(app: AppDef, app_id: str, options: SlurmOpts, *, job_dir: str, cwd: str) -> SlurmJob:
    """Make the request for an app.

    Args:
        app: The app.
        app_id: The app's id.
        options: The run options.
        job_dir: Where directories of apps are made.
        cwd: The submitter's working directory.
    """
    groups = _groups(app.roles)
    _check_options(options, is_plain=len(groups) == 1)
    shared = _arguments(options, _OF_A_COMPONENT)
    if (limit := _time(options)) is not None:
        shared.append(f"--time={limit}")
    spread = {"nodes": options.nodes, "ntasks-per-node": options.ntasks_per_node}
    shared += [f"--{name}={value}" for name, value in spread.items() if value is not None]
    by_app = [role.max_retries for role in app.roles if role.retry_policy is not RetryPolicy.REPLICA]
    directory = f"{job_dir}/{app_id}"
    return SlurmJob(
        app_id,
        directory,
        [
            [f"--ntasks={sum(role.num_replicas for role in group)}", *_size(group[0].resource), *shared]
            for group in groups
        ],
        [
            [_task(role, k, app_id, options, cwd) for role in group for k in range(role.num_replicas)]
            for group in groups
        ],
        options=[*_arguments(options, _OF_THE_JOB), *(options.sbatch_args or ())],
        max_retries=max(by_app, default=0),
        modules=list(options.modules or ()),
        prolog=options.prolog or "",
        timestamps=options.timestamps,
        requeue=options.requeue,
    )


def _groups(roles: Sequence[Role]) -> list[list[Role]]:
    """Return the roles of each component: a job of several starts later, and each needs nodes for itself."""
    sizes = {tuple(_size(role.resource)) for role in roles}
    return [list(roles)] if len(sizes) == 1 else [[role] for role in roles]


def _size(resource: Resource) -> list[str]:
    cpus = max(1, math.ceil(resource.cpu))
    size = [f"--cpus-per-task={cpus}"]
    if resource.memMB > 0:
        size.append(f"--mem-per-cpu={math.ceil(resource.memMB / cpus)}")
    if resource.gpu > 0:
        size.append(f"--gpus-per-task={math.ceil(resource.gpu)}")
    return size


def _task(role: Role, k: int, app_id: str, options: SlurmOpts, cwd: str) -> SlurmTask:
    in_image = options.container is not None
    applied = macros.Values(
        img_root="" if in_image else role.image, app_id=app_id, replica_id=str(k), rank0_env=RANK0
    ).apply(role)
    args = [applied.entrypoint, *applied.args]
    if options.container is not None:
        args = [options.container, "exec", *_binds(role), role.image, *args]
    return SlurmTask(
        args,
        dict(applied.env),
        role=role.name,
        replica=k,
        max_retries=role.max_retries if role.retry_policy is RetryPolicy.REPLICA else 0,
        cwd=role.image if role.image.startswith("/") and not in_image else cwd,
    )


def _binds(role: Role) -> list[str]:
    mounts = [mount for mount in role.mounts if isinstance(mount, BindMount)]
    binds = [f"{each.src_path}:{each.dst_path}{':ro' if each.read_only else ''}" for each in mounts]
    return [word for bind in binds for word in ("--bind", bind)]


# Options


def _check_options(options: SlurmOpts, *, is_plain: bool) -> None:
    check_seconds("timeout", options.timeout)
    if options.time is not None and options.timeout is not None:
        raise RunOptionError("time and timeout both limit the app", key="time", fix="leave one of them out")
    if options.time is not None and not _TIME.fullmatch(options.time):
        raise RunOptionError(
            f"time must be a limit that Slurm reads, got {options.time!r}",
            key="time",
            fix="write minutes, hours:minutes:seconds or days-hours, such as 30, 1:30:00 or 2-12",
        )
    for name in ("nodes", "ntasks_per_node"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise RunOptionError(f"{name} must be at least 1, got {value}", key=name)
        if value is not None and not is_plain:
            why = "its roles ask for different resources, and so are components of one job"
            raise RunOptionError(f"{name} is for an app whose roles are of one size", key=name, why=why)
    for name in (*_OF_A_COMPONENT, *_OF_THE_JOB, "prolog", "job_dir"):
        value = getattr(options, name)
        if value is not None and (not value.strip() or not value.isprintable()):
            raise RunOptionError(
                f"{name} must be text on one line, got {value!r}", key=name, fix="write its value, or leave it out"
            )


def _time(options: SlurmOpts) -> str | None:
    return options.time if options.timeout is None else str(math.ceil(options.timeout / 60))


def _arguments(options: SlurmOpts, fields: Sequence[str]) -> list[str]:
    given = {name.replace("_", "-"): getattr(options, name) for name in fields}
    return [f"--{name}={value}" for name, value in given.items() if value is not None]


# What is sent


class Wire(NamedTuple):
    """What a submit sends; it holds the secrets.

    Attributes:
        files: The texts of the files in the app's directory, by name.
        argv: The command that submits the job.
        record: What is kept of the app, without secrets.
    """

    files: Mapping[str, str]
    argv: Sequence[str]
    record: Mapping[str, Any]


def to_wire(job: SlurmJob, app: AppDef | None, *, session: str, digest: str, created_ns: int) -> Wire:
    """Make the files of an app and the command that submits it.

    Args:
        job: The job.
        app: What it was made from, as it is to be told; None for a job that was made by hand.
        session: The session's name.
        digest: The dry-run's digest.
        created_ns: The time.
    """
    tasks = [task for group in job.tasks for task in group]
    stems = [names.stem_of(task.role, task.replica) for task in tasks]
    if not tasks or not all(job.tasks) or len(job.tasks) != len(job.components) or len({*stems}) < len(stems):
        raise InvalidRequestError(
            f"the request for {job.app_id} cannot be sent",
            why="each component needs its tasks, and each task a role and a number that no other has",
            backend="slurm",
        )
    app = _app_of(tasks) if app is None else app
    files = {names.task_name(rank): _script(job, task, stems[rank]) for rank, task in enumerate(tasks)}
    files[names.RUN] = RUN_SCRIPT
    files[names.BATCH] = batch_script(
        job.directory,
        [[each for each in component if each.startswith("--cpus-per-task=")] for component in job.components],
        retries=job.max_retries,
        modules=job.modules,
        prolog=job.prolog,
    )
    record: dict[str, Any] = {
        "app_id": job.app_id,
        "session": session,
        "name": app.name,
        "digest": digest,
        "created_ns": created_ns,
        "note": app_note(app),
        "replicas": [
            {"role": task.role, "k": task.replica, "stem": stem, "retries": task.max_retries or job.max_retries}
            for task, stem in zip(tasks, stems, strict=True)
        ],
        "requeue": job.requeue,
        "timestamps": job.timestamps,
    }
    return Wire(files, _sbatch(job), record)


def _script(job: SlurmJob, task: SlurmTask, stem: str) -> str:
    ours = {
        ERROR_FILE: f"{job.directory}/{names.error_name(stem)}",
        RESULT_FILE: f"{job.directory}/{names.result_name(stem)}",
    }
    return task_script(
        [reveal(word) for word in task.args],
        {"PYTHONUNBUFFERED": "x", **ours, **revealed_env(task.env)},
        stem=stem,
        retries=task.max_retries,
        stamps=job.timestamps,
        cwd=task.cwd,
    )


def _sbatch(job: SlurmJob) -> list[str]:
    """Return the command; what an app is known by comes last, so that it holds whatever was given before."""
    log = f"{job.directory}/{names.BATCH_LOG}".replace("%", "%%")
    ours = [
        "--parsable",
        f"--job-name={job.app_id}",
        f"--chdir={job.directory}",
        f"--output={log}",
        "--open-mode=append",
        "--requeue" if job.requeue else "--no-requeue",
    ]
    argv = ["sbatch"]
    for component in job.components:
        argv += [*([":"] if len(argv) > 1 else []), *component, *job.options, *ours]
    return [*argv, f"{job.directory}/{names.BATCH}"]


def _app_of(tasks: Sequence[SlurmTask]) -> AppDef:
    """Return an app that would be started as a request says that was put together by hand."""
    by_role: dict[str, list[SlurmTask]] = {}
    for task in tasks:
        by_role.setdefault(task.role, []).append(task)
    return AppDef("", [_role_of(name, group) for name, group in by_role.items()])


def _role_of(name: str, tasks: Sequence[SlurmTask]) -> Role:
    first, *others = tasks
    role = role_of_command(name, "", first.args, first.env, len(tasks))
    why = "its request was made by hand: resource, mounts and retries are in options of its components, not in a role"
    if any((first.args, first.env) != (other.args, other.env) for other in others):
        role.args, role.env, why = [], {}, f"{why}; its replicas are not alike"
    role.env = {NOT_KEPT: NotKept(why), **role.env}
    return role
