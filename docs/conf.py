"""Sphinx's configuration: `tests/run` builds the docs with warnings as errors."""

from __future__ import annotations

import asyncsched

project = "asyncsched"
author = "the asyncsched authors"
copyright = "the asyncsched authors"
version = release = asyncsched.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = False

html_theme = "furo"
html_title = "asyncsched"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
autoclass_content = "class"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
