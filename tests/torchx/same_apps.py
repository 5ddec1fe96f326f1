"""Run in an environment with TorchX: makes each builtin app both ways, and prints as JSON what came out."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
from pathlib import Path

from torchx import specs as theirs
from torchx.specs.builders import materialize_appdef

from asyncsched.components import get_component
from asyncsched.errors import ComponentError
from asyncsched.specs import macros

VALUES = {"img_root": "/root", "app_id": "app-1", "replica_id": "3", "rank0_env": "RANK0_HOST"}


def plain(app, values):
    made = dataclasses.asdict(dataclasses.replace(app, roles=[values(**VALUES).apply(role) for role in app.roles]))
    for role in made["roles"]:
        role["resource"].pop("tags", None)  # no scheduler reads them
        for name in ("base_image", "workspace", "overrides"):
            assert not role.pop(name, None)
    return json.loads(json.dumps(made))


def both(component, args):
    module, _, function = component.rpartition(".")
    try:
        ours = plain(get_component(component).app(args), macros.Values)
    except ComponentError as error:
        ours = str(error)
    made = materialize_appdef(getattr(importlib.import_module(module), function), args)
    return [ours, plain(made, theirs.macros.Values)]


print(json.dumps([both(*each) for each in json.loads(Path(sys.argv[1]).read_text())]))
