"""Registers asyncsched's schedulers if TorchX does not read entry points.

TorchX reads both entry points and this namespace package, warns if both have a name, and prefers the entry point: so
this module registers and imports nothing if entry points are read. They are not read with `TORCHX_PLUGINS_SOURCE=1`, or
by a release of TorchX that does not know them.
"""

import os

from torchx.plugins import _registry


def _reads_entry_points() -> bool:
    both = getattr(_registry, "PluginSource", None)
    if getattr(both, "ENTRYPOINT", None) is None:
        return False
    try:
        return bool(int(os.environ.get("TORCHX_PLUGINS_SOURCE", "3")) & int(both.ENTRYPOINT))
    except ValueError:  # TorchX says so, and reads both
        return True


if not _reads_entry_points():
    from asyncsched.torchx.namespace import register_all

    register_all(globals())
