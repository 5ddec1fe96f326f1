from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import RunOptionError
from asyncsched.specs import CfgVal, Secret, runopts

OPTS = runopts()
OPTS.add("FOO", list[str], "a list")
OPTS.add("BAR", str, "a string")
OPTS.add("ENV", dict[str, str], "a dict")
OPTS.add("flag", bool, "a bool")
OPTS.add("n", int, "an int")
OPTS.add("x.y-z", float, "a float")

texts = st.text() | st.text(",;:='\"\\ ab")
cfgs = st.fixed_dictionaries(
    {},
    optional={
        "FOO": st.lists(texts),
        "BAR": texts,
        "ENV": st.dictionaries(texts, texts),
        "flag": st.booleans(),
        "n": st.integers(),
        "x.y-z": st.floats(allow_nan=False),
    },
)


@given(cfgs)
def test_what_is_written_is_read_back(cfg: dict[str, CfgVal]) -> None:
    assert cfg == OPTS.cfg_from_str(OPTS.cfg_to_str(cfg))


@given(texts)
def test_any_text_is_read_or_refused_with_our_error(text: str) -> None:
    try:
        cfg = OPTS.cfg_from_str(text)
    except RunOptionError:
        return

    assert cfg == OPTS.cfg_from_str(OPTS.cfg_to_str(cfg))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        (" , ", {}),
        ("FOO=v1", {"FOO": ["v1"]}),
        ("FOO=v1,v2", {"FOO": ["v1", "v2"]}),
        ("FOO=v1;v2", {"FOO": ["v1", "v2"]}),
        ("FOO=v1,v2,", {"FOO": ["v1", "v2"]}),
        ("FOO=v1,v2,BAR=v3", {"FOO": ["v1", "v2"], "BAR": "v3"}),
        ("FOO=v1;v2,BAR=v3", {"FOO": ["v1", "v2"], "BAR": "v3"}),
        ("FOO=v1;v2;BAR=v3", {"FOO": ["v1", "v2"], "BAR": "v3"}),
        (" FOO = v1 , v2 ; BAR = v3 ", {"FOO": ["v1", "v2"], "BAR": "v3"}),
        ("FOO=", {"FOO": []}),
        ("FOO=''", {"FOO": [""]}),
        ("FOO='a,b',\"c;d=e\"", {"FOO": ["a,b", "c;d=e"]}),
        ("BAR=''", {"BAR": ""}),
        ('BAR=""', {"BAR": ""}),
        ("BAR=a,b", {"BAR": "a,b"}),
        ("BAR=a=b==", {"BAR": "a=b=="}),
        ("BAR=it's,n=1", {"BAR": "it's", "n": 1}),
        ('BAR="x=1,y=2",n=-3', {"BAR": "x=1,y=2", "n": -3}),
        (r'BAR="a \"b\" \\ \n"', {"BAR": r'a "b" \ \n'}),
        (r"BAR='a\'", {"BAR": "a\\"}),
        ("ENV=A:1,B:2;n=5", {"ENV": {"A": "1", "B": "2"}, "n": 5}),
        ("ENV=A:b:c,B:", {"ENV": {"A": "b:c", "B": ""}}),
        ("ENV=A:x=1,C:y", {"ENV": {"A": "x=1", "C": "y"}}),
        ("ENV=A:\"x,y\",'B:c':d,'E:f'", {"ENV": {"A": "x,y", "B:c": "d", "E": "f"}}),
        ("n=7,x.y-z=2", {"n": 7, "x.y-z": 2.0}),
    ],
)
def test_reading(text: str, expected: dict[str, CfgVal]) -> None:
    assert expected == OPTS.cfg_from_str(text)


@pytest.mark.parametrize("text", ["1", "true", "yes", "on", "True", "YES", "'on'"])
def test_true(text: str) -> None:
    assert OPTS.parse("flag", text) is True


@pytest.mark.parametrize("text", ["0", "false", "no", "off", "False", "NO"])
def test_false(text: str) -> None:
    assert OPTS.parse("flag", text) is False


def test_numbers() -> None:
    assert 5 == OPTS.parse("n", "5")
    assert math.isnan(float(str(OPTS.parse("x.y-z", "nan"))))
    assert {"x.y-z": 0.1} == OPTS.cfg_from_str("x.y-z=1e-1")


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("BAR", "", "The run options cannot be read: the text does not start with name="),
        ("=1", "", "does not start with name="),
        ("BAR='x", "", "a ' is not closed; write them as name=value"),
        ("BRA=1", "BRA", "Unknown run option: BRA; did you mean `BAR`"),
        ("n=1,n=2", "n", "Run option: n, is given twice"),
        ("n=five", "n", r"n, must be of type: int, but was: 'five' \(str\)"),
        ("n=1.5", "n", "must be of type: int"),
        ("n=", "n", "must be of type: int"),
        ("flag=maybe", "flag", "must be of type: bool, but was: 'maybe'"),
        ("x.y-z=much", "x.y-z", "must be of type: float"),
        ("ENV=A", "ENV", r"dict\[str, str\]: an item is not of the form name:value; write it as ENV=NAME:value"),
        ("ENV=A:1,A:2", "ENV", "`A` is given twice"),
        ("BAR='a'b", "BAR", "continues after its closing quote"),
    ],
)
def test_mistakes(text: str, key: str, message: str) -> None:
    with pytest.raises(RunOptionError, match=message) as caught:
        OPTS.cfg_from_str(text)

    assert key == caught.value.key


def test_writing() -> None:
    cfg: dict[str, CfgVal] = {
        "FOO": ["a", "b c"],
        "BAR": "host:5000/x",
        "ENV": {"A:b": "c:d"},
        "flag": True,
        "n": None,
        "x.y-z": 0.5,
    }

    assert 'FOO=a,"b c",BAR=host:5000/x,ENV="A:b":c:d,flag=true,x.y-z=0.5' == OPTS.cfg_to_str(cfg)


def test_a_secret_is_not_written() -> None:
    assert "BAR=***" == OPTS.cfg_to_str({"BAR": Secret("marker")})
    assert "marker" not in OPTS.cfg_to_str({"ENV": {"A": Secret("marker")}, "FOO": [Secret("marker")]})
