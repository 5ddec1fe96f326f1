"""Names of variables, options and keys that hold secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache

__all__ = ["find_parts", "is_secret_name"]

_WORD_ENDS = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+"

_OTHERS = "(?:EN)?COM|BY|TRES|SUR|OVER|UNDER|LOW|HIGH|BAND|ALL|SINGLE|MULTI"
"""Beginnings of words that end in ``PASS`` but are not about passwords, such as ``BYPASS``."""

_SECRET_WORDS = (
    "SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL"
    # A model's tokens are not secret, and neither are their counts: TOKENS, TOKENIZER, PAD_TOKEN, MAX_TOKEN.
    "|(?<!PAD_)(?<!EOS_)(?<!BOS_)(?<!UNK_)(?<!SEP_)(?<!CLS_)(?<!MASK_)(?<!STOP_)(?<!MAX_)(?<!MIN_)(?<!NUM_)(?<!PER_)"
    "TOKEN(?![A-Z])"
    f"|(?:^|_)(?!(?:{_OTHERS})PASS$)[A-Z0-9]*PASS$|(?:^|_)PW$"
    # PWD and OLDPWD are the shell's working directories.
    "|[A-Z0-9](?<!OLD)_PWD$|(?:^|_)(?!OLDPWD$)[A-Z0-9]+PWD$"
    "|(?:API|AUTH|ACCESS|PRIVATE|ENCRYPTION|SIGNING|ACCOUNT|MASTER|STORAGE|SSH)_?KEY$"
    # The number of keys is not secret, and neither is the path or the name of a key.
    "|(?<![A-Z0-9])(?<!MAX_)(?<!MIN_)(?<!NUM_)API_?KEYS?(?=_|$)(?!_(?:FILE|PATH|DIR|NAME|ID|HEADER|URL)S?$)"
    "|(?<![A-Z0-9])(?<!MAX_)(?<!MIN_)(?<!NUM_)(?:API|AUTH|ACCESS|BEARER)_?TOKENS$|(?:^|_)JWTS?$"
    "|(?:^|_)AUTHORIZATION$"
    "|(?<!^USE)(?<!_USE)(?<!^NO)(?<!_NO)(?<!ENABLE)(?<!DISABLE)(?<!REQUIRE)(?<!SKIP)(?<!WITH)_AUTH(?:_CONFIG)?$"
    "|(?:^|_)(?:GIT[A-Z]*|GH|GL|BITBUCKET|AZURE|AZDO|ADO|DEVOPS|DOCKER[A-Z]*|JIRA|DATABRICKS|AIRTABLE)_PAT$"
)

_DATA_KEY = (
    "(?:BY|CACHE|CLUSTERING|COLUMN|COMPOSITE|DEDUP|DICT|DIST|FEATURE|FIELD|FILTER|FOREIGN|GROUP|GROUPING|IDEMPOTENCY"
    "|IMAGE|INDEX|INPUT|JOIN|LABEL|LOOKUP|MESSAGE|METRIC|OBJECT|ORDER|OUTPUT|PARTITION|PRIMARY|PUBLIC|RANGE|RECORD"
    "|ROUTING|ROW|SHARD|SORT|TARGET|UNIQUE)[_.-]KEY"
)
"""Whole names of keys of data, such as ``sort-key``; a ``COSMOS_PRIMARY_KEY`` is secret."""

_STEMS = ("SECRET", "PASS", "CREDENTIAL", "TOKEN", "PW", "KEY", "AUTH", "PAT", "JWT")
"""Every secret name contains one of these, so most others are told apart without compiling the patterns."""

_PARTS = tuple(stem.encode() for stem in _STEMS)

_ALONE = frozenset(bytes([byte]) for byte in b" \t\n\"'{") | {b""}


def find_parts(text: str) -> Iterator[int]:
    """Yield the places in a text where a secret name may be; fast, in long texts too."""
    letters = text.encode("ascii", "replace").upper()  # each character becomes one byte
    for part in _PARTS:
        at = letters.find(part)
        while at >= 0:
            end = at + len(part)
            is_alone = part == b"KEY" and letters[at - 1 : at] in _ALONE  # a key alone is not secret
            goes_on = part == b"PAT" and letters[end : end + 1].isalnum()  # as in PATH
            if not is_alone and not goes_on:
                yield at
            at = letters.find(part, end)
    if os.environ.get("ASYNCSCHED_SECRET_NAMES"):
        yield from (word.start() for word in re.finditer(r"[\w.-]+", text))


def is_secret_name(name: str) -> bool:
    """Return whether a variable, an option or a key of this name holds a secret.

    Upper and lower case are the same. Words are separated by ``_``, ``-``, ``.`` or a capital. A name is secret if

    - it contains ``SECRET``, ``PASSWORD``, ``PASSWD``, ``PASSPHRASE`` or ``CREDENTIAL``;
    - one of its words ends in ``TOKEN``;
    - it ends in ``_KEY``, ``PASS``, ``PWD``, ``_PW``, ``_AUTH``, ``_AUTH_CONFIG``, ``AUTHORIZATION`` or ``JWT``, or in
      ``TOKENS`` after ``API``, ``AUTH``, ``ACCESS`` or ``BEARER``;
    - it contains ``API_KEY`` or ``API_KEYS``, as in ``API_KEY_PROD``, unless it ends in ``_FILE``, ``_PATH``, ``_DIR``,
      ``_NAME``, ``_ID``, ``_HEADER`` or ``_URL`` after that;
    - it ends in ``KEY`` after a word such as ``ACCOUNT`` or ``AUTH`` (``AccountKey``), in ``_PAT`` after the name of a
      service (``GITHUB_PAT``), or is ``pwd``.

    Not secret are ``PWD``, ``OLDPWD``; words such as ``BYPASS``, ``COMPASS`` and ``LOWPASS``; counts such as
    ``MAX_API_KEYS``; ``MAX_TOKENS``, ``TOKENIZER_PATH`` and ``pad_token``, which belong to a model's vocabulary; and
    keys of data such as ``sort-key`` and ``cache-key``. The environment variable ``ASYNCSCHED_SECRET_NAMES`` adds
    patterns, such as ``*_DSN|MY_PIN``.
    """
    return _is_secret(name, os.environ.get("ASYNCSCHED_SECRET_NAMES", ""))


@lru_cache(maxsize=8192)
def _is_secret(name: str, more: str) -> bool:
    upper = name.upper()
    if (not name.isascii() or any(stem in upper for stem in _STEMS)) and _has_secret_words(name):
        return True
    return bool(more) and _added(more).match(name) is not None


def _has_secret_words(name: str) -> bool:
    words = re.sub(_WORD_ENDS, "_", name).upper()
    return bool(re.search(_SECRET_WORDS, words)) or name in ("pwd", "Pwd") or _is_key(name)


def _is_key(name: str) -> bool:
    return bool(re.search("[_.-]KEY$", name, re.IGNORECASE)) and not re.fullmatch(_DATA_KEY, name, re.IGNORECASE)


@lru_cache(maxsize=8)
def _added(more: str) -> re.Pattern[str]:
    from fnmatch import translate  # imported late: only added patterns need it

    patterns = [translate(pattern.strip()) for pattern in more.split("|") if pattern.strip()]
    return re.compile("|".join(patterns) or r"(?!)", re.IGNORECASE)
