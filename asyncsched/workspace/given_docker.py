"""A Docker client of the caller's: where its daemon is, and with which certificates it is called.

A client repeats and times out as it likes, so it is not used itself: a connection of our own goes to the same daemon.
The clients are known by the names of their classes, and aiodocker is not imported for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

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
    """What is taken from a client.

    Attributes:
        url: The daemon's address.
        parameter: What the client was given as.
        tls: The certificates, for an ``https`` address.
    """

    url: str
    parameter: str
    tls: _Certificates | None = None

    def endpoint(self) -> Endpoint:
        """Return it as what a connection is made to; this imports aiodocker."""
        from asyncsched._dockerd.endpoint import TLS, Endpoint

        return Endpoint(url=self.url, source=self.parameter, tls=TLS(**self.tls._asdict()) if self.tls else None)


def accept_docker(client: Any, parameter: str) -> GivenDocker:
    """Return the daemon of a client, an ``aiodocker.Docker`` or a ``docker.DockerClient``.

    Args:
        client: The client; it is neither used nor closed.
        parameter: What it was given as, for messages.

    Raises:
        ConfigError: It is something else.
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
        why=f"it is of the type {type(client).__module__}.{type(client).__qualname__}",
        fix="give an aiodocker.Docker or a docker.DockerClient",
    )


def _of_aiodocker(client: Any, parameter: str) -> GivenDocker:
    path = getattr(client.connector, "path", None)
    if path is not None:
        return GivenDocker(f"unix://{path}", parameter)
    url = str(client.docker_host).replace("tcp://", "http://")
    if url.startswith("unix://"):  # its connector goes through ssh, to where only that knows
        fix = f"set DOCKER_HOST=ssh://..., and leave {parameter} out"
        raise ConfigError(f"{parameter} reaches its daemon through ssh", fix=fix)
    import ssl  # a client's own import, by now

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
    trusted = client.verify  # a file of certificates, or whether the server's is checked
    tls = _Certificates(
        ca=Path(trusted) if isinstance(trusted, str) else None,
        certificate=Path(certificate) if certificate else None,
        key=Path(key) if key else None,
        verify=bool(trusted),
    )
    return GivenDocker(url, parameter, tls)
