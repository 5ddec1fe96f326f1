"""Workspaces for backends that run containers: one class attribute, and hooks for what differs.

The modules that talk to Docker are imported at the first workspace or push: their import would hold the loop too long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from asyncsched._typing import override
from asyncsched.errors import AuthError, NotFoundError, WorkspaceError
from asyncsched.schedulers.hooks import OptsT, RequestT, SchedulerHooks
from asyncsched.schedulers.registry import check_package
from asyncsched.specs.app import AppDef
from asyncsched.specs.copies import copied
from asyncsched.specs.dryrun import WorkspacePlan
from asyncsched.specs.image_progress import ImageProgress
from asyncsched.specs.run_options import CfgVal
from asyncsched.workspace.image_names import REPOSITORY, check_image_repo, check_platform, is_content_tag
from asyncsched.workspace.threads import abandon

if TYPE_CHECKING:
    from asyncsched._dockerd import Daemon
    from asyncsched.clock import Clock
    from asyncsched.workspace.given_docker import GivenDocker
    from asyncsched.workspace.image import ImagePlan
    from asyncsched.workspace.source import WorkspaceSource

__all__ = ["DockerWorkspaceMixin", "ImageHooks", "ImageWorkspaces", "build_workspace_image"]

_log = logging.getLogger("asyncsched.workspace")


class _Detail:
    def __init__(self, images: tuple[ImagePlan, ...], cfg: Mapping[str, CfgVal]) -> None:
        self.images = images
        self.cfg = cfg


class ImageWorkspaces:
    """Builds workspace images for one scheduler: one image per base image, shared by all roles and apps.

    Setting it as a backend's `workspace_builder` is enough. If the backend has the run option `image_repo`, each image
    is pushed after its build. The options `platform` and `quiet` are used if the backend has them.

    Args:
        scheduler: The scheduler. A `DockerWorkspaceMixin` chooses the daemon, repository and platform by its hooks, and
            pushes the images itself.
    """

    def __init__(self, scheduler: SchedulerHooks[Any, Any]) -> None:
        self._pushes = not isinstance(scheduler, ImageHooks)
        self._scheduler = scheduler if isinstance(scheduler, ImageHooks) else _Defaults(scheduler)

    async def preview(self, app: AppDef, workspace: str, cfg: Mapping[str, CfgVal]) -> WorkspacePlan:
        """Read the workspace and find the base images; builds and pulls nothing."""
        scheduler = self._scheduler
        for role in app.roles:
            if not role.image:
                raise WorkspaceError(
                    f"the role {role.name} has no image to add the workspace to", fix="give the role an image"
                )
        repository = self._repository(cfg)
        platform = scheduler._image_platform(cfg)
        if platform is not None:
            check_platform(platform)
        source, images = await _read(workspace), await _images()
        for note in source.context.notes:
            _log.warning("%s", note)
        auth = scheduler._login(cfg)
        plans: dict[str, ImagePlan] = {}
        async with scheduler._image_daemon() as daemon:
            for image in dict.fromkeys(role.image for role in app.roles):
                plans[image] = await images.plan_image(source, daemon, image, repository, platform, auth)
        app = copied(app)
        for role in app.roles:
            role.image = plans[role.image].name
        return WorkspacePlan(
            app,
            source.context.workspace,
            {image: plan.hash for image, plan in plans.items()},
            {image: plan.name for image, plan in plans.items()},
            _Detail(tuple(plans.values()), dict(cfg)),
        )

    async def build(self, plan: WorkspacePlan, app_id: str) -> None:
        """Build the images that neither the daemon nor the registry to push to has."""
        detail = plan.detail
        assert isinstance(detail, _Detail)
        source, images = await _read(plan.workspace), await _images()
        for each in detail.images:
            if not images.is_plan_of(each, source):
                raise WorkspaceError(
                    f"the workspace {plan.workspace} has changed since the dry-run",
                    why=f"its hash is no longer {each.hash}",
                    fix="dry-run again, or call submit, which does both at once",
                )
        async with self._scheduler._image_daemon() as daemon:
            for each in detail.images:
                async with images.turn_of(each.name):  # apps submitted at the same time share one build
                    await self._build(daemon, each, source, detail.cfg)
                    if self._pushes and self._scheduler.pushes_images:
                        await self._scheduler._push_images({each.name: _parted(each.name)}, detail.cfg)

    async def _build(self, daemon: Daemon, plan: ImagePlan, source: WorkspaceSource, cfg: Mapping[str, CfgVal]) -> None:
        images, auth = await _images(), self._scheduler._login(cfg)
        if await images.is_built(daemon, plan):
            return
        report = reporter(cfg)
        if self._scheduler.pushes_images:
            report(_asking(plan.name))
            if await images.is_pushed(daemon, plan.name, auth):
                return
        await images.build_plan(source, daemon, plan, auth, report)

    async def push(self, images: Mapping[str, tuple[str, str]]) -> None:
        """Push images of the daemon, with the logins of Docker's configuration."""
        await self._scheduler._push_images(images, {})

    def _repository(self, cfg: Mapping[str, CfgVal]) -> str:
        scheduler, given = self._scheduler, cfg.get("image_repo")
        if not scheduler.pushes_images and not given:
            return REPOSITORY
        return check_image_repo(
            given, scheduler.backend, "the machines that run the app pull the workspace's image from a registry"
        )


