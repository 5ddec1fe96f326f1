"""What a note may keep of an app.

The rule: **a note keeps a text whole or not at all, and not if the name of a secret stands in it, over it or at the end
of the text before it, if credentials stand in it before an @, or if a secret of the app is said in it.**

A note is what a backend keeps beside a job, to tell later what the job was made from: a label, a tag, an annotation, a
file. It goes where requests are never seen, so that the rule does not look for forms of secrets, which are endless.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import cast

from asyncsched.specs.app import Role
from asyncsched.specs.encodable import half_character
from asyncsched.specs.mentions import LONGEST_TEXT, may_hold_secret, which_may_hold_secrets
from asyncsched.specs.not_kept import NotKept
from asyncsched.specs.plain import JsonValue
from asyncsched.specs.secret import MASK, Secret, spellings
from asyncsched.specs.secret_names import is_secret_name
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.specs.secret_text import secret_spans

__all__ = ["A_SECRET", "Keeper", "is_number", "secrets_in"]

A_SECRET = "a secret"  # noqa: S105 - a reason, no password

_LONGEST_SEARCHED = 16 * 1024
"""Characters of a text in which the secret itself is looked for, to be found where it is said again."""

_NAME = re.compile(r"[\w./-]{1,512}")

_LAST_NAME = re.compile(r"([A-Za-z_][\w.-]*+)\W*+\Z")
_LONGEST_NAME = 256

_LARGEST = 10**18

_SETTINGS = frozenset({"true", "false", "none", "null"})


class Keeper:
    """Decides what of an app is kept.

    Args:
        *values: All that secrets of the app may stand in: its roles, what has been made from them, its metadata.
    """

    def __init__(self, *values: object) -> None:
        secrets = dict.fromkeys(secret for value in values for secret in secrets_in(value))
        self._spellings = [each for secret in secrets for each in spellings(secret)]

    def words(self, texts: Sequence[object]) -> list[str]:
        """Return of each of a list of texts why it is not kept; empty where it is.

        A text after one that ends with the name of a secret may be its value, as after an option.
        """
        may = which_may_hold_secrets([text if isinstance(text, str) else "" for text in texts])
        after = [False, *(may[k] and _ends_with_secret_name(text) for k, text in enumerate(texts))]
        return [self._why_not(text, may[k] or after[k]) for k, text in enumerate(texts)]

    def values(self, texts: Mapping[str, object]) -> list[tuple[str, str]]:
        """Return likewise, for the values of a mapping, each one's name as it is kept, and why the value is not."""
        may = which_may_hold_secrets([text if isinstance(text, str) else "" for text in texts.values()])
        kept: list[tuple[str, str]] = []
        for k, (name, text) in enumerate(texts.items()):
            shown = self.name(name)
            why = "" if shown == name else half_character(name) or "its name holds a secret"
            kept.append((shown, why or self._why_not(text, may[k] or is_secret_name(name))))
        return kept

    def name(self, name: object) -> str:
        """Return a name as it is kept: ``***`` in place of one that holds a secret, ``?`` for half a character.

        The name of a secret is kept, so that it can be told what was not.
        """
        if not isinstance(name, str) or isinstance(name, Secret) or self._is_said_in(name):
            return MASK
        if half_character(name):
            return name.encode(errors="replace").decode()
        return MASK if not _NAME.fullmatch(name) and may_hold_secret(name) else name

    def data(self, entries: Mapping[str, object]) -> dict[str, JsonValue]:
        """Return metadata with ``***`` in place of each entry that is not kept, or that JSON would change."""
        return {
            self.name(name): cast("JsonValue", value) if self._is_entry_kept(name, value) else MASK
            for name, value in entries.items()
        }

    def _is_entry_kept(self, name: object, value: object) -> bool:
        texts: list[str] = []
        if not isinstance(name, str) or is_secret_name(name) or not _gather({name: value}, texts):
            return False
        return not any(which_may_hold_secrets(texts)) and not any(self._why_not(text, False) for text in texts)

    def _why_not(self, text: object, may_be_secret: bool) -> str:
        if isinstance(text, NotKept):
            return text.why
        if not isinstance(text, str):
            return f"it is of type {type(text).__name__}, and no text"
        if isinstance(text, Secret) or self._is_said_in(text):
            return A_SECRET
        if half := half_character(text):
            return half
        if len(text) > LONGEST_TEXT:
            return f"it has {len(text):,} characters, and at most {LONGEST_TEXT:,} are kept"
        return A_SECRET if may_be_secret else ""

    def _is_said_in(self, text: str) -> bool:
        return any(each in text for each in self._spellings)


def _gather(value: object, texts: list[str]) -> bool:
    """Gather the texts and names in nested data; tell whether JSON gives the data back as they are."""
    if isinstance(value, str):
        texts.append(value)
        return True
    if isinstance(value, dict):
        entries = cast("dict[object, object]", value).items()
        return all(isinstance(name, str) and _gather(name, texts) and _gather(item, texts) for name, item in entries)
    if isinstance(value, list):
        return all(_gather(item, texts) for item in cast("list[object]", value))
    return value is None or isinstance(value, bool) or is_number(value)


def is_number(value: object) -> bool:
    """Tell whether a value is a number that is read back from JSON as it is."""
    return type(value) in (int, float) and abs(cast("float", value)) < _LARGEST


def secrets_in(value: object) -> Iterator[str]:
    """Yield the secrets that stand in a value, as far as what stands around them tells.

    A declared `Secret` is always found. Of others those are that stand under or after the name of a secret, or in a
    form that is masked where it is printed.
    """
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, str):
        yield from _in_texts([value])
    elif isinstance(value, Mapping):
        entries, texts = cast("Mapping[object, object]", value), list[str]()
        called = next((item for name, item in entries.items() if str(name).lower() in ("name", "key")), None)
        for name, item in entries.items():
            over = called if isinstance(called, str) and str(name).lower() == "value" else str(name)
            if is_secret_name(over):
                yield from _values_in(item)
            elif type(item) is not str:
                yield from secrets_in(item)
            else:
                texts.append(item)
        yield from _in_texts(texts)
    elif isinstance(value, (list, tuple)):
        yield from _in_list(cast("Sequence[object]", value))
    elif isinstance(value, Role):
        yield from secrets_in([value.entrypoint, *value.args])
        yield from secrets_in({**vars(value), "args": [], "entrypoint": ""})
    elif is_dataclass(value):
        yield from secrets_in(vars(value))


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
        elif may[number] or type(item) is not str:
            yield from secrets_in(item)


def _ends_with_secret_name(text: object) -> bool:
    last = _LAST_NAME.search(text[-_LONGEST_NAME:]) if isinstance(text, str) else None
    return last is not None and (last.start() == 0 < len(str(text)) - _LONGEST_NAME or is_secret_name(last[1]))


def _values_in(value: object) -> Iterator[str]:
    """Yield all texts of a value that is secret as a whole."""
    if isinstance(value, Mapping):
        value = [*cast("Mapping[object, object]", value).values()]
    if isinstance(value, (list, tuple)):
        for item in cast("Sequence[object]", value):
            yield from _values_in(item)
    elif isinstance(value, str) and not isinstance(value, (NotKept, SecretRef)) and value.lower() not in _SETTINGS:
        yield value
