"""Submit an app: pull images, provide the network, then create all of its containers or none."""

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
from asyncsched.schedulers.request_checks import other_app
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
    """Provide images and network for an app's missing containers; return None if none is missing.

    Args:
        daemon: The daemon to submit to.
        info: The dry-run to submit.
        there: The app's existing containers.

    Raises:
        ConflictError: The existing containers belong to another app.
    """
    _check_same(info, there, daemon.backend)
    job = completed(info.request, info.app, session=info.session, version=__version__)
    by_name = {names.base_name(container.name): container for container in there}
    to_create = [container for container in job.containers if container.name not in by_name]
    # Containers that another submit of this app created but did not start before it was cut off.
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
    from asyncsched._dockerd import ensure_network  # already imported in a thread when the daemon was created

    if not is_user_defined(network):
        return network
    return await ensure_network(daemon, network, {names.VERSION: __version__}, operation="submit")


async def _provide_images(daemon: Daemon, job: DockerJob, wanted: Collection[str]) -> None:
    from asyncsched._dockerd import provide_image

    def report(step: ImageProgress) -> None:
        if not job.quiet and step.current is None:
            _log.info("%s: %s %s", step.image, step.status, step.layer)

    async def provide(image: str) -> None:
        # An image that was built here from a workspace is in no registry, and cannot be outdated.
        policy: PullPolicy = "missing" if is_content_tag(image.rpartition(":")[2]) else job.pull
        await provide_image(daemon, image, policy, report, platform=job.platform)

    await gather_bounded(provide, [image for image in job.images if image in wanted], AT_ONCE)


class DockerSubmission:
    """One attempt to start an app's missing containers.

    Requests that have been sent are never cut off: `remove` waits for their answers, so that no container can appear
    after it was looked for.

    Args:
        daemon: The daemon to submit to.
        job: The containers.
        digest: The digest that identifies the app's request.
        networks: The ids of the networks by name, or the name of a network that is not asyncsched's.
        to_create: The containers that are missing.
        to_start: Those, and the ones that were created before but not started.
        waiting: The current names of the containers that another submit has created and not started.
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
        self._made: dict[str, str] = {}  # requested names, and their ids once the daemon has answered
        self._unanswered: set[str] = set()  # names that this launch may have taken
        self._with_tmp: set[str] = set()  # roles whose containers have the directory for results
        self._given_up = False
        self._workers: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Create and start containers, several at a time; the first failure ends it."""
        await self._each(self._create, self._to_create)
        await self._each(self._start, self._to_start)

    async def remove(self) -> None:
        """Remove what `run` has created; called when `run` has failed or was cancelled."""
        # Further errors are not reported: the first failure is on its way to the caller.
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
        while not await self._is_made(container):  # noqa: ASYNC110 - the daemon does not report its progress
            await asyncio.sleep(_AGAIN)

    async def _is_made(self, container: DockerContainer) -> bool:
        """Create a container; return False if its name belongs to one that is not visible yet, or no longer."""
        self._made[container.name] = ""
        try:
            self._made[container.name] = await self._asked_for(container)
        except UnavailableError:
            raise  # it may have been created
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
        """Request a container; repeat the request if no answer came: its name shows if it was created already."""
        body = to_wire(container, self._networks[container.network], self._digest)

        async def create() -> str:
            try:
                return await self._daemon.create_container(container.name, body, operation="submit")
            except UnavailableError:
                self._unanswered.add(container.name)
                raise

        return await self._daemon.repeated(create)

    async def _accept_or_raise(self, container: DockerContainer, error: ConflictError) -> None:
        """Continue if the name belongs to this very replica, which another process has just created."""
        found = await self._daemon.inspect_container(container.name, operation="submit")
        has = names.read_identity(names.own_labels(found["Config"].get("Labels") or {}, found["Name"]))
        if (has.app_id, has.digest) == (self._job.app_id, self._digest):
            self._not_ours[container.name] = container.name
            return
        raise ConflictError(
            f"the container name {container.name} is taken",
            why="it belongs to another app, or to a container that asyncsched did not create",
            fix=f"remove it with `docker rm {container.name}`, or dry-run the app again for a new id",
            backend=error.backend,
            operation=error.operation,
        ) from error

    async def _start(self, container: DockerContainer) -> None:
        # By its name: a container that has been cancelled meanwhile has another name, and must not be started.
        name = self._not_ours.get(container.name, container.name)
        try:
            if container.name in self._not_ours and not (name := await self._taken_over(name)):
                return
            if names.read_identity(container.kwargs["labels"]).result and container.role not in self._with_tmp:
                await self._provide_tmp(container.role, name)
            await self._daemon.start_container(name, operation="submit")
        except NotFoundError as error:
            # All of its names begin alike. The missing container may be another one, whose network was to be used.
            if f"no such container: {container.name}".lower() not in error.why.lower():
                raise
            if await self._is_with_another(container.name):
                return
            raise ConflictError(
                f"{self._job.app_id} was cancelled or removed while it was submitted",
                why=error.why,
                fix="dry-run it again for a new id if you still want to run it",
                backend=error.backend,
                operation=error.operation,
            ) from error

    async def _taken_over(self, name: str) -> str:
        """Rename a container that another submit has created, and return its new name; empty if it was started.

        The other submit may be about to start it, and a second start would repeat a run that has ended by then. Nothing
        can start it by its old name then, and the daemon answers after it has done what was requested before.
        """
        new_name = names.taken_over(name)
        try:
            await self._daemon.rename_container(name, new_name, operation="submit")
        except NotFoundError as error:
            if "no such container" in error.why.lower():
                raise
            return ""  # it waits to be restarted, and has no network until then
        found = await self._daemon.inspect_container(new_name, operation="submit")
        return new_name if found["State"]["Status"] == "created" else ""

    async def _is_with_another(self, base_name: str) -> bool:
        """Return whether a container has a name by which another submit starts it."""
        found = await self._look_for(base_name)
        return found is not None and names.is_taken_over(found.name)

    async def _provide_tmp(self, role: str, name: str) -> None:
        """Create the directory of a replica's result if its image has none; the containers of a role are alike."""
        from asyncsched._dockerd import ensure_tmp  # already imported in a thread when the daemon was created

        if not await ensure_tmp(self._daemon, name, operation="submit"):
            self._with_tmp.add(role)

    async def _remove(self, name: str) -> None:
        """Remove a container; try again while the daemon cannot be reached or may still be creating it."""
        while True:
            try:
                # By its id: it has another name if it has been cancelled meanwhile.
                if found := self._made[name] or await self._find(name):
                    await self._daemon.remove_container(found, force=True, operation="submit")
                return
            except UnavailableError:
                await asyncio.sleep(_AGAIN)  # until the caller's deadline

    async def _find(self, name: str) -> str:
        """Return the id of a container whose creation was not answered, if it exists; it may take a moment to appear.

        A container of this name that is not ours would have been reported by an earlier answer.
        """
        for pause in (_AGAIN, 5 * _AGAIN, 0):
            if (found := await self._look_for(name)) is not None:
                return found.id
            await asyncio.sleep(pause)
        return ""

    async def _look_for(self, base_name: str) -> Container | None:
        """Return the app's container that was created under this name, whatever its name is now."""
        ours = names.label_filters(self._job.app_id, self._digest)
        found = map(read_container, await self._daemon.list_containers(ours, operation="submit"))
        return next((each for each in found if each.labels and names.base_name(each.name) == base_name), None)
