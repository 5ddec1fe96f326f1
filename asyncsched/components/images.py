"""The image that a component uses by default."""

from __future__ import annotations

import os

__all__ = ["default_image"]


def default_image(otherwise: str = "python:3.12-slim") -> str:
    """Return the image in the environment variable ``ASYNCSCHED_IMAGE``, or a public one.

    Schedulers that run processes without images (``local_cwd``) ignore it.
    """
    return os.environ.get("ASYNCSCHED_IMAGE") or otherwise
