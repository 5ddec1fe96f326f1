"""Sphinx's configuration: `tests/run` builds the docs with warnings as errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

import asyncsched

sys.path.insert(0, str(Path(__file__).parent))

project = "asyncsched"
author = "the asyncsched authors"
copyright = "the asyncsched authors"
version = release = asyncsched.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "_features",
    "_reference",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = True
default_role = "py:obj"

html_theme = "furo"
html_title = "asyncsched"
html_static_path = ["_static"]
html_css_files = ["column.css"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

NOT_OURS = "object,str,int,tuple,list,dict,Exception,BaseException,Enum,StrEnum,AsyncGenerator,Mapping"
"""Bases whose members Python's own documents describe."""

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "show-inheritance": True, "inherited-members": NOT_OURS}
autoclass_content = "class"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

_FIELD = type(asyncsched.StateEvent.gone)


def skip_fields(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out what Python says of a named tuple's fields: the class's docstring says more."""
    return True if isinstance(member, _FIELD) else None


def plain_defaults(
    app: Sphinx, what: str, name: str, value: object, options: object, arguments: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Write a default that is not Python, such as a factory, as an ellipsis: Sphinx can then read the signature."""
    if arguments is not None:
        arguments = re.sub(r"(?<==)( ?)(<factory>|<function [^\s,]*>)", r"\1...", arguments)
        arguments = re.sub(r"\b([A-Z_]+) \(\d+\)", r"\1", arguments)
        arguments = arguments.replace("*surplus: Never", "*")  # it is there for a better error
    return arguments, returned


def public_bases(app: Sphinx, name: str, cls: object, options: object, bases: list[object]) -> None:
    """Leave out bases that are only parts of the class: their members are described with it."""
    bases[:] = [base for base in bases if not getattr(base, "__name__", "").startswith("_")] or [object]


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-signature", plain_defaults)
    app.connect("autodoc-process-bases", public_bases)
    app.connect("autodoc-skip-member", skip_fields)
