"""What containers of an app hold that no list tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from asyncsched._tasks import gather_bounded
from asyncsched.errors import NotFoundError
from asyncsched.schedulers.docker import names
from asyncsched.specs.plain import JsonValue
from asyncsched.specs.result import LARGEST_RESULT, UnreadableResult, read_result

if TYPE_CHECKING:
    from asyncsched._dockerd import Daemon
    from asyncsched.schedulers.docker.status import Container

__all__ = ["read_results"]

_AT_ONCE = 8


async def read_results(daemon: Daemon, members: Iterable[Container]) -> Mapping[tuple[str, int], JsonValue]:
    """Return what replicas have written to their result files, also those that have ended."""
    from asyncsched._dockerd import read_file  # loaded by whoever has made the daemon, in a thread

    found: dict[tuple[str, int], JsonValue] = {}

    async def read(container: Container) -> None:
        place, path = (container.role, container.replica), container.labels[names.RESULT]
        try:
            found[place] = read_result(
                await read_file(daemon, container.id, path, LARGEST_RESULT + 1, operation="results")
            )
        except NotFoundError:
            pass  # it has written none
        except ValueError as error:
            found[place] = UnreadableResult(f"the result {error}")

    with_label = [each for each in members if names.RESULT in each.labels and not each.identity.fault]
    await gather_bounded(read, with_label, _AT_ONCE)
    return {place: found[place] for each in with_label if (place := (each.role, each.replica)) in found}
