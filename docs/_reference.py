"""The API reference: every public name has one place, and is found under each package that offers it.

``.. public:: PACKAGE`` documents the names of a package's ``__all__`` that no earlier package of `PACKAGES` documents,
the one in ``:first:`` before the others; names of earlier packages are listed with links. ``.. front-door::`` lists the
names of `asyncsched` itself. Code in the pages, such as ```Runner.wait```, becomes a link where it names something
public.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache, partial
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import ObjectEntry, PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.errors import PycodeError
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode

import asyncsched

PACKAGES = (
    "asyncsched.errors",
    "asyncsched.specs",
    "asyncsched.runner",
    "asyncsched.schedulers",
    "asyncsched.schedulers.hooks",
    "asyncsched.schedulers.ending",
    "asyncsched.logs",
    "asyncsched.workspace",
    "asyncsched.testing",
    "asyncsched.testing.contract",
    "asyncsched.components",
    "asyncsched.clock",
    "asyncsched.sync",
    "asyncsched.schedulers.local",
    "asyncsched.schedulers.docker",
    "asyncsched.schedulers.slurm",
    "asyncsched.schedulers.kubernetes",
    "asyncsched.schedulers.aws_batch",
    "asyncsched.schedulers.gcp_batch",
    "asyncsched.runner.config",
)
"""What is public, in the order in which a name that several packages offer finds its place."""

FRONT_DOOR = "asyncsched"

PROGRAMS = ("asyncsched.__main__", "asyncsched.torchx", "asyncsched.schedulers.local.supervisor")
"""What is not imported here."""


def _is_second_name(module: ModuleType, name: str) -> bool:
    return getattr(getattr(module, name), "__name__", name) != name


@cache
def places() -> dict[str, dict[str, str]]:
    """Return the full name under which each public name of each package is documented."""
    known: dict[tuple[int, str], str] = {}
    found: dict[str, dict[str, str]] = {}
    for package in (*PACKAGES, FRONT_DOOR):
        module = importlib.import_module(package)
        # A class comes before its second names.
        for name in sorted(module.__all__, key=partial(_is_second_name, module)):
            value = getattr(module, name)
            # Small values may be one object by chance; then their names tell them apart.
            key = id(value), getattr(value, "__qualname__", name) if callable(value) else name
            found.setdefault(package, {})[name] = known.setdefault(key, f"{package}.{name}")
    return found


def own(package: str) -> list[str]:
    """Return the names that are documented with a package."""
    return [name for name, place in places()[package].items() if place == f"{package}.{name}"]


def members(cls: type) -> Iterator[str]:
    """Yield the public methods and properties of a class, those included that bases of ours define."""
    ours = [base for base in cls.__mro__ if base.__module__.partition(".")[0] == "asyncsched"]
    for name in sorted({name for base in ours for name in vars(base) if not name.startswith("_")}):
        value = inspect.getattr_static(cls, name)
        if isinstance(value, property | classmethod | staticmethod) or inspect.isroutine(value):
            yield name


def expected() -> Iterator[str]:
    """Yield every name that the inventory of the docs has to hold."""
    for package in (*PACKAGES, FRONT_DOOR):
        module = importlib.import_module(package)
        for name in module.__all__:
            yield f"{package}.{name}"
            value = getattr(module, name)
            if inspect.isclass(value):
                yield from (f"{package}.{name}.{member}" for member in members(value))


def _said_of(package: str, name: str) -> str:
    """Return what stands below the definition of a value, which has no docstring of its own."""
    value = getattr(importlib.import_module(package), name)
    for module in _modules():
        if vars(module).get(name) is value:
            try:
                said = ModuleAnalyzer.for_module(module.__name__).find_attr_docs().get(("", name))
            except PycodeError:
                continue
            if said:
                return " ".join(said).strip()
    return ""


def _is_value(package: str, name: str) -> bool:
    value = getattr(importlib.import_module(package), name)
    return not (inspect.isclass(value) or inspect.isroutine(value))


def _flag(_: object) -> bool:
    return True


class Made(SphinxDirective):
    """Shows lines of reStructuredText."""

    optional_arguments = 1
    option_spec = {"first": str, "private-members": _flag, "whole": str}  # noqa: RUF012 - as docutils has it

    def lines(self) -> list[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        parent = nodes.container()
        self.state.nested_parse(StringList(self.lines(), source="docs/_reference.py"), self.content_offset, parent)
        return [*parent.children]


class Public(Made):
    def lines(self) -> list[str]:
        package = self.arguments[0]
        mine = own(package)
        values = [name for name in mine if _is_value(package, name)]
        others = {name: place for name, place in places()[package].items() if name not in mine}
        first = self.options.get("first")
        lines = [f".. autoclass:: {package}.{first}", ""] if first else []
        lines += [f".. automodule:: {package}", "   :imported-members:"]
        if "private-members" in self.options:
            lines.append("   :private-members:")
        whole = self.options.get("whole")
        left_out = [
            *others,
            *(name for name in (first, whole) if name),
            *(name for name in values if name in vars(sys.modules[package])),
        ]
        if left_out:
            lines.append(f"   :exclude-members: {', '.join(left_out)}")
        for name in values:
            lines += [
                "",
                f".. py:data:: {name}",
                f"   :module: {package}",
                "",
                f"   {_said_of(package, name)}",
            ]
        if whole:
            lines += ["", f".. autoclass:: {whole}", "   :undoc-members:"]
        if others:
            told = ", ".join(f":py:obj:`{name} <{place}>`" for name, place in others.items())
            lines += ["", f"Also in this package: {told}."]
        return [*lines, ""]


class FrontDoor(Made):
    def lines(self) -> list[str]:
        lines: list[str] = []
        for package in PACKAGES:
            names = [name for name, place in places()[FRONT_DOOR].items() if place == f"{package}.{name}"]
            if names:
                told = ", ".join(f":py:obj:`{name} <{package}.{name}>`" for name in names)
                lines += [f":py:mod:`{package}`", f"    {told}"]
        return [*lines, ""]


def note_aliases(app: Sphinx, env: BuildEnvironment) -> Sequence[str]:
    """Let every public name be found under every package that offers it, with its members."""
    domain = env.get_domain("py")
    assert isinstance(domain, PythonDomain)
    for package, names in places().items():
        for name, place in names.items():
            for known, entry in [*domain.objects.items()]:
                if known == place or known.startswith(f"{place}."):
                    alias = f"{package}.{name}{known.removeprefix(place)}"
                    if alias not in domain.objects:
                        domain.objects[alias] = ObjectEntry(entry.docname, entry.node_id, entry.objtype, True)
    return []


@cache
def _spoken() -> dict[str, str]:
    """Return the full names of what pages call by a short name: ``Runner``, ``Runner.wait``, ``asyncsched.Runner``."""
    found: dict[str, str] = {}
    for package, names in places().items():
        for name, place in names.items():
            found.setdefault(name, place)
            found.setdefault(f"{package}.{name}", place)
            value = getattr(importlib.import_module(package), name)
            if inspect.isclass(value):
                for member in members(value):
                    found.setdefault(f"{name}.{member}", f"{place}.{member}")
    return found


_OBJECTS = {"runner": "Runner", "group": "JobGroup", "job": "Job", "scheduler": "Scheduler"}
"""What pages call an object of a class."""


def _name_in(code: str) -> str:
    """Return the name that a piece of code is about: ``Runner.wait`` for ``await runner.wait(handle)``."""
    found = re.fullmatch(r"(?:await )?(\w+)\.(\w+)(?:\(.*\))?", code)
    if found is not None and found[1] in _OBJECTS:
        return f"{_OBJECTS[found[1]]}.{found[2]}"
    return code.removesuffix("()")


def link_code(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Make links of code in prose that names something public."""
    domain = app.env.get_domain("py")
    assert isinstance(domain, PythonDomain)
    for literal in [*doctree.findall(nodes.literal)]:
        target = _spoken().get(_name_in(literal.astext()))
        if target is None or target not in domain.objects or _is_inside(literal, nodes.reference, nodes.title):
            continue
        if "." not in literal.astext() and literal.astext().islower():  # a word that names other things as well
            continue
        entry = domain.objects[target]
        if entry.docname == docname:
            link = nodes.reference("", "", refid=entry.node_id, internal=True)
        else:
            uri = app.builder.get_relative_uri(docname, entry.docname)
            link = nodes.reference("", "", refuri=f"{uri}#{entry.node_id}", internal=True)
        link["reftitle"] = target
        literal.replace_self(link)
        link += literal


