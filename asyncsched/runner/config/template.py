"""Write a starter configuration file: all settings, explained and commented out."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping

from asyncsched.schedulers.registry import get_default_scheduler_name
from asyncsched.specs.run_options import CfgVal, runopt, runopts

__all__ = ["config_template"]

_HEAD = """\
# The configuration of asyncsched, for this folder and those below it.
#
# The environment (ASYNCSCHED_LOCAL_CWD_LOG_DIR=...) and the command line (-cfg log_dir=...) override these settings.
# `asyncsched runopts SCHEDULER` shows each value and its origin.

[command.run]
# scheduler = "{scheduler}"       # where apps run when -s is not given
# component = "utils.echo"      # what runs when no component is named
# workspace = "."               # the files that apps run with

# Defaults for a component's arguments:
# [component."dist.ddp"]
# j = "2x4"
"""


_EXAMPLES = {
    "int": "1",
    "float": "1.0",
    "bool": "true",
    "list[str]": '["..."]',
    "dict[str, str]": '{ NAME = "..." }',
}


def config_template(schedulers: Mapping[str, runopts], *, required_only: bool = False) -> str:
    """Return the text of a file that sets the run options of these schedulers.

    Required options are to be filled in; all others are comments with their defaults.
    """
    head = _HEAD.replace("{scheduler}", get_default_scheduler_name())
    return "\n".join([head, *("\n".join(_section(name, opts, required_only)) for name, opts in schedulers.items())])


def _section(name: str, opts: runopts, required_only: bool) -> Iterator[str]:
    yield f"[scheduler.{name}]"
    for option, opt in opts:
        if opt.is_required or not required_only:
            yield from _option(option, opt)
    yield ""


def _option(name: str, opt: runopt) -> Iterator[str]:
    yield from textwrap.wrap(opt.help, 110, initial_indent="# ", subsequent_indent="# ")
    if opt.is_required:
        yield f"# ({opt.type_name}, required)"
        yield f"# {name} ="
    else:
        example = opt.default is None
        value = _example(opt) if example else _toml(opt.default)
        yield f"# {name} = {value}   # {opt.type_name}{', such as this' if example else ''}"


def _example(opt: runopt) -> str:
    """Return an example value for an option without a default, so that the uncommented line is valid TOML."""
    if opt.choices:
        return json.dumps(opt.choices[0])
    return _EXAMPLES.get(opt.type_name, '"..."')


def _toml(value: CfgVal) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {_toml(item)}' for key, item in value.items())} }}"
    # A JSON string, number, boolean or list of strings is written the same in TOML.
    return json.dumps(value)