class ImageHooks:
    """Hooks for a backend's images; the defaults use the environment's Docker daemon.

    Attributes:
        pushes_images: Whether images are pushed to `image_repo`; otherwise they stay with the daemon that runs them.
    """

    backend: str
    request_timeout: float
    retry_for: float
    clock: Clock
    pushes_images: bool = True
    _given_docker: GivenDocker | None = None

    @asynccontextmanager
    async def _image_daemon(self) -> AsyncGenerator[Daemon]:
        """Yield the daemon that builds and pushes, by default a given one or the environment's; close it afterwards."""
        await _images()
        from asyncsched._dockerd import Daemon

        daemon = Daemon(
            backend=self.backend,
            request_timeout=self.request_timeout,
            retry_for=self.retry_for,
            clock=self.clock,
            endpoint=None if self._given_docker is None else self._given_docker.endpoint(),
        )
        try:
            yield daemon
        finally:
            await daemon.close()

    async def _image_login(self, image: str, cfg: Mapping[str, CfgVal]) -> str:
        """Return the login for an image's registry, by default from Docker's configuration."""
        login: str = await (await _images()).docker_login(image)
        return login

    def _image_platform(self, cfg: Mapping[str, CfgVal]) -> str | None:
        """Return the platform that images are built for, such as ``linux/amd64``; None if it is not known."""
        return cast("str | None", cfg.get("platform"))

    async def _check_images(self, app: AppDef, cfg: Mapping[str, CfgVal], option: str = "platform") -> None:
        """Refuse images for another platform than the run option names, as far as their platform can be found out.

        Raises:
            RunOptionError: The option does not name a platform.
            WorkspaceError: An image is for another platform.
        """
        platform = cast("str | None", cfg.get(option))
        if platform is None:
            return
        check_platform(platform, option)
        images = await _images()
        async with self._image_daemon() as daemon:
            for image in dict.fromkeys(role.image for role in app.roles):
                if image and not is_content_tag(_parted(image)[1]):
                    await images.check_image(daemon, image, platform, self._login(cfg))

    async def _make_repository(self, repository: str, cfg: Mapping[str, CfgVal]) -> bool:
        """Create a repository that a push did not find, and return whether it was created; by default it is not."""
        return False

    async def _push_images(self, images: Mapping[str, tuple[str, str]], cfg: Mapping[str, CfgVal]) -> None:
        """Push images of the daemon, each to its repository and tag; skip those that are there already.

        Args:
            images: The repository and the tag of each image, by the image's name or id.
            cfg: The run options.

        Raises:
            SchedulerError: The daemon or the registry refuses; nothing was submitted.
        """
        if images:
            check_package("pushing an image", "aiodocker", "docker")
            async with self._image_daemon() as daemon:
                for image, (repository, tag) in images.items():
                    await self._push(daemon, image, repository, tag, cfg)

    async def _push(self, daemon: Daemon, image: str, repository: str, tag: str, cfg: Mapping[str, CfgVal]) -> None:
        from asyncsched._dockerd import push_image

        login, report = await self._image_login(repository, cfg), reporter(cfg)
        report(_asking(f"{repository}:{tag}"))
        if await _is_there(daemon, image, repository, tag, login):
            return
        try:
            await push_image(daemon, image, repository, tag, login, report)
        except (AuthError, NotFoundError):
            if not await self._make_repository(repository, cfg):
                raise
            await push_image(daemon, image, repository, tag, login, report)

    def _login(self, cfg: Mapping[str, CfgVal]) -> Callable[[str], Awaitable[str]]:
        return lambda image: self._image_login(image, cfg)


class _Defaults(ImageHooks):
    """The defaults, for a backend without hooks: images are pushed if it has the run option `image_repo`."""

    def __init__(self, scheduler: SchedulerHooks[Any, Any]) -> None:
        self.backend, self.clock = scheduler.backend, scheduler.clock
        self.request_timeout, self.retry_for = scheduler.request_timeout, scheduler.retry_for
        self.pushes_images = any(field.name == "image_repo" for field in fields(scheduler.options))


