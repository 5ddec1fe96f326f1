from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched import AppDef, Role
from asyncsched.components import Component
from asyncsched.components.arguments import HelpAskedError
from asyncsched.components.help import component_help
from asyncsched.errors import ComponentError, RunOptionError


def job(
    *words: str,
    data: str,
    n: int = 1,
    rate: float | None = None,
    dry: bool = False,
    tags: list[str] | None = None,
    sizes: list[int] | None = None,
    env: dict[str, str] | None = None,
    mode: Literal["fast", "slow"] = "fast",
    long_name: str = "",
) -> AppDef:
    """Do a job.

    In two paragraphs.

    Args:
        words: What the program is told.
        data (str): Where the data is,
            in two lines.
        n: How often: once by default.
    """
    values = (data, n, rate, dry, tags, sizes, env, mode, long_name, words)
    return AppDef("job", [Role("job", "", entrypoint="x", args=[], metadata={"given": values})])


def required_only(a: int, b: str) -> AppDef:
    return AppDef(f"{a + 1}{b}", [])


JOB = Component("my.job", job)
DEFAULT = {
    "data": "d", "n": 1, "rate": None, "dry": False, "tags": None, "sizes": None, "env": None, "mode": "fast",
    "long_name": "", "words": (),
}  # fmt: skip


def given_to(*tokens: str, defaults: dict[str, object] | None = None) -> dict[str, object]:
    """Return what differs from the defaults."""
    values = JOB.app(["--data", "d", *tokens], defaults).roles[0].metadata["given"]
    assert isinstance(values, tuple)
    return {name: value for name, value in zip(DEFAULT, values, strict=True) if DEFAULT[name] != value}


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ((), {}),
        (("-n", "3"), {"n": 3}),
        (("-n3",), {"n": 3}),
        (("-n=3",), {"n": 3}),
        (("--n", "-3"), {"n": -3}),
        (("--rate", "1e-3"), {"rate": 0.001}),
        (("--rate=2",), {"rate": 2.0}),
        (("--dry",), {"dry": True}),
        (("--dry", "yes"), {"dry": True}),
        (("--dry", "False"), {}),
        (("--dry", "--no-dry"), {}),
        (("--dry", "word"), {"dry": True, "words": ("word",)}),
        (("--tags", "a,b;c"), {"tags": ["a", "b", "c"]}),
        (("--tags", 'a,"b,c"'), {"tags": ["a", "b,c"]}),
        (("--tags", "a", "--tags", "b"), {"tags": ["a", "b"]}),
        (("--sizes", "1,2"), {"sizes": [1, 2]}),
        (("--env", "A=1,2,B=x=y"), {"env": {"A": "1,2", "B": "x=y"}}),
        (("--env", "A=1", "--env", "B=2", "--env", "A=3"), {"env": {"A": "3", "B": "2"}}),
        (("--mode", "slow"), {"mode": "slow"}),
        (("--long-name", "x"), {"long_name": "x"}),
        (("--long_name=x=y",), {"long_name": "x=y"}),
        (("--long_name", "--else"), {"long_name": "--else"}),
        (("--long_name", "'quoted'"), {"long_name": "'quoted'"}),
        (("a", "--n", "3"), {"words": ("a", "--n", "3")}),
        (("--", "--n", "3", "--"), {"words": ("--n", "3", "--")}),
        (("-n", "2", "--", "--help"), {"n": 2, "words": ("--help",)}),
        (("-",), {"words": ("-",)}),
    ],
)
def test_a_command_line_is_read(tokens: tuple[str, ...], expected: dict[str, object]) -> None:
    assert expected == given_to(*tokens)


@given(st.lists(st.text()))
def test_words_after_two_dashes_arrive_untouched(words: list[str]) -> None:
    assert tuple(words) == given_to("--", *words).get("words", ())


@given(st.text())
def test_a_text_arrives_untouched(text: str) -> None:
    assert text == given_to(f"--long_name={text}").get("long_name", "")


@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        (("--dta", "x"), "my.job has no argument --dta; did you mean --data?"),
        (("--no-n",), "my.job has no argument --no-n"),
        (("--lr", "3"), "my.job ... -- --lr"),
        (("-n", "x"), "my.job: -n must be int, got 'x'"),
        (("-n",), "my.job: -n needs a value; write -n INT"),
        (("--long_name", "--data", "x"), "my.job: --long_name needs a value"),
        (("--dry=perhaps",), "my.job: --dry must be bool, got 'perhaps'"),
        (("--sizes", "1,x"), "my.job: --sizes must be int,..., got 'x'"),
        (("--env", "A"), "my.job: --env must be name=str,..., got 'A': the text does not start with name="),
        (("--mode", "middle"), "my.job: --mode must be fast|slow, got 'middle'"),
    ],
)
def test_a_wrong_argument_is_told(tokens: tuple[str, ...], told: str) -> None:
    with pytest.raises(ComponentError) as caught:
        given_to(*tokens)

    assert told in str(caught.value)


