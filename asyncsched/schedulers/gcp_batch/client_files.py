"""Find credentials files, and check that they are usable."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from asyncsched._typing import NamedTuple
from asyncsched.errors import AuthError
from asyncsched.schedulers.gcp_batch.errors import BACKEND

__all__ = [
    "METADATA",
    "SIGN_IN",
    "CredentialsFile",
    "find_credentials",
    "gcloud_folder",
    "is_header",
    "unusable",
    "where",
]

METADATA = "the metadata server"
SIGN_IN = "run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"

_NEEDED = {
    "service_account": ("client_email", "private_key"),
    "authorized_user": ("client_id", "client_secret", "refresh_token"),
    "external_account": ("audience", "subject_token_type", "token_url"),
    "impersonated_service_account": ("service_account_impersonation_url",),
}
"""The text fields that a file must have, by its type."""

_TEXTS = {*(name for names in _NEEDED.values() for name in names), "project_id", "quota_project_id", "token_uri"}
_URLS = {"service_account_impersonation_url", "token_uri", "token_url", "url"}
_HEADERS = {"project_id", "quota_project_id"}
_URL = re.compile(r"https?://\S+")
_HEADER = re.compile(r"[!-~]*")


class CredentialsFile(NamedTuple):
    """A source of credentials.

    Attributes:
        name: The file or other source, for messages.
        data: The content of the file; empty for the metadata server.
    """

    name: str
    data: Mapping[str, Any]

    @property
    def project(self) -> str:
        """The project in the credentials; empty if there is none."""
        return str(self.data.get("project_id") or self.data.get("quota_project_id") or "")

    @property
    def quota_project(self) -> str:
        """The project to bill quota to, if it is not the one that is called."""
        return str(self.data.get("quota_project_id") or "")


def find_credentials(path: str | None) -> CredentialsFile:
    """Read the credentials; blocks.

    Args:
        path: The file; else the one in the environment, else the one written by gcloud, else the metadata server.

    Raises:
        AuthError: The named file cannot be used.
    """
    named = path or os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if not named:
        written = gcloud_folder() / "application_default_credentials.json"
        if not written.exists():
            return CredentialsFile(METADATA, {})
        named = str(written)
    try:
        data = json.loads(Path(named).read_text(encoding="utf-8"))
    except OSError as error:
        why = error.strerror or str(error)
        raise AuthError(f"the credentials in {named} cannot be read", why=why, fix=SIGN_IN, **where()) from error
    except (ValueError, RecursionError) as error:
        raise AuthError(f"the credentials in {named} are not JSON", fix=SIGN_IN, **where()) from error
    source = CredentialsFile(named, _object(data))
    _check_usable(source)
    return source if source.data["type"] != "external_account" else _with_kind(source)


def gcloud_folder() -> Path:
    """Return the directory of gcloud's configuration."""
    named = os.environ.get("CLOUDSDK_CONFIG")
    return Path(named) if named else Path.home() / ".config" / "gcloud"


def is_header(text: str) -> bool:
    """Return whether a text can be sent as a project name in a header."""
    return _HEADER.fullmatch(text) is not None


def unusable(source: CredentialsFile, why: str) -> AuthError:
    """Return the error for unusable credentials."""
    return AuthError(f"the credentials in {source.name} cannot be used", why=why, fix=SIGN_IN, **where())


def where() -> dict[str, Any]:
    """Return backend and operation for errors of credentials."""
    return {"backend": BACKEND, "operation": "authenticate"}


def _check_usable(source: CredentialsFile) -> None:
    kind = source.data.get("type")
    if not isinstance(kind, str) or kind not in _NEEDED:
        raise unusable(source, f"type must be one of {', '.join(sorted(_NEEDED))}, got {kind!r}")
    if kind == "impersonated_service_account":
        inner = _object(source.data.get("source_credentials"))
        if inner.get("type") != "authorized_user":
            raise unusable(source, "source_credentials.type must be authorized_user to impersonate a service account")
        _check_texts(source, inner, _NEEDED["authorized_user"], _TEXTS, "source_credentials.")
    _check_texts(source, source.data, _NEEDED[kind], _TEXTS)
    if kind == "external_account":
        _check_subject(source)


def _check_subject(source: CredentialsFile) -> None:
    """Check the source of an external account's token."""
    inner: object = source.data.get("credential_source")
    found = _object(inner)
    if not isinstance(inner, dict):
        raise unusable(source, f"credential_source must be an object, got {inner!r}")
    _check_texts(source, found, (), {"type", "url", "file", "environment_id"}, "credential_source.")
    for name in ("format", "headers"):
        value: object = found.get(name, {})
        names = _object(value)
        if not isinstance(value, dict):
            raise unusable(source, f"credential_source.{name} must be an object, got {value!r}")
        _check_texts(source, names, tuple(names), set(), f"credential_source.{name}.")


def _with_kind(source: CredentialsFile) -> CredentialsFile:
    """Set the type of an external account's token source, which gcloud derives from the other fields."""
    inner = _object(source.data["credential_source"])
    if "executable" in inner or str(inner.get("environment_id", "")).startswith("aws"):
        raise unusable(source, "credential_source must be a url or a file: AWS and programs are not supported")
    found = inner.get("type") or next((kind for kind in ("file", "url") if kind in inner), None)
    if found is None:
        raise unusable(source, "credential_source must have a url or a file")
    return source._replace(data={**source.data, "credential_source": {**inner, "type": found}})


def _check_texts(
    source: CredentialsFile, data: Mapping[str, Any], needed: tuple[str, ...], texts: set[str], prefix: str = ""
) -> None:
    for name in needed:
        if not isinstance(data.get(name), str) or not data[name]:
            raise unusable(source, f"{prefix}{name} must be a non-empty string, got {_shown(data, name)}")
    for name in texts & data.keys():
        value = data[name]
        if not isinstance(value, str):
            raise unusable(source, f"{prefix}{name} must be a string, got {_shown(data, name)}")
        if name in _URLS and not _URL.fullmatch(value):
            raise unusable(source, f"{prefix}{name} must be a URL, got {_shown(data, name)}")
        if name in _HEADERS and not is_header(value):
            raise unusable(source, f"{prefix}{name} must be the name of a project, got {_shown(data, name)}")


def _shown(data: Mapping[str, Any], name: str) -> str:
    """Return a value for a message; of a possible secret only the type."""
    if name not in data:
        return "nothing"
    return repr(data[name]) if name in _URLS | _HEADERS else f"a {type(data[name]).__name__}"


def _object(value: object) -> Mapping[str, Any]:
    """Return an object without its nulls, which count as missing."""
    found = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {name: inner for name, inner in found.items() if inner is not None}
