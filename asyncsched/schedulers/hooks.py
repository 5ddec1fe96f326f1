"""What a backend supplies: the hooks below `asyncsched.schedulers.Scheduler`."""

from __future__ import annotations

import abc
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from asyncsched._tasks import gather_bounded
from asyncsched.errors import AsyncSchedError
from asyncsched.logs.query import LogQuery
from asyncsched.schedulers.ignored import find_ignored
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
"""The states in which an app has ended."""

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from asyncsched.logs.source import LogSource

    OptsT = TypeVar("OptsT", default=Any)
    RequestT = TypeVar("RequestT", default=Any)
else:
    from typing import TypeVar

    OptsT, RequestT = TypeVar("OptsT"), TypeVar("RequestT")


class WorkspaceBuilder(Protocol):
    """Brings the files of a workspace to where an app runs; made of a scheduler, at its first workspace."""

    def __init__(self, scheduler: Any) -> None: ...

    async def preview(self, app: AppDef, workspace: str, cfg: Mapping[str, CfgVal]) -> WorkspacePlan:
        """Read the workspace, and return what would be built of it; build nothing, and leave `app` as it is.

        Args:
            app: What is to run.
            workspace: A directory or a URL, as the caller has named it.
            cfg: The run options.

        Raises:
            WorkspaceError: It cannot be read.
        """
        ...

    async def build(self, plan: WorkspacePlan, app_id: str) -> None:
        """Build what a dry-run has shown; called once the app's id is known not to be taken. Cancelling leaves nothing.

        Raises:
            WorkspaceError: The files have changed since, or the build failed.
        """
        ...

    async def push(self, images: Mapping[str, tuple[str, str]]) -> None:
        """Push local images (keys) to a repository and under a tag (values); those that are there are passed over."""
        ...


