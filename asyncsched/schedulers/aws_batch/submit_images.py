"""Log in to Amazon's registries (ECR) with a token, and create repositories on request."""

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
"""The run option for creating repositories."""

ECR = re.compile(r"\d{12}\.dkr\.ecr(-fips)?\.(?P<region>[\w-]+)\.amazonaws\.com(\.cn)?")
"""The hosts of Amazon's registries; they accept a token of AWS, which is valid for twelve hours."""

_PLATFORMS = {"X86_64": "linux/amd64", "ARM64": "linux/arm64"}
_PLACE = ("region", "profile", "endpoint_url")


async def ecr_login(
    image: str, connections: Connections, cfg: Mapping[str, CfgVal], hosts: re.Pattern[str]
) -> str | None:
    """Return the login for ECR in the daemon's form: a secret for the header of one request.

    Args:
        image: The image, or its repository.
        connections: The connections to AWS.
        cfg: The run options.
        hosts: ECR's hosts.

    Returns:
        The login, or None if the image is not in ECR.

    Raises:
        SchedulerError: AWS returned no token.
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
    """Create a repository in ECR unless it exists; return False for another registry."""
    connection = _connection(repository, connections, cfg, hosts)
    if connection is None:
        return False
    try:
        await connection.call("ecr", "CreateRepository", repositoryName=repository.partition("/")[2])
    except SchedulerError as error:
        if "RepositoryAlreadyExists" not in f"{error} {error.__cause__}":  # another submit has just created it
            raise
    return True


def image_platform(cfg: Mapping[str, CfgVal]) -> str | None:
    """Return the platform of images according to the run options, if they set one."""
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
