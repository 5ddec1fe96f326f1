"""Accept the caller's Docker client: take its daemon's address and certificates.

A client has its own retries and timeouts, so it is not used itself: asyncsched opens its own connection to the same
daemon. Clients are recognised by their class names, so that aiodocker need not be imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asyncsched._typing import NamedTuple
from asyncsched.errors import ConfigError

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from asyncsched._dockerd.endpoint import Endpoint

__all__ = ["GivenDocker", "accept_docker"]


class _Certificates(NamedTuple):
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    verify: bool = True
    given: ssl.SSLContext | None = None


class GivenDocker(NamedTuple):
    """The address and the certificates of a client.

    Attributes:
        url: The daemon's address.
        parameter: The parameter that the client was passed as.
        tls: The certificates, for an ``https`` address.
    """

    url: str
    parameter: str
    tls: _Certificates | None = None

    def endpoint(self) -> Endpoint:
        """Return it as an endpoint to connect to; imports aiodocker."""
        from asyncsched._dockerd.endpoint import TLS, Endpoint

        return Endpoint(url=self.url, source=self.parameter, tls=TLS(**self.tls._asdict()) if self.tls else None)


def accept_docker(client: Any, parameter: str) -> GivenDocker:
    """Return the daemon of an ``aiodocker.Docker`` or a ``docker.DockerClient``.

    Args:
        client: The client; it is neither used nor closed.
        parameter: The parameter's name, for messages.

    Raises:
        ConfigError: It is not such a client.
    """
    classes = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(client).__mro__}
    if ("aiodocker", "Docker") in classes:
        return _of_aiodocker(client, parameter)
    if ("docker", "DockerClient") in classes:
        return _of_docker(client.api, parameter)
    if ("docker", "APIClient") in classes:
        return _of_docker(client, parameter)
    raise ConfigError(
        f"{parameter} is not a Docker client",
        why=f"its type is {type(client).__module__}.{type(client).__qualname__}",
        fix="pass an aiodocker.Docker or a docker.DockerClient",
    )


def _of_aiodocker(client: Any, parameter: str) -> GivenDocker:
    path = getattr(client.connector, "path", None)
    if path is not None:
        return GivenDocker(f"unix://{path}", parameter)
    url = str(client.docker_host).replace("tcp://", "http://")
    if url.startswith("unix://"):  # the connector goes through ssh, and only it knows the host
        fix = f"set DOCKER_HOST=ssh://..., and omit {parameter}"
        raise ConfigError(f"{parameter} connects to its daemon through ssh, which is not supported", fix=fix)
    import ssl  # the client has imported it already

    context = getattr(client.connector, "_ssl", None)
    given = _Certificates(given=context) if isinstance(context, ssl.SSLContext) else None
    return GivenDocker(url.replace("http://", "https://") if given else url, parameter, given)


def _of_docker(client: Any, parameter: str) -> GivenDocker:
    adapter = getattr(client, "_custom_adapter", None)
    if (path := getattr(adapter, "socket_path", None)) is not None:
        return GivenDocker(f"unix://{path}", parameter)
    if (host := getattr(adapter, "ssh_host", None)) is not None:
        return GivenDocker(str(host) if "://" in str(host) else f"ssh://{host}", parameter)
    url = str(client.base_url)
    if not url.startswith("https://"):
        return GivenDocker(url, parameter)
    from pathlib import Path

    certificate, key = client.cert or (None, None)
    trusted = client.verify  # a path of certificates, or whether to check the server's
    tls = _Certificates(
        ca=Path(trusted) if isinstance(trusted, str) else None,
        certificate=Path(certificate) if certificate else None,
        key=Path(key) if key else None,
        verify=bool(trusted),
    )
    return GivenDocker(url, parameter, tls)
