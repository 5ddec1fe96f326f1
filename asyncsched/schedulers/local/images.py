"""Find the directory of a role's image, and the machine's GPUs."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias, cast

from asyncsched._typing import override
from asyncsched.errors import ConfigError, RunOptionError, SchedulerError
from asyncsched.logs.loop_time import budget_of
from asyncsched.schedulers._common.program import Programs
from asyncsched.schedulers._common.working_directory import working_directory
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.masking import masked
from asyncsched.specs.run_options import CfgVal
from asyncsched.specs.secret import masked_env

__all__ = [
    "CWDImageProvider",
    "Fetched",
    "ImageProvider",
    "LocalDirectoryImageProvider",
    "MakeProvider",
    "ReplicaParam",
    "WorkspaceProvider",
    "count_devices",
    "fetch_roles",
    "make_provider",
    "named_directory",
]

DRIVER = Path("/proc/driver/nvidia/gpus")
PATIENCE = 10.0
"""Seconds to wait for the driver, which may be slow to answer at first."""


Directory: TypeAlias = "str | os.PathLike[str]"


@dataclass(repr=False)
class ReplicaParam:
    """The command, environment and files of one replica.

    Args:
        args: The program and its arguments.
        env: Variables that are added to the submitter's environment.
        stdout: The file of its standard output; None if both streams share one pipe.
        stderr: The file of its standard error.
        combined: The file of both.
        cwd: Its working directory.
    """

    args: list[str]
    env: dict[str, str]
    stdout: str | None = None
    stderr: str | None = None
    combined: str | None = None
    cwd: str | None = None

    def __repr__(self) -> str:
        shown = vars(self) | {"args": masked(self.args), "env": masked_env(self.env)}
        return f"ReplicaParam({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class ImageProvider(abc.ABC):
    """Finds, or fetches, the directory of an image.

    A provider is created for each submit. Its methods are plain functions; `fetch` and `fetch_role`, which may be
    slow, are called in a worker thread, and may also be coroutines.

    Args:
        cfg: The run options of the submit, passed if the constructor takes an argument.

    Attributes:
        cfg: The run options, once the constructor has returned.
    """

    cfg: Mapping[str, CfgVal] = MappingProxyType({})

    def __init__(self, cfg: Mapping[str, CfgVal] | None = None) -> None:
        if cfg is not None:
            self.cfg = cfg

    @abc.abstractmethod
    def fetch(self, image: str) -> Directory | Awaitable[Directory]:
        """Return the directory of an image; fetch it if needed. A dry-run calls this too."""

    def fetch_role(self, role: Role) -> Directory | Awaitable[Directory]:
        """Return the directory of a role's image; override it to change the role too, which is a copy."""
        return self.fetch(role.image)

    def get_cwd(self, image: str) -> str | None:
        """Return the working directory of replicas; None means the submitter's."""
        return None

    def get_entrypoint(self, img_root: str, role: Role) -> str:
        """Return the program: by default the role's entrypoint in the image's directory."""
        return os.path.join(img_root, role.entrypoint)  # noqa: PTH118 - a Path would drop the "./" of "./run"

    def get_replica_param(
        self,
        img_root: str,
        role: Role,
        stdout: str | None = None,
        stderr: str | None = None,
        combined: str | None = None,
    ) -> ReplicaParam:
        """Return the parameters of a replica; the macros of `role` are filled in."""
        return ReplicaParam(
            args=[self.get_entrypoint(img_root, role), *role.args],
            env=dict(role.env),
            stdout=stdout,
            stderr=stderr,
            combined=combined,
            cwd=self.get_cwd(role.image),
        )


class CWDImageProvider(ImageProvider):
    """Ignores the image; everything runs in the submitter's working directory."""

    @override
    def fetch(self, image: str) -> str:
        return working_directory()

    @override
    def get_cwd(self, image: str) -> str | None:
        return working_directory()

    @override
    def get_entrypoint(self, img_root: str, role: Role) -> str:
        """Return the role's entrypoint; it is found in ``PATH`` or, with a slash, from the working directory."""
        return role.entrypoint


class WorkspaceProvider(CWDImageProvider):
    """Runs everything in the copy of the app's workspace, a directory that exists once the app does.

    Args:
        directory: The directory.
    """

    def __init__(self, directory: str) -> None:
        super().__init__()
        self._directory = directory

    @override
    def fetch(self, image: str) -> str:
        return self._directory

    @override
    def get_cwd(self, image: str) -> str | None:
        return self._directory


