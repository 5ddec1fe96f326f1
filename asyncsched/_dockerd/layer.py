"""Lay files over an image without a builder: unpack them into a container that is never started, and commit it.

A builder unpacks the files, copies them into a layer and reads them again; here the daemon unpacks them into the layer.
`can_lay_over` returns for which images the result is the same as that of ``COPY . .``.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any

from asyncsched._dockerd.build import BUILD_LABEL, Build, Reader, closed
from asyncsched._dockerd.client import Daemon
from asyncsched._dockerd.errors import CutOffError
from asyncsched._dockerd.images import list_labelled
from asyncsched.errors import NotFoundError, SchedulerError
from asyncsched.specs.image_progress import ImageProgress

__all__ = ["can_lay_over", "lay_over"]

_log = logging.getLogger("asyncsched.dockerd")

_JSON, _TAR = "application/json", "application/x-tar"
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The value that a builder uses if the image has none."""
_NAME = "asyncsched-build-"
"""How the names of these containers begin; labels cannot mark them, because they come from the image."""

_ABANDONED_AFTER = 24 * 3600
"""A container this many seconds older than a new one, by the daemon's clock, was left by a killed build."""

_PLACEHOLDER = ["/never-started"]
"""The command for a container of an image that has none: without a command the daemon creates no container."""


def can_lay_over(base: Mapping[str, Any]) -> bool:
    """Return whether files laid over an image give the same result as a builder's ``COPY . .``.

    A builder runs an image's triggers (ONBUILD), and writes below its volumes, which are elsewhere in a container.

    Args:
        base: The image, as `inspect_image` returns it.
    """
    config: Mapping[str, Any] = base.get("Config") or {}
    return base.get("Os") == "linux" and not config.get("OnBuild") and not config.get("Volumes")


async def lay_over(
    daemon: Daemon,
    name: str,
    base: Mapping[str, Any],
    files: Callable[[], AsyncGenerator[bytes]],
    *,
    labels: Mapping[str, str],
    on_progress: Callable[[ImageProgress], None],
    operation: str = "submit",
) -> str:
    """Build an image with files in another image's working directory, tag it, and return its id.

    Cancelling before its end leaves neither an image nor a container.

    Args:
        daemon: The daemon that has the base image.
        name: The new image's name and tag.
        base: The base image, as `inspect_image` returns it; `can_lay_over` must be true for it.
        files: Returns a new stream of the files' tar archive; called again after a broken connection.
        labels: Labels of the new image, added to those of the base image.
        on_progress: Called with the bytes sent so far.
        operation: The operation that errors name.

    Raises:
        WorkspaceError: The daemon cannot unpack the files there.
        SchedulerError: The daemon cannot be reached.
    """
    return await _Layer(daemon, name, base, files, labels, Reader(name, on_progress), operation).run()


def abandoned(found: Sequence[Mapping[str, Any]], own: Collection[str]) -> list[str]:
    """Return the containers that builds have abandoned, for example because their process was killed.

    Args:
        found: The containers of builds, as the daemon lists them.
        own: Containers of the current build; those that are much older, by the daemon's clock, are abandoned.
    """
    now = min((each["Created"] for each in found if each["Id"] in own), default=0)
    return [each["Id"] for each in found if each["State"] == "created" and each["Created"] < now - _ABANDONED_AFTER]


class _Layer(Build):
    """An image that is built by committing a container."""

    def __init__(
        self,
        daemon: Daemon,
        name: str,
        base: Mapping[str, Any],
        files: Callable[[], AsyncGenerator[bytes]],
        labels: Mapping[str, str],
        reader: Reader,
        operation: str,
    ) -> None:
        build = secrets.token_hex(16)
        super().__init__(daemon, name, files, {"version": "1", "buildid": build}, reader, operation)
        self._base = base
        self._has_asked = False  # whether the commit was requested
        self._created = 0
        self._label = f"{BUILD_LABEL}={build}"
        self._config: dict[str, Any] = dict(base.get("Config") or {})
        self._config["Labels"] = {**(self._config.get("Labels") or {}), **labels, BUILD_LABEL: build}
        env: list[str] = self._config.get("Env") or []
        if not any(each.startswith("PATH=") for each in env):
            self._config["Env"] = [*env, f"PATH={_DEFAULT_PATH}"]

    async def _request(self) -> None:
        self._can_cut = False
        if self._is_given_up or await self._is_committed():
            return
        try:
            container = await self._create()
            if not self._is_given_up:
                await self._unpack(container)
            if not self._is_given_up:
                self._reader.image = await self._commit(container)
        except NotFoundError as error:
            if "no such container" not in error.why.lower():
                raise
            # Someone has removed the container, for example `docker container prune`: make it again.
            raise CutOffError(self._what, why=error.why, backend=error.backend, operation=error.operation) from error
        finally:
            self._can_cut = False  # and this stays so while the image is tagged
            await self._clear()

    async def _create(self) -> str:
        config: dict[str, Any] = {"Image": self._base["Id"], "Labels": self._config["Labels"]}
        if not self._config.get("Entrypoint") and not self._config.get("Cmd"):
            config["Entrypoint"] = _PLACEHOLDER
            self._config["Entrypoint"] = []  # None would keep the container's
        config["HostConfig"] = {"NetworkMode": "none"}
        self._created += 1
        name = {"name": f"{_NAME}{self._params['buildid']}-{self._created}"}
        (made,) = await self._ask("POST", "containers/create", name, json.dumps(config).encode(), _JSON)
        return str(made["Id"])

    async def _unpack(self, container: str) -> None:
        body = self._body()
        self._can_cut = True
        where = {"path": self._config.get("WorkingDir") or "/"}
        try:
            await self._ask("PUT", f"containers/{container}/archive", where, body, _TAR)
        finally:
            await closed(body)

    async def _commit(self, container: str) -> str:
        self._has_asked = True
        params = {"container": container, "comment": "COPY . ."}
        (made,) = await self._ask("POST", "commit", params, json.dumps(self._config).encode(), _JSON)
        return str(made["Id"])

    async def _is_committed(self) -> bool:
        """Return whether the image exists: the answer to its commit may have been cut off."""
        found = await list_labelled(self._daemon, self._label, operation=self._operation) if self._has_asked else []
        self._reader.image = next(iter(found), "")
        return bool(found)

    async def _ask(
        self, method: str, path: str, params: Mapping[str, str], body: AsyncIterator[bytes] | bytes, kind: str
    ) -> list[dict[str, Any]]:
        async with self._daemon.progress(
            path,
            params,
            {"Content-Type": kind},
            what=self._what,
            operation=self._operation,
            body=body,
            method=method,
            refusal=None,
        ) as answer:
            return [each async for each in answer]

    async def _clear(self) -> None:
        try:
            found = await self._daemon.list_containers(names=[f"^/{_NAME}"], operation=self._operation)
            own = [each["Id"] for each in found if self._params["buildid"] in each["Names"][0]]
            for each in [*own, *abandoned(found, own)]:
                await self._daemon.remove_container(each, operation=self._operation, force=True)
        except SchedulerError as error:
            _log.warning("a container of the build of %s may be left: %s", self._name, error)
