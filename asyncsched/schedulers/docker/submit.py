"""Submitting: images, the network, then all containers of an app or none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asyncsched import __version__
from asyncsched._tasks import gather_bounded
from asyncsched.errors import ConflictError, NotFoundError, UnavailableError
from asyncsched.schedulers.docker import names
from asyncsched.schedulers.docker.ending_stop import AT_ONCE
from asyncsched.schedulers.docker.request import DockerContainer, DockerJob, completed, is_user_defined, to_wire
from asyncsched.schedulers.docker.status_containers import Container, read_container
from asyncsched.schedulers.validation import other_app
from asyncsched.workspace.image_names import is_content_tag

if TYPE_CHECKING:
    from asyncsched._dockerd import Daemon, PullPolicy
    from asyncsched.specs.dryrun import AppDryRunInfo
    from asyncsched.specs.image_progress import ImageProgress

__all__ = ["DockerSubmission", "prepare"]

_log = logging.getLogger("asyncsched.schedulers.docker")

_AGAIN = 0.1


async def prepare(
    daemon: Daemon, info: AppDryRunInfo[DockerJob], there: Sequence[Container]
) -> DockerSubmission | None:
    """Provide images and network for what is missing of an app; None if nothing is.

    Args:
        daemon: Where to.
        info: What is submitted.
        there: The containers of the app that are there.

    Raises:
        ConflictError: They are those of another app.
    """
    _check_same(info, there, daemon.backend)
    job = completed(info.request, info.app, session=info.session, version=__version__)
    by_name = {names.base_name(container.name): container for container in there}
    to_create = [container for container in job.containers if container.name not in by_name]
    # What another submit of this app, cut off half-way, has made but not started.
    waiting = {name: c.name for name, c in by_name.items() if c.state == "created" and not c.over}
    not_started = waiting.keys() | {container.name for container in to_create}
    to_start = [container for container in job.containers if container.name in not_started]
    if not to_start:
        return None
    await _provide_images(daemon, job, {container.image for container in to_create})
    networks = {each: await _provide_network(daemon, each) for each in dict.fromkeys(c.network for c in to_create)}
    return DockerSubmission(daemon, job, info.digest, networks, to_create, to_start, waiting)


def _check_same(info: AppDryRunInfo[DockerJob], there: Sequence[Container], backend: str) -> None:
    if any(container.identity.digest != info.digest for container in there):
        raise other_app(info.app_id, backend)


async def _provide_network(daemon: Daemon, network: str) -> str:
    from asyncsched._dockerd import ensure_network  # loaded by whoever has made the daemon, in a thread

    if not is_user_defined(network):
        return network
    return await ensure_network(daemon, network, {names.VERSION: __version__}, operation="submit")


async def _provide_images(daemon: Daemon, job: DockerJob, wanted: Collection[str]) -> None:
    from asyncsched._dockerd import provide_image

    def report(step: ImageProgress) -> None:
        if not job.quiet and step.current is None:
            _log.info("%s: %s %s", step.image, step.status, step.layer)

    async def provide(image: str) -> None:
        # What was built here of a workspace is in no registry, and cannot be outdated.
        policy: PullPolicy = "missing" if is_content_tag(image.rpartition(":")[2]) else job.pull
        await provide_image(daemon, image, policy, report, platform=job.platform)

    await gather_bounded(provide, [image for image in job.images if image in wanted], AT_ONCE)


class DockerSubmission:
    """One attempt to bring up what is missing of an app.

    Requests that have been sent are never cut off: `remove` waits for their answers, so that no container
    can appear after it was looked for.

    Args:
        daemon: Where to.
        job: The containers.
        digest: What the app's request is told by.
        networks: The ids of the networks by name, or the name where it is none of ours.
        to_create: The containers that are missing.
        to_start: Those, and what was made before and not started.
        waiting: What the containers are called now that another submit has made and not started.
    """

    def __init__(
        self,
        daemon: Daemon,
        job: DockerJob,
        digest: str,
        networks: Mapping[str, str],
        to_create: Sequence[DockerContainer],
        to_start: Sequence[DockerContainer],
        waiting: Mapping[str, str],
    ) -> None:
        self._daemon = daemon
        self._job = job
        self._digest = digest
        self._networks = networks
        self._to_create = to_create
        self._to_start = to_start
        self._not_ours = dict(waiting)
        self._made: dict[str, str] = {}  # names that were asked for, and their ids once the daemon has answered
        self._unanswered: set[str] = set()  # names that may have been taken by ourselves
        self._with_tmp: set[str] = set()  # roles whose containers have the directory of results
        self._given_up = False
        self._workers: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Create and start containers, several at a time; the first failure ends it."""
        await self._each(self._create, self._to_create)
        await self._each(self._start, self._to_start)

    async def remove(self) -> None:
        """Remove what `run` has made; it is called when `run` has failed or was cancelled."""
        # What else went wrong meanwhile is not told: the first failure is on its way to the caller.
        await asyncio.gather(*self._workers, return_exceptions=True)
        await gather_bounded(self._remove, list(self._made), AT_ONCE)

    async def _each(
        self, step: Callable[[DockerContainer], Coroutine[Any, Any, None]], todo: Sequence[DockerContainer]
    ) -> None:
        numbers = iter(range(len(todo)))

        async def work() -> None:
            for number in numbers:
                if self._given_up:
                    return
                await step(todo[number])

        self._workers = [asyncio.create_task(work()) for _ in range(min(AT_ONCE, len(todo)))]
        if not self._workers:
            return
        try:
            done, _ = await asyncio.wait(self._workers, return_when=asyncio.FIRST_EXCEPTION)
        except BaseException:
            self._given_up = True
            raise
        failures = [error for task in done if (error := task.exception()) is not None]
        if failures:
            self._given_up = True
            raise failures[0]

    async def _create(self, container: DockerContainer) -> None:
        while not await self._is_made(container):  # noqa: ASYNC110 - the daemon tells nobody when it gets on
            await asyncio.sleep(_AGAIN)

    async def _is_made(self, container: DockerContainer) -> bool:
        """Create a container; False if its name is taken by one that nobody can see yet, or any more."""
        self._made[container.name] = ""
        try:
            self._made[container.name] = await self._asked_for(container)
        except UnavailableError:
            raise  # nobody knows whether it was made
        except ConflictError as error:
            if container.name not in self._unanswered:
                del self._made[container.name]
            try:
                await self._accept_or_raise(container, error)
            except NotFoundError:
                return False
        except BaseException:
            del self._made[container.name]
            raise
        return True

    async def _asked_for(self, container: DockerContainer) -> str:
        """Have a container created; asks again where no answer came: it is told by its name if it was made already."""
        body = to_wire(container, self._networks[container.network], self._digest)

        async def create() -> str:
            try:
                return await self._daemon.create_container(container.name, body, operation="submit")
            except UnavailableError:
                self._unanswered.add(container.name)
                raise

        return await self._daemon.repeated(create)

    async def _accept_or_raise(self, container: DockerContainer, error: ConflictError) -> None:
        """Go on if the name is taken by this very replica, which another process has just made."""
        found = await self._daemon.inspect_container(container.name, operation="submit")
        has = names.read_identity(found["Config"].get("Labels") or {})
        if (has.app_id, has.digest) == (self._job.app_id, self._digest):
            self._not_ours[container.name] = container.name
            return
        raise ConflictError(
            f"the container name {container.name} is taken",
            why="it belongs to another app or to nobody that asyncsched knows",
            fix=f"remove it with `docker rm {container.name}`, or dry-run the app again for a new id",
            backend=error.backend,
            operation=error.operation,
        ) from error

    async def _start(self, container: DockerContainer) -> None:
        # By its name: a container that was cancelled meanwhile has another one, and must not be started.
        name = self._not_ours.get(container.name, container.name)
        try:
            if container.name in self._not_ours and not (name := await self._taken_over(name)):
                return
            if names.read_identity(container.kwargs["labels"]).result and container.role not in self._with_tmp:
                await self._provide_tmp(container.role, name)
            await self._daemon.start_container(name, operation="submit")
        except NotFoundError as error:
            # All its names begin alike. Another one may be missing, whose network was to be used.
            if f"no such container: {container.name}".lower() not in error.why.lower():
                raise
            if await self._is_with_another(container.name):
                return
            raise ConflictError(
                f"{self._job.app_id} was cancelled or removed while it was submitted",
                why=error.why,
                fix="dry-run it again for a new id if it is wanted after all",
                backend=error.backend,
                operation=error.operation,
            ) from error

    async def _taken_over(self, name: str) -> str:
        """Rename a container that another submit has made, and return its new name; empty if it was started.

        The other submit may be about to start it, and a second start would repeat what has ended by then. By its old
        name nothing can start it any more, and the daemon answers once it has done what was asked before.
        """
        new_name = names.taken_over(name)
        try:
            await self._daemon.rename_container(name, new_name, operation="submit")
        except NotFoundError as error:
            if "no such container" in error.why.lower():
                raise
            return ""  # it waits to be started again, and has no network until then
        found = await self._daemon.inspect_container(new_name, operation="submit")
        return new_name if found["State"]["Status"] == "created" else ""

    async def _is_with_another(self, base_name: str) -> bool:
        """Tell whether a container has a name by which another submit starts it."""
        found = await self._look_for(base_name)
        return found is not None and names.is_taken_over(found.name)

    async def _provide_tmp(self, role: str, name: str) -> None:
        """Make the directory of a replica's result where its image has none; those of a role are alike."""
        from asyncsched._dockerd import ensure_tmp  # loaded by whoever has made the daemon, in a thread

        if not await ensure_tmp(self._daemon, name, operation="submit"):
            self._with_tmp.add(role)

    async def _remove(self, name: str) -> None:
        """Remove a container, trying again while the daemon cannot be reached or may still be making it."""
        while True:
            try:
                # By its id: it has another name if it was cancelled meanwhile.
                if found := self._made[name] or await self._find(name):
                    await self._daemon.remove_container(found, force=True, operation="submit")
                return
            except UnavailableError:
                await asyncio.sleep(_AGAIN)  # until the caller's deadline

    async def _find(self, name: str) -> str:
        """Return the id of a container whose creation was not answered, if there is one; it may take a moment.

        One of its name that is not ours was there before: the answer that was lost has said so.
        """
        for pause in (_AGAIN, 5 * _AGAIN, 0):
            if (found := await self._look_for(name)) is not None:
                return found.id
            await asyncio.sleep(pause)
        return ""

    async def _look_for(self, base_name: str) -> Container | None:
        """Return the app's container that was made under this name, whatever it is called now."""
        ours = names.label_filters(self._job.app_id, self._digest)
        found = map(read_container, await self._daemon.list_containers(ours, operation="submit"))
        return next((each for each in found if names.base_name(each.name) == base_name), None)
