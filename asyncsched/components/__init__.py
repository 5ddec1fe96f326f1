"""Components: functions that make an `AppDef`, and whose annotations and docstring are their command line.

``utils`` and ``dist`` hold the built-in ones. Others are named by where they are (``module.function``,
``path/file.py:function``) or come from installed packages (entry points in the group ``asyncsched.components``).
"""

from __future__ import annotations

from asyncsched.components.component import Component
from asyncsched.components.finder import get_component, get_components
from asyncsched.components.images import default_image

__all__ = ["Component", "default_image", "get_component", "get_components"]
