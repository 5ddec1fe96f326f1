"""The run options of one submit: the configured ones, overridden by ``-cfg``."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from asyncsched.errors import RunOptionError
from asyncsched.runner.config.config import Config
from asyncsched.runner.config.setting import Setting, Settings, from_origin
from asyncsched.schedulers.registry import parameters_of, refuse_parameters
from asyncsched.specs.run_options import CfgVal, runopts

__all__ = ["naming_origins", "run_options"]

COMMAND_LINE = "-cfg"


def run_options(
    config: Config, scheduler: str, opts: runopts, cfg: Sequence[str] = (), *, schedulers: Iterable[str] = ()
) -> dict[str, Setting]:
    """Return the given run options, each with its checked value and its origin, without defaults.

    Args:
        config: The configuration.
        scheduler: The scheduler's name.
        opts: The scheduler's run options.
        cfg: Strings like ``name=value,name=value``; the last one wins.
        schedulers: The names of all schedulers.

    Raises:
        RunOptionError: An option is unknown (the message suggests one) or has a wrong type; the message says where.
    """
    found: dict[str, Setting] = {}
    for given, setting in config.scheduler(scheduler, schedulers).items():
        if given in parameters_of(scheduler):
            continue  # a parameter of the scheduler itself
        name = given.replace("-", "_") if setting.foreign else given  # TorchX has mail-user
        if setting.foreign and name not in opts:
            setting.pass_over(given, scheduler)
            continue
        try:
            found[name] = _checked(scheduler, opts, name, setting)
        except RunOptionError as error:
            setting.refuse(error)
    for text in cfg:
        try:
            found |= {name: Setting(value, COMMAND_LINE) for name, value in opts.cfg_from_str(text).items()}
        except RunOptionError as error:
            refuse_parameters(scheduler, [error.key])
            raise
    return found


@contextmanager
def naming_origins(settings: Settings) -> Generator[None]:
    """Let the error about a run option, such as that of a scheduler for a time of ``nan``, say where it is written.

    Args:
        settings: The run options that the scheduler gets.
    """
    try:
        yield
    except RunOptionError as error:
        setting = settings.get(error.key)
        if setting is None or setting.origin.startswith("-") or "(from " in error.what:
            raise
        raise from_origin(error, setting.origin) from None


def _checked(scheduler: str, opts: runopts, name: str, setting: Setting) -> Setting:
    value = setting.value
    if setting.foreign:
        return setting._replace(value=_foreign(opts, name, setting), is_text=False)
    try:
        # TOML has values of all types that an option can have, so that a text is one only where a text is wanted.
        checked: CfgVal = opts.parse(name, str(value)) if setting.is_text else opts.check(name, value)
    except RunOptionError as error:
        raise from_origin(_in_short(error, scheduler, name, opts), setting.origin) from None
    return setting._replace(value=checked, is_text=False)


def _foreign(opts: runopts, name: str, setting: Setting) -> CfgVal:
    from asyncsched.runner.config.torchx import parse_torchx  # few have such a file

    opt = opts.get(name)
    if setting.value is None or opt is None:
        return None
    try:
        return opts.check(name, parse_torchx(str(setting.value), opt))
    except RunOptionError as error:
        raise from_origin(error, setting.origin) from None
    except ValueError as error:  # not shown, as it may contain a secret
        what = f"Run option: {name}, must be of type: {opt.type_name} (from {setting.origin})"
        raise RunOptionError(what, key=name, why=str(error) if opt.type_name.startswith("dict") else "") from None


def _in_short(error: RunOptionError, scheduler: str, name: str, opts: runopts) -> RunOptionError:
    if name in opts:
        return error
    return RunOptionError(f"unknown option `{name}` for {scheduler}", fix=error.fix, key=name)
