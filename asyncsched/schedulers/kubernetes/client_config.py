"""Find the cluster and its credentials: from a kubeconfig, a pod's service account, or the caller's client.

Functions that read files or import the SDK run in a worker thread. kubernetes_asyncio reads and merges kubeconfigs,
resolves certificates and the old auth-providers, and finds a pod's service account. This module and `client_exec`
correct what it gets wrong: the first file's current-context wins, as in kubectl; exec plugins run again before their
tokens expire; token files are read again; a TLS context is made in a thread.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from asyncsched.errors import AuthError, ConfigError
from asyncsched.schedulers.kubernetes.client_tls import (
    find_proxy,
    harmless,
    read_authority,
    tls_fields,
    write_inline,
)
from asyncsched.schedulers.kubernetes.errors import BACKEND, Peer

__all__ = ["SERVICE_ACCOUNT", "ClusterTarget", "ConfigSource", "ExecPlugin", "load_target"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The directory of a pod's token, namespace and cluster CA."""

CONTEXT = "ASYNCSCHED_KUBERNETES_CONTEXT"

_REFUSED_USER = {
    "as": "impersonation",
    "as-groups": "impersonation",
    "as-uid": "impersonation",
    "as-user-extra": "impersonation",
}


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Where to look for the cluster, in this order; None falls back to the environment.

    Attributes:
        client: An ApiClient of kubernetes_asyncio or of kubernetes; its configuration is used.
        kubeconfig: Files, separated by colons; else ``KUBECONFIG``, else ``~/.kube/config``.
        context: The context of the kubeconfig; else ``ASYNCSCHED_KUBERNETES_CONTEXT``, else the current one.
        service_account: The directory of a pod's service account.
    """

    client: object | None = field(default=None, repr=False)
    kubeconfig: str | None = None
    context: str | None = None
    service_account: Path = SERVICE_ACCOUNT


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A program that prints credentials.

    Attributes:
        spec: The ``exec`` of a kubeconfig's user.
        folder: The kubeconfig's directory, the base of a relative command.
        cluster: The cluster info for plugins with ``provideClusterInfo``.
    """

    spec: Mapping[str, Any] = field(repr=False)
    folder: Path
    cluster: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTarget:
    """A cluster, and how to connect and authenticate to it.

    Attributes:
        peer: The server and the context.
        namespace: The context's namespace.
        ca_digest: A hash of the CA's certificate, which identifies the cluster; empty if the machine's CAs are used.
        authority: The CA's certificate.
        verify: Whether the server's certificate is checked.
        tls: The context of connections; None for a server without TLS.
        certificates: A hash of all certificates and keys in `tls`.
        server_name: The name in the server's certificate, if it differs from the URL's.
        proxy: The URL of the proxy.
        authorization: A fixed Authorization header.
        token_file: A file with a token, which may be replaced.
        plugin: A program that prints a token or a certificate.
        given: The caller's Configuration, which is asked for a token before each call.
        headers: More headers for each call.
    """

    peer: Peer
    namespace: str = "default"
    ca_digest: str = ""
    authority: str | None = field(default=None, repr=False)
    verify: bool = True
    certificates: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)
    authorization: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    plugin: ExecPlugin | None = None
    given: Any = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


def load_target(source: ConfigSource) -> ClusterTarget:
    """Find the cluster; blocks, for about a second if the SDK is not imported yet.

    Raises:
        ConfigError: No cluster is configured, or its configuration is wrong.
        AuthError: The credentials of its user cannot be used.
    """
    if source.client is not None:
        return _of_given(source.client)
    context = source.context or os.environ.get(CONTEXT) or None
    paths = list(_paths(source))
    existing = [path for path in paths if path.is_file()]
    if source.kubeconfig and not existing:
        raise _not_found(paths, "correct the scheduler's parameter kubeconfig")
    if existing:
        return _of_kubeconfig(existing, context)
    if context is not None:
        raise _not_found(paths, f"set KUBECONFIG to the file that has the context {context}")
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return _of_pod(source.service_account)
    raise _not_found(paths, "set KUBECONFIG, or create one: `kubectl config view` shows what kubectl would use")


def _paths(source: ConfigSource) -> Iterator[Path]:
    named = source.kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    for path in named.split(os.pathsep):
        if path:
            yield Path(os.path.expanduser(path))  # noqa: PTH111 - Path.expanduser raises for an unknown home


def _not_found(paths: Sequence[Path], fix: str) -> ConfigError:
    searched = ", ".join(map(str, paths))
    return ConfigError("no kubeconfig found", why=f"{searched} does not exist, and this is not a pod", fix=fix)


# A kubeconfig


