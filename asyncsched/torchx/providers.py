"""TorchX's image providers, for ``local_cwd``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from asyncsched._typing import override
from asyncsched.schedulers.local import ImageProvider, ReplicaParam
from asyncsched.specs import CfgVal, Role

__all__ = ["TorchXImages"]


class TorchXImages(ImageProvider):
    """Wraps one of TorchX's image providers.

    Args:
        make: The provider's class.
        cfg: The run options.
    """

    def __init__(self, make: Callable[..., Any], cfg: Mapping[str, CfgVal]) -> None:
        super().__init__(cfg)
        self._theirs = make(cfg)

    @override
    def fetch(self, image: str) -> str:
        return str(self._theirs.fetch(image))

    @override
    def fetch_role(self, role: Role) -> str:  # the fields that providers read have the same names in both
        return str(self._theirs.fetch_role(role))

    @override
    def get_cwd(self, image: str) -> str | None:
        cwd = self._theirs.get_cwd(image)
        return None if cwd is None else str(cwd)

    @override
    def get_entrypoint(self, img_root: str, role: Role) -> str:
        return str(self._theirs.get_entrypoint(img_root, role))

    @override
    def get_replica_param(
        self,
        img_root: str,
        role: Role,
        stdout: str | None = None,
        stderr: str | None = None,
        combined: str | None = None,
    ) -> ReplicaParam:
        made = cast("dict[str, Any]", vars(self._theirs.get_replica_param(img_root, role, stdout, stderr, combined)))
        return ReplicaParam(**made)
