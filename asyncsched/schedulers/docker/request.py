"""From an app to the containers that the daemon is asked for: no I/O, no SDK.

The result is a plain value: it prints readably with its secrets masked, and may be edited before it is sent.
`to_wire` makes of it what goes over the wire.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, cast

from asyncsched.errors import InvalidRequestError, RunOptionError
from asyncsched.schedulers._common.roles import note_of_role, without_env
from asyncsched.schedulers._common.untrusted import read_json, shown
from asyncsched.schedulers.docker import names
from asyncsched.schedulers.docker.names import read_identity
from asyncsched.schedulers.docker.options import DockerOpts
from asyncsched.schedulers.docker.request_host import make_host_config
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.dryrun import pretty
from asyncsched.specs.macros import macros
from asyncsched.specs.masking import find_secrets, masked
from asyncsched.specs.plain import JsonValue
from asyncsched.specs.result import RESULT_FILE
from asyncsched.specs.secret import reveal, revealed_env

__all__ = ["DockerContainer", "DockerJob", "is_user_defined", "make_request", "role_label", "to_wire"]

RANK0 = "TORCHX_RANK0_HOST"
_LONGEST_NOTE = 8192
_LONGEST_GRACE = 1e9  # Docker reads a whole number of 32 bits


@dataclass(kw_only=True)
class DockerContainer:
    """One replica as a container.

    Attributes:
        name: The container's name, and its host name.
        role: The role's name.
        replica: Its number in the role.
        image: The image.
        command: The program and its arguments; an entrypoint of the image stands before them.
        env: The environment.
        labels: The labels.
        user: The user to run as; empty for the image's.
        stop_timeout: Seconds between TERM and KILL.
        terminal: Whether it gets a terminal, which makes one stream of its two.
        host_config: The Engine API's ``HostConfig``: resources, mounts, devices, restarts, network.
    """

    name: str
    role: str
    replica: int
    image: str
    command: list[str] = field(default_factory=list[str])
    env: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    labels: dict[str, str] = field(default_factory=dict[str, str])
    user: str = ""
    stop_timeout: int = 10
    terminal: bool = False
    host_config: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(kw_only=True)
class DockerJob:
    """An app as containers.

    Attributes:
        app_id: The app's id.
        network: The network that all of them are in.
        pull: When to pull images: ``missing``, ``always`` or ``never``.
        quiet: Whether pulls are not reported.
        on_failure: What the other replicas do when one has failed: ``continue`` or ``stop``.
        timeout: Seconds that a run of a replica may take.
        containers: The containers, in the order of roles and replicas.
    """

    app_id: str
    network: str
    pull: Literal["missing", "always", "never"] = "missing"
    quiet: bool = False
    on_failure: Literal["continue", "stop"] = "continue"
    timeout: float | None = None
    containers: list[DockerContainer] = field(default_factory=list[DockerContainer])

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
            raise InvalidRequestError(f"the role {role.name!r} has no image", fix="name the image that it runs in")
    if not 0 <= options.grace_period <= _LONGEST_GRACE:
        raise RunOptionError(
            f"the grace period {options.grace_period:g} is no number of seconds",
            key="grace_period",
            fix="write 0 or more; 0 ends a replica at once",
        )
    if options.timeout is not None and not 0 < options.timeout < math.inf:
        raise RunOptionError(
            f"timeout must be a number of seconds above 0, got {options.timeout:g}",
            key="timeout",
            fix="leave it out for no limit",
        )
    job = DockerJob(
        app_id=app_id,
        network=options.network,
        pull=options.pull,
        quiet=options.quiet,
        on_failure=options.on_failure,
        timeout=options.timeout,
    )
    app_labels = {
        names.VERSION: version,
        names.APP_ID: app_id,
        names.APP_NAME: app.name,
        names.SESSION: session,
    }
    if app.metadata:
        app_labels[names.METADATA] = _metadata(app)
    if options.timeout is not None:
        app_labels[names.TIMEOUT] = str(options.timeout)
    if options.remove_after is not None:
        app_labels[names.REMOVE_AFTER] = str(options.remove_after)
    # What is copied may come from within an app, which has its own replica 0 and its own result.
    rank0 = {RANK0: _rank0_host(app, app_id, options)}
    copied = _copied(options.copy_env or (), environ)
    copied.pop(RESULT_FILE, None)
    shared = {**copied, **rank0, **(options.env or {})}
    for index, role in enumerate(app.roles):
        role_labels = {
            **app_labels,
            names.ROLE: role.name,
            names.ROLE_INDEX: str(index),
            names.SPEC: role_label(role),
        }
        if role.max_retries > 0:
            role_labels[names.RETRIES] = str(role.max_retries)
        _check_readable(role_labels)
        host_config = make_host_config(role, options)
        for replica in range(role.num_replicas):
            job.containers.append(_container(app_id, role, replica, shared, role_labels, host_config, options))
    return job


def _metadata(app: AppDef) -> str:
    text = json.dumps(masked(app.metadata))
    try:
        read_json(text)
    except ValueError as error:
        raise InvalidRequestError(
            f"the metadata of the app {shown(app.name)} {error}",
            why="it is kept in a label of each container, as JSON",
            fix="shorten it",
        ) from None
    return text


def _check_readable(own: Mapping[str, str]) -> None:
    """Refuse what could not be read back: the app would run, and nobody could tell its state."""
    if fault := read_identity(own).fault:
        raise InvalidRequestError(f"the app cannot be described by labels: {fault}", fix="choose another name")


def _container(
    app_id: str,
    role: Role,
    replica: int,
    shared: Mapping[str, str],
    role_labels: Mapping[str, str],
    host_config: Mapping[str, Any],
    options: DockerOpts,
) -> DockerContainer:
    values = macros.Values(img_root="", app_id=app_id, replica_id=str(replica), rank0_env=RANK0)
    applied = values.apply(role)
    name = names.container_name(app_id, role.name, replica)
    # Where everybody may write; by its container's name, as replicas may share a directory that is mounted there.
    result = f"/tmp/{name}.result.json"  # noqa: S108 - in the container
    env = {RESULT_FILE: result, **shared, **applied.env}
    labels = {**role_labels, names.REPLICA: str(replica)}
    if env[RESULT_FILE] == result:
        labels[names.RESULT] = result
    return DockerContainer(
        name=name,
        role=role.name,
        replica=replica,
        image=role.image,
        command=[applied.entrypoint, *applied.args],
        env=env,
        labels=labels,
        user=options.user or "",
        stop_timeout=math.ceil(options.grace_period),
        host_config=dict(host_config),
    )


def _copied(patterns: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    wanted = list(patterns)
    return {name: value for name, value in environ.items() if any(fnmatchcase(name, glob) for glob in wanted)}


def _rank0_host(app: AppDef, app_id: str, options: DockerOpts) -> str:
    if options.network == "host" or options.network.startswith("container:"):
        return "localhost"  # all replicas share one network interface
    return names.container_name(app_id, app.roles[0].name, 0)


def role_label(role: Role) -> str:
    """Describe a role for a list: without secrets, and without what would make the label too long."""
    note = note_of_role(role)
    note["args"] = [None if find_secrets([arg]) else arg for arg in cast("list[JsonValue]", note["args"])]
    bare = {name: value for name, value in without_env(note).items() if name not in ("args", "metadata")}
    candidates = (json.dumps(each) for each in (note, without_env(note), bare))
    return next((text for text in candidates if _is_readable(text)), "{}")


def _is_readable(note: str) -> bool:
    try:
        read_json(note)
    except ValueError:
        return False  # it is nested too deeply
    return len(note) <= _LONGEST_NOTE


def to_wire(container: DockerContainer, network: str, digest: str = "") -> dict[str, Any]:
    """Make the body of the request that creates a container; it holds the secrets."""
    own_labels = dict(container.labels)
    if digest:
        own_labels[names.REQUEST] = digest
    if container.terminal:
        own_labels[names.TERMINAL] = "1"
    body: dict[str, Any] = {
        "Image": container.image,
        "Cmd": [reveal(word) for word in container.command],
        "Env": [f"{name}={value}" for name, value in revealed_env(container.env).items()],
        "Labels": own_labels,
        "StopTimeout": container.stop_timeout,
        "Tty": container.terminal,
        "HostConfig": {**container.host_config, "NetworkMode": network},
    }
    if container.user:
        body["User"] = container.user
    if not network.startswith("container:") and network != "host":
        body["Hostname"] = container.name
    if is_user_defined(network):
        # The alias stays when the container is renamed.
        body["NetworkingConfig"] = {"EndpointsConfig": {network: {"Aliases": [container.name]}}}
    return body


def is_user_defined(network: str) -> bool:
    """Tell whether it is a network that is made by name, where containers know each other by name."""
    return network not in ("host", "none", "bridge", "default") and not network.startswith("container:")
