"""The checked arguments of a group, and the run options of one attempt."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, Union, cast

from asyncsched._typing import NamedTuple
from asyncsched.errors import ConfigError, UsageError
from asyncsched.schedulers.arguments import check_workspace
from asyncsched.schedulers.request_checks import LONGEST_TIME, has_timeout
from asyncsched.specs.given import unexpected
from asyncsched.specs.names import make_unique
from asyncsched.specs.run_options import CfgVal

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import DataclassInstance

__all__ = [
    "AT_ONCE",
    "KEEPING_GRACE",
    "Cfg",
    "CfgOf",
    "GroupSettings",
    "JobSettings",
    "OnFailure",
    "OnLeave",
    "Reuse",
    "cfg_of_attempt",
]

Cfg: TypeAlias = Union[Mapping[str, CfgVal], "DataclassInstance", None]
"""Run options, as a mapping or as the scheduler's own class."""

CfgOf: TypeAlias = Cfg | Callable[[int], Cfg]
"""Run options, or a function of the attempt (1, 2, ...) that returns them."""

OnFailure: TypeAlias = Literal["cancel", "continue"]
OnLeave: TypeAlias = Literal["cancel", "leave"]
Reuse: TypeAlias = Literal["succeeded", "any", "never"]

AT_ONCE = 32
"""Submits that a group has under way at the same time, at most."""

LEAST_TIMEOUT = 60.0
"""The least time limit that is handed to a service: some take none below a minute, and the group's own is exact."""

KEEPING_GRACE = 30.0
"""Seconds that the logs of jobs that have ended are given to be read to their ends, when the group is left."""

_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class GroupSettings:
    """The arguments of `Runner.group`; created by `of`, which checks them.

    Attributes:
        name: The group's name: its key, or a generated name.
    """

    name: str
    scheduler: str
    cfg: CfgOf
    limit: int | None
    retries: int
    timeout: float | None
    on_failure: OnFailure
    max_failures: float | None
    key: str | None
    reuse: Reuse
    on_leave: OnLeave
    workspace: str | None
    keep_logs: Path | None

    @classmethod
    def of(
        cls,
        scheduler: str,
        cfg: CfgOf,
        *,
        limit: int | None,
        retries: int,
        timeout: float | None,
        on_failure: OnFailure,
        max_failures: float | None,
        key: str | None,
        reuse: Reuse,
        on_leave: OnLeave | None,
        workspace: str | None,
        keep_logs: str | os.PathLike[str] | None,
    ) -> GroupSettings:
        """Check the arguments; raise ConfigError for an invalid one."""
        if limit is not None:
            check_whole("limit", limit, 1)
        check_whole("retries", retries, 0)
        check_timeout(timeout)
        check_cfg(cfg)
        check_workspace(workspace)
        _check_choice("on_failure", on_failure, ("cancel", "continue"))
        _check_choice("reuse", reuse, ("succeeded", "any", "never"))
        _check_choice("on_leave", on_leave, ("cancel", "leave", None))
        _check_max_failures(max_failures, on_failure)
        if key is not None:
            check_label("key", key)
        return cls(
            name=make_unique("group") if key is None else key,
            scheduler=scheduler,
            cfg=cfg,
            limit=limit,
            retries=retries,
            timeout=timeout,
            on_failure=on_failure,
            max_failures=max_failures,
            key=key,
            reuse=reuse,
            on_leave=on_leave or ("cancel" if key is None else "leave"),
            workspace=workspace,
            keep_logs=None if keep_logs is None else _folder(keep_logs),
        )

    def for_job(
        self,
        scheduler: str | None,
        cfg: CfgOf,
        *,
        workspace: str | None,
        retries: int | None,
        timeout: float | None,
    ) -> JobSettings | None:
        """Return the settings of a job, with the group's as defaults; None if the job has no arguments.

        Raises:
            ConfigError: An argument is invalid.
        """
        if scheduler is None and cfg is None and workspace is None and retries is None and timeout is None:
            return None
        if retries is not None:
            check_whole("retries", retries, 0)
        check_timeout(timeout)
        check_cfg(cfg)
        check_workspace(workspace)
        return JobSettings(
            self.scheduler if scheduler is None else scheduler,
            self.cfg if cfg is None else cfg,
            self.workspace if workspace is None else workspace,
            self.retries if retries is None else retries,
            self.timeout if timeout is None else timeout,
        )

    def too_many(self, failures: int, jobs: int) -> bool:
        """Tell whether this many failures among this many jobs end the group."""
        if self.on_failure == "continue":
            return False
        most = self.max_failures or 0
        return failures > (most * jobs if isinstance(most, float) else most)


