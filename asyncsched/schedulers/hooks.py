"""The hooks of `asyncsched.schedulers.Scheduler`, which a backend implements."""

from __future__ import annotations

import abc
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from asyncsched._tasks import gather_bounded
from asyncsched.errors import AsyncSchedError
from asyncsched.logs.query import LogQuery
from asyncsched.schedulers.lifetime import SchedulerBounds
from asyncsched.schedulers.responses import DescribeAppResponse, ListAppResponse
from asyncsched.schedulers.state_reports import Answers, StatePort, as_answer
from asyncsched.specs.app import AppDef, RetryPolicy
from asyncsched.specs.dryrun import AppDryRunInfo, Ignored, WorkspacePlan
from asyncsched.specs.names import derive_id, make_unique
from asyncsched.specs.run_options import CfgVal
from asyncsched.specs.state import AppState, ReplicaStatus
from asyncsched.specs.stream import Stream
from asyncsched.specs.to_plain import JsonValue

__all__ = ["TERMINAL", "OptsT", "RequestT", "SchedulerHooks", "WorkspaceBuilder"]

TERMINAL = frozenset(state for state in AppState if state.is_terminal())
"""The final states of an app."""

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from asyncsched.logs.source import LogSource

    OptsT = TypeVar("OptsT", default=Any)
    RequestT = TypeVar("RequestT", default=Any)
else:
    from typing import TypeVar

    OptsT, RequestT = TypeVar("OptsT"), TypeVar("RequestT")


class WorkspaceBuilder(Protocol):
    """Brings the files of a workspace to where an app runs; created for a scheduler at its first workspace."""

    def __init__(self, scheduler: Any) -> None: ...

    async def preview(self, app: AppDef, workspace: str, cfg: Mapping[str, CfgVal]) -> WorkspacePlan:
        """Read the workspace, and return what would be built, without building it or changing `app`.

        Args:
            app: The app to run.
            workspace: A directory or a URL, as the caller gave it.
            cfg: The run options.

        Raises:
            WorkspaceError: It cannot be read.
        """
        ...

    async def build(self, plan: WorkspacePlan, app_id: str) -> None:
        """Build the plan of a dry-run; called after the check that the app's id is free. Cancelling leaves nothing.

        Raises:
            WorkspaceError: The files have changed since the dry-run, or the build failed.
        """
        ...

    async def push(self, images: Mapping[str, tuple[str, str]]) -> None:
        """Push local images (keys) to a repository and tag (values); existing ones are skipped."""
        ...


