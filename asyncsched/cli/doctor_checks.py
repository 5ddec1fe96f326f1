"""The checks of ``asyncsched doctor``."""

from __future__ import annotations

import asyncio
import inspect
import platform
from collections.abc import Callable, Container, Iterator
from importlib.metadata import EntryPoint, entry_points

import asyncsched
from asyncsched.cli.command_config import check_commands, check_components, component_defaults
from asyncsched.cli.console import Console
from asyncsched.cli.errors import OUR_FAULT, UNREACHABLE, USAGE, exit_code, worst
from asyncsched.cli.main import VERBS
from asyncsched.cli.run_async import answers
from asyncsched.components import Component, get_components
from asyncsched.errors import AsyncSchedError, ConfigError, MissingExtraError
from asyncsched.runner.config import Config, load_config, run_options
from asyncsched.runner.results import is_set_up
from asyncsched.runner.runner import Runner
from asyncsched.schedulers.registry import find_factory, get_scheduler_factories, known_names
from asyncsched.specs.resources import built_in_names, named_resources

__all__ = ["check_all"]

_Row = dict[str, object]


async def check_all(console: Console, runner: Runner, *, within: float, only: str = "") -> int:
    """Print a line for each check and return the worst exit code.

    Args:
        console: Where it is printed.
        runner: The runner whose schedulers are checked.
        only: The scheduler to check; empty for all.
        within: How many seconds a scheduler has to answer.
    """
    if only:
        find_factory(only, get_scheduler_factories())
    rows: list[_Row] = [{"check": "asyncsched", "state": "ok", "detail": _versions()}]
    codes: list[int] = []
    broken = {name for name in await runner.scheduler_backends() if _is_broken(name)}
    schedulers = await _schedulers(runner, broken, within, only)
    for found, code in (*await _configuration(runner), *schedulers, *_plugins(broken)):
        rows.append(found)
        codes.append(code)
    console.print_rows(("check", "state", "detail"), rows, wraps=True)
    return worst(codes)


def _versions() -> str:
    return f"{asyncsched.__version__}, Python {platform.python_version()}, {platform.system()} {platform.release()}"


async def _configuration(runner: Runner) -> list[tuple[_Row, int]]:
    try:
        config = load_config()
        await _check_options(config, runner)
    except ConfigError as error:
        return [(_row("configuration", error), exit_code(error))]
    detail = f"from {', '.join(config.files)}" if config.files else "no file"
    return [
        ({"check": "configuration", "state": "ok", "detail": "; ".join([detail, *config.notes, *config.warnings])}, 0)
    ]


async def _check_options(config: Config, runner: Runner) -> None:
    """Raise ConfigError for settings that nothing knows; schedulers that are not installed are not checked."""
    names = await runner.scheduler_backends()
    config.check_names("scheduler", dict.fromkeys((*names, *known_names())))
    check_commands(config, get_scheduler_factories())
    check_components(config)
    for component in get_components().values():
        component_defaults(config, component)
    for name, opts in (await answers(runner.scheduler_run_opts, names)).items():
        if not isinstance(opts, Exception):
            run_options(config, name, opts, schedulers=names)


def _is_broken(scheduler: str) -> bool:
    """Tell whether this scheduler comes from a package and cannot be loaded."""
    for entry in entry_points(group="asyncsched.schedulers", name=scheduler):
        if scheduler in _TAKEN[entry.group]:
            continue  # the built-in one is used
        try:
            entry.load()
        except (Exception, SystemExit):  # noqa: BLE001 - why is told where plugins are checked
            return True
    return False


async def _schedulers(runner: Runner, broken: Container[str], within: float, only: str) -> list[tuple[_Row, int]]:
    names = [only] if only else [name for name in await runner.scheduler_backends() if name not in broken]

    async def ask(name: str) -> int:
        async with asyncio.timeout(within):
            return len(await runner.list(name, limit=1))

    checked: list[tuple[_Row, int]] = []
    for name, answer in (await answers(ask, names)).items():
        check = f"scheduler {name}"
        if isinstance(answer, Exception) and not is_set_up(answer):
            is_absent = isinstance(answer, MissingExtraError)
            checked.append((_row(check, answer, "not installed" if is_absent else "not configured"), 0))
        elif isinstance(answer, TimeoutError):
            checked.append(
                ({"check": check, "state": "silent", "detail": f"no answer within {within:g} s"}, UNREACHABLE)
            )
        elif isinstance(answer, Exception):
            code = exit_code(answer)
            checked.append((_row(check, answer), USAGE if code == OUR_FAULT else code))  # a package's, not ours
        else:
            checked.append(({"check": check, "state": "ok", "detail": ""}, 0))
    return checked


def _plugins(broken: Container[str]) -> Iterator[tuple[_Row, int]]:
    for group, load in _LOADERS.items():
        for entry in entry_points(group=f"asyncsched.{group}"):
            if group == "schedulers" and entry.name not in broken and entry.name not in _TAKEN[entry.group]:
                continue  # it has been asked
            yield _plugin(f"{group[:-1].replace('_', ' ')} {entry.name}", entry, load)


def _plugin(check: str, entry: EntryPoint, load: Callable[[EntryPoint], object]) -> tuple[_Row, int]:
    origin = entry.dist.name if entry.dist is not None else entry.value
    if entry.name in _TAKEN.get(entry.group, ()):
        return {"check": check, "state": "ignored", "detail": f"from {origin}: the name is built in"}, USAGE
    try:
        load(entry)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a broken plugin is what is looked for here
        return _row(check, error, f"broken, from {origin}"), USAGE
    return {"check": check, "state": "ok", "detail": f"from {origin}"}, 0


def _component(entry: EntryPoint) -> object:
    loaded = entry.load()
    return Component(entry.name, loaded) if inspect.isfunction(loaded) else loaded


_LOADERS: dict[str, Callable[[EntryPoint], object]] = {
    "schedulers": lambda entry: entry.load(),
    "components": _component,
    "named_resources": lambda entry: named_resources[entry.name],
    "commands": lambda entry: entry.load(),
}


# Built-in names win.
_TAKEN: dict[str, Container[str]] = {
    "asyncsched.schedulers": known_names(),
    "asyncsched.named_resources": frozenset(built_in_names()),
    "asyncsched.commands": VERBS,
}


def _row(check: str, error: BaseException, state: str = "broken") -> _Row:
    told = str(error) if isinstance(error, AsyncSchedError) else f"{type(error).__name__}: {error}"
    text = " ".join(told.split())
    return {"check": check, "state": state, "detail": text}
