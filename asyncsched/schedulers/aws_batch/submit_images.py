"""Amazon's own registries (ECR): a token as their login, and repositories that are made only when that is asked for."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from asyncsched.errors import SchedulerError
from asyncsched.schedulers.aws_batch.client import AWSConnection, Connections
from asyncsched.schedulers.aws_batch.status_rows import parts
from asyncsched.specs.run_options import CfgVal
from asyncsched.workspace.image_names import host_of, token_login

__all__ = ["CREATE", "ECR", "ecr_login", "image_platform", "make_repository"]

CREATE = "ecr_create_repository"
"""The run option that allows it."""

ECR = re.compile(r"\d{12}\.dkr\.ecr(-fips)?\.(?P<region>[\w-]+)\.amazonaws\.com(\.cn)?")
"""The hosts of Amazon's own registries; they take a token of AWS, which is good for twelve hours."""

_PLATFORMS = {"X86_64": "linux/amd64", "ARM64": "linux/arm64"}
_PLACE = ("region", "profile", "endpoint_url")


async def ecr_login(
    image: str, connections: Connections, cfg: Mapping[str, CfgVal], hosts: re.Pattern[str]
) -> str | None:
    """Return the login for ECR as the daemon takes it: a secret, for one request's header.

    Args:
        image: The image, or its repository.
        connections: Where AWS is reached.
        cfg: The run options.
        hosts: Which hosts are ECR's.

    Returns:
        None if the image is not in ECR.

    Raises:
        SchedulerError: AWS gives no token.
    """
    connection = _connection(image, connections, cfg, hosts)
    if connection is None:
        return None
    answer = await connection.call("ecr", "GetAuthorizationToken", "authorizationData")
    token: str = parts(answer, "authorizationData")[0]["authorizationToken"]
    user, _, password = base64.b64decode(token).decode().partition(":")
    return token_login(image, user, password)


async def make_repository(
    repository: str, connections: Connections, cfg: Mapping[str, CfgVal], hosts: re.Pattern[str]
) -> bool:
    """Make a repository of ECR, unless it is there; return False for one of another registry."""
    connection = _connection(repository, connections, cfg, hosts)
    if connection is None:
        return False
    try:
        await connection.call("ecr", "CreateRepository", repositoryName=repository.partition("/")[2])
    except SchedulerError as error:
        if "RepositoryAlreadyExists" not in f"{error} {error.__cause__}":  # another submit has just made it
            raise
    return True


def image_platform(cfg: Mapping[str, CfgVal]) -> str | None:
    """Return what images have to be for, as far as the run options say."""
    named = cfg.get("image_platform")
    return named if isinstance(named, str) else _PLATFORMS.get(str(cfg.get("cpu_arch")))


def _connection(
    image: str, connections: Connections, cfg: Mapping[str, CfgVal], hosts: re.Pattern[str]
) -> AWSConnection | None:
    host = hosts.fullmatch(host_of(image))
    if host is None:
        return None
    place = {name: value for name in _PLACE if isinstance(value := cfg.get(name), str)}
    return connections.at({**place, **{name: found for name, found in host.groupdict().items() if name == "region"}})