def _of_kubeconfig(paths: Sequence[Path], context: str | None) -> ClusterTarget:
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger

    shown = ", ".join(map(str, paths))
    try:
        merger: Any = KubeConfigMerger(os.pathsep.join(map(str, paths)))
        merged: dict[str, Any] = merger.config.value
        files: Mapping[str, Any] = merger.config_files
    except Exception as error:  # noqa: BLE001 - a parser's error may quote a secret: only its kind is shown
        raise ConfigError(f"the kubeconfig {shown} cannot be read", why=_kind(error), fix="correct it") from None
    name = context or next((str(now) for each in files.values() if (now := each.get("current-context"))), None)
    found = _Entries(shown, merged).of(name)
    configuration: Any = Configuration()
    user = dict(found.user)
    _check_server(found, shown)
    held = {key: user.pop(key, None) for key in ("exec", "tokenFile")}
    token_file = found.user_folder / os.path.expanduser(held["tokenFile"]) if held["tokenFile"] else None  # noqa: PTH111
    with tempfile.TemporaryDirectory() as folder:
        try:
            alone = found.alone(user, Path(folder))
            loader: Any = KubeConfigLoader(alone, active_context=name, config_base_path=str(found.user_folder))
            asyncio.run(loader.load_and_set(configuration))
        except Exception as error:  # noqa: BLE001 - as above
            provider = _mapping(user.get("auth-provider")).get("name")
            what, fix = f"the user of context {name} cannot be used", f"correct it in {shown}"
            if provider:
                what = f"the auth-provider {provider} of context {name} cannot be used"
                fix = f"use an exec plugin for this user in {shown}: kubectl dropped auth-providers in 1.26"
            raise AuthError(
                what,
                why=harmless(error),
                fix=fix,
                backend=BACKEND,
                operation="connect",
            ) from None
        plugin = _plugin(held["exec"], found, configuration) if held["exec"] else None
        return _made(configuration, found, token_file=token_file, plugin=plugin)


def _check_server(found: _Found, shown: str) -> None:
    server = str(found.cluster["server"])
    if not _is_url(server):
        value = f" {server!r}" if "@" not in server else ""  # it may hold a password
        raise ConfigError(
            f"context {found.context!r} in {shown} has an invalid server{value}",
            why="it must be a URL that begins with https:// or http:// and names a host",
            fix="put https:// in front of it" if "://" not in server else "correct the kubeconfig",
        )


