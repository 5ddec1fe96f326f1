"""What is left out of a workspace is what ``docker build`` leaves out of its context."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from asyncsched.errors import WorkspaceError
from asyncsched.workspace.files import LocalTree, taken
from asyncsched.workspace.ignore import Ignore
from tests._services import unavailable
from tests.services.dockerd import Dockerd
from tests.workspace import _docker_cli
from tests.workspace._docker_cli import Packer

TREE = (
    "a/b/c.py",
    "a/b/keep.txt",
    "a/keep.txt",
    "a.log",
    "b/a.log",
    "b/keep.txt",
    "docs/a b.md",
    "docs/deep/er/x.log",
    "#hash",
    "!bang",
    "[x]",
    "lib/",
)

CASES: dict[str, set[str]] = {
    # Anchored at the root.
    "*.log": {"a.log"},
    "a.log": {"a.log"},
    "/a.log": {"a.log"},
    "./a.log": {"a.log"},
    "**/*.log": {"a.log", "b/a.log", "docs/deep/er/x.log"},
    "*/*.log": {"b/a.log"},
    # A directory, with all that is in it, however it is written.
    "b": {"b", "b/a.log", "b/keep.txt"},
    "b/": {"b", "b/a.log", "b/keep.txt"},
    "/b": {"b", "b/a.log", "b/keep.txt"},
    "/b/": {"b", "b/a.log", "b/keep.txt"},
    "b/**": {"b/a.log", "b/keep.txt"},
    "b/*": {"b/a.log", "b/keep.txt"},
    "docs/**/x.log": {"docs/deep/er/x.log"},
    "**/deep": {"docs/deep", "docs/deep/er", "docs/deep/er/x.log"},
    "docs/?eep": {"docs/deep", "docs/deep/er", "docs/deep/er/x.log"},
    # A star stops at a slash.
    "do*x.log": set(),
    "do*": {"docs", "docs/a b.md", "docs/deep", "docs/deep/er", "docs/deep/er/x.log"},
    # The last pattern that matches decides; the parents of what is taken back come with it.
    "b\n!b/keep.txt": {"b/a.log"},
    "!b/keep.txt\nb": {"b", "b/a.log", "b/keep.txt"},
    "*\n!a/b": {"#hash", "!bang", "[x]", "a.log", "a/keep.txt", "lib"}
    | {"b", "b/a.log", "b/keep.txt", "docs", "docs/a b.md", "docs/deep", "docs/deep/er", "docs/deep/er/x.log"},
    # Nothing is looked for below a directory that is left out unless a pattern begins with its path.
    "b\n!**/keep.txt": {"b", "b/a.log", "b/keep.txt"},
    "b/*\n!**/keep.txt": {"b/a.log"},
    # Comments, spaces, escapes.
    "# b": set(),
    "#hash": set(),
    "\\#hash": {"#hash"},
    "  a.log  ": {"a.log"},
    "! a.log\na.log": {"a.log"},
    "\\!bang": {"!bang"},
    "docs/a b.md": {"docs/a b.md"},
    "\\[x]": {"[x]"},
    "[!a-b].log": {"a.log"},  # the exclamation mark is one of its letters
    "[^b].log": {"a.log"},
    "[ab].log": {"a.log"},
    "\ufeffa.log": {"a.log"},
    "a.log\r\nlib\r": {"a.log", "lib"},
    "": set(),
    ".": set(),
    "..": set(),
    "/": set(),
    "**keep.txt": {"a/b/keep.txt", "a/keep.txt", "b/keep.txt"},
    "lib": {"lib"},
    # What Docker does not escape means in a pattern what it means in a regular expression.
    "*.log|lib": {"a.log", "lib"},
    "{lib}*": set(),
    "[a]{1}.log": {"a.log"},
    "[a]{,2}.log": set(),  # Go takes what is no count as it is
    "^{2}[a].log": {"a.log"},
    # What a backslash means before a letter, and in brackets, is Go's.
    "[[:alpha:]].log": {"a.log"},
    "[[:^alpha:]]*": {"#hash", "!bang", "[x]"},
    "\\pL.log": {"a.log"},
    "\\p{Lu}.log": set(),
    "\\p{^Lu}.log": {"a.log"},
    "\\P{Any}*": set(),
    "[\\PL]*": {"#hash", "!bang", "[x]"},
    "\\Qa.log\\E": set(),  # the dot has a backslash by then
    "\\Qlib\\E": {"lib"},
    "\\Qlib": set(),  # the end of the pattern is taken as it is, too
    "a.log\\z": {"a.log"},
    "\\Aa.log": {"a.log"},
    "\\ba.log": {"a.log"},
    "\\Ba.log": set(),
    "\\x61.log": {"a.log"},
    "\\x{61}.log": {"a.log"},
    "\\141.log": {"a.log"},
    "docs/a\\sb.md": {"docs/a b.md"},
    "docs/a\\Db\\W\\w*": {"docs/a b.md"},
    # A pattern that cannot be read does no harm where none needs it.
    "![z-a]\nlib": {"lib"},
}

MALFORMED = ["!", "[", "[a", "[]a]", "a[", "[a-]", "a\\", "!/", "[-a]"]
"""What is refused whatever the workspace holds."""

UNREADABLE = [
    "[z-a]",
    "[[:alpha:]",
    "[[:letters:]]",
    "\\q",
    "\\é",
    "\\1",
    "\\C",
    "\\E",
    "\\x{110000}",
    "[\\b]",
    "[\\z]",
    "\\pX",
    "*{2}",
    "[a]{2}{3}",
    "[a]{1001}",
    "[a]{2,1}",
    "*a|{2}",
]
"""What is refused when a path is held against it."""


def plant(root: Path, paths: tuple[str, ...] | list[str]) -> Path:
    for path in paths:
        target = root / path
        if path.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("x")
    return root


def kept(root: Path, rules: str) -> dict[str, str]:
    tree = LocalTree(str(root))
    try:
        return {each.path: each.kind for each in taken(tree, Ignore(rules), list[str]().append)}
    finally:
        tree.close()


def everything() -> set[str]:
    parents = {str(parent) for path in TREE for parent in Path(path).parents} - {"."}
    return {path.rstrip("/") for path in TREE} | parents


@pytest.mark.parametrize("rules", CASES, ids=repr)
def test_the_table(rules: str, tmp_path: Path) -> None:
    plant(tmp_path, TREE)

    assert CASES[rules] == everything() - kept(tmp_path, rules).keys()


@pytest.mark.parametrize("rules", UNREADABLE)
def test_a_pattern_is_read_when_a_path_needs_it(rules: str) -> None:
    by_need = Ignore(f"a\n{rules}\n")

    assert by_need.judge("a").is_left_out
    with pytest.raises(WorkspaceError, match="malformed pattern"):
        by_need.judge("b")


def test_a_script_of_unicode_is_said_to_be_unknown() -> None:
    with pytest.raises(WorkspaceError, match="not a Unicode category; Unicode scripts are not supported"):
        Ignore("\\p{Greek}").judge("a")


def test_bytes_that_are_not_utf8_are_one_letter_each() -> None:
    ignore = Ignore("a?b\n\udcff*")

    assert ignore.judge("a\udce4b").is_left_out
    assert ignore.judge("\udce4").is_left_out  # to Go, one such byte is like another
    assert not ignore.judge("a\udce4\udce4b").is_left_out


@pytest.mark.parametrize("rules", MALFORMED)
def test_a_malformed_pattern_is_named(rules: str) -> None:
    with pytest.raises(WorkspaceError, match="malformed pattern"):
        Ignore(f"a\n{rules}\n")


# Against the command itself


@pytest.fixture(scope="module")
def docker_build() -> Iterator[Packer]:
    why = _docker_cli.why_it_cannot_run()
    if why:
        unavailable("dockerd", why)
    with _docker_cli.packer() as packer:
        yield packer


def compare(packer: Packer, root: Path, rules: str) -> None:
    """Assert that Docker and we take the same; these two files are for the daemon, which drops them by itself."""
    (root / "Dockerfile").write_text("FROM scratch\nCOPY . .\n")
    (root / ".dockerignore").write_bytes(rules.encode())
    told = packer.pack(root)
    try:
        ours: dict[str, str] | None = kept(root, rules)
    except WorkspaceError:
        ours = None
    for found in (told, ours):
        for name in ("Dockerfile", ".dockerignore"):
            (found or {}).pop(name, None)

    assert told == ours


@pytest.mark.service("dockerd")
@pytest.mark.parametrize("rules", [*CASES, *MALFORMED, *UNREADABLE], ids=repr)
def test_docker_takes_what_the_table_says(rules: str, docker_build: Packer, tmp_path: Path) -> None:
    compare(docker_build, plant(tmp_path, TREE), rules)


NAMES = st.sampled_from(["a", "b", "ab", "a.b", "x.py", "a b", "é", ".h", "#c", "!n", "[a]", "a*b", "^a", "(a)", "a$"])
PARTS = NAMES | st.sampled_from(
    [
        "*",
        "**",
        "?",
        "a*",
        "*b",
        "*.py",
        "??",
        "[ab]",
        "[^a]",
        "[a-c]b",
        "[]a]",
        "[a-]",
        "[-b]*",
        "*[^-a]",
        "*[a",
        "*\\",
        "\\#c",
        "\\[a]",
        "**a",
        "a**",
        "***",
        "*a|b",
        "a*|b",
        "?|*b",
        "{a}*",
        ".",
        "..",
    ]
)
PATTERNS = st.builds(
    lambda mark, first, parts, last: mark + first + "/".join(parts) + last,
    st.sampled_from(["", "", "", "!", "!", "#", " ", "! "]),
    st.sampled_from(["", "", "", "/", "./", "//", "**/"]),
    st.lists(PARTS, min_size=0, max_size=4),
    st.sampled_from(["", "", "", "/", "/**", "/*", " ", "\r", "//"]),
)
TREES = st.lists(
    st.builds(lambda parts, last: "/".join(parts) + last, st.lists(NAMES, min_size=1, max_size=4), st.just("")),
    min_size=1,
    max_size=12,
    unique=True,
).map(lambda paths: [path for path in paths if not any(other.startswith(f"{path}/") for other in paths)])


# What Docker hands on to Go's regular expressions, and what they do not take.
EXPRESSIONS = st.lists(
    st.sampled_from(
        ["a", "b", ".", "*", "?", "**", "|", "^", "$", "(", "]", "{", "}", "{2}", "{0,1}", "{1,}", "{,2}", "{2,1}", "é"]
        + ["[[:alpha:]]", "[^[:alpha:]]", "[[:^space:]a]", "[[:punct:]", "[[:no:]]", "[a-é]", "[b-a]", "[[a]", "[*a]"]
        + ["[\\d]", "[^\\W]", "[\\s-a]", "[\\pL]", "[^\\p{Lu}]", "[\\x61-c]", "[\\b]", "[.-\\]]", "[\\PL\\z]"]
        + [f"\\{letter}" for letter in "abcdefgnpqrstuvwxzABCDEPQSWZ0123_-.*?[]{}|^$é"]
        + ["\\Q", "\\E", "\\Qa", "\\pL", "\\PL", "\\p{Ll}", "\\p{^N}", "\\p{L", "\\x61", "\\x{e9}", "\\x{}", "\\141"]
    ),
    min_size=1,
    max_size=5,
).map("".join)
LINES = st.builds(
    lambda mark, parts: mark + "/".join(parts),
    st.sampled_from(["", "", "!"]),
    st.lists(EXPRESSIONS | NAMES, min_size=1, max_size=2),
)


@pytest.mark.service("dockerd")
@settings(max_examples=100)
@given(paths=TREES, patterns=st.lists(LINES | PATTERNS, min_size=1, max_size=4))
@example(paths=["a", "b/a"], patterns=["*", "!b/[z-a]"])
@example(paths=["a", "b/a", "c"], patterns=["b", "!b/a", "[z-a]"])
@example(paths=["a", "é"], patterns=["a", "\ufeff?"])
def test_docker_reads_the_same_of_any_expression(
    docker_build: Packer, tmp_path_factory: pytest.TempPathFactory, paths: list[str], patterns: list[str]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    try:
        compare(docker_build, plant(root, paths), "\n".join(patterns))
    finally:
        shutil.rmtree(root)


@pytest.mark.service("dockerd")
@settings(max_examples=150)
@given(paths=TREES, patterns=st.lists(PATTERNS, max_size=6))
@example(paths=["a/b/c", "a/b.py"], patterns=["a", "!a/b/c", "**/b"])
@example(paths=["^a", "^ab"], patterns=["^a*"])
@example(paths=["b/x-old", "b/x_old", "b/keep"], patterns=["b/*[-_]old"])
@example(paths=["b/a", "b/]", "b/-"], patterns=["b/*[]a]", "b/*[-]", "b/*\\"])
@example(paths=["b/a"], patterns=["?*[-a]"])
@example(paths=["b/a"], patterns=["[^a]*[-a]"])
def test_docker_takes_the_same_of_any_tree(
    docker_build: Packer, tmp_path_factory: pytest.TempPathFactory, paths: list[str], patterns: list[str]
) -> None:
    root = tmp_path_factory.mktemp("tree")
    try:
        compare(docker_build, plant(root, paths), "\n".join(patterns))
    finally:
        shutil.rmtree(root)


@pytest.mark.service("dockerd")
def test_what_is_packed_is_what_a_build_sees(dockerd: Dockerd, docker_host: str, tmp_path: Path) -> None:
    rules = "*\n!a/b\n!docs/**/x.log\n!lib\n!.dockerignore\nlib/no"
    plant(tmp_path, [*TREE, "lib/no", "lib/yes"])
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY . /\nCMD [/]\n")
    (tmp_path / ".dockerignore").write_text(rules)
    env = {**os.environ, "DOCKER_BUILDKIT": "0"}

    def docker(*words: str) -> bytes:
        return subprocess.run(["docker", *words], env=env, check=True, capture_output=True).stdout.strip()

    image = docker("build", "-q", str(tmp_path)).decode()
    container = docker("create", "--network", "none", image).decode()
    with tarfile.open(fileobj=io.BytesIO(docker("export", container))) as archive:
        seen = {name.rstrip("/") for name in archive.getnames()}

    ours = kept(tmp_path, rules).keys()
    assert ours <= seen
    # The rest is what the daemon puts into every container.
    assert {".dockerenv", "dev", "etc", "proc", "sys"} >= {name.partition("/")[0] for name in seen - ours}
