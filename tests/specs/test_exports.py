from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

import asyncsched.specs as specs


def test_all_names_exist_and_are_documented() -> None:
    for name in specs.__all__:
        value = getattr(specs, name)

        assert value.__doc__, name


def test_all_is_what_is_imported() -> None:
    imported = {name for name, value in vars(specs).items() if not isinstance(value, ModuleType)}

    assert {name for name in imported if not name.startswith("_")} - {"annotations"} == set(specs.__all__)


def test_every_module_says_what_it_exports() -> None:
    for info in iter_modules(specs.__path__):
        module = import_module(f"{specs.__name__}.{info.name}")

        assert module.__doc__
        assert all(hasattr(module, name) for name in module.__all__)


def test_imports_neither_asyncio_nor_what_only_some_calls_need() -> None:
    heavy = {"asyncio", "json", "difflib", "importlib.metadata", "hashlib", "typing_extensions", "threading"}
    # What the interpreter's own start has imported is not ours.
    code = "import sys; before = {*sys.modules}; import asyncsched.specs; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert set() == heavy & {*done.stdout.split()}
