"""Registers the schedulers of asyncsched where TorchX reads no entry points.

TorchX reads both entry points and this namespace package, warns where both have a name, and prefers the entry point:
so this registers nothing, and imports nothing, while entry points are read. `TORCHX_PLUGINS_SOURCE=1` says that they
are not, and so does a release of TorchX that knows of none.
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
