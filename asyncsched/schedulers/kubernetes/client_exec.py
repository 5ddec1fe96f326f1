"""Run the exec plugins of kubeconfigs, which print credentials."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from asyncsched.errors import AuthError, NotFoundError, SchedulerError
from asyncsched.schedulers._common.program import Programs
from asyncsched.schedulers.kubernetes.client_config import ExecPlugin
from asyncsched.schedulers.kubernetes.client_json import as_object
from asyncsched.schedulers.kubernetes.errors import BACKEND

__all__ = ["ExecCredential", "run_plugin"]

LARGEST_ANSWER = 1 << 20
VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """The answer of a plugin.

    Attributes:
        token: A bearer token.
        pem: A client certificate and its key.
        expires: The expiry in seconds since the epoch; None if the plugin gives none.
    """

    token: str | None = field(repr=False)
    pem: tuple[str, str] | None = field(repr=False)
    expires: float | None


async def run_plugin(plugin: ExecPlugin, programs: Programs, timeout: float) -> ExecCredential:
    """Run a plugin and return its credentials.

    Raises:
        AuthError: It failed or printed no usable credentials; the error quotes its stderr, never its stdout.
    """
    spec = plugin.spec
    version = str(spec.get("apiVersion") or VERSIONS[0])
    info: dict[str, Any] = {"interactive": False}
    if spec.get("provideClusterInfo"):
        info["cluster"] = dict(plugin.cluster)
    request = {"apiVersion": version, "kind": "ExecCredential", "spec": info}
    env = {**os.environ, **_variables(spec), "KUBERNETES_EXEC_INFO": json.dumps(request)}
    command = _command(plugin)
    argv = [command, *map(str, spec.get("args") or ())]
    try:
        finished = await programs.run(argv, operation="connect", timeout=timeout, env=env)
    except NotFoundError as error:
        hint = str(spec.get("installHint") or "install it, or correct the command in the kubeconfig")
        raise _failed(command, "no such program", hint) from error
    except SchedulerError as error:
        raise _failed(command, f"{error.what}: {error.why}") from error
    if finished.code != 0:
        raise _failed(command, finished.complaint)
    try:
        return _read(json.loads(finished.stdout), version)
    except (ValueError, TypeError) as error:
        raise _failed(command, f"its answer is not an ExecCredential: {error}") from None


def _read(answer: object, version: str) -> ExecCredential:
    found = as_object(answer)
    if found.get("kind") != "ExecCredential" or found.get("apiVersion") != version:
        raise ValueError(f"kind must be ExecCredential and apiVersion {version}")
    status = as_object(found.get("status"))
    token, certificate, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
    pem = (str(certificate), str(key)) if certificate and key else None
    if not token and pem is None:
        raise ValueError("it has neither a token nor a certificate with its key")
    return ExecCredential(str(token) if token else None, pem, _seconds(status.get("expirationTimestamp")))


def _seconds(stamp: object) -> float | None:
    return None if not stamp else datetime.fromisoformat(str(stamp)).timestamp()


def _variables(spec: Mapping[str, Any]) -> dict[str, str]:
    given = cast("list[Mapping[str, Any]]", spec.get("env") or [])
    return {str(each["name"]): str(each.get("value", "")) for each in given if "name" in each}


def _command(plugin: ExecPlugin) -> str:
    """Return the program: a path is relative to the kubeconfig's directory, a bare name is looked up on PATH."""
    command = str(plugin.spec["command"])
    return str(plugin.folder / command) if os.sep in command else command


def _failed(command: str, why: str, fix: str = "") -> AuthError:
    return AuthError(
        f"the exec plugin {command} returned no credentials",
        why=why,
        fix=fix or "run it by hand, and sign in again",
        backend=BACKEND,
        operation="connect",
    )