class JobSettings(NamedTuple):
    """The settings of one job: its own, and its group's for the rest."""

    scheduler: str
    cfg: CfgOf
    workspace: str | None
    retries: int
    timeout: float | None


def cfg_of_attempt(cfg: CfgOf, attempt: int, timeout: float | None, options: type) -> Cfg:
    """Return the run options of an attempt, with the group's time limit if the service supports one.

    Args:
        cfg: The options, or a function that returns them.
        attempt: 1 for the first one.
        timeout: The maximum run time in seconds, or None.
        options: The scheduler's class of options.
    """
    given = _asked(cfg, attempt) if callable(cfg) else cfg
    if timeout is None or "timeout" not in {field.name for field in dataclasses.fields(options)}:
        return given
    limit = float(math.ceil(max(timeout, LEAST_TIMEOUT)))
    if given is None:
        return {"timeout": limit}
    if isinstance(given, Mapping):
        return given if has_timeout(given) else {**given, "timeout": limit}
    if has_timeout({field.name: getattr(given, field.name) for field in dataclasses.fields(given)}):
        return given
    return dataclasses.replace(given, timeout=limit)


def _asked(cfg: Callable[[int], Cfg], attempt: int) -> Cfg:
    """Return what a function of the attempt says; raise UsageError if it cannot be asked, or says what no options are.

    Any other error is its own, and goes on with a note.
    """
    try:
        inspect.signature(cfg).bind(attempt)
    except TypeError as error:
        fix = "write def cfg(attempt): ..."
        raise UsageError("cfg must be a function of the attempt", why=str(error), fix=fix) from None
    except ValueError:  # a builtin that does not tell
        pass
    try:
        given: object = cfg(attempt)
    except Exception as error:
        error.add_note(f"cfg({attempt}), the function of the attempt, raised it ({type(error).__name__})")
        raise
    if given is None or isinstance(given, Mapping) or (dataclasses.is_dataclass(given) and not isinstance(given, type)):
        return given
    if inspect.iscoroutine(given):
        given.close()
        raise UsageError("cfg must be a function of the attempt that does not wait", fix="write def, not async def")
    raise unexpected(f"what cfg({attempt}) returns", given, "a mapping of run options", "return {'option': value}")


def check_whole(name: str, value: object, least: int) -> None:
    """Raise ConfigError unless a parameter is a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")


def check_timeout(value: object) -> None:
    """Raise ConfigError unless a time limit is None or a number of seconds above 0 that clocks and services take."""
    if value is None:
        return
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value <= LONGEST_TIME:
        raise ConfigError(f"timeout must be a number of seconds above 0 and at most {LONGEST_TIME:.0f}, got {value!r}")


def check_cfg(cfg: object) -> None:
    """Raise UsageError for a value of the wrong type; the scheduler checks the options themselves."""
    if cfg is None or isinstance(cfg, Mapping):
        return
    if isinstance(cfg, type) or not (callable(cfg) or dataclasses.is_dataclass(cfg)):
        wanted = "a mapping of run options, or a function of the attempt that returns one"
        fix = f"write cfg={cfg.__name__}(...)" if isinstance(cfg, type) else "write cfg={'option': value}"
        raise unexpected("cfg", cfg, wanted, fix)


def check_label(what: str, value: object) -> None:
    """Raise ConfigError unless a key or a job's name is short printable text, which labels and files can hold."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > _LONGEST_NAME:
        raise ConfigError(f"{what} must be printable text of 1 to {_LONGEST_NAME} characters, got {value!r}")


def _folder(value: object) -> Path:
    """Return the absolute path of a folder, independent of later changes of the working directory."""
    is_path = isinstance(value, (str, os.PathLike))
    text: object = os.fspath(cast("str | os.PathLike[str]", value)) if is_path else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise ConfigError(f"keep_logs must be the path of a folder, got {value!r}")
    from pathlib import Path  # loaded only where logs are kept

    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:  # the home of a user whom this machine does not know
        raise ConfigError(f"keep_logs must be the path of a folder, got {value!r}", why=str(error)) from error


def _check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def _check_max_failures(value: object, on_failure: str) -> None:
    if value is None:
        return
    if on_failure == "continue":
        raise ConfigError(
            f"max_failures is {value!r}, and on_failure is 'continue'",
            why="then no number of failures ends the group",
            fix="leave one of them out",
        )
    is_share = isinstance(value, float) and 0 <= value < 1
    if not is_share and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ConfigError(
            f"max_failures must be a whole number from 0, or a share from 0.0 to below 1.0, got {value!r}"
        )
