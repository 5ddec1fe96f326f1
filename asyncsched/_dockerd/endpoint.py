"""Find the Docker daemon: ``DOCKER_HOST``, the current context, or one of the usual sockets.

The order is that of Docker's command line: ``DOCKER_HOST`` beats ``DOCKER_CONTEXT``, which beats the configuration
file's ``currentContext``. (aiodocker uses another order, so it is passed the result.) Everything here reads files: call
`find_endpoint` in a thread.
"""

from __future__ import annotations

import hashlib
import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from asyncsched.errors import ConfigError

__all__ = ["TLS", "Endpoint", "config_directory", "find_endpoint"]

_DEFAULT_SOCKET = Path("/var/run/docker.sock")
_SCHEMES = ("unix", "tcp", "http", "https", "ssh")


@dataclass(frozen=True, slots=True, kw_only=True)
class TLS:
    """The certificates of a connection; a path is None if there is no such file.

    Attributes:
        ca: The certificates to trust.
        certificate: The client's certificate.
        key: The client's key.
        verify: Whether to check the server's certificate.
        given: A context that has loaded all of these already.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    verify: bool = True
    given: ssl.SSLContext | None = field(default=None, repr=False)

    def context(self) -> ssl.SSLContext:
        """Load the certificates; the server's name is checked unless `verify` is off."""
        if self.given is not None:
            return self.given
        context = ssl.create_default_context(cafile=str(self.ca) if self.ca else None)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate and self.key:
            context.load_cert_chain(self.certificate, self.key)
        return context


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A daemon's address and how it was found.

    Attributes:
        url: ``unix:///path``, ``http://host:port``, ``https://host:port`` or ``ssh://user@host``.
        source: Where the address comes from, for messages: "DOCKER_HOST", "the context 'prod'", "the default socket".
        tls: The certificates, for an ``https`` address.
        is_found: Whether it is configured or exists; False for the default address that nothing was found at.
    """

    url: str
    source: str
    tls: TLS | None = None
    is_found: bool = True

    @property
    def socket(self) -> Path | None:
        """The path of a unix socket, else None."""
        return Path(self.url.removeprefix("unix://")) if self.url.startswith("unix://") else None

    def __str__(self) -> str:
        return f"{self.socket or self.url} ({self.source})"


def config_directory(environ: Mapping[str, str], home: Path) -> Path:
    """Return the directory of Docker's configuration file and contexts."""
    named = environ.get("DOCKER_CONFIG")
    return Path(named) if named else home / ".docker"


def find_endpoint(environ: Mapping[str, str], home: Path) -> Endpoint:
    """Find the daemon that the ``docker`` command would use.

    Raises:
        ConfigError: The configured address or context cannot be used.
    """
    config = config_directory(environ, home)
    if host := environ.get("DOCKER_HOST"):
        return _endpoint(host, "DOCKER_HOST", _environment_tls(environ, config))
    if environ.get("DOCKER_CONTEXT"):
        name, source = environ["DOCKER_CONTEXT"], "DOCKER_CONTEXT"
    else:
        name, source = _current_context(config), str(config / "config.json")
    if name and name != "default":
        return _context_endpoint(config, name, source)
    for path in _usual_sockets(environ, home):
        if path.is_socket():
            return Endpoint(url=f"unix://{path}", source="the default socket")
    return Endpoint(url=f"unix://{_DEFAULT_SOCKET}", source="DOCKER_HOST is not set", is_found=False)


def _usual_sockets(environ: Mapping[str, str], home: Path) -> Iterator[Path]:
    yield _DEFAULT_SOCKET
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        yield Path(runtime) / "docker.sock"  # a rootless daemon
    yield home / ".docker/run/docker.sock"
    yield home / ".docker/desktop/docker.sock"


def _endpoint(host: str, source: str, tls: TLS | None) -> Endpoint:
    """Convert an address to the form that the client expects for its scheme."""
    address = host if "://" in host else f"tcp://{host}"
    scheme, _, rest = address.partition("://")
    if scheme not in _SCHEMES:
        raise ConfigError(
            f"cannot use the Docker address {host!r}",
            why=f"{source} has the scheme {scheme!r}",
            fix=f"use one of {', '.join(f'{scheme}://' for scheme in _SCHEMES)}",
        )
    if scheme == "unix":
        return Endpoint(url=f"unix://{rest or _DEFAULT_SOCKET}", source=source)
    if scheme == "ssh":
        return Endpoint(url=address, source=source)
    name, port = _host_and_port(address, host, source)
    secure = tls is not None or scheme == "https"
    return Endpoint(
        url=f"{'https' if secure else 'http'}://{name}:{port or (2376 if secure else 2375)}",
        source=source,
        tls=(tls or TLS()) if secure else None,
    )


def _host_and_port(address: str, host: str, source: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(address)
        name, port = parts.hostname or "localhost", parts.port
    except ValueError as error:
        raise ConfigError(
            f"cannot use the Docker address {host!r}",
            why=f"{source} does not name a host and a port: {error}",
            fix="write for example tcp://127.0.0.1:2375",
        ) from error
    return f"[{name}]" if ":" in name else name, port


def _environment_tls(environ: Mapping[str, str], config: Path) -> TLS | None:
    """Read the variables as the ``docker`` command does: any value, even "0", switches TLS on."""
    verify = bool(environ.get("DOCKER_TLS_VERIFY"))
    if not verify and not environ.get("DOCKER_TLS"):
        return None
    return _tls_in(Path(environ.get("DOCKER_CERT_PATH") or config), verify=verify)


def _tls_in(directory: Path, *, verify: bool) -> TLS:
    ca, certificate, key = (
        path if path.exists() else None for path in (directory / name for name in ("ca.pem", "cert.pem", "key.pem"))
    )
    return TLS(ca=ca, certificate=certificate, key=key, verify=verify)


def _current_context(config: Path) -> str:
    try:
        content = json.loads((config / "config.json").read_text())
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            "cannot read Docker's configuration",
            why=f"{config / 'config.json'}: {error}",
            fix="correct the file, or set DOCKER_HOST",
        ) from error
    name: object = content.get("currentContext", "") if isinstance(content, dict) else ""  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - any JSON
    return name if isinstance(name, str) else ""


def _context_endpoint(config: Path, name: str, named_by: str) -> Endpoint:
    folder = hashlib.sha256(name.encode()).hexdigest()
    metadata = config / "contexts/meta" / folder / "meta.json"
    try:
        docker: dict[str, Any] = json.loads(metadata.read_text())["Endpoints"]["docker"]
        host = str(docker["Host"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"cannot use the Docker context {name!r} that {named_by} names",
            why=f"{metadata}: {error.strerror if isinstance(error, OSError) else error!r}",
            fix="choose another with `docker context use`, or set DOCKER_HOST",
        ) from error
    tls = _tls_in(config / "contexts/tls" / folder / "docker", verify=not docker.get("SkipTLSVerify", False))
    return _endpoint(host, f"the context {name!r}", tls if tls.ca or tls.certificate else None)
