"""Turn run options into arguments of ``sbatch``, and refuse those that a job cannot have: no I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from asyncsched.errors import RunOptionError
from asyncsched.schedulers.request_checks import check_seconds
from asyncsched.schedulers.slurm.options import SlurmOpts

__all__ = ["OURS", "check_options", "of_a_component", "of_the_job"]

_OF_THE_JOB = ("comment", "mail_user", "mail_type")
_OF_A_COMPONENT = ("partition", "account", "qos", "constraint", "nodelist", "exclude", "reservation", "gres")
_NUMBERS = ("nodes", "ntasks_per_node")

_TIME = re.compile(r"\d+|\d+:\d\d(:\d\d)?|\d+-\d+(:\d\d){0,2}|UNLIMITED|INFINITE", re.ASCII | re.IGNORECASE)

OURS = {
    "array": "a",
    "autocomplete": "",
    "chdir": "D",
    "clusters": "M",
    "cpus-per-task": "c",
    "error": "e",
    "gid": "",
    "help": "h",
    "job-name": "J",
    "no-requeue": "",
    "ntasks": "n",
    "open-mode": "",
    "output": "o",
    "parsable": "",
    "quiet": "Q",
    "requeue": "",
    "test-only": "",
    "uid": "",
    "usage": "",
    "version": "V",
    "wait": "W",
    "wrap": "",
}
"""Options that asyncsched sets, or with which ``sbatch`` would submit something else, or elsewhere; with their
letters."""
_LETTERS = {letter: name for name, letter in OURS.items() if letter}
_WITH_VALUE = frozenset("ABCDFGJLMNSabcdeimnopqtwx")
"""The letters of ``sbatch`` that take a value, in the same word or as the next."""


def check_options(options: SlurmOpts, *, is_plain: bool) -> None:
    """Raise for options that no job can have.

    Args:
        options: The run options.
        is_plain: Whether the job has only one component.
    """
    check_seconds("timeout", options.timeout)
    check_seconds("pending_timeout", options.pending_timeout)
    if options.time is not None and options.timeout is not None:
        raise RunOptionError("time and timeout are both set", key="time", fix="omit one of them")
    if options.time is not None and not _TIME.fullmatch(options.time):
        raise RunOptionError(
            f"time must be a limit in Slurm's form, got {options.time!r}",
            key="time",
            fix="write minutes, hours:minutes:seconds or days-hours, such as 30, 1:30:00 or 2-12",
        )
    for name in _NUMBERS:
        value = getattr(options, name)
        if value is not None and value < 1:
            raise RunOptionError(f"{name} must be at least 1, got {value}", key=name)
        if value is not None and not is_plain:
            why = "its roles request different resources, and so are separate components of the job"
            raise RunOptionError(f"{name} cannot be used for roles of different sizes", key=name, why=why)
    for name in (*_OF_A_COMPONENT, *_OF_THE_JOB, "prolog", "job_dir"):
        value = getattr(options, name)
        if value is not None and (not value.strip() or not value.isprintable()):
            raise RunOptionError(
                f"{name} must be one line of text, got {value!r}", key=name, fix="write its value, or omit it"
            )
    for module in options.modules or ():
        if not module.strip() or not module.isprintable():
            raise RunOptionError(f"modules must be names on one line, got {module!r}", key="modules", fix="omit it")
    _check_arguments(options.sbatch_args or ())


def _check_arguments(arguments: Sequence[str]) -> None:
    """Read arguments as ``sbatch`` does: names may be abbreviated, and letters may share a word."""
    is_value = False
    for argument in arguments:
        if is_value and argument not in ("", ":"):
            is_value = False
        elif argument.startswith("--") and argument != "--":
            name = argument[2:].partition("=")[0]
            _refuse(argument, next((ours for ours in OURS if ours.startswith(name)), None))
        elif argument.startswith("-") and argument not in ("-", "--"):
            letters = re.split(f"(?<=[{''.join(_WITH_VALUE)}])", argument[1:], maxsplit=1)
            _refuse(argument, next((_LETTERS[each] for each in letters[0] if each in _LETTERS), None))
            is_value = letters[1:] == [""]
        else:
            raise RunOptionError(
                f"sbatch_args must not contain {argument!r}",
                key="sbatch_args",
                why="it is not an option: sbatch would read it as the job's script, or as the start of another job",
                fix="write an option and its value as one argument, such as --nodes=2",
            )
    if is_value:
        raise RunOptionError(f"sbatch_args ends with {arguments[-1]!r}, which needs a value", key="sbatch_args")


def _refuse(argument: str, ours: str | None) -> None:
    if ours is not None:
        raise RunOptionError(
            f"sbatch_args must not contain {argument!r}",
            key="sbatch_args",
            why=f"sbatch reads it as --{ours}, which asyncsched does not let you set",
            fix="omit it",
        )


def of_a_component(options: SlurmOpts) -> list[str]:
    """Return the arguments for each component of the job."""
    time = options.time if options.timeout is None else math.ceil(options.timeout / 60)
    limit = [] if time is None else [f"--time={time}"]
    return [*_arguments(options, _OF_A_COMPONENT), *limit, *_arguments(options, _NUMBERS)]


def of_the_job(options: SlurmOpts) -> list[str]:
    """Return the arguments for the whole job."""
    return [*_arguments(options, _OF_THE_JOB), *(options.sbatch_args or ())]


def _arguments(options: SlurmOpts, fields: Sequence[str]) -> list[str]:
    given = {name.replace("_", "-"): getattr(options, name) for name in fields}
    return [f"--{name}={value}" for name, value in given.items() if value is not None]
