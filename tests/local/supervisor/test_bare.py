"""The bare parts of the standard library do what the modules around them do, and those stay unimported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import asyncsched.schedulers.local.supervisor as package
from asyncsched.schedulers.local.supervisor.bare import dumps, loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)

IMPORTED = """
import sys
before = {*sys.modules}
sys.path.append(sys.argv[1])
import supervisor.main
print(*sorted(name for name in {*sys.modules} - before if not name.startswith("supervisor")))
"""

HEAVY = {"asyncio", "collections", "contextlib", "enum", "functools", "json", "re", "signal", "socket", "typing"}


@given(VALUES)
def test_it_writes_what_json_writes(value: object) -> None:
    assert dumps(value) == json.dumps(value, separators=(",", ":")).encode()


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_it_reads_what_json_reads(value: object, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    try:
        line = f" {text}\r\n".encode()
    except UnicodeEncodeError:  # half of a pair
        return
    assert loads(line) == json.loads(line)


@given(st.text() | st.text('[]{}",:0 \\n'))
def test_it_refuses_what_json_refuses(text: str) -> None:
    line = text.encode("utf-8", "surrogatepass")
    try:
        expected = json.loads(line.decode())
    except ValueError:
        with pytest.raises(ValueError):
            loads(line)
    else:
        assert loads(line) == expected or expected != expected


@pytest.mark.parametrize("line", [b"", b"\n", b"{", b"[1", b'"', b'"\n"', b"1 2", b"nul", b"\xff", b'{"a"}', b"{1: 2}"])
def test_without_json_it_refuses_too(line: bytes) -> None:
    """In a process that has not imported `json`, where the scanner's errors have no class."""
    code = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "from supervisor.bare import loads\n"
        f"try: loads({line!r})\n"
        "except ValueError: print('refused', 'json' in sys.modules)"
    )
    assert _run(code) == "refused False"


@pytest.mark.parametrize("lacks", ["sys.modules['_json'] = None", "import _json; del _json.make_scanner"])
def test_an_interpreter_without_the_c_half_uses_the_whole_module(lacks: str) -> None:
    code = (
        f"import sys; {lacks}\n"
        "sys.path.append(sys.argv[1])\n"
        "from supervisor.bare import dumps, loads\n"
        "print(dumps({'a': [1, None]}).decode(), loads(b' [2.5]\\n'))\n"
        "for line in (b'{', b'', b'1 2'):\n"
        "    try: print(loads(line))\n"
        "    except ValueError: print('refused')"
    )
    assert _run(code).split("\n") == ['{"a":[1,null]} [2.5]', *["refused"] * 3]


def test_what_cannot_be_written_is_named() -> None:
    with pytest.raises(TypeError, match="set cannot be written as JSON"):
        dumps({"a": {1}})


def test_the_supervisor_imports_nothing_heavy() -> None:
    imported = {*_run(IMPORTED).split()}
    assert not imported & HEAVY
    assert len(imported) <= 24, sorted(imported)


def _run(code: str) -> str:
    folder = str(Path(package.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, folder], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()
