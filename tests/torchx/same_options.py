"""Run in an environment with TorchX: reads each pair of files both ways, and prints as JSON what came out."""

from __future__ import annotations

import json
import logging
import os
import sys
import typing
from pathlib import Path

from torchx.runner import config as theirs
from torchx.specs import runopts as TheirOpts  # noqa: N812

from asyncsched.runner.config import load_config, run_options
from asyncsched.specs import runopts as OurOpts  # noqa: N812

OPTIONS = {"text": str, "whole": int, "real": float, "flag": bool, "items": list[str], "pairs": dict[str, str]}
DEFAULTS = {"text": "default", "items": ["default"]}


class Stub:
    def __init__(self, opts):
        self._opts = opts

    def run_opts(self):
        return self._opts


def make(kind, types):
    opts = kind()
    for name, given in OPTIONS.items():
        opts.add(name, types.get(name, given), "an option", default=DEFAULTS.get(name))
    return opts


def of_theirs(home, project):
    opts, cfg = make(TheirOpts, {"items": typing.List[str], "pairs": typing.Dict[str, str]}), {}  # noqa: UP006 - as 0.7
    theirs._get_scheduler = lambda name: Stub(opts)
    theirs.apply("sched", cfg, [str(home), str(project)])
    return opts.resolve(cfg)


def of_ours(home, project):
    opts = make(OurOpts, {})
    found = run_options(load_config(project, {"HOME": str(home)}), "sched", opts, schedulers=["sched"])
    return opts.resolve({name: setting.value for name, setting in found.items()})


def result(read, home, project):
    try:
        return read(home, project)
    except Exception as error:
        return f"error: {type(error).__name__}: {error}"


def both(number, home_text, project_text):
    home, project = Path(f"case-{number}/home").absolute(), Path(f"case-{number}/project").absolute()
    for folder, text in ((home, home_text), (project, project_text)):
        folder.mkdir(parents=True)
        if text is not None:
            (folder / ".torchxconfig").write_text(text)
    return [result(read, home, project) for read in (of_ours, of_theirs)]


logging.disable(logging.CRITICAL)
os.environ.pop("TORCHXCONFIG", None)
cases = json.loads(Path(sys.argv[1]).read_text())
print(json.dumps([both(number, *case) for number, case in enumerate(cases)]))
