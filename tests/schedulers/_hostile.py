"""What a stranger may write where we read something back."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=()), max_size=40)
"""Any characters: control characters and lone surrogates, too."""

_scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
_values: st.SearchStrategy[Any] = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
_FIELDS = ("image", "entrypoint", "args", "num_replicas", "max_retries", "resource", "mounts")
_spec_like = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("image", "entrypoint", "args", "num_replicas", "max_retries", "resource", "mounts"), _values
    ),
)
_nests = st.builds(
    lambda mark, depth: mark * depth, st.sampled_from(["[", '{"a":', '[{"a":', "[[]", "{"]), st.integers(0, 60_000)
)
_closed_nests = st.integers(0, 30_000).map(lambda depth: "[" * depth + "]" * depth)
_numbers = st.builds(
    lambda sign, digit, count: sign + digit * count,
    st.sampled_from(["", "-", "+", "0.", "1e", "\u0663"]),
    st.sampled_from(["0", "7", "9", "\u0669", "\u00b2"]),
    st.integers(0, 6_000),
)
_paths = st.sampled_from(["a/b", "/", "../..", "a\x1b[2Jb", "a\nb", "\ud800", "a\u202eb", "", " ", "a" * 100_000])

anything = st.one_of(
    texts, _numbers, _paths, _nests, _closed_nests, _values.map(json.dumps), _spec_like.map(json.dumps)
)
"""Texts that have broken parsers: numbers without end, deep nests, JSON of the wrong types, half characters."""
