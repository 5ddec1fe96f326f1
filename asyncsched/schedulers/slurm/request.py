"""Turn an app into the job to request from the cluster: no I/O.

The result is a plain value: it prints readably with its secrets masked, and may be edited before it is sent. `to_wire`
makes the files of the app's directory and the arguments of ``sbatch`` from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from asyncsched._typing import NamedTuple
from asyncsched.errors import InvalidRequestError, RunOptionError
from asyncsched.schedulers._common.app_notes import app_note
from asyncsched.schedulers._common.roles import given_options, made_with_text, role_of_command
from asyncsched.schedulers.shape import check_image
from asyncsched.schedulers.slurm import names
from asyncsched.schedulers.slurm.options import SlurmOpts
from asyncsched.schedulers.slurm.request_options import check_options, of_a_component, of_the_job
from asyncsched.schedulers.slurm.request_scripts import RANK0, RUN_SCRIPT, batch_script, task_script
from asyncsched.schedulers.slurm.status_records import SlurmAppRecord, SlurmReplicaRecord
from asyncsched.specs.app import AppDef, Resource, RetryPolicy, Role
from asyncsched.specs.dryrun import pretty
from asyncsched.specs.keeping import Keeper, ToldApp
from asyncsched.specs.macros import macros
from asyncsched.specs.mounts import BindMount
from asyncsched.specs.not_kept import NOT_KEPT, NotKept
from asyncsched.specs.result import RESULT_FILE
from asyncsched.specs.secret import reveal, revealed_env

__all__ = ["SlurmJob", "SlurmSubmitFiles", "SlurmTask", "make_request", "to_wire"]

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"


@dataclass(repr=False)
class SlurmTask:
    """One replica: a task of the job.

    Attributes:
        args: The program and its arguments.
        env: Its variables, in addition to the submitter's.
        role: The role's name.
        replica: Its number in the role.
        max_retries: How often it alone is restarted.
        max_restarts: How often all replicas are restarted for it, if less often than the job's `max_retries`.
        cwd: The directory that it starts in.
    """

    args: list[str]
    env: dict[str, str]
    role: str = field(default="main", kw_only=True)
    replica: int = field(default=0, kw_only=True)
    max_retries: int = field(default=0, kw_only=True)
    max_restarts: int | None = field(default=None, kw_only=True)
    cwd: str = field(default="/", kw_only=True)

    def __repr__(self) -> str:
        return pretty(self)


@dataclass(repr=False)
class SlurmJob:
    """An app as one job.

    Attributes:
        app_id: The app's id.
        directory: The directory of its files, on a file system that the nodes share.
        components: The arguments of ``sbatch`` for each component: one for all roles of one size.
        tasks: The tasks of each component, in the order of their ranks.
        options: Arguments of ``sbatch`` for the whole job.
        max_retries: How often all replicas are restarted when one has failed.
        modules: Environment modules to load first.
        prolog: A line of shell to run first.
        timestamps: Whether each line of the logs has its time.
        requeue: Whether the cluster may restart the job.
        pending_timeout: Seconds after which this scheduler ends the job if it has not run.
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
    pending_timeout: float | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        return pretty(self)


def make_request(
    app: AppDef, app_id: str, options: SlurmOpts, *, job_dir: str, cwd: str, in_workspace: bool = False
) -> SlurmJob:
    """Make the request for an app.

    Args:
        app: The app.
        app_id: The app's id.
        options: The run options.
        job_dir: The parent of apps' directories.
        cwd: The submitter's working directory.
        in_workspace: Whether the replicas start in a copy of a workspace.
    """
    groups = _groups(app.roles)
    check_options(options, is_plain=len(groups) == 1)
    for role in app.roles if options.container is not None else ():
        check_image(role)
    shared = of_a_component(options)
    rounds = max(map(_rounds, app.roles), default=0)
    if "\\" in job_dir:
        raise RunOptionError(
            f"job_dir must not contain a backslash, got {job_dir!r}",
            key="job_dir",
            why="Slurm would not find the job's log there",
            fix="name another directory",
        )
    directory = f"{job_dir}/{app_id}"
    workspace = f"{directory}/{names.WORKSPACE}" if in_workspace else ""
    return SlurmJob(
        app_id,
        directory,
        [
            [f"--ntasks={sum(role.num_replicas for role in group)}", *_size(group[0].resource), *shared]
            for group in groups
        ],
        [
            [
                replace(
                    _task(role, k, directory, options, cwd, workspace),
                    max_restarts=_rounds(role) if _rounds(role) < rounds else None,
                )
                for role in group
                for k in range(role.num_replicas)
            ]
            for group in groups
        ],
        options=of_the_job(options),
        max_retries=rounds,
        modules=list(options.modules or ()),
        prolog=options.prolog or "",
        timestamps=options.timestamps,
        requeue=options.requeue,
        pending_timeout=options.pending_timeout,
    )


