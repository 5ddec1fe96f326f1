from __future__ import annotations

import math

import yaml  # what it reads back is the judge of what we print
from hypothesis import example, given
from hypothesis import strategies as st

from asyncsched.specs.to_plain import Plain
from asyncsched.specs.yaml import to_yaml

texts = (
    st.text()
    | st.text("ab :#-'\"\n\\&*!%@`{}[],?|<>=~0.", max_size=12)
    | st.sampled_from(
        [
            "yes",
            "No",
            "null",
            "~",
            "1e3",
            "2024-01-01",
            "<<",
            "=",
            ".inf",
            "0x1",
            "1:20",
            "y",
            "---",
            "a: b",
            "é\u2028\ud800",
        ]
    )
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
)


@given(values)
@example("a\nb\n")
@example(["a\n  b\n\n c", {"k": "x\n\ny\n"}])
def test_a_yaml_reader_reads_the_same(value: Plain) -> None:
    assert value == yaml.safe_load(to_yaml(value))
    assert value == yaml.safe_load(to_yaml(value, sort_keys=True))


def test_nan() -> None:
    assert math.isnan(yaml.safe_load(to_yaml(math.nan)))


def test_a_script_reads_as_it_was_written() -> None:
    assert "script: |-\n  if x; then\n    y\n  fi\n" == to_yaml({"script": "if x; then\n  y\nfi"})


@given(st.dictionaries(st.text("abc", min_size=1), st.integers() | st.lists(st.text("ab ", max_size=3))))
def test_it_looks_as_people_expect(value: dict[str, int | list[str]]) -> None:
    assert yaml.dump(value, default_flow_style=False) == to_yaml(value, sort_keys=True)  # type: ignore[arg-type]  # invariance
