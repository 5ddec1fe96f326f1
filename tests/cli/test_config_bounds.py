"""What a configuration file may cost to read: a small one must not take minutes, or all memory."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsched.errors import ConfigError
from asyncsched.runner.config import Config, load_config, toml_file
from asyncsched.runner.config.toml_file import KeyLines, parse_toml
from asyncsched.runner.config.trust import LARGEST, LARGEST_DOUBTED
from tests.cli.test_config_trust import DOUBT, write

Load = Callable[..., Config]

HEAD = "[scheduler.local_cwd]\n"
KEYS = f"{HEAD}{{}} = 1\n"


def references(levels: int, each: int = 30) -> str:
    """A file whose last value is `each` to the power of `levels` times as long as its first."""
    values = [f"a{level} = {f'%(a{level - 1})s' * each}\n" for level in range(1, levels + 1)]
    return "".join(["[local_cwd]\na0 = x\n", *values])


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(text: str, name: str = "asyncsched.toml", *, mode: int = 0o666) -> Config:
        write(tmp_path / name, text, mode=mode)
        return load_config(tmp_path, {"HOME": str(tmp_path / "home")})

    return load


BOMBS = {
    "references": (".torchxconfig", references(6)),
    "empty references": (".torchxconfig", references(8).replace("a0 = x", "a0 =")),
    "defaults": (
        ".torchxconfig",
        "".join(["[DEFAULT]\n", *(f"k{n}=\n" for n in range(5000)), *(f"[s{n}]\n" for n in range(4000))]),
    ),
    "blanks": (".torchxconfig", f"[local_cwd]\na{' ' * 60_000}b = 1\n"),
    "dots": ("asyncsched.toml", KEYS.format(".".join("a" * 20_000))),
    "dots in a header": ("asyncsched.toml", f"[scheduler.{'.'.join('a' * 20_000)}]\n"),
    "quoted dots": ("asyncsched.toml", KEYS.format(" . ".join(['"a.\\""', "'a'"] * 3000))),
    "dots in a project": ("pyproject.toml", f"[tool.asyncsched.scheduler.local_cwd]\n{'.'.join('a' * 20_000)} = 1\n"),
    "dots in a table": ("asyncsched.toml", f"{HEAD}env = {{ {'.'.join('a' * 20_000)} = 1 }}\n"),
    "levels": ("asyncsched.toml", f"{HEAD}env = {'[' * 30_000}\n"),
    "many settings": ("asyncsched.toml", f"{HEAD}{''.join(f'k{n}=1{chr(10)}' for n in range(7000))}"),
    "lines like keys": ("asyncsched.toml", f'{HEAD}x = """\n{"a=" + chr(10)}"""\n'.replace("a=\n", "a=\n" * 20_000)),
    "large": ("asyncsched.toml", f"{HEAD}{'#' * LARGEST_DOUBTED}\n"),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("mode", [0o666, 0o644])
def test_a_small_file_is_read_in_a_bounded_time(tmp_path: Path, bomb: str, mode: int) -> None:
    """In a process with little memory; its time limit is only for the one that would never end."""
    name, text = BOMBS[bomb]
    write(tmp_path / name, text, mode=mode)
    program = (
        "import resource, sys; from pathlib import Path\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from asyncsched.errors import ConfigError; from asyncsched.runner.config import load_config\n"
        "try: print(*load_config(Path(sys.argv[1]), {'HOME': '/nonexistent'}).warnings, sep='\\n')\n"
        "except ConfigError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, timeout=60, check=False
    )

    assert ("", 0) == (done.stderr, done.returncode)
    if mode == 0o666:
        assert 1 == done.stdout.count("\n")
        assert f"{DOUBT}" in done.stdout
    if "settings" not in bomb and "lines" not in bomb and (bomb, mode) != ("large", 0o644):
        assert f"./{name} cannot be read: " in done.stdout
    assert 1500 > len(done.stdout)


def test_the_size_of_a_file_that_is_doubted(load: Load) -> None:
    text = f"{HEAD}merge_streams = true\n#"
    text += "x" * (LARGEST_DOUBTED - len(text))

    assert ["merge_streams"] == [*load(text).scheduler("local_cwd")]
    assert f"cannot be read: it is larger than {LARGEST_DOUBTED} bytes; {DOUBT}" in load(f"{text}x").warnings[0]
    assert [] == load(text + "x" * (LARGEST - len(text)), mode=0o644).warnings


def test_the_size_of_a_file_behind_a_link_that_is_doubted(tmp_path: Path, load: Load) -> None:
    """The file itself is ours."""
    write(tmp_path / "mine.toml", f"{HEAD}{'#' * LARGEST_DOUBTED}\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "work").chmod(0o777)
    (tmp_path / "work/asyncsched.toml").symlink_to("../mine.toml")
    (warning,) = load_config(tmp_path / "work", {"HOME": "/nonexistent"}).warnings

    assert f"it is larger than {LARGEST_DOUBTED} bytes; others may write to its folder" in warning


@pytest.mark.parametrize(("mode", "most"), [(0o666, 16), (0o644, 100)])
def test_the_dots_of_a_key(load: Load, mode: int, most: int) -> None:
    outside = f"# {'a.' * 500}\nx = [{'1.5, ' * 500}]\ny = \"{'a.' * 500}\"\nz = '''\n{'a.' * 500}a = 1\n'''\n"

    assert 1 == len([*load(HEAD + outside, mode=mode)._sections])
    for header in (True, False):
        keys = ".".join(["command", *"a" * most, "a"])
        text = f"{outside}[{keys}]\n" if header else f"{outside}{keys} = 1\n"
        why = f"its values are nested on more than {most} levels by the dots in line 7"
        with pytest.raises(ValueError, match=why):
            parse_toml(text, is_doubted=mode == 0o666)
        parse_toml(text.replace("a.a", "a", 1).replace(keys, keys[:-2]), is_doubted=mode == 0o666)


def test_a_warning_names_few_settings(load: Load) -> None:
    warning = load(f"{HEAD}{'x' * 2000} = 1\n{''.join(f'k{number} = 1{chr(10)}' for number in range(5000))}").warnings[
        0
    ]

    assert "scheduler.local_cwd.k8 and 4,991 more: others may" in warning
    assert 700 > len(warning)
    names = [f"scheduler.local_cwd.k{number}" for number in range(10)]
    assert (
        f"without {', '.join(names)}: others"
        in (load(f"{HEAD}{''.join(f'k{number} = 1{chr(10)}' for number in range(10))}").warnings[0])
    )


def test_a_warning_repeats_little_of_an_error(load: Load) -> None:
    assert 600 > len(load(f"[{'x' * 5000}]\n").warnings[0])


def test_references_in_a_doubted_file_are_not_filled_in(load: Load) -> None:
    text = "[DEFAULT]\nbase = tr\n[local_cwd]\nmerge_streams = %(base)sue\n"

    assert "true" == load(text, ".torchxconfig", mode=0o644).scheduler("local_cwd")["merge_streams"].value
    assert {} == load(text, ".torchxconfig").scheduler("local_cwd")


def test_a_users_own_file_may_refer_to_much(load: Load) -> None:
    config = load(references(3), ".torchxconfig", mode=0o644)

    assert "x" * 27_000 == config.scheduler("local_cwd")["a3"].value


def test_a_file_for_which_memory_is_not_enough(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    def loads(text: str) -> object:
        raise MemoryError

    monkeypatch.setattr(tomllib, "loads", loads)
    with pytest.raises(ConfigError, match=r"^\./asyncsched\.toml cannot be read: there is not enough memory for it"):
        load(HEAD, mode=0o644)
    assert "there is not enough memory" in load(HEAD).warnings[0]


def test_lines_are_found_once_and_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    find = toml_file._lines

    def counted(text: str) -> object:
        asked.append(text)
        return find(text)

    monkeypatch.setattr(toml_file, "_lines", counted)
    lines = KeyLines("[a.b]\nc.d = 1\n'e' = 2\n[a]\nb.c.d = 3\n")

    assert [] == asked
    assert [1, 1, 2, 2, 3, 1] == [lines.of(*keys) for keys in ("a", "ab", "abc", "abcd", "abe", "x")]
    assert 1 == len(asked)


def test_a_plain_key_needs_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tomllib, "loads", pytest.fail)

    assert 2 == KeyLines("[ a . b ]\nc . d = 1\n").of("a", "b", "c", "d")
