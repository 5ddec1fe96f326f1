"""What an app asks for that a kind, or this server, does not honour: told by every dry-run."""

from __future__ import annotations

from collections.abc import Iterable

from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.schedulers.kubernetes.status_jobs import Kind
from asyncsched.specs.app import AppDef
from asyncsched.specs.dryrun import Ignored

__all__ = ["ignored_by"]


def ignored_by(
    app: AppDef, options: KubernetesOpts, kind: Kind, server: tuple[int, int] | None = None
) -> Iterable[Ignored]:
    """Return what the roles ask for and do not get.

    Args:
        app: The app.
        options: The run options.
        kind: What runs the pods.
        server: The server's version, where it is known.
    """
    raise NotImplementedError
