"""Which cluster, and as whom: kubeconfigs, pods, clients of the caller's."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from kubernetes_asyncio.client import Configuration

from asyncsched.errors import AsyncSchedError, AuthError, ConfigError
from asyncsched.schedulers.kubernetes.client_config import CONTEXT, ClusterTarget, ConfigSource, load_target
from tests.kubernetes._client import TOKEN, kubeconfig
from tests.kubernetes_fake.certificates import server_context

SERVER = "https://127.0.0.1:6443"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have no cluster but those that a test names."""
    for name in (
        "KUBECONFIG",
        "KUBERNETES_SERVICE_HOST",
        "HTTPS_PROXY",
        "https_proxy",
        "ASYNCSCHED_KUBERNETES_CONTEXT",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    path = tmp_path / "ca.crt"
    path.write_bytes(server_context()[1])
    return path


def loaded(path: Path, context: str | None = None) -> ClusterTarget:
    return load_target(ConfigSource(kubeconfig=str(path), context=context))


def test_a_context_tells_server_namespace_and_token(tmp_path: Path, authority: Path) -> None:
    found = loaded(
        kubeconfig(
            tmp_path / "config",
            f"{SERVER}/",
            cluster={"certificate-authority": "ca.crt", "tls-server-name": "kubernetes"},
            context={"namespace": "lab"},
        )
    )

    assert (SERVER, "here", "lab") == (*found.peer, found.namespace)
    assert f"Bearer {TOKEN}" == found.authorization
    assert "kubernetes" == found.server_name
    assert found.tls is not None
    assert 32 == len(found.ca_digest)
    assert TOKEN not in repr(found)


def test_kubeconfig_variable_names_several_files_and_the_first_current_context_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kubeconfig(tmp_path / "first", "http://first", name="a")
    second = kubeconfig(tmp_path / "second", "http://second", name="b")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}:{first}:{second}")

    assert "a" == load_target(ConfigSource()).peer.context
    assert "b" == load_target(ConfigSource(context="b")).peer.context


def test_the_environment_names_a_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = json.loads(kubeconfig(tmp_path / "config", "http://x").read_text())
    config["contexts"].append({**config["contexts"][0], "name": "other"})
    (tmp_path / "config").write_text(json.dumps(config))
    monkeypatch.setenv(CONTEXT, "other")

    assert "other" == loaded(tmp_path / "config").peer.context
    assert "here" == loaded(tmp_path / "config", "here").peer.context


def test_the_home_has_a_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "home/.kube").mkdir(parents=True)
    kubeconfig(tmp_path / "home/.kube/config", "http://x")

    assert "http://x" == load_target(ConfigSource()).peer.server


def test_no_kubeconfig_is_told_with_where_was_looked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no kubeconfig found: .*/home/\.kube/config does not exist"):
        load_target(ConfigSource())
    with pytest.raises(ConfigError, match="correct the scheduler's parameter kubeconfig"):
        loaded(tmp_path / "none")


def test_a_context_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no context 'there'; it has here"):
        loaded(kubeconfig(tmp_path / "config", SERVER), "there")


@pytest.mark.parametrize(
    "text", ["", "- a", "a: [", "{}", "contexts: 5", "\x00", "current-context: x\ncontexts: {a: b}"]
)
def test_any_other_file_is_an_error_of_configuration(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)

    with pytest.raises(ConfigError, match="kubeconfig") as caught:
        loaded(tmp_path / "config")
    assert "TypeError" not in str(caught.value)
    assert "AttributeError" not in str(caught.value)