def _is_inside(node: nodes.Node, *kinds: type[nodes.Node]) -> bool:
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


@cache
def _parameters() -> frozenset[str]:
    """Return the names of all parameters and attributes: docstrings write them as they write other names."""
    found: set[str] = set()
    for module in _modules():
        for value in vars(module).values():
            for each in (value, *(vars(value).values() if inspect.isclass(value) else ())):
                if inspect.isclass(each):
                    found |= {*getattr(each, "__annotations__", ()), *vars(each)}
                try:
                    found |= {*inspect.signature(each).parameters}
                except (TypeError, ValueError):
                    continue
    return frozenset(found)


def _modules() -> list[ModuleType]:
    return [module for name, module in [*sys.modules.items()] if name.partition(".")[0] == "asyncsched"]


def resolve(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.Element) -> Any:
    """Find what Sphinx does not: short names, Python's own; and leave as code what nothing documents on its own."""
    if node.get("refdomain") != "py":
        return None
    target = str(node["reftarget"])
    name, _, member = target.partition(".")
    its_class = _spoken().get(name) if member in _parameters() else None  # a field is documented with its class
    for place in (_spoken().get(target), f"{_spoken().get(name)}.{member}", its_class):
        if (found := _ours(app, env, node, content, place)) is not None:
            return found
    if (link := _python(target)) is not None:
        return nodes.reference("", "", content, refuri=link, internal=False) if link else content
    return content if _is_known(target, node) else None