def test_what_is_missing_is_told_with_its_help() -> None:
    with pytest.raises(ComponentError) as caught:
        JOB.app([])

    assert "my.job needs --data; add --data STR (Where the data is, in two lines.)" == str(caught.value)


def test_all_that_is_missing_is_told_at_once() -> None:
    with pytest.raises(ComponentError) as caught:
        Component("two", required_only).app([])

    assert "two needs -a, -b; add -a INT, -b STR" == str(caught.value)


def test_a_component_without_more_arguments_takes_none() -> None:
    component = Component("two", required_only)

    assert "3x" == component.app(["-a", "2", "-b", "x"]).name
    with pytest.raises(ComponentError, match="does not take the argument 'c'"):
        component.app(["-a", "2", "-b", "x", "c"])


def test_values_by_name() -> None:
    values = JOB.app({"data": "x", "n": "4", "rate": 2, "tags": ["a"], "env": {"A": "1"}, "words": ["w"]})

    assert ("x", 4, 2.0, False, ["a"], None, {"A": "1"}, "fast", "", ("w",)) == values.roles[0].metadata["given"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"dta": "x"}, "did you mean data?"),
        ({"n": 1.5}, "-n must be int, got 1.5"),
        ({"n": True}, "-n must be int, got True"),
        ({"tags": 3}, "--tags must be str,..., got 3"),
        ({"tags": [3]}, "--tags must be str,..., got 3"),
        ({"data": None}, "--data must be str, got None"),
    ],
)
def test_a_wrong_value_by_name_is_told(values: dict[str, object], told: str) -> None:
    with pytest.raises(ComponentError) as caught:
        JOB.app({"data": "d", **values})

    assert told in str(caught.value)


def test_words_behind_a_parameter_that_is_left_out() -> None:
    def train(data: str, tag: str | None = None, *words: str, n: int | None = 3) -> AppDef:
        return AppDef(f"{data} {tag} {words} {n}", [])

    component = Component("train", train)

    assert "d None ('a', '-b') 3" == component.app(["--data", "d", "--", "a", "-b"]).name
    assert "d t () None" == component.app({"data": "d", "tag": "t", "n": None}).name


def test_a_text_for_the_words_is_one_word() -> None:
    assert ("echo a b",) == JOB.app({"data": "d", "words": "echo a b"}).roles[0].metadata["given"][-1]  # type: ignore[index]


def test_defaults_give_way_to_arguments() -> None:
    defaults: dict[str, object] = {"n": 7, "mode": "slow", "tags": "x,y"}

    assert {"n": 8, "mode": "slow", "tags": ["x", "y"]} == given_to("-n", "8", defaults=defaults)


@pytest.mark.parametrize("token", ["--help", "-h"])
def test_help_is_asked_for(token: str) -> None:
    with pytest.raises(HelpAskedError):
        JOB.app(["--data", "d", token])


def test_what_the_component_raises_is_told_with_file_and_line() -> None:
    def fails() -> AppDef:
        raise KeyError("data set")

    def complains() -> AppDef:
        raise RunOptionError("Unknown run option: x")

    def returns_nothing() -> AppDef:
        return None  # type: ignore[return-value]  # the fault under test

    def leaves() -> AppDef:
        raise SystemExit("no data")

    with pytest.raises(ComponentError, match=r"leaves failed: .*test_arguments\.py:\d+: SystemExit: no data"):
        Component("leaves", leaves).app()
    with pytest.raises(ComponentError, match=r"fails failed: .*test_arguments\.py:\d+: KeyError: 'data set'"):
        Component("fails", fails).app()
    with pytest.raises(RunOptionError):
        Component("complains", complains).app()
    with pytest.raises(ComponentError, match=r"returned no AppDef: .*test_arguments\.py:\d+: it returned None"):
        Component("nothing", returns_nothing).app()


def test_a_secret_argument_is_not_printed() -> None:
    def secretive(api_key: int) -> AppDef:
        return AppDef(str(api_key), [])

    with pytest.raises(ComponentError) as caught:
        Component("secretive", secretive).app(["--api_key", "hunter2"])

    assert "hunter2" not in str(caught.value)


def test_help() -> None:
    text = component_help(JOB)

    assert [
        "usage: asyncsched run [OPTIONS] my.job --data STR [--name value ...] [--] [WORDS",
        "    ...]",
        "",
        "Do a job.",
        "",
        "In two paragraphs.",
        "",
        "required:",
        "  --data str",
        "      Where the data is, in two lines.",
        "",
        "optional:",
        "  WORDS str",
        "      What the program is told.",
        "  -n int",
        "      How often: once by default. (default: 1)",
    ] == text.splitlines()[:16]
    assert "  --dry, --no-dry\n      (default: False)" in text
    assert "  --long_name str" in text
    assert all(len(line) <= 40 for line in component_help(JOB, 40).splitlines())
