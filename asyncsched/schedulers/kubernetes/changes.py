"""What changes in a namespace: one list and one watch of each resource for all apps, shared by all who look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from asyncsched.clock import Clock
from asyncsched.schedulers.kubernetes.client import KubeClient

if TYPE_CHECKING:
    from asyncsched.schedulers.kubernetes.status_pods import PodRecord

__all__ = ["Reflector", "Reflectors"]

RecordT = TypeVar("RecordT")


class Reflector(Generic[RecordT]):
    """The objects of one resource in one namespace that carry our label, kept by a list and a watch.

    It runs from its first subscriber to its last; a record is replaced as a whole by the next version of its object.

    Attributes:
        synced: Whether `snapshot` shows what there is; False before the first list, and while the server is away.
    """

    synced: bool

    def subscribe(self, app: str, told: Callable[[str], None]) -> Callable[[], None]:
        """Have `told` called with the app's name after each change of its objects; returns what ends that.

        It is called, too, when the first list is there, after every other list, and when `failure` was set.

        Args:
            app: The name of the app (the value of its label), or "" for all apps.
            told: Must not block; reads `snapshot`.
        """
        raise NotImplementedError

    def snapshot(self, app: str) -> Sequence[RecordT]:
        """Return the records of an app, in the order of their names."""
        raise NotImplementedError

    async def ready(self) -> None:
        """Wait until `synced`; only while subscribed.

        Raises:
            SchedulerError: The server refuses the list or the watch for good.
        """
        raise NotImplementedError


class Reflectors:
    """The reflectors of one client, made when they are asked for."""

    def __init__(self, client: KubeClient, *, clock: Clock) -> None: ...

    def pods(self, namespace: str) -> Reflector[PodRecord]:
        """Return the reflector of a namespace's pods."""
        raise NotImplementedError

    async def close(self) -> None:
        """End all of them."""
        raise NotImplementedError
