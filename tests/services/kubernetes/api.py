"""A few calls of the Kubernetes API over the standard library, for what brings clusters up and what judges them."""

from __future__ import annotations

import http.client
import json
import ssl
import tempfile
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"

_TIMEOUT = 120.0  # on a busy machine, defining one of Volcano's resources has taken longer than 30 s


class ApiError(Exception):
    """The server refused; `status` is its code."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Api:
    """A user of a cluster, out of a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        cluster, user = _current(self.config())
        self.server = urlsplit(str(cluster["server"]))
        self.context = _ssl_context(cluster, user)
        self._headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}

    def config(self) -> dict[str, Any]:
        """Return what stands in the kubeconfig."""
        text = self.kubeconfig.read_text()
        try:
            config: dict[str, Any] = json.loads(text)
        except ValueError:
            import yaml  # somebody else's; ours is JSON, so that bringing a cluster up needs no library

            config = yaml.safe_load(text)
        return config

    def raw(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> bytes:
        """Call, and return what is answered."""
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        host, port = self.server.hostname, self.server.port
        assert host is not None
        connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=self.context)
        try:
            connection.request(method, path, data, {"Content-Type": content_type, **self._headers})
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise ApiError(response.status, f"{method} {path}: {answer.decode(errors='replace')}")
        return answer

    def call(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        return json.loads(self.raw(method, path, body, content_type))

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def find(self, path: str) -> Any:
        """Return an object, or None if there is no such one."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def apply(self, path: str, body: object) -> Any:
        """Make an object, or make it what is said here; `body` may be YAML in bytes."""
        return self.call("PATCH", f"{path}?fieldManager=tests&force=true", body, APPLY)

    def answers(self, path: str = "/readyz") -> bool:
        """Tell whether this path is answered at all."""
        try:
            self.raw("GET", path)
        except (OSError, ApiError, http.client.HTTPException):
            return False
        return True


def _current(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return cluster and user of the current context."""
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    return cluster, _named(config["users"], context["user"])["user"]


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _ssl_context(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
    if "certificate-authority-data" in cluster:
        context.load_verify_locations(cadata=b64decode(cluster["certificate-authority-data"]).decode())
    if "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    elif "client-certificate-data" in user:
        pair = b64decode(user["client-certificate-data"]) + b"\n" + b64decode(user["client-key-data"])
        with tempfile.NamedTemporaryFile() as file:
            file.write(pair)
            file.flush()
            context.load_cert_chain(file.name)
    return context
