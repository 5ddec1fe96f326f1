"""The registry of schedulers: built-in ones and plugins, each imported on first use."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, cast

from asyncsched._entry_points import entry_points_of
from asyncsched.errors import AsyncSchedError, ConfigError, MissingExtraError, RunOptionError, UnknownSchedulerError
from asyncsched.schedulers.built_in import BUILT_IN, BuiltIn

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from asyncsched.schedulers.api import Scheduler

__all__ = ["SchedulerFactory", "get_default_scheduler_name", "get_scheduler", "get_scheduler_factories"]

GROUP = "asyncsched.schedulers"

_log = logging.getLogger("asyncsched.schedulers")


class SchedulerFactory(Protocol):
    """Makes a scheduler, without I/O and without a running loop."""

    def __call__(self, session_name: str, **kwargs: object) -> Scheduler[Any, Any]:
        """Return a scheduler for the session `session_name`."""
        ...


if TYPE_CHECKING:

    class Ahead(Protocol):
        """Preparations of a backend that began before its scheduler was created."""

        def hand_to(self, scheduler: Scheduler[Any, Any]) -> None:
            """Let the scheduler use it; call this before any operation of the scheduler."""
            ...

        def drop(self) -> None:
            """End it, unless a scheduler uses it."""
            ...


class _LazyFactory:
    """A factory that imports its backend when it is called."""

    def __init__(self, name: str, built_in: BuiltIn) -> None:
        self._name = name
        self._built_in = built_in

    @property
    def takes(self) -> Sequence[str]:
        """Its parameters, without the session's name and `Tunables`."""
        return self._built_in.takes

    def __call__(self, /, session_name: str, **kwargs: object) -> Scheduler[Any, Any]:
        built_in = self._built_in
        if built_in.package:
            check_package(self._name, built_in.package, built_in.extra)
        # An import error from here on is a fault in an installed package, and is raised as it is.
        create = importlib.import_module(built_in.module).create_scheduler
        check_parameters(self._name, self, kwargs)
        return cast("Scheduler[Any, Any]", create(session_name, **kwargs))

    def __repr__(self) -> str:
        return f"<factory of {self._name}>"


class _PluginFactory:
    """A factory that loads an entry point when it is called, and checks its result."""

    def __init__(self, entry: EntryPoint) -> None:
        self._entry = entry

    def __call__(self, /, session_name: str, **kwargs: object) -> Scheduler[Any, Any]:
        made = self._make(session_name, kwargs)
        if _is_scheduler(made):
            return made
        try:
            from asyncsched.schedulers.blocking import from_blocking  # imported late: only such a plugin needs it

            return from_blocking(made, backend=self._entry.name, session_name=session_name)
        except ConfigError as error:
            raise ConfigError(
                f"the plugin {self._entry.name} returned no scheduler",
                why=f"{self._entry.value} returned a {type(made).__qualname__}, neither an "
                f"asyncsched.schedulers.Scheduler nor an object with its plain methods: {error}",
                fix=f"repair or remove {_distribution(self._entry)}",
            ) from error

    def _make(self, session_name: str, kwargs: Mapping[str, object]) -> object:
        try:
            create = cast("SchedulerFactory", self._entry.load())
            check_parameters(self._entry.name, create, kwargs)
            return create(session_name, **kwargs)
        except AsyncSchedError:
            raise  # its message says what is missing
        except (Exception, SystemExit) as error:
            raise ConfigError(
                f"the scheduler {self._entry.name} cannot be loaded from {self._entry.value}",
                why=f"{type(error).__name__}: {error}",
                fix=f"repair or remove {_distribution(self._entry)}",
            ) from error

    def __repr__(self) -> str:
        return f"<factory of {self._entry.name} from {_distribution(self._entry)}>"


def _is_scheduler(made: object) -> TypeGuard[Scheduler[Any, Any]]:
    from asyncsched.schedulers.api import Scheduler  # asyncio comes with it

    return isinstance(made, Scheduler)


def check_extra(name: str) -> None:
    """Raise MissingExtraError if the extra of a built-in scheduler is not installed."""
    built_in = BUILT_IN[name]
    check_package(name, built_in.package, built_in.extra)


def check_package(needed_by: str, package: str, extra: str) -> None:
    """Raise MissingExtraError, with the command that installs it, if a package is not installed."""
    if not _is_there(package):
        raise MissingExtraError(
            f"{needed_by} needs the package {package.replace('.', '-')}",
            why="it is not installed",
            fix=f"pip install 'asyncsched[{extra}]'",
        )


def find_built_in(name: str) -> SchedulerFactory | None:
    """Return the factory of a built-in scheduler, None if there is none; plugins are not searched."""
    _check_text(name)
    built_in = BUILT_IN.get(name)
    return _LazyFactory(name, built_in) if built_in is not None and _has_landed(built_in) else None


def get_scheduler_factories() -> dict[str, SchedulerFactory]:
    """Return the factories of all schedulers by name, the default first; calling one imports its backend."""
    factories: dict[str, SchedulerFactory] = {
        name: _LazyFactory(name, built_in) for name, built_in in BUILT_IN.items() if _has_landed(built_in)
    }
    for entry in entry_points_of(GROUP):
        if entry.name in BUILT_IN:
            _log.warning("the scheduler %s of %s is ignored: the name is built in", entry.name, _distribution(entry))
        elif entry.name in factories:
            _log.warning("the scheduler %s of %s is ignored: the name is taken", entry.name, _distribution(entry))
        else:
            factories[entry.name] = _PluginFactory(entry)
    return factories


