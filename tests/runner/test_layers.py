"""What stands above the backends knows none of them by its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsched.schedulers.registry import known_names

PACKAGE = Path(__file__).parents[2] / "asyncsched"
ABOVE = [
    path
    for room in ("cli", "runner", "sync.py", "_facade.py", "testing")
    for path in sorted([PACKAGE / room] if room.endswith(".py") else (PACKAGE / room).rglob("*.py"))
]


@pytest.mark.parametrize("path", ABOVE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_backend_is_named_above_the_backends(path: Path) -> None:
    named = {
        f"line {node.lineno}: {name}"
        for node in texts(ast.parse(path.read_text()))
        for name in known_names()
        if isinstance(node.value, str) and (name in node.value.split() or node.value.strip() == name)
    }

    assert set() == named


def texts(tree: ast.Module) -> Iterator[ast.Constant]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
