"""Certificates and proxies of a cluster; what reads files here is called in a worker thread."""

from __future__ import annotations

import base64
import binascii
import hashlib
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from asyncsched.errors import AuthError, ConfigError
from asyncsched.schedulers.kubernetes.errors import BACKEND

__all__ = ["find_proxy", "harmless", "make_tls", "read_authority", "tls_fields", "write_inline"]

_INLINE = {"certificate-authority-data", "client-certificate-data", "client-key-data"}


def make_tls(
    authority: str | None,
    certificate: tuple[str, str | None] | None,
    *,
    verify: bool,
    pem: tuple[str, str] | None = None,
) -> ssl.SSLContext:
    """Make the context of connections; blocks.

    Args:
        authority: The certificates of the CA that has signed the server's; None for the machine's CAs.
        certificate: The files of the client's certificate and its key.
        verify: Whether to check the server's certificate.
        pem: A client's certificate and its key as texts, in place of files.
    """
    tls = ssl.create_default_context(cadata=authority)
    # Go, which all other clients are written in, does not ask for what Python 3.13 began to ask for.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate is not None:
        tls.load_cert_chain(*certificate)
    if pem is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # 0600, and gone when it has been read
            file.write("\n".join(pem))
            file.flush()
            tls.load_cert_chain(file.name)
    if not verify:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


def tls_fields(configuration: Any, server: str, context: str) -> dict[str, Any]:
    """Return the fields of a `Target` that are about certificates."""
    if not server.startswith("https:"):
        return {}
    pair = (configuration.cert_file, configuration.key_file) if configuration.cert_file else None
    verify = bool(configuration.verify_ssl)
    try:
        authority = read_authority(configuration)
        return {
            "ca_digest": _digest(configuration.ssl_ca_cert),
            "authority": authority,
            "verify": verify,
            "certificates": _digest(configuration.ssl_ca_cert, *(pair or ())),
            "tls": make_tls(authority, pair, verify=verify),
        }
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise AuthError(
            f"the certificates of the context {context} cannot be used",
            why=harmless(error),
            fix="correct certificate-authority, client-certificate and client-key in the kubeconfig",
            backend=BACKEND,
            operation="connect",
        ) from error


def find_proxy(server: str, told: object, context: str) -> str | None:
    """Return the proxy that a kubeconfig names, else the one of the environment, as kubectl does."""
    if told:
        url = str(told)
        if urlsplit(url).scheme not in ("http", "https"):
            raise ConfigError(
                f"the context {context} has a proxy-url of the kind {urlsplit(url).scheme or 'unknown'}",
                why="only http and https proxies are supported",
                fix="use such a one, or a tunnel",
            )
        return url
    parts = urlsplit(server)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)


def _digest(*files: str | None) -> str:
    read = [Path(each).read_bytes() for each in files if each]
    return hashlib.sha256(b"\n".join(read)).hexdigest()[:32] if read else ""


def read_authority(configuration: Any) -> str | None:
    """Return the certificates of the cluster's CA; what else is written around them is left out."""
    file: str | None = configuration.ssl_ca_cert
    return Path(file).read_text(encoding="ascii", errors="ignore") if file else None


def write_inline(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return an entry of a kubeconfig with files of this folder in place of inline certificates and keys.

    The SDK would do the same, with files that stay until the process exits, and descriptors that nobody closes.
    """
    told = dict(entry)
    for name in _INLINE & told.keys():
        file = folder / name
        file.touch(mode=0o600)
        file.write_bytes(base64.b64decode(told.pop(name)))
        told[name.removesuffix("-data")] = str(file)
    return told


def harmless(error: Exception) -> str:
    """Return what an error says, unless it may quote a kubeconfig: the SDK's do, tokens included."""
    if isinstance(error, binascii.Error):
        return "data that should be base64 is not"
    said = str(error)
    return type(error).__name__ if "{" in said or not said else f"{type(error).__name__}: {said}"
