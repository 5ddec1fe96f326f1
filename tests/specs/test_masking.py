from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from asyncsched.specs import AppState, Secret, show_secrets
from asyncsched.specs.masking import find_secrets, masked
from asyncsched.specs.secret_names import is_secret_name
from asyncsched.specs.to_plain import to_plain
from asyncsched.specs.yaml import to_yaml

MARKER = "marker-1234"

holders = st.sampled_from(
    [
        Secret(MARKER),
        {"A_TOKEN": MARKER},
        {"a": Secret(MARKER)},
        {"name": "DB_PASSWORD", "value": MARKER},
        {"Name": "DB_PASSWORD", "Value": MARKER},
        [f"A_KEY={MARKER}"],
        (f"A_KEY={MARKER}", "B=1"),
    ]
)
keys = st.text(max_size=3).filter(lambda key: not is_secret_name(key))  # "PW" would make anything a secret
words = st.text(st.characters(exclude_characters="-+"), max_size=3)  # what follows "-pw", or "a:b" after "-u", is one
nested = st.recursive(
    holders | words | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(keys, inner) | st.tuples(inner, inner),
)


@given(nested)
def test_no_secret_survives_at_any_depth(value: object) -> None:
    assert MARKER not in repr(masked(value))
    assert MARKER not in to_yaml(masked(value))


@given(nested)
def test_what_is_found_is_what_is_hidden(value: object) -> None:
    with show_secrets():
        shown = MARKER in repr(masked(value))
    found = [secret.reveal() if isinstance(secret, Secret) else secret for secret in find_secrets(value)]

    assert ([MARKER] if shown else []) == sorted({*found} - {""})


def test_what_is_not_secret_stays() -> None:
    value = {"name": "PATH", "value": "/bin", "list": ["A=1", "B"], "n": None, "ok": True, "use_token": False}

    assert value == masked(value)


def test_numbers_are_hidden_too() -> None:
    assert {"A_TOKEN": "***", "n": 1} == masked({"A_TOKEN": 1234, "n": 1})
    assert ["1234"] == find_secrets({"A_TOKEN": 1234})


@dataclass
class Inner:
    a: tuple[int, ...]


def test_plain() -> None:
    value = {1: Inner((1, 2)), "state": AppState.RUNNING, "other": 1j}

    assert {"1": {"a": [1, 2]}, "state": "RUNNING", "other": "1j"} == to_plain(value)
