"""Find components: built-in ones, those of installed packages, and functions by module or file."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from asyncsched._entry_points import entry_points_of
from asyncsched.components.component import Component
from asyncsched.components.place import place_of, short_path
from asyncsched.errors import ComponentError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["built_in_components", "functions_in", "get_component", "get_components", "is_ours", "plugin_names"]

GROUP = "asyncsched.components"
TORCHX_GROUP = "torchx.components"
"""The entry points of packages for TorchX: all components of a module count, with those of its submodules."""

_BUILT_IN = {"dist": "asyncsched.components.dist", "utils": "asyncsched.components.utils"}

_RULE = "a component is a public function with annotations that returns an AppDef"

_log = logging.getLogger("asyncsched.components")


def get_component(name: str) -> Component:
    """Return the component of this name; may import a module or run a file.

    Args:
        name: ``utils.echo``, a name that a package has registered, ``module.function``, or
            ``path/file.py:function``.

    Raises:
        ComponentError: There is no such component, it cannot be imported, or it does not follow the rules.
    """
    if ":" in name:
        return Component(name, _from_file(name))
    prefix, dot, function = name.rpartition(".")
    if prefix in _BUILT_IN:
        return Component(name, _attribute(importlib.import_module(_BUILT_IN[prefix]), function, name))
    plugin = next((found for entry in _plugins() if (found := _from_plugin(entry, name)) is not None), None)
    if plugin is not None:
        return Component(name, plugin)
    if function == "py" or "/" in name or (dot and not all(prefix.split("."))):
        raise _a_file(name)
    if not dot:
        raise _unknown(name)
    return Component(name, _from_module(prefix, function, name))


def built_in_components() -> dict[str, Component]:
    """Return the built-in components by name."""
    found: dict[str, Component] = {}
    for prefix, module in _BUILT_IN.items():
        found |= _components(prefix, importlib.import_module(module))
    return found


def is_ours(name: str) -> bool:
    """Return whether only a built-in component, or one of an installed package, can have this name."""
    prefix, dot, _ = name.rpartition(".")
    return ":" not in name and (prefix in _BUILT_IN or not dot)


def plugin_names() -> list[str]:
    """Return the names of the components' entry points, without importing them."""
    return [entry.name for entry in _plugins()]


def get_components() -> dict[str, Component]:
    """Return the built-in components and those of installed packages by name; log and skip broken ones."""
    found = built_in_components()
    for entry in _plugins():
        try:
            plugins = _of_plugin(entry)
        except Exception as error:  # noqa: BLE001 - one broken package must not hide the others
            _log.warning("the components %s of %s cannot be loaded: %s", entry.name, entry.value, error)
            continue
        for name in plugins.keys() & found.keys():
            # A package for TorchX registers TorchX's own components again, which would hide ours.
            level = logging.DEBUG if entry.group == TORCHX_GROUP else logging.WARNING
            _log.log(level, "the component %s of %s is ignored: the name is taken", name, entry.value)
        found = plugins | found
    return dict(sorted(found.items()))


def _plugins() -> list[EntryPoint]:
    return [*entry_points_of(GROUP), *entry_points_of(TORCHX_GROUP)]


def _from_plugin(entry: EntryPoint, name: str) -> Callable[..., object] | None:
    """Return the function if this package has a component of this name; others are not imported."""
    if entry.attr:
        return cast("Callable[..., object]", _loaded(entry)) if name == _shown_name(entry) else None
    if not (_is_hidden(entry) or name.startswith(f"{entry.name}.")):
        return None
    path, _, function = name.removeprefix(f"{_prefix(entry)}.").rpartition(".")
    if path and entry.group != TORCHX_GROUP:
        return None
    module = _submodule(entry, cast("ModuleType", _loaded(entry)), path)
    value: object = getattr(module, function, None)
    return value if callable(value) else None


def _submodule(entry: EntryPoint, module: ModuleType, path: str) -> ModuleType | None:
    """Return the module of this name below another, or None if there is none."""
    for name in path.split(".") if path else ():
        if name not in _names_below(module):
            return None
        with _loading(entry):
            module = importlib.import_module(f"{module.__name__}.{name}")
    return module


def _submodules(entry: EntryPoint, module: ModuleType) -> Iterator[tuple[str, ModuleType]]:
    """Yield the modules below another, with their names relative to the prefix."""
    for name in _names_below(module):
        inner = _submodule(entry, module, name)
        if inner is not None:
            yield name, inner
            yield from ((f"{name}.{below}", each) for below, each in _submodules(entry, inner))


def _names_below(module: ModuleType) -> list[str]:
    """Return the names of the modules that a package contains; none if it is not a package."""
    import pkgutil  # imported late: only modules of plugins are searched

    return [found.name for found in pkgutil.iter_modules(getattr(module, "__path__", ()))]


def _of_plugin(entry: EntryPoint) -> dict[str, Component]:
    loaded = _loaded(entry)
    if isinstance(loaded, ModuleType):
        found = _components(_prefix(entry), loaded)
        for path, module in _submodules(entry, loaded) if entry.group == TORCHX_GROUP else ():
            found |= _components(".".join(filter(None, (_prefix(entry), path))), module)
        return found
    name = _shown_name(entry)
    return {name: Component(name, cast("Callable[..., object]", loaded))}


def _loaded(entry: EntryPoint) -> object:
    with _loading(entry):
        return cast("object", entry.load())