class DockerWorkspaceMixin(ImageHooks, SchedulerHooks[OptsT, RequestT]):
    """Workspaces and image hooks for a backend that runs containers; put it before `Scheduler` among the bases.

    The backend needs the run options `image_repo`, `quiet` and `platform`. If its machines pull their images, its
    request has `images_to_push`, and it passes them to `_push_images` before it submits. A backend that needs neither
    the hooks nor `images_to_push` can set ``workspace_builder = ImageWorkspaces`` instead.

    Attributes:
        pushes_images: Whether images are pushed to `image_repo`; otherwise they stay with the daemon that runs them.
    """

    workspace_builder = ImageWorkspaces

    @override
    async def _patched_request(self, app: AppDef, options: OptsT, app_id: str, plan: WorkspacePlan) -> RequestT:
        request = await self._request(app, options, app_id)
        if self.pushes_images:
            named = {name: _parted(name) for name in plan.images.values()}
            cast("Any", request).images_to_push.update(named)
        return request


async def build_workspace_image(
    img: str,
    workspace: str,
    *,
    platform: str | None = None,
    on_progress: Callable[[ImageProgress], None] | None = None,
) -> str:
    """Build an image that has a workspace's files on top of another image; return its id, for a role's `image`.

    The workspace's ``Dockerfile.asyncsched`` or ``Dockerfile.torchx`` is used if there is one; otherwise the files are
    copied into the image's working directory. An image of the same files is not built twice. If this is cancelled, no
    container is left, and no image but the base image, under its name.

    Args:
        img: The base image: a name, or an id that the daemon knows.
        workspace: A directory on this machine, or a URL that fsspec can read.
        platform: The platform to build for, such as ``linux/arm64``; the daemon's by default.
        on_progress: Called with each step of pulls and of the build, on the loop.

    Raises:
        WorkspaceError: The workspace cannot be read, the image does not exist, or the build fails.
        SchedulerError: The Docker daemon cannot be reached.
        MissingExtraError: aiodocker is not installed; the message names the ``pip install`` command.
    """
    if platform is not None:
        check_platform(platform)
    source = await _read(workspace)
    built: str = await (await _images()).build_once(img, source, platform, on_progress or _silent)
    return built


def _silent(_: ImageProgress) -> None:
    pass


async def _read(workspace: str) -> WorkspaceSource:
    """Read a workspace while the modules that talk to Docker are imported."""
    check_package("building an image", "aiodocker", "docker")
    source: Any = await asyncio.to_thread(import_module, "asyncsched.workspace.source")
    reading: asyncio.Task[WorkspaceSource] = asyncio.create_task(source.WorkspaceSource.read(workspace))
    try:
        await _images()
        return await reading
    finally:
        await abandon(reading)


async def _images() -> Any:
    check_package("building an image", "aiodocker", "docker")
    return await asyncio.to_thread(import_module, "asyncsched.workspace.image")


async def _is_there(daemon: Daemon, image: str, repository: str, tag: str, login: str) -> bool:
    """Return whether a repository has exactly this image under this tag.

    Raises:
        UnavailableError: The registry, or the daemon, cannot be reached.
    """
    from asyncsched._dockerd import find_remote, inspect_image
    from asyncsched.errors import SchedulerError, UnavailableError

    try:
        remote = await find_remote(daemon, f"{repository}:{tag}", login)
    except UnavailableError:
        raise  # a push would wait for just as long
    except SchedulerError as error:
        _log.debug("%s", error)  # some registries refuse a missing name; the push will report why
        return False
    if remote is None or is_content_tag(tag):
        return remote is not None
    local = await inspect_image(daemon, image) or {}
    return any(each.endswith(f"@{remote.digest}") for each in local.get("RepoDigests") or ())


def _asking(name: str) -> ImageProgress:
    return ImageProgress(image=name, status="Waiting for the registry to answer")


def _parted(name: str) -> tuple[str, str]:
    repository, _, tag = name.rpartition(":")
    return repository, tag


def reporter(cfg: Mapping[str, CfgVal]) -> Callable[[ImageProgress], None]:
    """Return a callback that logs the progress of pulls, builds and pushes, or nothing with the run option `quiet`."""
    if cfg.get("quiet"):
        return lambda _: None

    def report(progress: ImageProgress) -> None:
        level = logging.INFO if progress.current is None else logging.DEBUG
        text = f"{progress.status} {progress.layer}".rstrip()
        _log.log(level, "%s: %s", progress.image, text, extra={"progress": progress})

    return report