class SchedulerHooks(SchedulerBounds, abc.ABC, Generic[OptsT, RequestT]):
    """The side of a scheduler that differs from backend to backend.

    Attributes:
        options: The class of the run options: a frozen dataclass with typed, documented fields.
        log_streams: The streams that the service can tell apart.
        describe_batch: How many apps one call describes at most.
        describe_at_once: How many calls run at a time where each describes one app.
        cancel_at_once: How many calls run at a time where each cancels one app.
        pushes_states: Whether `_push_states` reports changes; else the apps are asked for again and again.
        calls_per_second: How many calls the shared poll may make in a second.
        poll_interval: The least number of seconds between two polls.
        runs_here: Whether apps run on this machine: a terminal follows the one that it launched, and Ctrl-C ends it.
        ends_with_submitter: Whether an app ends with the process that submitted it, unless an option ``detach`` is set.
        is_billed: Whether an app costs money for as long as it runs: a submit without a timeout is told so, once.
        can_kill: Whether `kill` ends an app sooner than `cancel` does.
        keeps_cancelled_logs: Whether the log of an app that was cancelled can still be read.
        keeps_attempts: Whether the lines of an attempt that nobody has read stay until the app is deleted.
        takes_bytes: Whether arguments and values of variables may hold bytes that are no UTF-8, which are surrogates in
            texts of Python. An app that holds some is refused elsewhere.
        takes_secret_refs: Whether the service fills in environment values that are a `SecretRef`.
        ignores: The fields of a role that have no effect here, and why. They are among ``ignored.FIELDS``.
        capabilities: The capabilities of a resource that are read here; others are told like a field that is ignored.
            None where `ignores` says all there is to say.
        made_from: By a name that stands in a request, the fields of a role that it is made from, which are not told of
            an app whose request was edited there. Empty: none of them is told of an app whose request was edited.
        retry_policies: Which replicas are started again after a failure, as a role may ask for it.
        workspace_builder: Makes, of the scheduler, what builds a workspace; None where a workspace cannot be given.
        has_images: Whether apps run from images. Where they do not, a workspace that a ``.torchxconfig`` names is not
            used: TorchX has none there.
    """

    if not TYPE_CHECKING:

        def __class_getitem__(cls, given: Any) -> Any:
            """Take what is left out to be Any, as the defaults of the type variables say."""
            given = given if isinstance(given, tuple) else (given,)
            return super().__class_getitem__((*given, *(Any for _ in cls.__parameters__[len(given) :])))

    # Not a ClassVar, although it is one: a ClassVar may not hold a type variable (PEP 526).
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
    ignores: ClassVar[Mapping[str, str]] = {}
    capabilities: ClassVar[frozenset[str] | None] = None
    made_from: ClassVar[Mapping[str, Collection[str]]] = {}
    retry_policies: ClassVar[frozenset[RetryPolicy]] = frozenset(RetryPolicy)
    # A class as well: a function alone would be one that is bound to the scheduler.
    workspace_builder: ClassVar[type[WorkspaceBuilder] | Callable[[Any], WorkspaceBuilder] | None] = None
    has_images: ClassVar[bool] = True

    @property
    def place(self) -> str:
        """Where apps run, as far as a handle does not say it, for people; empty where it does, or is not known yet."""
        return ""

    async def _warm_up(self) -> None:
        """Begin what the first submit would wait for; nothing by default."""

    @abc.abstractmethod
    async def _request(self, app: AppDef, options: OptsT, app_id: str) -> RequestT:
        """Return what would be sent for this app: a plain value that prints readably. Changes nothing anywhere.

        `app` is a copy of the caller's and may be changed. Secrets stay `Secret` until they are sent.
        """

    async def _patched_request(self, app: AppDef, options: OptsT, app_id: str, plan: WorkspacePlan) -> RequestT:
        """Return what would be sent for an app with a workspace; `app` names the images that will be built.

        By default it is what `_request` makes of it.
        """
        return await self._request(app, options, app_id)

    def _named(self, request: RequestT) -> str | None:
        """Return the id of the app that a request names, None where it names none; by default its `app_id`.

        A dry-run whose request names another app than its own is refused.
        """
        return getattr(request, "app_id", None)

    def _adopt(self, request: RequestT) -> tuple[str, RequestT]:
        """Return the app's id and the request to send, for one that was put together by hand; change nothing.

        By default the id is the one that `_named` returns, and the request is sent as it is.
        """
        return self._named(request) or "", request

    def _ignored(self, app: AppDef, options: OptsT) -> Iterable[Ignored]:
        """Return what the app asks for and does not get; by default what the class declares of it."""
        return find_ignored(app, self.ignores, self.retry_policies, self.backend, self.capabilities)

    @abc.abstractmethod
    async def _schedule(self, info: AppDryRunInfo[RequestT]) -> None:
        """Send it, all or nothing, under `info.app_id`; return if that app was submitted before.

        Compare `info.digest` with the one stored with an app of that id and raise `ConflictError` if they differ.
        Everything from the first committing request on stands inside `_or_removed`.
        """

    def _scheduled_id(self, app_id: str) -> str:
        """Return the id of an app that was scheduled under this one: the same, where the backend can choose it."""
        return app_id

    @abc.abstractmethod
    async def _describe(self, app_id: str) -> DescribeAppResponse | None:
        """Return what is known of one app, None if the service does not know it."""

    async def _describe_many(self, app_ids: Sequence[str]) -> Answers:
        """Describe up to `describe_batch` apps; an error of one app alone is its answer."""

        async def one(app_id: str) -> tuple[str, DescribeAppResponse | AsyncSchedError | None]:
            try:
                return app_id, await self._describe(app_id)
            except AsyncSchedError as error:
                return app_id, as_answer(error)

        return dict(await gather_bounded(one, app_ids, self.describe_at_once))

    async def _sweep(self, app_ids: Sequence[str]) -> AsyncGenerator[Answers]:
        """Ask for all of these apps, one item for each call; override it for a better way than batches."""
        for start in range(0, len(app_ids), self.describe_batch):
            yield await self._describe_many(app_ids[start : start + self.describe_batch])

    async def _push_states(self, port: StatePort) -> None:
        """Report changes to `port` until the service breaks off; used where `pushes_states` is set.

        Call ``port.connected()`` once reports come in. To be told of apps, set ``port.on_add`` and
        ``port.on_discard`` and begin with ``port.app_ids``. An error that is retryable, or a return, means: connect
        again after a pause.
        """
        raise NotImplementedError

    @abc.abstractmethod
    async def _cancel(self, app_id: str) -> None:
        """Ask for the app's end; unknown or ended ones are left alone. Leave a mark that outlives us."""

    async def _kill(self, app_id: str) -> None:
        """End an app without its grace period, also if it is in it; supply it where `can_kill` is set."""
        await self._cancel(app_id)

    @abc.abstractmethod
    async def _delete(self, app_id: str) -> None:
        """Remove what is left of an app that has ended; `ConflictError` for one that has not."""

    async def _results(self, app_id: str) -> Mapping[tuple[str, int], JsonValue] | None:
        """Return what replicas have written to their result files; None where they cannot be read."""
        return None

    @abc.abstractmethod
    def _list(self) -> AsyncGenerator[ListAppResponse]:
        """Yield a row for each app that asyncsched submitted here, newest first; fetch pages as they are needed."""

    @abc.abstractmethod
    async def _log_sources(
        self, app: DescribeAppResponse, replicas: Sequence[ReplicaStatus], query: LogQuery
    ) -> Sequence[LogSource]:
        """Return sources for these replicas, one or several for each, which nobody has asked about in this stream yet.

        A source reads from `query.since_ns` on if it can (the engine looks again), and follows its replica if
        `query.tail` is set. It is told of the replica's changes by `LogSource.observe`, and by `LogSource.finish`
        that the app has ended.
        """

    async def _close(self) -> None:
        """Release what this backend holds. Bounded by `cleanup_timeout`; errors are logged."""

    def _app_id(self, app: AppDef, options: OptsT, key: str | None) -> str:
        """Return the id for an app: unique, or derived from session and key alone.

        The app has no part in it: another one under the same key has to meet the first, to be refused.
        """
        return make_unique(app.name) if key is None else derive_id(key, self.session_name)