@contextmanager
def _loading(entry: EntryPoint) -> Generator[None]:
    """Name the package in the error if its modules cannot be imported."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise ComponentError(
            f"the components {entry.name} cannot be loaded from {entry.value}",
            why=f"{type(error).__name__}: {error}",
            fix="repair or remove the package that provides them",
        ) from error


def _is_hidden(entry: EntryPoint) -> bool:
    return entry.name.startswith("_")


def _prefix(entry: EntryPoint) -> str:
    """Return the prefix of the functions' names; empty if the entry's name starts with an underscore."""
    return "" if _is_hidden(entry) else entry.name


def _shown_name(entry: EntryPoint) -> str:
    return entry.attr if _is_hidden(entry) else entry.name


def _components(prefix: str, module: ModuleType) -> dict[str, Component]:
    """Return the public functions that are defined in the module itself and are components."""
    found: dict[str, Component] = {}
    for function, value in vars(module).items():
        if function.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        name = f"{prefix}.{function}" if prefix else function
        try:
            found[name] = Component(name, value)
        except ComponentError as error:
            _log.debug("%s", error)  # a helper function beside the components is not an error
    return found


def _from_file(name: str) -> Callable[..., object]:
    file, _, function = name.rpartition(":")
    path = Path(file).expanduser()
    if not path.is_file():
        near = Path(f"{path}.py").is_file()
        raise ComponentError(
            f"no file {file}",
            why=f"looked in {path.absolute().parent}",
            fix=f"did you mean {file}.py:{function}?"
            if near
            else "write a component in a file as path/file.py:function",
        )
    # Any name will do, but it must not hide a module that the file imports.
    spec = importlib.util.spec_from_file_location(f"_component_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ComponentError(f"{file} is not a Python file", fix="its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    with _importable(path.absolute().parent), _told(name):
        spec.loader.exec_module(module)
    return _attribute(module, function, name)


def _a_file(name: str) -> ComponentError:
    """Return the error for a path in place of a component; the file itself is not run."""
    path = Path(name).expanduser()
    form = "write a component in a file as path/file.py:function"
    if path.is_dir() or (path.exists() and path.suffix != ".py"):
        return ComponentError(f"{name} is a {'directory' if path.is_dir() else 'file'}, not a component", fix=form)
    if path.exists():
        found = next(iter(functions_in(path)), "")
        fix = f"did you mean {name}:{found}?" if found else f"add the function's name: {name}:function"
        return ComponentError(f"{name} is a file, not a component", why="a component is a function in a file", fix=fix)
    near = _nearest(path.name, [each.name for each in path.absolute().parent.glob("*.py")])
    fix = f"did you mean {path.with_name(near)}?" if near else form
    return ComponentError(f"no file {name}", why=f"looked in {path.absolute().parent}", fix=fix)


def functions_in(path: Path) -> dict[str, list[str]]:
    """Return the functions of a file that are annotated to return an AppDef, with their arguments; it is not run."""
    import ast

    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return {}
    functions = [each for each in body if isinstance(each, ast.FunctionDef) and each.returns is not None]
    return {
        each.name: [argument.arg for argument in (*each.args.posonlyargs, *each.args.args, *each.args.kwonlyargs)]
        for each in functions
        if each.returns is not None and "AppDef" in ast.unparse(each.returns)
    }


def _from_module(module_name: str, function: str, name: str) -> Callable[..., object]:
    with _importable(Path.cwd()), _told(name):
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            # The module itself, or one that it imports?
            if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
                raise _unknown(name, f"cannot import the module {error.name}") from None
            raise
    return _attribute(module, function, name)


@contextmanager
def _importable(directory: Path) -> Generator[None]:
    """Make modules beside a component importable while it is imported, as when a script runs."""
    entry = str(directory)
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        if entry in sys.path:
            sys.path.remove(entry)


@contextmanager
def _told(name: str) -> Generator[None]:
    """Turn any error of importing the user's code into a ComponentError with file and line."""
    try:
        yield
    except ComponentError:
        raise
    except (Exception, SystemExit) as error:
        told = error.msg if isinstance(error, SyntaxError) else error
        why = f"{place_of(error)}: {type(error).__name__}: {told}"
        raise ComponentError(f"cannot import {name}", why=why) from error


def _attribute(module: ModuleType, function: str, name: str) -> Callable[..., object]:
    value: object = getattr(module, function, None)
    if value is not None and not function.startswith("_"):
        return cast("Callable[..., object]", value)
    there = [found.name for found in _components("", module).values()]
    near = _nearest(function, there)
    file = short_path(getattr(module, "__file__", None) or module.__name__)
    raise ComponentError(
        f"no component {name}",
        why=f"{file} has no function {function or 'without a name'}; it has {', '.join(there) or 'no components'}",
        fix=f"did you mean {name.removesuffix(function)}{near}?"
        if near
        else "a component is a public function with annotations that returns an AppDef",
    )


def _unknown(name: str, why: str = "") -> ComponentError:
    known = {full.rpartition(".")[2]: full for full in get_components()}
    # `ehco` means utils.echo.
    near = _nearest(name, known.values()) or known.get(_nearest(name, known, 0.75))
    hint = f"did you mean {near}?" if near else f"use one of {', '.join(known.values())}"
    return ComponentError(
        f"no component {name or repr(name)}", why=why, fix=f"{hint} (your own: path/file.py:function)"
    )


def _nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    import difflib  # imported only after a mistake

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), "")
