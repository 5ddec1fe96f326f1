"""The code in the README and in docs/ is run as it stands.

The Python blocks of a page run in order, in one namespace, with `await` at the top level as in a
notebook. A `text` block right behind one is what it prints; `...` stands for anything.
In `console` blocks, the lines `$ asyncsched ...` are run.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(python|text|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, *languages: str) -> list[tuple[str, str, int]]:
    """Return the page's blocks: language, text, and the line on which the text begins."""
    source = page.read_text()
    return [
        (found[1], found[2], source.count("\n", 0, found.start(2)))
        for found in BLOCK.finditer(source)
        if found[1] in languages
    ]


def pages(*languages: str) -> list[Any]:
    return [pytest.param(page, id=page.name) for page in PAGES if blocks(page, *languages)]


async def run_block(code: str, page: Path, line: int, names: dict[str, Any]) -> str:
    """Run one block as a notebook would, and return what it printed."""
    # The page's own future imports count, not this module's.
    tree = compile(code, str(page), "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    ast.increment_lineno(tree, line)
    program = compile(tree, str(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        result = eval(program, names)
        if inspect.isawaitable(result):
            await result
    return printed.getvalue()


@pytest.mark.guard(loop_step=False, blocking=False, reason="a page's blocks import, define and block as users do")
@pytest.mark.parametrize("page", pages("python"))
async def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path / "home"))
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look their module up
    printed = ""
    for language, text, line in blocks(page, "python", "text"):
        if language == "python":
            printed = await run_block(text, page, line, vars(module))
            continue
        told = doctest.OutputChecker().check_output(text, printed, doctest.ELLIPSIS)

        assert told, f"{page.name}:{line} tells\n{text}\nbut this is printed:\n{printed}"


PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


def test_pictures_are_there_small_used_and_told_in_words() -> None:
    found = {
        (page.parent / where).resolve(): told for page in PAGES for told, where in PICTURE.findall(page.read_text())
    }

    assert {*found} == {path for path in (ROOT / "docs" / "_static").iterdir() if path.suffix != ".css"}
    assert all(len(told) > 30 for told in found.values()), "alternative texts"
    assert all(path.stat().st_size <= 200_000 for path in found)


def commands() -> list[Any]:
    return [
        pytest.param(command, id=f"{page.name}:{command}")
        for page in PAGES
        for _, text, _ in blocks(page, "console")
        for command in re.findall(r"^\$ (asyncsched .*)$", text, re.MULTILINE)
    ]


@pytest.mark.parametrize("command", commands())
def test_commands_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path / "home"))
    program, *arguments = shlex.split(command)
    installed = shutil.which(program, path=Path(sys.executable).parent)
    done = subprocess.run(
        [str(installed), *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False
    )

    assert 0 == done.returncode, done.stdout + done.stderr