class LocalDirectoryImageProvider(ImageProvider):
    """Uses the image as the absolute path of a directory, in which the program starts."""

    @override
    def fetch(self, image: str) -> str:
        if not Path(image).is_absolute():
            raise ConfigError(
                f"image must be an absolute path, got {image!r}",
                why="an image is a directory on this machine here",
                fix="write the full path",
            )
        if not Path(image).is_dir():
            raise ConfigError(f"image must be a directory, got {image!r}", fix="create it, or correct the role's image")
        return image

    @override
    def get_cwd(self, image: str) -> str | None:
        return image

    @override
    def get_entrypoint(self, img_root: str, role: Role) -> str:
        """Return the role's entrypoint; it is found in ``PATH`` or, with a slash, from the image's directory."""
        return role.entrypoint


MakeProvider = Callable[[Mapping[str, CfgVal]], ImageProvider] | Callable[[], ImageProvider]
"""Makes the provider of a submit, from the run options or without arguments; usually its class."""


def make_provider(make: MakeProvider, cfg: Mapping[str, CfgVal]) -> ImageProvider:
    """Make the provider of a submit; if its constructor takes no arguments, the run options are set as its `cfg`."""
    try:
        inspect.signature(make).bind()
    except TypeError:
        return cast("Callable[[Mapping[str, CfgVal]], ImageProvider]", make)(cfg)
    provider = cast("Callable[[], ImageProvider]", make)()
    with contextlib.suppress(AttributeError):  # a provider may define a read-only `cfg`
        provider.cfg = cfg
    return provider


@dataclass(frozen=True, eq=False, repr=False)
class Fetched:
    """A role's image on this machine.

    Attributes:
        provider: The provider that fetched it.
        root: Its directory.
        cwd: The working directory of replicas, if the provider sets one.
        submitter_cwd: The submitter's working directory, used otherwise.
    """

    provider: ImageProvider
    root: str
    cwd: str
    submitter_cwd: str

    def replica(self, role: Role, **files: str) -> ReplicaParam:
        """Return the parameters of a replica; the macros of `role` are filled in."""
        param = self.provider.get_replica_param(self.root, role, **files)
        param.args = [os.fspath(word) for word in param.args]  # a provider's methods may return a Path
        param.cwd = os.fspath(param.cwd or self.submitter_cwd)
        return param


async def fetch_roles(app: AppDef, provider: ImageProvider) -> dict[str, Fetched]:
    """Fetch the images of an app's roles, which are copies that the provider may change."""
    found: dict[str, Fetched] = {}
    here = working_directory()
    budget = budget_of(asyncio.get_running_loop())
    await budget.breathe(begun=True)  # many submits may get here at once
    for role in app.roles:
        root = await _fetched(provider, role)
        await budget.breathe(begun=True)  # the threads of many may have ended at once
        found[role.name] = Fetched(provider, root, os.fspath(provider.get_cwd(role.image) or ""), here)
    return found


async def _fetched(provider: ImageProvider, role: Role) -> str:
    awaited = inspect.iscoroutinefunction(provider.fetch_role)
    root = provider.fetch_role(role) if awaited else await asyncio.to_thread(provider.fetch_role, role)
    found = cast("object", await root if inspect.isawaitable(root) else root)  # a provider may return any type
    path = os.fspath(cast("Directory", found)) if isinstance(found, (str, os.PathLike)) else found
    if isinstance(path, str) and path:
        return path
    raise ConfigError(
        f"{type(provider).__name__} returned {found!r} for the image {role.image!r} of role {role.name!r}",
        why="fetch and fetch_role must return the image's directory, as a str or a Path",
        fix="return the directory, or raise an error that says why there is none",
    )


def named_directory(named: str) -> Path:
    """Return the directory that the user named for logs."""
    try:
        return Path(working_directory(), Path(named).expanduser())
    except RuntimeError as error:
        raise RunOptionError(f"log_dir names an unknown home directory, got {named!r}", key="log_dir") from error


async def count_devices(programs: Programs) -> int:
    """Return how many GPUs the driver reports."""
    # Some containers, and Linux under Windows, have only the program nvidia-smi.
    return await asyncio.to_thread(_count_in_driver) or await _count_listed(programs)


def _count_in_driver() -> int:
    try:
        return len(list(DRIVER.iterdir()))
    except OSError:
        return 0


async def _count_listed(programs: Programs) -> int:
    try:
        listed = await programs.run(["nvidia-smi", "-L"], operation="submit_dryrun", timeout=PATIENCE)
    except SchedulerError:
        return 0
    # The parts of a partitioned GPU are listed below it, indented.
    return 0 if listed.code else sum(line.startswith("GPU") for line in listed.text.splitlines())