@pytest.mark.parametrize(
    ("user", "cluster", "said"),
    [
        ({"token": TOKEN, "as": "root"}, {}, "'as': impersonation is not supported"),
        ({"token": TOKEN}, {"proxy-url": "socks5://proxy:1080"}, "must be http or https, got socks5"),
        ({"exec": {"command": "x", "interactiveMode": "Always"}}, {}, "needs a terminal"),
        ({"exec": {"args": [TOKEN]}}, {}, "has no command"),
        ({"token": TOKEN}, {"server": ""}, "this cluster is missing or has no server"),
        ({"token": TOKEN, "client-certificate-data": "!!!", "client-key-data": "!!!"}, {}, "cannot be used"),
        ({"token": TOKEN, "client-certificate": "none.pem", "client-key": "none.pem"}, {}, "cannot be used"),
        ({"token": TOKEN}, {"certificate-authority": "config"}, "cannot be used"),
        (
            {"auth-provider": {"name": "oidc", "config": {"id-token": TOKEN}}},
            {},
            "the auth-provider oidc of context here cannot be used",
        ),
        ({"auth-provider": {"name": "oidc"}}, {}, "use an exec plugin"),
        ({"token": TOKEN}, {"server": "10.0.0.1:6443"}, "'10.0.0.1:6443': it must be a URL"),
        ({"token": TOKEN}, {"server": "kube.example.com"}, "put https:// in front of it"),
        ({"token": TOKEN}, {"server": f"someone:{TOKEN}@kube.example.com"}, "put https:// in front of it"),
        ({"token": TOKEN}, {"server": "https://"}, "correct the kubeconfig"),
        ({"token": TOKEN}, {"server": "https://[::1"}, "correct the kubeconfig"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name_and_shows_no_secret(
    tmp_path: Path, user: Mapping[str, Any], cluster: Mapping[str, Any], said: str
) -> None:
    path = kubeconfig(tmp_path / "config", SERVER, user=user, cluster=cluster)

    with pytest.raises(AsyncSchedError) as raised:
        loaded(path)

    assert said in str(raised.value)
    assert isinstance(raised.value, (ConfigError, AuthError))
    assert TOKEN not in "".join(map(str, (raised.value, raised.value.__cause__)))


def test_an_exec_plugin_and_a_token_file_are_kept_for_later(tmp_path: Path) -> None:
    plugin = loaded(kubeconfig(tmp_path / "config", "http://x", user={"exec": {"command": "./aws"}})).plugin
    file = loaded(kubeconfig(tmp_path / "config", "http://x", user={"tokenFile": "token"})).token_file

    assert plugin is not None
    assert tmp_path == plugin.folder
    assert tmp_path / "token" == file


def test_certificates_may_be_inline_and_a_check_may_be_left_out(tmp_path: Path) -> None:
    found = loaded(kubeconfig(tmp_path / "config", SERVER, cluster={"insecure-skip-tls-verify": True}))

    assert found.tls is not None
    assert ssl.CERT_NONE == found.tls.verify_mode
    assert not found.verify


def test_inline_certificates_leave_no_file_and_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: Path
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    data = base64.b64encode(authority.read_bytes()).decode()
    before = len(list(Path("/proc/self/fd").iterdir()))
    found = loaded(kubeconfig(tmp_path / "config", SERVER, cluster={"certificate-authority-data": data}))

    assert 32 == len(found.ca_digest)
    assert (
        found.ca_digest
        == loaded(kubeconfig(tmp_path / "second", SERVER, cluster={"certificate-authority": str(authority)})).ca_digest
    )
    assert [] == list(folder.iterdir())
    assert before == len(list(Path("/proc/self/fd").iterdir()))


def test_a_pod_has_what_it_needs_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: Path) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "namespace").write_text("lab\n")

    found = load_target(ConfigSource(service_account=tmp_path))

    assert ("https://10.0.0.1:443", "lab", tmp_path / "token") == (found.peer.server, found.namespace, found.token_file)
    with pytest.raises(ConfigError, match="service account cannot be used"):
        load_target(ConfigSource(service_account=tmp_path / "none"))


def test_a_client_of_the_callers_lends_its_configuration() -> None:
    configuration = Configuration(host="http://10.0.0.1:8080/")

    class Client:
        def __init__(self) -> None:
            self.configuration = configuration
            self.default_headers = {"User-Agent": "theirs", "X-Team": "lab"}

    found = load_target(ConfigSource(client=Client()))

    assert "http://10.0.0.1:8080" == found.peer.server
    assert {"X-Team": "lab"} == found.headers


@pytest.mark.parametrize("given", [object(), MagicMock(), AsyncMock(), "https://10.0.0.1"])
def test_what_is_no_client_is_refused_with_what_fits(given: object) -> None:
    with pytest.raises(ConfigError, match="pass an ApiClient of kubernetes_asyncio or of kubernetes") as caught:
        load_target(ConfigSource(client=given))

    assert f"client must be an ApiClient, got {type(given).__name__}" == caught.value.what


@pytest.mark.parametrize(("no_proxy", "expected"), [("", "http://proxy:3128"), ("10.0.0.1", None)])
def test_the_environment_names_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_proxy: str, expected: str | None
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    path = kubeconfig(tmp_path / "config", "https://10.0.0.1", cluster={"insecure-skip-tls-verify": True})

    assert expected == loaded(path).proxy
