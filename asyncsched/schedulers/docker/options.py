"""The run options of ``local_docker``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from asyncsched._typing import Doc

__all__ = ["DockerOpts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerOpts:
    """How to run an app on a Docker daemon."""

    copy_env: Annotated[
        list[str] | None,
        Doc("patterns of environment variables to copy from the submitter, such as FOO_*"),
    ] = None
    env: Annotated[
        dict[str, str] | None,
        Doc("environment variables for every replica; the role's override them"),
    ] = None
    privileged: Annotated[bool, Doc("give the containers all capabilities and devices of the host")] = False
    image_repo: Annotated[
        str | None, Doc("repository in the names of images that are made from a workspace; nothing is pushed")
    ] = None
    quiet: Annotated[bool, Doc("do not report the progress of pulls and builds")] = False
    platform: Annotated[
        str | None,
        Doc("platform to pull and build images for, such as linux/arm64, and to check them; else the daemon's"),
    ] = None
    pull: Annotated[
        Literal["missing", "always", "never"],
        Doc("when to pull an image: if the daemon does not have its name, on every submit, or never"),
    ] = "missing"
    grace_period: Annotated[
        float, Doc("seconds between TERM and KILL when a replica is stopped, rounded up to whole ones")
    ] = 10.0
    timeout: Annotated[
        float | None,
        Doc("seconds that a run of a replica may take; this scheduler then stops the replica, which has failed"),
    ] = None
    on_failure: Annotated[
        Literal["continue", "stop"],
        Doc("what the others do when a replica has failed for good: run on, or be stopped by this scheduler"),
    ] = "continue"
    network: Annotated[
        str,
        Doc("the network of the containers; `asyncsched` and any other user-defined one is made if missing"),
    ] = "asyncsched"
    init: Annotated[bool, Doc("run a small init as process 1, which reaps zombies and obeys TERM")] = False
    user: Annotated[str | None, Doc("user, or user:group, to run as instead of the image's")] = None
    ulimits: Annotated[
        list[str] | None, Doc("limits as name=soft or name=soft:hard, such as nofile=4096 or memlock=-1")
    ] = None
    remove_after: Annotated[
        float | None,
        Doc("seconds after its end when the next submit may remove the app with its logs; none keeps it"),
    ] = None