def _is_url(server: str) -> bool:
    try:
        parts = urlsplit(server)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class _Found:
    """A context with its cluster and its user."""

    context: str
    namespace: str
    cluster: Mapping[str, Any] = field(repr=False)
    user: Mapping[str, Any] = field(repr=False)
    cluster_folder: Path
    user_folder: Path

    def alone(self, user: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Return a kubeconfig with this context only; write inline data to files in `folder`."""
        cluster = dict(self.cluster)
        if authority := cluster.get("certificate-authority"):
            cluster["certificate-authority"] = str(self.cluster_folder / os.path.expanduser(authority))  # noqa: PTH111
        return {
            "current-context": self.context,
            "contexts": [{"name": self.context, "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": write_inline(cluster, folder)}],
            "users": [{"name": "it", "user": write_inline(user, folder)}],
        }


class _Entries:
    """The named entries of a merged kubeconfig."""

    def __init__(self, shown: str, merged: Mapping[str, Any]) -> None:
        self._shown = shown
        self._merged = merged

    def of(self, context: str | None) -> _Found:
        """Return a context with its cluster and its user, each with the directory of its file."""
        names = ", ".join(self._names("contexts")) or "none"
        if context is None:
            raise ConfigError(
                f"the kubeconfig {self._shown} has no current context",
                fix=f"set the scheduler's parameter context, or run `kubectl config use-context`: it has {names}",
            )
        entry = self._entry("contexts", context)
        if entry is None:
            raise ConfigError(f"the kubeconfig {self._shown} has no context {context!r}", fix=f"it has {names}")
        inner = _mapping(entry[0].get("context"))
        cluster = self._entry("clusters", inner.get("cluster"))
        if cluster is None or not _mapping(cluster[0].get("cluster")).get("server"):
            raise ConfigError(
                f"context {context!r} in {self._shown} names the cluster {inner.get('cluster')!r}",
                why="this cluster is missing or has no server",
                fix="correct the kubeconfig",
            )
        named = inner.get("user")
        nobody: tuple[Mapping[str, Any], Path] = ({}, Path())
        user = self._entry("users", named) if named else nobody
        if user is None:
            raise ConfigError(
                f"context {context!r} in {self._shown} names the user {named!r}",
                why="this user is missing",
                fix="correct the kubeconfig",
            )
        settings = _mapping(user[0].get("user"))
        for key in _REFUSED_USER.keys() & settings.keys():
            raise ConfigError(
                f"user {named!r} in {self._shown} has {key!r}",
                why=f"{_REFUSED_USER[key]} is not supported",
                fix="use a user without it",
            )
        namespace = str(inner.get("namespace") or "default")
        return _Found(context, namespace, _mapping(cluster[0].get("cluster")), settings, cluster[1], user[1])

    def _entry(self, kind: str, name: object) -> tuple[Mapping[str, Any], Path] | None:
        for node in self._merged.get(kind) or ():
            value = _mapping(node.value)
            if value.get("name") == name:
                return value, Path(node.path).absolute().parent
        return None

    def _names(self, kind: str) -> list[str]:
        return [str(_mapping(node.value).get("name")) for node in self._merged.get(kind) or ()]


def _plugin(spec: object, found: _Found, configuration: Any) -> ExecPlugin:
    given = _mapping(spec)
    if given.get("interactiveMode") == "Always":
        raise ConfigError(
            f"the exec plugin of context {found.context} needs a terminal",
            why="interactiveMode is Always",
            fix="sign in with the plugin's command first, and set another interactiveMode",
        )
    if not isinstance(given.get("command"), str):
        raise ConfigError(f"the exec plugin of context {found.context} has no command", fix="correct the kubeconfig")
    cluster = {
        "server": str(found.cluster["server"]),
        "tls-server-name": found.cluster.get("tls-server-name"),
        "insecure-skip-tls-verify": found.cluster.get("insecure-skip-tls-verify"),
        "certificate-authority-data": b64encode((read_authority(configuration) or "").encode()).decode(),
        "proxy-url": found.cluster.get("proxy-url"),
    }
    known = {key: value for key, value in cluster.items() if value}
    return ExecPlugin(spec=given, folder=found.user_folder, cluster=known)


def _made(configuration: Any, found: _Found, *, token_file: Path | None, plugin: ExecPlugin | None) -> ClusterTarget:
    server = str(found.cluster["server"]).rstrip("/")
    return ClusterTarget(
        peer=Peer(server, found.context),
        namespace=found.namespace,
        **tls_fields(configuration, server, found.context),
        server_name=found.cluster.get("tls-server-name"),
        proxy=find_proxy(server, found.cluster.get("proxy-url"), found.context),
        authorization=configuration.api_key.get("BearerToken"),
        token_file=token_file,
        plugin=plugin,
    )


# A pod, and the caller's client


def _of_pod(mounted: Path) -> ClusterTarget:
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader

    configuration: Any = Configuration()
    token = mounted / "token"
    loader: Any = InClusterConfigLoader(str(token), str(mounted / "ca.crt"), try_refresh_token=False)
    try:
        loader.load_and_set(configuration)
        namespace = (mounted / "namespace").read_text().strip() if (mounted / "namespace").is_file() else "default"
    except Exception as error:
        raise ConfigError(
            "this pod's service account cannot be used",
            why=harmless(error),
            fix="mount it (automountServiceAccountToken: true), or set KUBECONFIG",
        ) from error
    return ClusterTarget(
        peer=Peer(configuration.host),
        namespace=namespace,
        **tls_fields(configuration, configuration.host, "in the cluster"),
        proxy=find_proxy(configuration.host, None, ""),
        token_file=token,
    )


def _of_given(client: Any) -> ClusterTarget:
    configuration: Any = getattr(client, "configuration", None)
    host = getattr(configuration, "host", None)
    if not isinstance(host, str) or not hasattr(configuration, "get_api_key_with_prefix"):
        raise ConfigError(
            f"client must be an ApiClient, got {type(client).__name__}",
            why="it has no configuration with a host",
            fix="pass an ApiClient of kubernetes_asyncio or of kubernetes, or omit client",
        )
    headers = dict(cast("Mapping[str, str]", getattr(client, "default_headers", None) or {}))
    headers.pop("User-Agent", None)
    server = host.rstrip("/")
    return ClusterTarget(
        peer=Peer(server),
        **tls_fields(configuration, server, "client"),
        server_name=getattr(configuration, "tls_server_name", None),
        proxy=find_proxy(server, configuration.proxy, "client"),
        authorization=configuration.get_basic_auth_token() if configuration.username else None,
        given=configuration,
        headers=headers,
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _kind(error: Exception) -> str:
    if isinstance(error, (AttributeError, TypeError)):
        return "it is empty or malformed"
    place = getattr(error, "problem_mark", None)  # of YAML; only the line number, never its text
    return f"{type(error).__name__}{f' in line {place.line + 1}' if place is not None else ''}"
