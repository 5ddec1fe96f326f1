"""TorchX schedulers whose apps run from images, which TorchX builds of workspaces."""

from __future__ import annotations

from torchx.workspace.docker_workspace import DockerWorkspaceMixin

from asyncsched.torchx.scheduler import AsyncSchedScheduler

__all__ = ["ImageScheduler"]


class ImageScheduler(DockerWorkspaceMixin, AsyncSchedScheduler):
    """One that takes a workspace: TorchX builds the image, and asyncsched pushes it when the app is scheduled."""
