"""Load certificates and find proxies; functions that read files run in a worker thread."""

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
    """Make the TLS context of connections; blocks.

    Args:
        authority: The CA certificates for the server's certificate; None for the machine's CAs.
        certificate: The files of the client's certificate and its key.
        verify: Whether to check the server's certificate.
        pem: The client's certificate and its key as text, instead of files.
    """
    tls = ssl.create_default_context(cadata=authority)
    # Python 3.13 sets this flag by default; Go, and so kubectl, has no such check.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if certificate is not None:
        tls.load_cert_chain(*certificate)
    if pem is not None:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # mode 0600, deleted once read
            file.write("\n".join(pem))
            file.flush()
            tls.load_cert_chain(file.name)
    if not verify:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


def tls_fields(configuration: Any, server: str, context: str) -> dict[str, Any]:
    """Return the certificate fields of a `Target`."""
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
            f"the certificates of context {context} cannot be used",
            why=harmless(error),
            fix="correct certificate-authority, client-certificate and client-key in the kubeconfig",
            backend=BACKEND,
            operation="connect",
        ) from error


def find_proxy(server: str, configured: object, context: str) -> str | None:
    """Return the proxy of the kubeconfig, else the proxy of the environment, as kubectl does."""
    if configured:
        url = str(configured)
        if urlsplit(url).scheme not in ("http", "https"):
            raise ConfigError(
                f"the proxy-url of context {context} must be http or https, got {urlsplit(url).scheme or 'no scheme'}",
                fix="use an http or https proxy, or a tunnel",
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
    """Return the certificates of the cluster's CA, without any text around them that is not ASCII."""
    file: str | None = configuration.ssl_ca_cert
    return Path(file).read_text(encoding="ascii", errors="ignore") if file else None


def write_inline(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a kubeconfig entry with its inline certificates and keys replaced by files in `folder`.

    The SDK would do the same, but its files stay until the process exits, and it leaks their descriptors.
    """
    changed = dict(entry)
    for name in _INLINE & changed.keys():
        file = folder / name
        file.touch(mode=0o600)
        file.write_bytes(base64.b64decode(changed.pop(name)))
        changed[name.removesuffix("-data")] = str(file)
    return changed


def harmless(error: Exception) -> str:
    """Return an error's text, unless it may quote a kubeconfig: errors of the SDK do, with tokens."""
    if isinstance(error, binascii.Error):
        return "invalid base64 data"
    said = str(error)
    return type(error).__name__ if "{" in said or not said else f"{type(error).__name__}: {said}"
