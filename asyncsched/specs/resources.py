"""Resources by name: generic sizes, AWS instance types, and what plugins add.

A plugin is an entry point in the group ``asyncsched.named_resources``: a function without arguments that
returns a ``Resource``. It cannot replace a built-in name. A broken plugin raises only when its name is used.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from asyncsched._entry_points import entry_points_of
from asyncsched.errors import ConfigError, UnknownResourceError
from asyncsched.specs.app import NULL_RESOURCE, Resource

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["NamedResources", "built_in_names", "get_named_resources", "named_resources", "resource"]

PLUGIN_GROUP = "asyncsched.named_resources"

_DEFAULT_CPU = 2
_DEFAULT_GPU = 0
_DEFAULT_MEM_MB = 1024


def _built_in() -> dict[str, Resource]:
    from asyncsched.specs.resources_aws import AWS_RESOURCES
    from asyncsched.specs.resources_generic import GENERIC_RESOURCES

    return {**GENERIC_RESOURCES, **AWS_RESOURCES, "NULL": NULL_RESOURCE, "MISSING": NULL_RESOURCE}


def built_in_names() -> list[str]:
    """Return the names that no plugin can take."""
    return [*_built_in()]


def _plugins() -> dict[str, EntryPoint]:
    return {plugin.name: plugin for plugin in entry_points_of(PLUGIN_GROUP)}


class NamedResources(Mapping[str, Resource]):
    """Resources by name; each look-up returns a new object, which you may change.

    Installed packages are searched for plugins when a name is not built in, or when the names are listed.
    """

    def __init__(self, plugins: Callable[[], Mapping[str, EntryPoint]] = _plugins) -> None:
        self._find_plugins = plugins

    def __getitem__(self, name: str) -> Resource:
        built_in = _built_in()
        if name in built_in:
            return copy.deepcopy(built_in[name])
        plugins = self._find_plugins()
        if name not in plugins:
            raise _unknown(name, [*built_in, *plugins])
        return _load(plugins[name])

    # Mapping's method would load the plugin.
    def __contains__(self, name: object) -> bool:
        return name in _built_in() or name in self._find_plugins()

    def __iter__(self) -> Iterator[str]:
        return iter({**_built_in(), **self._find_plugins()})

    def __len__(self) -> int:
        return len({**_built_in(), **self._find_plugins()})

    def __repr__(self) -> str:
        return f"<named resources: {', '.join(self)}>"


def _load(plugin: EntryPoint) -> Resource:
    try:
        found = plugin.load()()
    except (Exception, SystemExit) as error:
        raise _broken(plugin, f"{type(error).__name__}: {error}") from error
    if not isinstance(found, Resource):
        raise _broken(plugin, f"it returned {found!r}")
    return found


def _broken(plugin: EntryPoint, why: str) -> ConfigError:
    what = f"The named resource `{plugin.name}` cannot be loaded from {plugin.value}"
    return ConfigError(what, why=why, fix="repair or remove the package that provides it")


def _unknown(name: str, known: list[str]) -> UnknownResourceError:
    from difflib import get_close_matches

    matches = get_close_matches(name, known, n=1)
    fix = f"Did you mean `{matches[0]}`?" if matches else f"registered are {', '.join(known)}"
    return UnknownResourceError(f"No named resource found for `{name}`", fix=fix)


named_resources = NamedResources()
"""Resources by name: ``named_resources["gpu.small"]``."""


def get_named_resources(res: str) -> Resource:
    """Return the resource of this name.

    Raises:
        UnknownResourceError: There is none; the message names the nearest.
    """
    return named_resources[res]


def resource(
    cpu: int | None = None,
    gpu: int | None = None,
    memMB: int | None = None,  # noqa: N803 - the documents' name
    h: str | None = None,
) -> Resource:
    """Return a resource of the given size, or the named resource ``h``.

    Args:
        cpu: Number of processors; None or 0 means 2.
        gpu: Number of GPUs; None means none.
        memMB: Memory in MB; None or 0 means 1024.
        h: A name in :data:`named_resources`; it overrides the sizes.
    """
    if h:
        return get_named_resources(h)
    return Resource(cpu=cpu or _DEFAULT_CPU, gpu=gpu or _DEFAULT_GPU, memMB=memMB or _DEFAULT_MEM_MB)
