"""The cluster's keys, certificates, tokens and kubeconfigs."""

from __future__ import annotations

import json
import secrets
import subprocess
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

from tests.services.kubernetes.addresses import API, API_SERVICE, NODE

ADMIN = "admin"

_DAYS = "30"
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")

_CLIENTS = {
    "controllers": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "volcano": "/O=system:masters/CN=volcano",
    "kubelet": "/O=system:nodes/CN=system:node:node1",
}
"""Who talks to the API server, and as whom."""


def make(folder: Path) -> None:
    """Make everything that has a key in it; the kubeconfigs in it are for programs inside the cluster."""
    folder.mkdir(mode=0o700)
    _authority(folder)
    _certificate(folder, "apiserver", "/CN=kube-apiserver", f"IP:127.0.0.1,IP:{NODE},IP:{API_SERVICE},DNS:localhost")
    _certificate(folder, "apiserver-client", "/O=system:masters/CN=kube-apiserver-kubelet-client")
    for name, subject in _CLIENTS.items():
        _certificate(folder, name, subject, f"IP:{NODE},DNS:node1" if name == "kubelet" else "")
        pair = {"client-certificate": f"{folder}/{name}.crt", "client-key": f"{folder}/{name}.key"}
        write_kubeconfig(folder / f"{name}.kubeconfig", API, folder / "ca.crt", pair)
    _openssl("pkey", "-in", folder / "ca.key", "-pubout", "-out", folder / "ca.pub")
    (folder / "admin.token").write_text(secrets.token_hex(16))
    (folder / "tokens.csv").write_text(f'{(folder / "admin.token").read_text()},{ADMIN},1,"system:masters"\n')


def write_kubeconfig(
    path: Path, server: str, authority: Path, user: Mapping[str, object], namespace: str = "default"
) -> None:
    """Write a kubeconfig of one context, as JSON, which is YAML."""
    cluster = {"server": server, "certificate-authority-data": b64encode(authority.read_bytes()).decode()}
    path.touch(mode=0o600)
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "tests", "cluster": cluster}],
                "users": [{"name": "tests", "user": user}],
                "contexts": [
                    {"name": "tests", "context": {"cluster": "tests", "user": "tests", "namespace": namespace}}
                ],
                "current-context": "tests",
            },
            indent=1,
        )
    )


def _authority(folder: Path) -> None:
    _openssl(
        *("req", "-x509", *_CURVE, "-subj", "/CN=asyncsched-tests", "-days", _DAYS),
        *("-keyout", folder / "ca.key", "-out", folder / "ca.crt"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"),
    )


def _certificate(folder: Path, name: str, subject: str, addresses: str = "") -> None:
    """Make a certificate that serves both ways."""
    extensions = [
        "basicConstraints=critical,CA:false",
        "keyUsage=critical,digitalSignature,keyEncipherment",
        "extendedKeyUsage=serverAuth,clientAuth",
        *([f"subjectAltName={addresses}"] if addresses else []),
    ]
    _openssl(
        *("req", "-x509", *_CURVE, "-subj", subject, "-days", _DAYS),
        *("-CA", folder / "ca.crt", "-CAkey", folder / "ca.key"),
        *("-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"),
        *(part for extension in extensions for part in ("-addext", extension)),
    )


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]}: {done.stderr.strip()}")