def _rounds(role: Role) -> int:
    """Return how often all replicas are restarted when one of this role has failed."""
    return 0 if role.retry_policy is RetryPolicy.REPLICA else role.max_retries


def _groups(roles: Sequence[Role]) -> list[list[Role]]:
    """Return the roles of each component: a job of several starts later, and each component needs its own nodes."""
    by_size: dict[tuple[str, ...], list[Role]] = {}
    for role in roles:
        by_size.setdefault(tuple(_size(role.resource)), []).append(role)
    return list(by_size.values())


def _size(resource: Resource) -> list[str]:
    cpus = max(1, math.ceil(resource.cpu))
    size = [f"--cpus-per-task={cpus}"]
    if resource.memMB > 0:
        size.append(f"--mem-per-cpu={math.ceil(resource.memMB / cpus)}")
    if resource.gpu > 0:
        size.append(f"--gpus-per-task={math.ceil(resource.gpu)}")
    return size


def _task(role: Role, k: int, directory: str, options: SlurmOpts, cwd: str, workspace: str) -> SlurmTask:
    is_directory = role.image.startswith("/") and options.container is None
    root = workspace or ("" if options.container else role.image)
    app_id = directory.rpartition("/")[2]
    applied = macros.Values(img_root=root, app_id=app_id, replica_id=str(k), rank0_env=RANK0).apply(role)
    args = [applied.entrypoint, *applied.args]
    if options.container == "enroot":
        args = _in_enroot(applied, args, directory, workspace)
    elif options.container is not None:
        binds = _mounts(role, directory, lambda way, is_read_only: f"{way}:ro" if is_read_only else way)
        args = [options.container, "exec", *_each("--bind", binds), role.image, *args]
    return SlurmTask(
        args,
        dict(applied.env),
        role=role.name,
        replica=k,
        max_retries=role.max_retries if role.retry_policy is RetryPolicy.REPLICA else 0,
        cwd=workspace or (role.image if is_directory else cwd),
    )


def _in_enroot(role: Role, args: Sequence[str], directory: str, workspace: str) -> list[str]:
    """Return the command that runs a role in its image; enroot passes on only variables that it is told to."""
    mounts = _mounts(
        role, directory, lambda way, is_read_only: f"{way}:none:x-create=auto,bind,{'ro' if is_read_only else 'rw'}"
    )
    variables = dict.fromkeys((RANK0, "SLURM_PROCID", "CUDA_VISIBLE_DEVICES", *_ours(directory, ""), *role.env))
    into = ["sh", "-c", 'cd "$0" && exec "$@"', workspace] if workspace else []
    return ["enroot", "start", *_each("--mount", mounts), *_each("--env", variables), role.image, *into, *args]


def _mounts(role: Role, directory: str, written: Callable[[str, bool], str]) -> list[str]:
    """Return a role's bind mounts in its program's form, and that of the app's directory, for results."""
    mounts = [mount for mount in role.mounts if isinstance(mount, BindMount)]
    binds = [written(f"{mount.src_path}:{mount.dst_path}", mount.read_only) for mount in mounts]
    return [*binds, written(f"{directory}:{directory}", False)]


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


# The files and the command


class SlurmSubmitFiles(NamedTuple):
    """The files and the command of a submit; they contain the secrets.

    Attributes:
        files: The content of the files in the app's directory, by name.
        argv: The command that submits the job.
        directory: The app's directory.
        record: The app's record, without secrets.
    """

    files: Mapping[str, str]
    argv: Sequence[str]
    directory: str
    record: SlurmAppRecord


