"""All exceptions that asyncsched raises on purpose, in one tree.

::

    AsyncSchedError
     ├─ ConfigError (ValueError)              something the caller wrote is wrong
     │   ├─ UnknownSchedulerError             no scheduler has this name
     │   ├─ MalformedHandleError              not of the form scheduler://session/app_id
     │   ├─ RunOptionError                    a run option is unknown, missing or mistyped
     │   ├─ MountError (KeyError)             a mount's options are unknown, missing or wrong
     │   ├─ UnknownResourceError (KeyError)   no named resource has this name
     │   ├─ ComponentError                    a component cannot be found, read or called
     │   └─ MissingExtraError (ModuleNotFoundError)  an optional package is not installed
     ├─ UnknownAppError (LookupError)         no such app, role or replica
     ├─ AppStatusError                        an app did not end in the expected state
     ├─ WaitTimeoutError (TimeoutError)       apps that were waited for have not ended in time, and are still running
     ├─ UsageError (RuntimeError)             the library was called in a way that cannot work
     │   ├─ ClosedError                       the object has been closed
     │   └─ WrongLoopError                    the object belongs to another event loop
     ├─ WorkspaceError                        a workspace cannot be read, built or pushed
     └─ SchedulerError                        a scheduler's service refused or failed
         ├─ UnavailableError (ConnectionError)
         ├─ AuthError
         ├─ PermissionDeniedError (PermissionError)
         ├─ ThrottledError
         ├─ NotFoundError
         ├─ InvalidRequestError
         ├─ ConflictError
         └─ LogStreamError                    the rest of a log cannot be read

Each has *what* happened, *why*, and what to do next (*fix*). A vendor's exception is its ``__cause__`` and never leaves
a backend by itself. All of them can be pickled.

Four have an alias, their name in TorchX's documentation, for existing ``except`` clauses:
`InvalidRunConfigException` (`RunOptionError`), `MalformedAppHandleException` (`MalformedHandleError`),
`UnknownAppException` (`UnknownAppError`) and `UnknownSchedulerException` (`UnknownSchedulerError`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncsched.specs.state import AppStatus

__all__ = [
    "AppStatusError",
    "AsyncSchedError",
    "AuthError",
    "ClosedError",
    "ComponentError",
    "ConfigError",
    "ConflictError",
    "InvalidRequestError",
    "InvalidRunConfigException",
    "LogStreamError",
    "MalformedAppHandleException",
    "MalformedHandleError",
    "MissingExtraError",
    "MountError",
    "NotFoundError",
    "PermissionDeniedError",
    "ReplicaFailure",
    "RunOptionError",
    "SchedulerError",
    "ThrottledError",
    "UnavailableError",
    "UnknownAppError",
    "UnknownAppException",
    "UnknownResourceError",
    "UnknownSchedulerError",
    "UnknownSchedulerException",
    "UsageError",
    "WaitTimeoutError",
    "WorkspaceError",
    "WrongLoopError",
]


class AsyncSchedError(Exception):
    """The root of the tree: ``except AsyncSchedError`` catches every exception of asyncsched.

    Args:
        what: What happened, as a sentence without a full stop.
        why: The reason, if known.
        fix: What the reader can do next.
    """

    def __init__(self, what: str, *, why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        text = f"{self.what}: {self.why}" if self.why else self.what
        return f"{text}; {self.fix}" if self.fix else text

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows instead of a traceback: the cell's line, and at most five about the error."""
        from asyncsched._error_text import notebook_lines  # only notebooks need it

        return notebook_lines(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are unpickled by calling the class with `args`, which loses keyword-only fields.
        return _restore, (type(self), self.args), self.__dict__


def _restore(cls: type[AsyncSchedError], args: tuple[Any, ...]) -> AsyncSchedError:
    error = cls.__new__(cls, *args)
    error.args = args
    return error


class ConfigError(AsyncSchedError, ValueError):
    """Something that the caller wrote is wrong, and sending it would not help."""


class UnknownSchedulerError(ConfigError):
    """No scheduler is registered under this name."""


class MalformedHandleError(ConfigError):
    """A handle is not of the form ``scheduler://session/app_id``."""


class RunOptionError(ConfigError):
    """A run option is unknown, missing or of the wrong type.

    Attributes:
        key: The option's name.
    """

    def __init__(self, what: str, *, key: str = "", why: str = "", fix: str = "") -> None:
        super().__init__(what, why=why, fix=fix)
        self.key = key

    @property
    def cfg_key(self) -> str:
        """The option's name, as the documents call this attribute."""
        return self.key


class MountError(ConfigError, KeyError):
    """A mount's options are unknown, missing, repeated or have a wrong value."""


class UnknownResourceError(ConfigError, KeyError):
    """No named resource has this name; the message names the nearest."""


class ComponentError(ConfigError):
    """A component cannot be found, does not follow the rules, or was called wrongly."""


class MissingExtraError(ConfigError, ModuleNotFoundError):
    """A package that a feature needs is not installed; `fix` has the command that installs it."""


class UnknownAppError(AsyncSchedError, LookupError):
    """The app does not exist, or has no such role or replica; the message names those that exist."""


class AppStatusError(AsyncSchedError):
    """An app did not end in the expected state.

    Attributes:
        status: The app's status.
    """

    def __init__(self, what: str, *, status: AppStatus, why: str = "", fix: str = "") -> None:
        super().__init__(what, why=why, fix=fix)
        self.status = status


class WaitTimeoutError(AsyncSchedError, TimeoutError):
    """Apps that were waited for have not ended in time, and are still running. Notes have their last statuses."""


class UsageError(AsyncSchedError, RuntimeError):
    """The library was called in a way that cannot work."""


class ClosedError(UsageError):
    """The object has been closed and cannot be used any more."""


class WrongLoopError(UsageError):
    """An object was used from another event loop than that of its first await."""


class WorkspaceError(AsyncSchedError):
    """A workspace cannot be read, built or pushed.

    Attributes:
        retryable: Whether the same call may succeed later.
    """

    def __init__(self, what: str, *, retryable: bool = False, why: str = "", fix: str = "") -> None:
        super().__init__(what, why=why, fix=fix)
        self.retryable = retryable


class SchedulerError(AsyncSchedError):
    """A scheduler's service refused or failed.

    Attributes:
        backend: The scheduler's name, such as ``local_docker``.
        operation: The operation that failed, such as ``submit``.
        retryable: Whether the same call may succeed later.
    """

    retryable: bool = False

    def __init__(
        self,
        what: str,
        *,
        backend: str = "",
        operation: str = "",
        retryable: bool | None = None,
        why: str = "",
        fix: str = "",
    ) -> None:
        super().__init__(what, why=why, fix=fix)
        self.backend = backend
        self.operation = operation
        if retryable is not None:
            self.retryable = retryable


class UnavailableError(SchedulerError, ConnectionError):
    """The service cannot be reached, or did not answer in time.

    Attributes:
        is_set_up: False if nothing here configures the service and none was found, so that it is not in use here.
    """

    retryable = True
    is_set_up: bool = True


class AuthError(SchedulerError):
    """There are no credentials, or the service does not accept them."""


class PermissionDeniedError(SchedulerError, PermissionError):
    """The credentials are valid, but do not allow the request."""


class ThrottledError(SchedulerError):
    """The service asks for fewer calls.

    Attributes:
        retry_after: The pause in seconds that the service asked for, or None.
    """

    retryable = True

    def __init__(
        self,
        what: str,
        *,
        retry_after: float | None = None,
        backend: str = "",
        operation: str = "",
        why: str = "",
        fix: str = "",
    ) -> None:
        super().__init__(what, backend=backend, operation=operation, why=why, fix=fix)
        self.retry_after = retry_after


class NotFoundError(SchedulerError):
    """Something that a request names (an image, a queue, a network) does not exist."""


class InvalidRequestError(SchedulerError):
    """The service does not accept the request."""


class ConflictError(SchedulerError):
    """Something else of that name exists already."""


class ReplicaFailure:
    """Why the rest of one replica's log cannot be read.

    Attributes:
        role: The replica's role.
        replica: Its number in the role.
        cause: The error.
        last_timestamp: The time of the last delivered line, if known.
        app_id: The replica's app.
    """

    __slots__ = ("app_id", "cause", "last_timestamp", "replica", "role")

    def __init__(
        self,
        *,
        role: str,
        replica: int,
        cause: BaseException,
        last_timestamp: datetime | None = None,
        app_id: str = "",
    ) -> None:
        self.role = role
        self.replica = replica
        self.cause = cause
        self.last_timestamp = last_timestamp
        self.app_id = app_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


class LogStreamError(SchedulerError):
    """The rest of a log cannot be read; all lines before have been delivered.

    Attributes:
        failures: One entry for each replica whose log is incomplete.
    """

    def __init__(
        self,
        what: str,
        *,
        failures: Iterable[ReplicaFailure] = (),
        backend: str = "",
        operation: str = "log_iter",
        retryable: bool | None = None,
        why: str = "",
        fix: str = "",
    ) -> None:
        super().__init__(what, backend=backend, operation=operation, retryable=retryable, why=why, fix=fix)
        self.failures = tuple(failures)


InvalidRunConfigException = RunOptionError
MalformedAppHandleException = MalformedHandleError
UnknownAppException = UnknownAppError
UnknownSchedulerException = UnknownSchedulerError


class LeftBehind(str):
    """A note on an exception: a failed launch has left an app, or parts of one.

    Attributes:
        app_id: The app.
    """

    __slots__ = ("__dict__",)

    app_id: str


def notes_of(error: BaseException) -> list[str]:
    """Return the notes on an exception, and on those that it was raised from."""
    return [note for each in _chain(error) for note in getattr(each, "__notes__", ())]


def left_behind(error: BaseException) -> str:
    """Return the id of the app that a failed launch has left, from the notes on its error; empty if there is none."""
    return next((note.app_id for note in notes_of(error) if isinstance(note, LeftBehind)), "")


def _chain(error: BaseException) -> list[BaseException]:
    found = [error]
    for each in found:
        found += [other for other in (each.__cause__, each.__context__) if other is not None and other not in found]
    return found
