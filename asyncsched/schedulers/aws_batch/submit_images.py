"""Pushing local images to the repository that a job pulls from: ECR, with its token, or any other."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from asyncsched._dockerd import Daemon
from asyncsched._dockerd.credentials import registry_auth, registry_of
from asyncsched.errors import SchedulerError
from asyncsched.schedulers.aws_batch.client import Connection, Connections
from asyncsched.schedulers.aws_batch.errors import BACKEND
from asyncsched.schedulers.aws_batch.status_rows import parts

__all__ = ["ECR", "push_images"]

ECR = re.compile(r"\d{12}\.dkr\.ecr\.(?P<region>[\w-]+)\.amazonaws\.com(\.cn)?")
"""The hosts of Amazon's own registries; they take a token of AWS, which is good for twelve hours."""


async def push_images(
    images: Mapping[str, tuple[str, str]],
    connections: Connections,
    daemon: Daemon | None = None,
    *,
    create: bool = False,
    ecr: re.Pattern[str] = ECR,
) -> None:
    """Push images, all before the job that needs them is submitted; cancelling leaves layers in the registry.

    Args:
        images: The local images, and repository and tag of each.
        connections: Where AWS is reached, for tokens.
        daemon: What has the images; else the Docker daemon that the environment names.
        create: Whether to make an ECR repository that does not exist.
        ecr: Which hosts are ECR's.

    Raises:
        SchedulerError: The daemon or the registry refuses; nothing has been submitted.
    """
    own = daemon or Daemon(backend=BACKEND)
    try:
        for image, (repository, tag) in images.items():
            host = ecr.fullmatch(registry_of(repository))
            if host is None:
                auth = await asyncio.to_thread(registry_auth, repository, os.environ, Path.home())
                await _push(own, image, repository, tag, auth)
                continue
            connection = connections.at({"region": host["region"]} if "region" in host.groupdict() else {})
            auth = await _token(connection, registry_of(repository))
            try:
                await _push(own, image, repository, tag, auth)
            except SchedulerError as error:
                if not create or "does not exist" not in str(error):
                    raise
                await connection.call("ecr", "CreateRepository", repositoryName=repository.partition("/")[2])
                await _push(own, image, repository, tag, auth)
    finally:
        if daemon is None:
            await own.close()


async def _push(daemon: Daemon, image: str, repository: str, tag: str, auth: str) -> None:
    what = f"cannot push {image} to {repository}:{tag}"
    target = {"repo": repository, "tag": tag}
    async with daemon.progress(f"images/{image}/tag", target, {}, what=what, operation="submit") as steps:
        async for _ in steps:
            pass
    headers = {"X-Registry-Auth": auth or base64.urlsafe_b64encode(b"{}").decode()}
    async with daemon.progress(
        f"images/{repository}/push", {"tag": tag}, headers, what=what, operation="submit"
    ) as steps:
        async for _ in steps:
            pass


async def _token(connection: Connection, host: str) -> str:
    """Return the login for ECR as the daemon takes it: a secret, for one request's header."""
    answer = await connection.call("ecr", "GetAuthorizationToken", "authorizationData")
    user, _, password = (
        base64.b64decode(parts(answer, "authorizationData")[0]["authorizationToken"]).decode().partition(":")
    )
    login = {"username": user, "password": password, "serveraddress": host}
    return base64.urlsafe_b64encode(json.dumps(login).encode()).decode()