def to_wire(job: SlurmJob, app: AppDef | None, *, session: str, digest: str, created_ns: int) -> SlurmSubmitFiles:
    """Return the files of an app and the command that submits it.

    Args:
        job: The job.
        app: The app that it was made from, to be described; None for a job that was made by hand.
        session: The session's name.
        digest: The dry-run's digest.
        created_ns: The current time.
    """
    tasks = [task for group in job.tasks for task in group]
    stems = [names.stem_of(task.role, task.replica) for task in tasks]
    if not tasks or not all(job.tasks) or len(job.tasks) != len(job.components) or len({*stems}) < len(stems):
        raise InvalidRequestError(
            f"the request for {job.app_id} cannot be sent",
            why="each component needs tasks, and each task needs a role and a number that no other task has",
            backend="slurm",
        )
    app = _app_of(job) if app is None else app
    files = {names.task_name(rank): _script(job, task, stems[rank]) for rank, task in enumerate(tasks)}
    files[names.RUN] = RUN_SCRIPT
    files[names.BATCH] = batch_script(
        job.directory,
        [[each for each in component if each.startswith("--cpus-per-task=")] for component in job.components],
        count=len(tasks),
        retries=job.max_retries,
        modules=job.modules,
        prolog=job.prolog,
    )
    roles = {role.name: place for place, role in enumerate(app.roles)}
    told = sorted(zip(tasks, stems, strict=True), key=lambda each: roles.get(each[0].role, len(roles)))
    record = SlurmAppRecord(
        job.app_id,
        session,
        app.name,
        digest,
        created_ns,
        app_note(app),
        [SlurmReplicaRecord(task.role, task.replica, stem) for task, stem in told],
        components=len(job.components),
        requeue=job.requeue,
        timestamps=job.timestamps,
    )
    return SlurmSubmitFiles(files, _sbatch(job), job.directory, record)


def _ours(directory: str, stem: str) -> dict[str, str]:
    """Return the variables that every replica gets from asyncsched."""
    return {
        "PYTHONUNBUFFERED": "x",
        ERROR_FILE: f"{directory}/{names.error_name(stem)}",
        RESULT_FILE: f"{directory}/{names.result_name(stem)}",
    }


def _script(job: SlurmJob, task: SlurmTask, stem: str) -> str:
    return task_script(
        [reveal(word) for word in task.args],
        {**_ours(job.directory, stem), **revealed_env(task.env)},
        stem=stem,
        retries=task.max_retries,
        rounds=job.max_retries if task.max_restarts is None else min(task.max_restarts, job.max_retries),
        stamps=job.timestamps,
        cwd=task.cwd,
    )


def _sbatch(job: SlurmJob) -> list[str]:
    """Return the command; the arguments that identify the app come last, so that they override earlier ones."""
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


def _app_of(job: SlurmJob) -> AppDef:
    """Return an app that would be started as a hand-made request says."""
    by_role: dict[str, list[SlurmTask]] = {}
    for task in chain.from_iterable(job.tasks):
        by_role.setdefault(task.role, []).append(task)
    keeper = Keeper(job)
    made_with = made_with_text(_made_with(job), keeper)
    return ToldApp(AppDef("", [_role_of(name, group, made_with) for name, group in by_role.items()]), keeper)


def _made_with(job: SlurmJob) -> Iterator[str]:
    """Yield the names of a job's settings other than its tasks."""
    for word in (*chain.from_iterable(job.components), *job.options):
        if word.startswith("-"):
            yield word.partition("=")[0]
    yield from (name for name in given_options(job) if name != "options")


def _role_of(name: str, tasks: Sequence[SlurmTask], made_with: str) -> Role:
    first, *others = tasks
    role = role_of_command(name, "", first.args, first.env, len(tasks))
    why = "its request was made by hand: resource, mounts and retries are in options of its components, not in a role"
    why += made_with
    if any((first.args, first.env) != (other.args, other.env) for other in others):
        role.args, role.env, why = [], {}, f"{why}; its replicas are not alike"
    role.env = {NOT_KEPT: NotKept(why), **role.env}
    return role