class SchedulerHooks(SchedulerBounds, abc.ABC, Generic[OptsT, RequestT]):
    """The part of a scheduler that differs between backends.

    Attributes:
        options: The class of the run options: a frozen dataclass with typed, documented fields.
        log_streams: The streams that the service can separate.
        describe_batch: Most apps that one call describes.
        describe_at_once: How many calls run at a time if each describes one app.
        cancel_at_once: How many calls run at a time if each cancels one app.
        pushes_states: Whether `_push_states` reports changes; otherwise the apps are polled.
        calls_per_second: Most calls per second of the shared poll.
        poll_interval: Fewest seconds between two polls.
        runs_here: Whether apps run on this machine: a terminal follows the app that it launched, and Ctrl-C ends it.
        ends_with_submitter: Whether an app ends with its submitting process, unless the option ``detach`` is set.
        is_billed: Whether an app costs money while it runs; then a submit without a timeout logs a warning, once.
        can_kill: Whether `kill` ends an app sooner than `cancel` does.
        keeps_cancelled_logs: Whether the log of a cancelled app can still be read.
        keeps_attempts: Whether the lines of every attempt stay until the app is deleted.
        takes_bytes: Whether arguments and values of variables may contain bytes that are not UTF-8, which are
            surrogates in Python's strings. Other backends refuse such an app.
        takes_secret_refs: Whether the service fills in environment values that are a `SecretRef`.
        most_replicas: Most replicas of an app; a dry-run refuses more before it makes the request. None if the backend
            checks that itself.
        ignores: The fields of a role that have no effect here, and why. They are keys of ``ignored.FIELDS``.
        capabilities: The capabilities of a resource that are used here; others are reported like an ignored field.
            None if `ignores` covers all of them.
        made_from: The fields of a role from which each part of a request is made. If that part was edited, `describe`
            leaves out these fields. Empty: an edited request leaves out all of them.
        retry_policies: The supported retry policies of a role.
        workspace_builder: Creates the builder of workspaces for a scheduler; None without support for workspaces.
        has_images: Whether apps run from images. If not, a workspace in a ``.torchxconfig`` is not used, because TorchX
            does not use it there either.
    """

    if not TYPE_CHECKING:

        def __class_getitem__(cls, given: Any) -> Any:
            """Fill in Any for missing arguments, as the defaults of the type variables say."""
            given = given if isinstance(given, tuple) else (given,)
            return super().__class_getitem__((*given, *(Any for _ in cls.__parameters__[len(given) :])))

    # Not annotated as ClassVar, although it is one: a ClassVar may not contain a type variable (PEP 526).
    options: type[OptsT]
    log_streams: ClassVar[frozenset[Stream]] = frozenset(Stream)
    describe_batch: ClassVar[int] = 100
    describe_at_once: ClassVar[int] = 16
    cancel_at_once: ClassVar[int] = 16
    pushes_states: bool = False
    calls_per_second: float = 10.0
    poll_interval: float = 0.5
    runs_here: ClassVar[bool] = False
    ends_with_submitter: ClassVar[bool] = False
    is_billed: ClassVar[bool] = False
    can_kill: ClassVar[bool] = False
    keeps_cancelled_logs: ClassVar[bool] = True
    keeps_attempts: ClassVar[bool] = True
    takes_bytes: ClassVar[bool] = False
    takes_secret_refs: ClassVar[bool] = False
    most_replicas: ClassVar[int | None] = None
    ignores: ClassVar[Mapping[str, str]] = {}
    capabilities: ClassVar[frozenset[str] | None] = None
    made_from: ClassVar[Mapping[str, Collection[str]]] = {}
    retry_policies: ClassVar[frozenset[RetryPolicy]] = frozenset(RetryPolicy)
    # The type allows a class too, because a plain function would become a bound method.
    workspace_builder: ClassVar[type[WorkspaceBuilder] | Callable[[Any], WorkspaceBuilder] | None] = None
    has_images: ClassVar[bool] = True

    @property
    def place(self) -> str:
        """The place where apps run, for people; empty if the handle says it, or it is not known yet."""
        return ""

    async def _warm_up(self) -> None:
        """Prepare what the first submit would wait for; does nothing by default."""

    @abc.abstractmethod
    async def _request(self, app: AppDef, options: OptsT, app_id: str) -> RequestT:
        """Return the request for this app: a plain value that prints readably. It must not change anything.

        `app` is a copy and may be changed. Secrets stay `Secret` until they are sent.
        """

    async def _patched_request(self, app: AppDef, options: OptsT, app_id: str, plan: WorkspacePlan) -> RequestT:
        """Return the request for an app with a workspace; `app` names the images that will be built.

        By default it is the result of `_request`.
        """
        return await self._request(app, options, app_id)

    def _named(self, request: RequestT) -> str | None:
        """Return the app's id in a request, None if it has none; by default its `app_id`.

        A dry-run whose request has another id than the dry-run is refused.
        """
        return getattr(request, "app_id", None)

    def _adopt(self, request: RequestT) -> tuple[str, RequestT]:
        """Return the app's id and the request to send, for a request that was made by hand; change nothing.

        By default it returns the id from `_named`, and the request unchanged.
        """
        return self._named(request) or "", request

    def _ignored(self, app: AppDef, options: OptsT) -> Iterable[Ignored]:
        """Return the settings of the app that have no effect; by default those that the class declares."""
        from asyncsched.schedulers.ignored import find_ignored  # loaded with the first scheduler

        return find_ignored(app, self.ignores, self.retry_policies, self.backend, self.capabilities)

    @abc.abstractmethod
    async def _schedule(self, info: AppDryRunInfo[RequestT]) -> None:
        """Submit the app, all or nothing, as `info.app_id`; return if that app was submitted before.

        Compare `info.digest` with the one stored with an app of that id and raise `ConflictError` if they differ.
        Run everything from the first creating request on inside `_or_removed`.
        """

    def _scheduled_id(self, app_id: str) -> str:
        """Return the final id of an app that was scheduled with this id: the same, if the backend can choose it."""
        return app_id

    @abc.abstractmethod
    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        """Describe one app; return None if the service does not know it."""

    async def _describe_many(self, app_ids: Sequence[str]) -> Answers:
        """Describe up to `describe_batch` apps; an error for a single app is its answer."""

        async def one(app_id: str) -> tuple[str, DescribeAppResponse | AsyncSchedError | None]:
            try:
                return app_id, await self._describe(app_id)
            except AsyncSchedError as error:
                return app_id, as_answer(error)

        return dict(await gather_bounded(one, app_ids, self.describe_at_once))

    async def _sweep(self, app_ids: Sequence[str]) -> AsyncGenerator[Answers]:
        """Describe all of these apps, yielding one item per call; override it for a better way than batches."""
        for start in range(0, len(app_ids), self.describe_batch):
            yield await self._describe_many(app_ids[start : start + self.describe_batch])

    async def _push_states(self, port: StatePort) -> None:
        """Report changes to `port` until the connection breaks; used if `pushes_states` is set.

        Call ``port.connected()`` once reports come in. To follow the set of watched apps, set ``port.on_add`` and
        ``port.on_discard`` and begin with ``port.app_ids``. After a retryable error, or a return, this is called again
        after a pause.
        """
        raise NotImplementedError

    @abc.abstractmethod
    async def _cancel(self, app_id: str) -> None:
        """Request the app's end; ignore unknown and ended apps. Leave a mark that other processes can see."""

    async def _kill(self, app_id: str) -> None:
        """End an app at once, even during its grace period; implement it if `can_kill` is set."""
        await self._cancel(app_id)

    @abc.abstractmethod
    async def _delete(self, app_id: str) -> None:
        """Remove an app that has ended; raise `ConflictError` for one that has not."""

    async def _results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        """Return the results of replicas; None if they cannot be read."""
        return None

    @abc.abstractmethod
    def _list(self) -> AsyncGenerator[ListAppResponse]:
        """Yield a row for each app that asyncsched submitted here, newest first; fetch pages only when needed."""

    @abc.abstractmethod
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        """Return log sources for these replicas, one or several each; called once per replica of a stream.

        A source reads from `query.since_ns` on if it can (the engine filters again), and follows its replica if
        `query.tail` is set. `LogSource.observe` reports the replica's changes, and `LogSource.finish` the app's end.
        """

    async def _close(self) -> None:
        """Release the backend's resources, within `cleanup_timeout`; errors are logged."""

    def _app_id(self, app: AppDef, options: OptsT, key: str | None) -> str:
        """Return the id for an app: unique, or derived only from session and key.

        The id must not depend on the app, so that another app with the same key gets the same id and is refused.
        """
        return make_unique(app.name) if key is None else derive_id(key, self.session_name)
