"""The library's errors speak to programs, too: they name parameters, and leave flags and verbs to the command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

import asyncsched
from asyncsched.cli.main import VERBS

ROOT = Path(asyncsched.__file__).parent
FOR_THE_COMMAND_LINE = {"components/help.py", "runner/config/template.py", "runner/config/config.py"}
"""The help that it shows, the file that it writes, and the note that it prints; none of them is an error."""

FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
VERB = re.compile(rf"asyncsched (?:{'|'.join(VERBS)})\b")


def modules() -> list[Path]:
    paths = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
    return [path for name, path in paths.items() if name not in FOR_THE_COMMAND_LINE and not name.startswith("cli/")]


def flags() -> set[str]:
    """Return the options of all verbs."""
    commands: list[click.Command] = [import_module(f"asyncsched.cli.{name}").command for name in VERBS]
    params = [param for command in commands for param in command.params if isinstance(param, click.Option)]
    return {flag for param in params for flag in (*param.opts, *param.secondary_opts)}


def sentences(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of a module that may be told to somebody: no docstrings, scripts or single words."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docs else None
        if isinstance(text, str) and " " in text and "\n" not in text and "(?" not in text:
            yield re.sub("ulimit -[a-z]", "", text)  # the shell's flag


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_text_of_the_library_names_a_flag(path: Path) -> None:
    known = flags()
    told = [
        text
        for text in sentences(ast.parse(path.read_text()))
        if known.intersection(FLAG.findall(text)) or VERB.search(text)
    ]

    assert [] == told