def _is_known(target: str, node: addnodes.pending_xref) -> bool:
    """Tell whether something is a parameter, an attribute, or private."""
    parts = target.split(".")
    if not all(part.isidentifier() for part in parts):
        return node["reftype"] == "class"  # a piece of what an annotation says beside the type
    if node["reftype"] == "obj" and not node.get("refexplicit") and {*parts} <= _parameters():
        return True
    if parts[0] == "asyncsched":
        return _is_private(target)
    return node["reftype"] in ("class", "exc") and any(name in _source_names() for name in parts[:1])


@cache
def _source_names() -> frozenset[str]:
    """Return the names that modules of ours define or import, those for type checkers alone included."""
    found: set[str] = set()
    for module in _modules():
        tree = ast.parse(inspect.getsource(module))
        for each in ast.walk(tree):
            if isinstance(each, ast.ClassDef):
                found.add(each.name)
            elif isinstance(each, ast.ImportFrom):
                found |= {alias.asname or alias.name for alias in each.names}
            elif isinstance(each, ast.AnnAssign | ast.Assign):
                targets = each.targets if isinstance(each, ast.Assign) else [each.target]
                found |= {name.id for name in targets if isinstance(name, ast.Name)}
    return frozenset(found)


_ELSEWHERE = {"asyncio.timeout": "asyncio-task"}
"""Names of asyncio, whose documents are several pages, by their page."""


def _python(target: str) -> str | None:
    """Return the address of a name of Python; empty where it is not known, None if it is no such name."""
    name = target.partition(".")[0]
    if hasattr(builtins, name):
        return f"https://docs.python.org/3/library/stdtypes.html#{target}"
    if name not in sys.stdlib_module_names:
        return None
    module, _, last = target.rpartition(".")
    try:
        getattr(importlib.import_module(module), last)
    except (ImportError, AttributeError, ValueError):
        return "" if target == "types.Annotated" else None  # as Sphinx calls it
    page = _ELSEWHERE.get(target, "" if name == "asyncio" else module)
    return f"https://docs.python.org/3/library/{page}.html#{target}" if page else ""


def _ours(
    app: Sphinx,
    env: BuildEnvironment,
    node: addnodes.pending_xref,
    content: nodes.Element,
    target: str | None,
) -> nodes.Element | None:
    domain = env.get_domain("py")
    assert isinstance(domain, PythonDomain)
    entry = domain.objects.get(target or "")
    if entry is None:
        return None
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, content, target)


def _is_private(target: str) -> bool:
    """Tell whether a name of ours is there, and no public package offers it."""
    module, _, name = target.rpartition(".")
    return module in sys.modules and hasattr(sys.modules[module], name) and name not in _spoken()


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("public", Public)
    app.add_directive("front-door", FrontDoor)
    app.connect("env-updated", note_aliases)
    app.connect("doctree-resolved", link_code)
    app.connect("missing-reference", resolve)
    for module in pkgutil.walk_packages(asyncsched.__path__, "asyncsched."):
        if not module.name.startswith(PROGRAMS):
            importlib.import_module(module.name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
