"""Dry-runs: the request that a scheduler would be sent."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from asyncsched._typing import NamedTuple
from asyncsched.errors import UsageError
from asyncsched.specs.rich_display import RichDisplay
from asyncsched.specs.secret import redact, showing_secrets
from asyncsched.specs.to_plain import Plain

if TYPE_CHECKING:
    from asyncsched.specs.app import AppDef
    from asyncsched.specs.run_options import CfgVal

__all__ = ["AppDryRunInfo", "Ignored", "Made", "WorkspacePlan", "pretty"]

T = TypeVar("T")


class Ignored(NamedTuple):
    """A setting of a role that the scheduler does not support.

    Attributes:
        role: The role's name.
        field: The field, such as ``mounts`` or ``resource.gpu``.
        why: Why it has no effect.
    """

    role: str
    field: str
    why: str

    def __str__(self) -> str:
        return f"{self.field} of role {self.role}: {self.why}"


class Made:
    """What a dry-run made its request from, and the request as it was then.

    Attributes:
        app: The app, as it was then.
        request: A plain copy of the request; None if nobody could have edited it.
    """

    __slots__ = ("app", "request")

    def __init__(self, app: AppDef, request: Plain) -> None:
        self.app = app
        self.request = request

    def __repr__(self) -> str:  # the copy holds secrets
        return f"{type(self).__name__}({self.app!r})"


class WorkspacePlan(NamedTuple):
    """The workspace that a dry-run found, and that ``schedule`` will build.

    Attributes:
        app: A copy of the app, whose roles name the images that will be built.
        workspace: The workspace: an absolute path, or a URL.
        hashes: The workspace hash for each base image; the key is ``""`` for a directory.
        images: The name of the image to build for each base image.
        detail: Private data of the builder.
    """

    app: AppDef
    workspace: str
    hashes: Mapping[str, str]
    images: Mapping[str, str] = {}
    detail: object = None

    def __str__(self) -> str:
        return ", ".join(f"{base or 'directory'} + workspace {each}" for base, each in self.hashes.items())


def pretty(request: object) -> str:
    """Print a request for people: YAML, with its secrets masked."""
    from asyncsched.specs.masking import masked
    from asyncsched.specs.yaml import to_yaml  # imported late: only printing needs it

    return to_yaml(masked(request)).removesuffix("\n")


class _Renewal(Generic[T]):
    """Repeats a dry-run with the scheduler that made it; copies keep it, pickles leave it out."""

    def __init__(self, make: Callable[[], Awaitable[AppDryRunInfo[T]]]) -> None:
        self.make = make

    def __deepcopy__(self, memo: object) -> _Renewal[T]:
        return self

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _left_out, ()


def _left_out() -> None:
    """Return None, which a pickle holds in place of a `_Renewal`."""


class AppDryRunInfo(RichDisplay, Generic[T]):
    """A request that you can print and edit before you pass it to ``schedule``.

    The app's id is fixed here: scheduling the same info twice submits once. The info can be pickled, with the secrets
    in its request, and scheduled in another process, but it cannot be renewed there.

    Attributes:
        request: The request in the scheduler's format, with the secrets it needs; edit or replace it freely.
        app_id: The id that the app will have.
        app: What the request was made from.
        cfg: The resolved run options.
        scheduler: The scheduler's name.
        session: The session's name.
        digest: A hash of the app and its options; it detects a key that is reused for another app.
        plan: The workspace that ``schedule`` will build, if any; it prints as ``<base image> + workspace <hash>``.
        ignored: Settings of the roles that the scheduler does not support; the app runs without them.
        made: Lets ``schedule`` see whether `request` was edited; None for an info that was made by hand.
    """

    def __init__(
        self,
        request: T,
        fmt: Callable[[T], str] = pretty,
        *,
        app_id: str = "",
        app: AppDef | None = None,
        cfg: Mapping[str, CfgVal] | None = None,
        scheduler: str = "",
        session: str = "",
        digest: str = "",
        plan: WorkspacePlan | None = None,
        ignored: Sequence[Ignored] = (),
        renew: Callable[[], Awaitable[AppDryRunInfo[T]]] | None = None,
    ) -> None:
        self.request = request
        self.app_id = app_id
        self.app = app
        self.cfg: Mapping[str, CfgVal] = {} if cfg is None else cfg
        self.scheduler = scheduler
        self.session = session
        self.digest = digest
        self.plan = plan
        self.ignored = tuple(ignored)
        self.made: Made | None = None
        self._fmt = fmt
        self._renewal = None if renew is None else _Renewal(renew)

    @property
    def workspace(self) -> str | None:
        """The workspace that ``schedule`` will build, if any, as ``<base image> + workspace <hash>``."""
        return None if self.plan is None else str(self.plan)

    async def renew(self) -> AppDryRunInfo[T]:
        """Dry-run the same app again, with a new id and without your edits of ``request``.

        Cancelling this leaves nothing behind.

        Raises:
            UsageError: This info was made by hand or has been pickled, so it cannot be made again.
        """
        if self._renewal is None:
            why = "it is a copy from another process, or was not made by a scheduler"
            raise UsageError("This dry-run cannot be renewed", why=why, fix="dry-run the app again")
        return await self._renewal.make()

    def continued(self, after: AppDryRunInfo[T]) -> AppDryRunInfo[T]:
        """Return this dry-run after a role's `pre_proc`; from a new `AppDryRunInfo` only the request is taken."""
        if after.scheduler:
            return after
        whole = copy.copy(self)
        whole.request, whole._fmt = after.request, after._fmt
        return whole

    def __repr__(self) -> str:
        from asyncsched.specs.masking import find_secrets  # loaded with the first scheduler

        notes = [f"# {self.scheduler} ignores {each}" for each in self.ignored]
        if self.plan is not None:
            notes.insert(0, f"# {self.plan}")
        text = "\n".join([self._fmt(self.request), *notes])
        # A scheduler's `fmt` may not mask secrets.
        return text if showing_secrets() else redact(text, find_secrets(self.request, self.app, self.cfg))

    def _repr_html_(self) -> str:
        from asyncsched.views.cards import text_card  # imported late: only notebooks need it

        return text_card(f"dry-run of {self.app_id} on {self.scheduler}", repr(self))
