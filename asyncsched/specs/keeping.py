"""Decide what a note may keep of an app.

A note is a record that a backend stores with a job, to tell later what the job was made from: a label, a tag, an
annotation, a file. More people can read notes than requests.

The rule: **a note keeps a text whole or not at all.** It leaves out a text

- that contains the name of a secret, or stands under or after one;
- that contains credentials before an ``@``;
- that contains a secret of the app.

The rule does not look for particular forms of secrets, because there are too many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from itertools import pairwise
from typing import cast

from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.encodable import half_character
from asyncsched.specs.mentions import LONGEST_TEXT, may_hold_secret, which_may_hold_secrets
from asyncsched.specs.not_kept import NotKept
from asyncsched.specs.said import Said
from asyncsched.specs.secret import MASK, Secret
from asyncsched.specs.secret_names import is_secret_name
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.specs.secret_text import follows_login, gives_password, secret_spans
from asyncsched.specs.to_plain import JsonValue

__all__ = ["A_SECRET", "Keeper", "ToldApp", "keeper_of", "number_or_null", "secrets_in"]

A_SECRET = "a secret"  # noqa: S105 - a reason, not a password

_LONGEST_SEARCHED = 16 * 1024
"""Longest text, in characters, from which secrets are extracted, to find them again in other texts."""

_NAME = r"[\w./-]{1,512}"

_LAST_NAME = r"([A-Za-z_][\w.-]*+)\W*+\Z"
_LONGEST_NAME = 256

_SHORTEST_NUMBER = 6
"""Digits of a number that is searched for as a secret; shorter numbers, such as 3600, appear for other reasons."""

_LARGEST = 10**18

_SETTINGS = frozenset({"true", "false", "none", "null"})


class Keeper:
    """Decides which parts of an app a note keeps.

    Args:
        *values: Everything that may contain secrets of the app: its roles, its metadata, what was made from them;
            another keeper adds the secrets it knows.
    """

    def __init__(self, *values: object) -> None:
        secrets = (secret for value in values for secret in secrets_in(value))
        self._said: Said = Said(secrets, *(value._said for value in values if isinstance(value, Keeper)))

    def words(self, texts: Sequence[object]) -> list[str]:
        """Return, for each text of a list, why it is not kept; empty if it is kept.

        A text after one that ends with the name of a secret may be its value, as after an option.
        """
        may = which_may_hold_secrets([text if isinstance(text, str) else "" for text in texts])
        after = [False, *(may[k] and _ends_with_secret_name(text) for k, text in enumerate(texts))]
        given = [False, *(gives_password(option, text) for option, text in pairwise(texts))]
        return [
            self._why_not(text, may[k] or after[k] or given[k] or follows_login(texts, k))
            for k, text in enumerate(texts)
        ]

    def values(self, texts: Mapping[str, object]) -> list[tuple[str, str]]:
        """Return, for each entry of a mapping, its name as it is kept, and why its value is not kept."""
        may = which_may_hold_secrets([text if isinstance(text, str) else "" for text in texts.values()])
        kept: list[tuple[str, str]] = []
        for k, (name, text) in enumerate(texts.items()):
            shown = self.name(name)
            why = "" if shown == name else half_character(name) or "its name holds a secret"
            kept.append((shown, why or self._why_not(text, may[k] or is_secret_name(name))))
        return kept

    def reason(self, why: str) -> str:
        """Return a reason that is safe to show: one that contains a secret of the app is replaced."""
        return A_SECRET if self._said.is_in(why) else why

    def name(self, name: object) -> str:
        """Return a name as it is kept: ``***`` in place of one that holds a secret, ``?`` for a lone surrogate.

        The name of a secret is kept, so that it can be shown which value was left out.
        """
        if not isinstance(name, str) or isinstance(name, Secret) or self._said.is_in(name):
            return MASK
        if half_character(name):
            return name.encode(errors="replace").decode()
        return MASK if not re.fullmatch(_NAME, name) and may_hold_secret(name) else name

    def data(self, entries: Mapping[str, object]) -> dict[str, JsonValue]:
        """Return metadata with ``***`` in place of each entry that is not kept, or that JSON would change."""
        return {
            self.name(name): cast("JsonValue", value) if self._is_entry_kept(name, value) else MASK
            for name, value in entries.items()
        }

    def numbers(self, numbers: Mapping[str, object]) -> dict[str, JsonValue]:
        """Return the numbers of a mapping without those that must not be kept, because of their value or name.

        Anything that is not a number becomes null, because it would not be read back unchanged.
        """
        kept = {name: number_or_null(number) for name, number in numbers.items() if self.name(name) == name}
        return {name: number for name, number in kept.items() if number is None or not self._said.is_number(number)}

    def _is_entry_kept(self, name: object, value: object) -> bool:
        texts, numbers = list[str](), list[float]()
        if not isinstance(name, str) or is_secret_name(name) or not _gather({name: value}, texts, numbers):
            return False
        if any(map(self._said.is_number, numbers)):
            return False
        return not any(which_may_hold_secrets(texts)) and not any(self._why_not(text, False) for text in texts)

    def _why_not(self, text: object, may_be_secret: bool) -> str:
        if isinstance(text, NotKept):
            return self.reason(text.why)
        if not isinstance(text, str):
            return f"it is of type {type(text).__name__}, not str"
        if isinstance(text, Secret) or self._said.is_in(text):
            return A_SECRET
        if half := half_character(text):
            return half
        if len(text) > LONGEST_TEXT:
            return f"it has {len(text):,} characters, and at most {LONGEST_TEXT:,} are kept"
        return A_SECRET if may_be_secret else ""


class ToldApp(AppDef):
    """The part of an app that a note describes, with one keeper for all of it.

    Args:
        app: The described part of the app.
        *beside: What else may contain its secrets: run options, a request, what was left out of its roles.

    Attributes:
        is_whole: Whether it is all of the app that was dry-run, because its request was not edited.
    """

    def __init__(self, app: AppDef, *beside: object, is_whole: bool = False) -> None:
        super().__init__(app.name, app.roles, app.metadata)
        self.is_whole = is_whole
        self._beside = beside

    @cached_property
    def keeper(self) -> Keeper:
        """The keeper of its texts, made with the first note."""
        return Keeper(AppDef(self.name, self.roles, self.metadata), *self._beside)


def keeper_of(app: AppDef) -> Keeper:
    """Return the keeper of an app."""
    return app.keeper if isinstance(app, ToldApp) else Keeper(app)


def _gather(value: object, texts: list[str], numbers: list[float]) -> bool:
    """Collect the texts, names and numbers in nested data.

    Returns:
        True if no name is that of a secret and JSON can hold everything unchanged.
    """
    if isinstance(value, str):
        texts.append(value)
        return len(value) > _LONGEST_NAME or not is_secret_name(value)
    if isinstance(value, dict):
        entries = cast("dict[object, object]", value).items()
        return all(isinstance(name, str) and _gather([name, item], texts, numbers) for name, item in entries)
    if isinstance(value, list):
        return all(_gather(item, texts, numbers) for item in cast("list[object]", value))
    if (number := number_or_null(value)) is not None:
        numbers.append(number)
    return value is None or isinstance(value, bool) or number is not None


def number_or_null(value: object) -> float | None:
    """Return a number that JSON can hold unchanged; None for anything else."""
    return cast("float", value) if _is_number(value) else None


def _is_number(value: object) -> bool:
    """Return whether a value is a number that JSON can hold unchanged."""
    return type(value) in (int, float) and abs(cast("float", value)) < _LARGEST


_PLAIN = frozenset({str, list, dict, tuple})
_NUMBERS = frozenset({int, float, bool})


def secrets_in(value: object) -> Iterator[str]:
    """Yield the secrets in a value that can be recognised.

    A declared `Secret` is always found. Other secrets are found under or after the name of a secret, or in a form that
    is masked when printed.
    """
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, str):
        yield from _in_texts([value])
    elif isinstance(value, Mapping):
        entries, texts = cast("Mapping[object, object]", value), list[str]()
        called = next((item for name, item in entries.items() if str(name).lower() in ("name", "key")), None)
        for name, item in entries.items():
            if item is None or (type(item) in _PLAIN and not item):  # most fields of a role are empty
                continue
            over = called if isinstance(called, str) and str(name).lower() == "value" else str(name)
            if is_secret_name(over):
                yield from _values_in(item)
            elif type(item) is str:
                texts.append(item)
            elif type(item) not in _NUMBERS:
                yield from secrets_in(item)
        yield from _in_texts(texts)
    elif isinstance(value, (list, tuple)):
        yield from _in_list(cast("Sequence[object]", value))
    elif isinstance(value, Role):
        yield from secrets_in([value.entrypoint, *value.args])
        yield from secrets_in({**vars(value), "args": [], "entrypoint": ""})
    elif is_dataclass(value):
        yield from secrets_in({field.name: getattr(value, field.name, None) for field in fields(value)})


def _in_texts(texts: Sequence[str]) -> Iterator[str]:
    short = [text for text in texts if len(text) <= _LONGEST_SEARCHED]
    for text, may in zip(short, which_may_hold_secrets(short), strict=True):
        if may:
            yield from (text[start:end] for start, end in secret_spans(text))


def _in_list(items: Sequence[object]) -> Iterator[str]:
    searched = [item if isinstance(item, str) and len(item) <= _LONGEST_SEARCHED else "" for item in items]
    may = which_may_hold_secrets(searched)
    for number, item in enumerate(items):
        if number and (may[number - 1] or not searched[number - 1]) and _ends_with_secret_name(items[number - 1]):
            yield from _values_in(item)
        elif number and gives_password(items[number - 1], item):
            yield str(item).partition(":")[2]
        elif follows_login(items, number):
            yield str(item)
        elif may[number] or type(item) is not str:
            yield from secrets_in(item)


def _ends_with_secret_name(text: object) -> bool:
    last = re.search(_LAST_NAME, text[-_LONGEST_NAME:]) if isinstance(text, str) else None
    return last is not None and (last.start() == 0 < len(str(text)) - _LONGEST_NAME or is_secret_name(last[1]))


def _values_in(value: object) -> Iterator[str]:
    """Yield all texts of a value that is entirely secret."""
    if isinstance(value, Mapping):
        value = [*cast("Mapping[object, object]", value).values()]
    if isinstance(value, (list, tuple)):
        for item in cast("Sequence[object]", value):
            yield from _values_in(item)
    elif isinstance(value, str) and not isinstance(value, (NotKept, SecretRef)) and value.lower() not in _SETTINGS:
        yield value
    elif _is_number(value) and len(str(value)) >= _SHORTEST_NUMBER:
        yield str(value)
