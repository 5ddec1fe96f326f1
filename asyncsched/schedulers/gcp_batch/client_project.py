"""Which project is meant where none is named."""

from __future__ import annotations

import asyncio
import configparser
import os

from asyncsched.errors import ConfigError
from asyncsched.schedulers.gcp_batch.client_credentials import GCPCredentials
from asyncsched.schedulers.gcp_batch.client_files import gcloud_folder

__all__ = ["find_project"]

VARIABLES = ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")


async def find_project(credentials: GCPCredentials) -> str:
    """Return the project of the environment, of the credentials, or of gcloud's configuration.

    Raises:
        ConfigError: None of them names one.
    """
    named = next((value for name in VARIABLES if (value := os.environ.get(name))), "")
    found = named or (await credentials.source()).project or await asyncio.to_thread(_configured)
    if not found:
        raise ConfigError(
            "No project of Google Cloud is named",
            why="neither a run option, nor the environment, nor the credentials name one",
            fix="give the run option project, or set GOOGLE_CLOUD_PROJECT",
        )
    return found


def _configured() -> str:
    """Return the project that ``gcloud config set project`` has written."""
    folder = gcloud_folder()
    try:
        active = (folder / "active_config").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        active = "default"
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(folder / "configurations" / f"config_{active}", encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return ""
    return parser.get("core", "project", fallback="")
