"""Turn an app into the containers to request from the daemon: no I/O, no SDK.

The result is a plain value: it prints readably with its secrets masked, and may be edited before it is sent. `to_wire`
makes the request's body from it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Literal

from asyncsched.errors import InvalidRequestError
from asyncsched.schedulers._common.roles import given_options, note_by_hand, role_notes
from asyncsched.schedulers.docker import names
from asyncsched.schedulers.docker.options import DockerOpts
from asyncsched.schedulers.docker.request_host import make_host_kwargs
from asyncsched.schedulers.docker.request_wire import make_body, read_command, read_labels
from asyncsched.schedulers.request_checks import check_seconds
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.dryrun import pretty
from asyncsched.specs.keeping import Keeper, ToldApp
from asyncsched.specs.macros import macros
from asyncsched.specs.result import RESULT_FILE
from asyncsched.specs.to_plain import JsonValue

__all__ = ["DockerContainer", "DockerJob", "completed", "is_user_defined", "make_request", "to_wire"]

BACKEND = "local_docker"
RANK0 = "TORCHX_RANK0_HOST"


@dataclass(repr=False)
class DockerContainer:
    """One replica as a container.

    Attributes:
        image: The image.
        command: The program and its arguments, appended to the image's entrypoint; a string is split as a shell would.
        kwargs: Other settings, by the names of docker-py's ``containers.run``, as the documents have them: ``name``,
            ``environment``, ``labels``, ``mounts``, ``mem_limit`` and so on.
        role: The role's name.
        replica: Its number in the role; None continues after the containers of the role that precede it.
        stop_timeout: Seconds between TERM and KILL.
        host_config: Fields of the Engine API's ``HostConfig``, which override `kwargs`.
    """

    image: str
    command: str | list[str]
    kwargs: dict[str, Any]
    role: str = field(default="main", kw_only=True)
    replica: int | None = field(default=None, kw_only=True)
    stop_timeout: int = field(default=10, kw_only=True)
    host_config: dict[str, Any] = field(default_factory=dict[str, Any], kw_only=True)

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.kwargs.get("name") or "")

    @property
    def network(self) -> str:
        """The network that it joins."""
        return str(self.kwargs.get("network") or self.kwargs.get("network_mode") or "default")

    def __repr__(self) -> str:
        return pretty(self)


@dataclass(repr=False)
class DockerJob:
    """An app as containers.

    Attributes:
        app_id: The app's id.
        containers: The containers, in the order of roles and replicas.
        pull: When to pull images: ``missing``, ``always`` or ``never``.
        quiet: Whether to pull without reporting progress.
        on_failure: What happens to the other replicas when one has failed: ``continue`` or ``stop``.
        timeout: Seconds that a run of a replica may take.
        platform: The platform to pull, such as ``linux/arm64``; None for the daemon's.
    """

    app_id: str
    containers: list[DockerContainer]
    pull: Literal["missing", "always", "never"] = field(default="missing", kw_only=True)
    quiet: bool = field(default=False, kw_only=True)
    on_failure: Literal["continue", "stop"] = field(default="continue", kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)
    platform: str | None = field(default=None, kw_only=True)

    @property
    def images(self) -> list[str]:
        """Each image once, in order."""
        return list(dict.fromkeys(container.image for container in self.containers))

    def __repr__(self) -> str:
        return pretty(self)


def make_request(
    app: AppDef,
    app_id: str,
    options: DockerOpts,
    *,
    session: str,
    environ: Mapping[str, str],
    version: str,
) -> DockerJob:
    """Make the request for an app.

    Args:
        app: The app; it is not changed.
        app_id: The app's id.
        options: The run options.
        session: The session's name, for a label.
        environ: The submitter's environment, for `copy_env`.
        version: This package's version, for a label.
    """
    if not app.roles:
        raise InvalidRequestError(f"the app {app.name} has no roles", fix="give it at least one")
    for role in app.roles:
        if not role.image.strip():
            raise InvalidRequestError(f"the role {role.name!r} has no image", fix="set the role's image")
    check_seconds("grace_period", options.grace_period, least=0)  # Docker reads a whole number of 32 bits
    check_seconds("timeout", options.timeout)
    job = DockerJob(
        app_id,
        [],
        pull=options.pull,
        quiet=options.quiet,
        on_failure=options.on_failure,
        timeout=options.timeout,
        platform=options.platform,
    )
    told = ToldApp(app, options)
    app_labels = names.app_labels(
        told, app_id, session=session, version=version, timeout=options.timeout, remove_after=options.remove_after
    )
    # The copied environment may come from inside an app, with that app's replica 0 and result file.
    rank0 = {RANK0: _rank0_host(app, app_id, options)}
    copied = _copied(options.copy_env or (), environ)
    copied.pop(RESULT_FILE, None)
    shared = {**copied, **rank0, **(options.env or {})}
    for index, (role, note) in enumerate(zip(app.roles, role_notes(told), strict=True)):
        role_labels = names.role_labels(app_labels, role, note, index)
        for replica in range(role.num_replicas):
            job.containers.append(_container(app_id, role, replica, shared, role_labels, options))
    return job


def _container(
    app_id: str,
    role: Role,
    replica: int,
    shared: Mapping[str, str],
    role_labels: Mapping[str, str],
    options: DockerOpts,
) -> DockerContainer:
    values = macros.Values(img_root="", app_id=app_id, replica_id=str(replica), rank0_env=RANK0)
    applied = values.apply(role)
    name = names.container_name(app_id, role.name, replica)
    # World-writable; by its container's name, because replicas may share a directory that is mounted there.
    result = f"/tmp/{name}.result.json"  # noqa: S108 - in the container
    env = {RESULT_FILE: result, **shared, **applied.env}
    labels = names.replica_labels(role_labels, replica, result if env[RESULT_FILE] == result else "")
    kwargs: dict[str, Any] = {"name": name, "environment": env, "labels": labels}
    if is_own_interface(options.network):
        kwargs["hostname"] = name
    if options.user:
        kwargs["user"] = options.user
    return DockerContainer(
        role.image,
        [applied.entrypoint, *applied.args],
        kwargs | make_host_kwargs(role, options),
        role=role.name,
        replica=replica,
        stop_timeout=math.ceil(options.grace_period),
    )


def _copied(patterns: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    wanted = list(patterns)
    return {name: value for name, value in environ.items() if any(fnmatchcase(name, glob) for glob in wanted)}


def _rank0_host(app: AppDef, app_id: str, options: DockerOpts) -> str:
    if not is_own_interface(options.network):
        return "localhost"  # all replicas share one network interface
    return names.container_name(app_id, app.roles[0].name, 0)


def completed(job: DockerJob, app: AppDef | None = None, *, session: str, version: str) -> DockerJob:
    """Return a copy of a job in which each container has a name, and the labels that it is found by.

    Jobs of a dry-run have them already; a job that was made by hand may lack them.

    Args:
        job: The job.
        app: The app that it was made from, to be described; None for a job that was made by hand.
        session: The session's name, for a label.
        version: This package's version, for a label.

    Raises:
        InvalidRequestError: The job has no containers.
    """
    if not job.containers:
        raise InvalidRequestError(
            f"the request for {job.app_id} has no containers",
            why="there is nothing to run",
            fix="add a DockerContainer for each replica",
            backend=BACKEND,
        )
    containers: list[DockerContainer] = []
    counted: Counter[str] = Counter()
    roles = list(dict.fromkeys(each.role for each in job.containers))
    notes: dict[str, dict[str, str]] = {}
    if app is not None:
        metadata = names.metadata_note(app)
        told = zip(app.roles, role_notes(app), strict=True)
        notes = {role.name: names.role_note(note) | metadata for role, note in told}
    if more := [role for role in roles if role not in notes]:
        keeper = Keeper(job)
        notes |= {role: names.role_note(_note_by_hand(job, role, keeper)) for role in more}
    for each in job.containers:
        number = counted[each.role] if each.replica is None else each.replica
        counted[each.role] = number + 1
        own = names.found_labels(
            job.app_id,
            session=session,
            version=version,
            role=each.role,
            role_index=roles.index(each.role),
            replica=number,
        )
        name = each.name or names.container_name(job.app_id, each.role, number)
        kwargs = {
            **each.kwargs,
            "name": name,
            "labels": own | read_labels(each.kwargs.get("labels") or {}) | notes[each.role],
        }
        containers.append(replace(each, kwargs=kwargs, replica=number))
    return replace(job, containers=containers)


def _note_by_hand(job: DockerJob, name: str, keeper: Keeper) -> dict[str, JsonValue]:
    """Return what can be described of a role in a job that was made by hand."""
    containers = [each for each in job.containers if each.role == name]
    role = Role(name, containers[0].image, num_replicas=len(containers))
    (note,) = role_notes(ToldApp(AppDef("", [role]), keeper))
    return note | note_by_hand(_made_with(job, name), keeper)


def _made_with(job: DockerJob, role: str) -> Iterator[str]:
    """Yield the settings of a role's containers, except those that only identify them."""
    yield from given_options(job)
    for each in job.containers:
        if each.role == role:
            yield from (name for name in given_options(each) if name not in ("role", "replica", "host_config"))
            yield from ("image", "command", *(name for name in each.kwargs if name not in ("name", "labels")))
            yield from (f"host_config.{name}" for name in each.host_config)


def to_wire(container: DockerContainer, network: str, digest: str = "") -> dict[str, Any]:
    """Return the body of the request that creates a container; it holds the secrets."""
    body = make_body(container.kwargs, made_by=container.name, backend=BACKEND)
    body["Labels"] = names.sent_labels(body.get("Labels", {}), container.name, digest, terminal=bool(body.get("Tty")))
    body |= {
        "Image": container.image,
        "Cmd": read_command(container.command, made_by=container.name, backend=BACKEND),
        "StopTimeout": container.stop_timeout,
        "HostConfig": {**body["HostConfig"], **container.host_config, "NetworkMode": network},
    }
    if is_user_defined(network):
        # The alias stays when the container is renamed.
        body["NetworkingConfig"] = {"EndpointsConfig": {network: {"Aliases": [container.name]}}}
    return body


def is_own_interface(network: str) -> bool:
    """Return whether a container in this network has its own network interface, and so a host name."""
    return network != "host" and not network.startswith("container:")


def is_user_defined(network: str) -> bool:
    """Return whether the network is user-defined, so that containers reach each other by name."""
    return is_own_interface(network) and network not in ("none", "bridge", "default")
