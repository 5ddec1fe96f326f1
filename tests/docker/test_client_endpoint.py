"""Which daemon is meant: the order and the meanings of Docker's own command line."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsched._dockerd.credentials import registry_auth
from asyncsched._dockerd.endpoint import TLS, find_endpoint
from asyncsched.errors import ConfigError


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".docker").mkdir()
    return tmp_path


def context(home: Path, name: str, host: str, *, tls: bool = False) -> None:
    folder = hashlib.sha256(name.encode()).hexdigest()
    metadata = home / ".docker/contexts/meta" / folder
    metadata.mkdir(parents=True)
    (metadata / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))
    if tls:
        files = home / ".docker/contexts/tls" / folder / "docker"
        files.mkdir(parents=True)
        for file in ("ca.pem", "cert.pem", "key.pem"):
            (files / file).touch()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("unix:///run/a.sock", "unix:///run/a.sock"),
        ("unix:///run/a#1?.sock", "unix:///run/a#1?.sock"),
        ("unix://", "unix:///var/run/docker.sock"),
        ("tcp://h:1", "http://h:1"),
        ("tcp://h", "http://h:2375"),
        ("h:1", "http://h:1"),
        ("https://h", "https://h:2376"),
        ("tcp://[::1]:5", "http://[::1]:5"),
        ("ssh://me@h", "ssh://me@h"),
    ],
)
def test_addresses(home: Path, host: str, url: str) -> None:
    assert url == find_endpoint({"DOCKER_HOST": host}, home).url


def test_a_scheme_that_cannot_be_used(home: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot use the Docker address 'fd://3'.*unix://, tcp://"):
        find_endpoint({"DOCKER_HOST": "fd://3"}, home)


@pytest.mark.parametrize("host", ["tcp://h:port", "tcp://h:99999", "tcp://[::1"])
def test_an_address_that_is_none(home: Path, host: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot use the Docker address '.*DOCKER_HOST does not name"):
        find_endpoint({"DOCKER_HOST": host}, home)


def test_tls_is_switched_on_by_any_value(home: Path) -> None:
    certificates = home / "certificates"
    certificates.mkdir()
    (certificates / "ca.pem").touch()
    environ = {"DOCKER_HOST": "tcp://h:2376", "DOCKER_TLS_VERIFY": "0", "DOCKER_CERT_PATH": str(certificates)}

    found = find_endpoint(environ, home)

    assert ("https://h:2376", TLS(ca=certificates / "ca.pem", verify=True)) == (found.url, found.tls)
    unverified = find_endpoint({"DOCKER_HOST": "tcp://h:2376", "DOCKER_TLS": "1"}, home)
    assert unverified.tls is not None
    assert not unverified.tls.verify


def test_docker_host_beats_contexts(home: Path) -> None:
    context(home, "prod", "tcp://prod:1")
    (home / ".docker/config.json").write_text('{"currentContext": "prod"}')

    assert (
        "tcp://here:1".replace("tcp", "http")
        == find_endpoint({"DOCKER_HOST": "tcp://here:1", "DOCKER_CONTEXT": "prod"}, home).url
    )
    assert "http://prod:1" == find_endpoint({}, home).url


def test_contexts(home: Path) -> None:
    context(home, "plain", "unix:///plain.sock")
    context(home, "secure", "tcp://secure:2376", tls=True)
    (home / ".docker/config.json").write_text('{"currentContext": "plain"}')

    assert "/plain.sock (the context 'plain')" == str(find_endpoint({}, home))
    secure = find_endpoint({"DOCKER_CONTEXT": "secure"}, home)
    assert "https://secure:2376" == secure.url
    assert secure.tls is not None
    assert secure.tls.key is not None
    with pytest.raises(ConfigError, match="cannot use the Docker context 'absent' that DOCKER_CONTEXT names"):
        find_endpoint({"DOCKER_CONTEXT": "absent"}, home)


@pytest.fixture
def rootless(home: Path) -> Iterator[Path]:
    path = home / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        yield home


def test_usual_sockets(rootless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsched._dockerd.endpoint._DEFAULT_SOCKET", rootless / "absent.sock")

    assert f"{rootless}/docker.sock (the default socket)" == str(
        find_endpoint({"XDG_RUNTIME_DIR": str(rootless)}, rootless)
    )
    assert f"{rootless}/absent.sock (DOCKER_HOST is not set)" == str(find_endpoint({}, rootless))


@pytest.mark.parametrize("text", ["{", "[" * 100_000], ids=["half", "nested too deeply"])
def test_a_broken_configuration_is_named(home: Path, text: str) -> None:
    (home / ".docker/config.json").write_text(text)

    with pytest.raises(ConfigError, match=r"cannot read Docker's configuration: .*config.json"):
        find_endpoint({}, home)
    assert registry_auth("registry:5000/image", {}, home) == ""


def test_a_context_nested_too_deeply_is_named(home: Path) -> None:
    context(home, "deep", "unix:///x.sock")
    next((home / ".docker/contexts/meta").glob("*/meta.json")).write_text("[" * 100_000)

    with pytest.raises(ConfigError, match=r"cannot use the Docker context 'deep'.*meta.json"):
        find_endpoint({"DOCKER_CONTEXT": "deep"}, home)
