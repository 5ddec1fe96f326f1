"""Components: functions that return an `AppDef`; their annotations and docstring define their command line.

``utils`` and ``dist`` have the built-in ones. Others are named by their place (``module.function``,
``path/file.py:function``) or come from installed packages (entry points in the group ``asyncsched.components``).
"""

from __future__ import annotations

from asyncsched.components.component import Component
from asyncsched.components.finder import get_component, get_components
from asyncsched.components.images import default_image

__all__ = ["Component", "default_image", "get_component", "get_components"]
