"""TorchX schedulers whose apps run from images, which TorchX builds from workspaces."""

from __future__ import annotations

from torchx.workspace.docker_workspace import DockerWorkspaceMixin

from asyncsched.torchx.scheduler import AsyncSchedScheduler

__all__ = ["ImageScheduler"]


class ImageScheduler(DockerWorkspaceMixin, AsyncSchedScheduler):
    """A scheduler that supports workspaces: TorchX builds the image, and asyncsched pushes it in `schedule`."""
