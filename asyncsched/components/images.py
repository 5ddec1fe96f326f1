"""The image that a component runs from when nobody names one."""

from __future__ import annotations

import os

__all__ = ["default_image"]


def default_image(otherwise: str = "python:3.12-slim") -> str:
    """Return the image in the environment variable ``ASYNCSCHED_IMAGE``, or a public one.

    Schedulers that run processes and not images (``local_cwd``) take no notice of it.
    """
    return os.environ.get("ASYNCSCHED_IMAGE") or otherwise
