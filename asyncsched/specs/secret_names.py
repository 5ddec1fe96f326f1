"""Names that say of a value that it is secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache

__all__ = ["find_parts", "is_secret_name"]

_WORD_ENDS = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+"

_OTHERS = "(?:EN)?COM|BY|TRES|SUR|OVER|UNDER|LOW|HIGH|BAND|ALL|SINGLE|MULTI"
"""What words begin with that end in ``PASS`` and are of no password."""

_SECRET_WORDS = (
    "SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL"
    # The tokens of a vocabulary are none, and neither are their numbers: TOKENS, TOKENIZER, PAD_TOKEN, MAX_TOKEN.
    "|(?<!PAD_)(?<!EOS_)(?<!BOS_)(?<!UNK_)(?<!SEP_)(?<!CLS_)(?<!MASK_)(?<!STOP_)(?<!MAX_)(?<!MIN_)(?<!NUM_)(?<!PER_)"
    "TOKEN(?![A-Z])"
    f"|(?:^|_)(?!(?:{_OTHERS})PASS$)[A-Z0-9]*PASS$|(?:^|_)PW$"
    # PWD and OLDPWD are the shell's working directories.
    "|[A-Z0-9](?<!OLD)_PWD$|(?:^|_)(?!OLDPWD$)[A-Z0-9]+PWD$"
    "|(?:API|AUTH|ACCESS|PRIVATE|ENCRYPTION|SIGNING|ACCOUNT|MASTER|STORAGE|SSH)_?KEY$"
    # A number of keys is none, and neither is where one lies, or what it is called.
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
"""Whole names that are of data, such as ``sort-key``; a ``COSMOS_PRIMARY_KEY`` is secret."""

_PARTS = (b"SECRET", b"PASS", b"CREDENTIAL", b"TOKEN", b"PW", b"KEY", b"AUTH", b"_PAT", b"-PAT", b"JWT")
"""Each name that is secret by itself has one of these in it."""


_ALONE = frozenset(bytes([byte]) for byte in b" \t\n\"'{") | {b""}


def find_parts(text: str) -> Iterator[int]:
    """Find the places in a text that a secret name may hold: quickly, and in long texts too."""
    letters = text.encode("ascii", "replace").upper()  # each character becomes one byte
    for part in _PARTS:
        at = letters.find(part)
        while at >= 0:
            if part != b"KEY" or letters[at - 1 : at] not in _ALONE:  # a key alone is not secret
                yield at
            at = letters.find(part, at + len(part))
    if os.environ.get("ASYNCSCHED_SECRET_NAMES"):
        yield from (word.start() for word in re.finditer(r"[\w.-]+", text))


def is_secret_name(name: str) -> bool:
    """Tell whether a variable, an option or a key of this name holds a secret.

    A name is secret, in any case, if it holds ``SECRET``, ``PASSWORD``, ``PASSWD``, ``PASSPHRASE`` or ``CREDENTIAL``;
    if one of its words ends in ``TOKEN``; or if it ends in ``_KEY``, ``PASS``, ``PWD``, ``_PW``, ``_AUTH``,
    ``_AUTH_CONFIG`` or ``AUTHORIZATION``. So are ``AccountKey``, ``AUTHKEY``, ``GITHUB_PAT``, and ``pwd``, but not
    ``PWD``, ``OLDPWD``, and words such as ``BYPASS``, ``COMPASS`` and ``LOWPASS``. ``API_KEY`` and ``API_KEYS`` are
    secret anywhere in a name, as in ``API_KEY_PROD``, but not before ``_FILE``, ``_PATH``, ``_DIR``, ``_NAME``,
    ``_ID``, ``_HEADER`` or ``_URL`` at its end; at the end of a name so are ``JWT``, and ``TOKENS`` after ``API``,
    ``AUTH``, ``ACCESS`` or ``BEARER``. Numbers of them, such as ``MAX_API_KEYS``, are not. Words are parted by ``_``,
    ``-``, ``.`` or a capital. Not secret are ``MAX_TOKENS``, ``TOKENIZER_PATH`` and ``pad_token``, which are of a
    model's vocabulary, and ``sort-key``, ``cache-key`` and other keys of data. The environment variable
    ``ASYNCSCHED_SECRET_NAMES`` adds patterns, such as ``*_DSN|MY_PIN``.
    """
    return _is_secret(name, os.environ.get("ASYNCSCHED_SECRET_NAMES", ""))


@lru_cache(maxsize=8192)
def _is_secret(name: str, more: str) -> bool:
    words = re.sub(_WORD_ENDS, "_", name).upper()
    if re.search(_SECRET_WORDS, words) or name in ("pwd", "Pwd") or _is_key(name):
        return True
    return bool(more) and _added(more).match(name) is not None


def _is_key(name: str) -> bool:
    return bool(re.search("[_.-]KEY$", name, re.IGNORECASE)) and not re.fullmatch(_DATA_KEY, name, re.IGNORECASE)


@lru_cache(maxsize=8)
def _added(more: str) -> re.Pattern[str]:
    from fnmatch import translate  # only who adds some pays for it

    patterns = [translate(pattern.strip()) for pattern in more.split("|") if pattern.strip()]
    return re.compile("|".join(patterns) or r"(?!)", re.IGNORECASE)
