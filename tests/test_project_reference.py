"""The docs as they are built: no warning, every public name and method in the reference, code that fits its column."""

from __future__ import annotations

import posixpath
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sphinx.util.inventory import InventoryFile

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
COLUMNS = 100
"""Characters of a line of code: ``docs/_static/column.css`` makes the column that wide."""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_public_name_and_method_is_in_the_reference(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "-d", str(tmp_path / "trees")]
    done = subprocess.run([*command, str(DOCS), str(tmp_path / "html")], capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)

    with (tmp_path / "html" / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", posixpath.join)
    known = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    expected: Callable[[], Iterator[str]] = runpy.run_path(str(DOCS / "_reference.py"))["expected"]
    names = {*expected()}

    assert {"asyncsched.Runner.wait", "asyncsched.runner.Runner.log_lines", "asyncsched.Scheduler.submit"} <= names
    assert [] == sorted(names - known)


def code_lines(page: Path) -> Iterator[tuple[int, str]]:
    fence: str | None = None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if found := re.match(r"\s*```(\S*)", line):
            fence = found[1] if fence is None else None
        elif fence is not None and not fence.startswith("{"):
            yield number, line


def test_code_fits_its_column() -> None:
    pages = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    too_long = [f"{page.name}:{number}" for page in pages for number, line in code_lines(page) if len(line) > COLUMNS]

    assert [] == too_long


def test_every_page_is_in_the_sidebar() -> None:
    """A page that no toctree names can be reached by a search alone."""
    named: set[str] = set()
    for page in DOCS.rglob("*.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), re.DOTALL):
            folder = page.parent.relative_to(DOCS)
            named |= {str(folder / line.strip()) for line in tree.splitlines() if line and not line.startswith(":")}
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md") if "_build" not in page.parts}

    assert {"index"} == pages - named