def get_default_scheduler_name() -> str:
    """Return the name of the default scheduler."""
    return next(iter(BUILT_IN))  # it is part of every release


def known_names() -> Sequence[str]:
    """Return the names of all built-in schedulers, including those that are not part of this release."""
    return tuple(BUILT_IN)


def parameters_of(name: str) -> Sequence[str]:
    """Return the parameters of a built-in scheduler that can be configured; it reads them when it is created."""
    built_in = BUILT_IN.get(name)
    return built_in.parameters if built_in is not None else ()


def variables_of(name: str) -> Sequence[str]:
    """Return the environment variables that a built-in scheduler reads itself; they are not run options."""
    built_in = BUILT_IN.get(name)
    return built_in.variables if built_in is not None else ()


def refuse_parameters(name: str, options: Iterable[str]) -> None:
    """Raise RunOptionError for a run option that is really a parameter of the scheduler."""
    for option in options:
        if option in parameters_of(name):
            raise RunOptionError(
                f"{option} is a parameter of the scheduler {name}, not a run option",
                key=option,
                why="a scheduler works in one place, because an app's handle does not contain it",
                fix=f"set ASYNCSCHED_{name.upper()}_{option.upper()}, write {option} into [scheduler.{name}], or pass "
                f'Runner(..., {name}={{"{option}": ...}})',
            )


def begin_ahead(name: str | None) -> Ahead | None:
    """Begin preparations for the first submit to a scheduler, before the scheduler is imported.

    Args:
        name: The scheduler's name; None for the default scheduler.

    Returns:
        The preparations; None if there are none, or if they failed, which the submit will report.
    """
    built_in = BUILT_IN.get(name or get_default_scheduler_name())
    if built_in is None or not built_in.begins_ahead:
        return None
    try:
        return cast("Ahead | None", importlib.import_module(built_in.module).begin_ahead())
    except ConfigError:
        return None


def get_scheduler(name: str, session_name: str, **kwargs: object) -> Scheduler[Any, Any]:
    """Make the scheduler of this name.

    Raises:
        UnknownSchedulerError: There is none; the message names the nearest.
        ConfigError: It has no such parameter; the message names the nearest.
        MissingExtraError: Its package is not installed; the message says what to ``pip install``.
    """
    factory = find_built_in(name) or find_factory(name, get_scheduler_factories())
    return factory(session_name, **kwargs)


def find_factory(name: str, factories: Mapping[str, SchedulerFactory]) -> SchedulerFactory:
    """Return the factory of this name; raise UnknownSchedulerError, naming the nearest, if there is none."""
    _check_text(name)
    if name in factories:
        return factories[name]
    if name in BUILT_IN:
        raise UnknownSchedulerError(f"the scheduler {name} is not part of this release", fix=_known(factories))
    import difflib

    near = difflib.get_close_matches(name, factories, n=1)
    hint = f"did you mean {near[0]}?" if near else _known(factories)
    raise UnknownSchedulerError(f"no scheduler is named {name!r}", fix=hint)


def _check_text(name: object) -> None:
    if not isinstance(name, str):
        from asyncsched.specs.given import not_a_scheduler_name  # imported late: only a wrong call needs it

        raise not_a_scheduler_name(name)


def check_parameters(scheduler: str, factory: Callable[..., object], parameters: Mapping[str, object]) -> None:
    """Raise ConfigError for a parameter that a scheduler's factory does not have; the message names the nearest.

    It imports no built-in backend.
    """
    if not parameters:
        return
    import difflib

    first, known = _parameters_of(factory)
    for name in parameters:
        if name == first if known is None else name not in known:
            near = difflib.get_close_matches(name, known or (), n=1)
            hint = f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}" if known else "leave it out"
            raise ConfigError(f"{scheduler} has no parameter {name!r}", fix=hint)


def _parameters_of(factory: Callable[..., object]) -> tuple[str, Sequence[str] | None]:
    """Return the name of the first parameter, for the session's name, and of all others; None if it accepts any."""
    import inspect

    from asyncsched.schedulers.lifetime import Tunables

    if isinstance(factory, _LazyFactory):
        return "session_name", [*factory.takes, *Tunables.__annotations__]
    parameters = [*inspect.signature(factory).parameters.values()]
    first = parameters[0].name if parameters else ""
    known: list[str] = []
    for parameter in parameters[1:]:
        if parameter.kind is not parameter.VAR_KEYWORD:
            known.append(parameter.name)
        elif "Tunables" in str(parameter.annotation):
            known += Tunables.__annotations__
        else:
            return first, None
    return first, known


def _known(factories: Mapping[str, SchedulerFactory]) -> str:
    return f"use one of {', '.join(factories)}"


def _has_landed(built_in: BuiltIn) -> bool:
    return _is_there(built_in.module)


def _is_there(module: str) -> bool:
    from importlib.util import find_spec  # imported late: only a scheduler asked for by name needs it

    try:
        return find_spec(module) is not None
    except ImportError:  # raised by an import finder that blocks packages
        return False


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.value
