from __future__ import annotations

import contextvars
import copy
import json
import logging
import pickle
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.specs import (
    Secret,
    is_secret_name,
    masked_env,
    redact,
    reveal,
    revealed_env,
    secret_names,
    show_secrets,
)

# Long enough not to come up by chance, and not a part of the mask.
markers = st.text(st.characters(exclude_characters="*"), min_size=4).map(lambda text: f"mark{text}er")


@dataclass
class Holder:
    value: str


@given(markers)
def test_nothing_that_prints_shows_it(marker: str) -> None:
    secret = Secret(marker)
    shown = [
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret!r:>50}",
        "%s" % secret,  # noqa: UP031 - this is what is tested
        "{}".format(secret),  # noqa: UP032
        "".join([secret]),
        secret + "",
        secret.upper(),
        secret[:],
        secret.encode().decode(),
        json.dumps({"a": [secret], secret: 1}),
        repr(Holder(secret)),
        repr(asdict(Holder(secret))),
        repr({secret: [secret]}),
        "".join(traceback.format_exception_only(ValueError(secret))),
    ]

    assert not [text for text in shown if marker in text]


def test_it_prints_as_a_mask(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("test").warning("with %s", Secret("marker"))

    assert ["with ***"] == caplog.messages
    assert "***" == str(Secret("marker")) == f"{Secret('marker')}"
    assert "'***'" == repr(Secret("marker"))
    assert "  ***" == f"{Secret('marker'):>5}"


@given(st.text())
def test_only_reveal_gives_the_value(value: str) -> None:
    assert value == Secret(value).reveal() == reveal(Secret(value)) == reveal(value)
    assert type(Secret(value).reveal()) is str
    assert value == Secret(Secret(value)).reveal()


@given(st.text(), st.text())
def test_equality_and_hash_are_those_of_the_value(one: str, other: str) -> None:
    assert (one == other) == (Secret(one) == Secret(other))
    assert (one != other) == (Secret(one) != Secret(other))
    assert hash(Secret(one)) == hash(Secret(one))
    assert {one, other} == {secret.reveal() for secret in {Secret(one), Secret(other), Secret(one)}}


def test_a_secret_equals_no_plain_string() -> None:
    for text in ("marker", "***"):
        assert Secret("marker") != text
        assert text != Secret("marker")
        assert {text: 1}.get(Secret("marker")) is None


@given(st.text())
def test_copies_keep_the_value_and_stay_secret(value: str) -> None:
    secret = Secret(value)
    for other in (copy.copy(secret), copy.deepcopy(secret), pickle.loads(pickle.dumps(secret))):
        assert isinstance(other, Secret)
        assert secret == other
        assert bool(value) == bool(other)


def test_show_secrets_holds_for_its_block_and_its_context_only() -> None:
    secret = Secret("marker")
    outside = contextvars.copy_context()
    with show_secrets():
        assert ("marker", "'marker'", "marker") == (str(secret), repr(secret), f"{secret}")
        assert {"A_TOKEN": "x"} == masked_env({"A_TOKEN": "x"})
        assert "***" == outside.run(str, secret)

    assert "***" == str(secret)


def test_show_secrets_ends_with_an_error() -> None:
    with pytest.raises(ValueError, match="stop"), show_secrets():
        raise ValueError("stop")

    assert "***" == str(Secret("marker"))


@pytest.mark.parametrize(
    "name",
    [
        *("HF_TOKEN", "TOKEN", "token_file", "MY_SECRETS", "AWS_SECRET_ACCESS_KEY", "DbPassword", "API_KEY"),
        *("GOOGLE_CREDENTIALS", "x_key"),
        *("PASSWD", "PGPASS", "MY_PWD", "db-pass", "PGPASSWORD", "apiKey", "APIKEY", "ssh-passphrase", "spark.api.key"),
        *("accessToken", "GITHUBTOKEN", "TOKEN_1", "Djavax.trustStorePassword", "mysql_pwd", "HFToken"),
        *("REDIS_AUTH", "GITHUB_PAT", "gh-pat", "AccountKey", "SharedAccessKey", "pwd", "Authorization", "master-key"),
        *("SSHPASS", "KEYPASS", "storepass", "RootPass", "SSHPWD", "DB_PW", "db-pw", "pw"),
        *("TS_AUTHKEY", "AuthKey", "DOCKER_AUTH_CONFIG"),
        *("OPENAI_API_KEY_PROD", "API_KEYS", "apiKeys", "x-api-key-2", "API_KEYS_OLD", "APIKEYS", "API_KEY_FILE_OLD"),
        *("API_TOKENS", "accessTokens", "auth-tokens", "JWT", "USER_JWT", "jwt", "userJwt", "JWTS"),
    ],
)
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "KEY", "KEYBOARD", "API_KEY_FILE", "MONKEY", "", "USER", "TOKE", "topologyKey"),
        *("TOKENIZERS_PARALLELISM", "MAX_TOKENS", "NUM_TOKENS", "TOKENIZER_PATH", "tokenizer", "maxTokens"),
        *("max-new-tokens", "pad_token", "EOS_TOKEN_ID", "MAX_TOKEN_LENGTH", "PWD", "OLDPWD", "OLD_PWD", "oldpwd"),
        *(
            "sort-key",
            "PARTITION_KEY",
            "primary_key",
            "foreign-key",
            "public-key",
            "sortKey",
            "key-file",
        ),
        *("AUTHOR", "AUTHORS_FILE", "auth", "USE_AUTH", "with-auth", "FILE_PAT", "PATCH", "authorization-mode"),
        *("BYPASS", "NUM_PASSES", "COMPASS", "PASSENGERS", "USE_COMPASS", "encompass", "lowpass", "TRESPASS"),
        *(
            "KEYS_TO_SORT",
            "PRIMARY_KEY_COLUMN",
            "KEYS",
            "API_KEYBOARD",
            "API_KEY_NAME",
            "API_KEY_PATHS",
            "MAX_API_KEYS",
        ),
        *(
            "API_KEY_HEADER",
            "CAPI_KEYS",
            "api-key-id",
            "NUM_API_TOKENS",
            "API_TOKENS_PATH",
            "JWT_ISSUER",
            "JWTOOL",
            "TOKENS",
        ),
        *("AUTH_METHOD", "PATH_AUTHORS", "USE_AUTH_CONFIG", "AUTH_URL", "UPW", "PWM", "KEYWORD", "OAUTHLIB"),
    ],
)
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)


WORDS = st.lists(st.sampled_from(["HF", "my", "App", "2", "path"]), max_size=3)


@given(before=WORDS, after=WORDS, sep=st.sampled_from("_-."), shape=st.sampled_from([str.upper, str.lower, str.title]))
def test_token_is_a_whole_word_of_a_secret_name(
    before: list[str], after: list[str], sep: str, shape: Callable[[str], str]
) -> None:
    assert is_secret_name(sep.join([*before, shape("token"), *after]))
    for other in ("tokens", "tokenizer", "tokenizers", "tokenized"):
        assert not is_secret_name(sep.join([*before, shape(other), *after]))


PIECES = "secret password passwd passphrase credential token pass pw pwd api auth access key keys jwt authorization"
PIECES += " config github pat use old oldpwd bypass sort cache max pad \u017fecret \u212aey paß tokens x 1"


def joined(pieces: list[str], data: st.DataObject) -> str:
    shapes = st.sampled_from([str.upper, str.lower, str.title])
    return data.draw(st.sampled_from(["", "_", "-", "."])).join(data.draw(shapes)(piece) for piece in pieces)


@given(st.lists(st.sampled_from(PIECES.split()) | st.text(max_size=3), max_size=5), st.data())
def test_a_name_is_judged_by_the_patterns_whether_they_are_looked_at_or_not(
    pieces: list[str], data: st.DataObject
) -> None:
    name = joined(pieces, data)
    assert is_secret_name(name) == secret_names._has_secret_words(name)


@given(st.lists(st.sampled_from(PIECES.split()), max_size=5), st.data())
def test_a_secret_name_is_found_in_a_text(pieces: list[str], data: st.DataObject) -> None:
    name = joined(pieces, data)
    if name.isascii() and is_secret_name(name):
        assert any(True for _ in secret_names.find_parts(f"run {name}=x"))


def test_names_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_secret_name("MY_PIN")
    monkeypatch.setenv("ASYNCSCHED_SECRET_NAMES", "MY_PIN | *_DSN|")

    assert is_secret_name("my_pin")
    assert is_secret_name("SENTRY_DSN")
    assert is_secret_name("A_TOKEN")
    assert not is_secret_name("")
    assert not is_secret_name("PATH")


def test_an_environment_is_masked_by_name_and_by_type() -> None:
    env = {"A_TOKEN": "marker", "OTHER": Secret("marker"), "PATH": "/bin"}

    assert {"A_TOKEN": "***", "OTHER": "***", "PATH": "/bin"} == masked_env(env)
    assert all(type(value) is str for value in masked_env(env).values())


def test_an_environment_is_revealed_as_plain_strings() -> None:
    revealed = revealed_env({"A_TOKEN": "marker", "OTHER": Secret("marker")})

    assert {"A_TOKEN": "marker", "OTHER": "marker"} == revealed
    assert all(type(value) is str for value in revealed.values())
    assert '{"A_TOKEN": "marker", "OTHER": "marker"}' == json.dumps(revealed)


@given(st.text(), markers, st.text())
def test_redact_leaves_no_known_value(before: str, marker: str, after: str) -> None:
    text = before + marker + after

    assert marker not in redact(text, [marker])
    assert marker not in redact(text, ["other", Secret(marker)])
    assert marker not in redact(f"{before}{json.dumps({'a': marker})}", [marker])
    assert json.dumps(marker)[1:-1] not in redact(json.dumps(marker), [marker])
    assert repr(marker)[1:-1] not in redact(repr(marker), [marker])


def test_redact_finds_other_spellings() -> None:
    secret = 'p"ss w/rd&ü'

    for text in (json.dumps(secret), json.dumps(secret, ensure_ascii=False), repr(secret), quote(secret)):
        assert "rd" not in redact(text, [secret])
    assert "url?a=***&b=1" == redact(f"url?a={quote(secret, safe='')}&b=1", [secret])


def test_redact_takes_the_longest_first() -> None:
    assert "***" == redact("password-long", ["password", "password-long"])


def test_redact_leaves_the_rest_readable() -> None:
    assert "retry 1 of 10" == redact("retry 1 of 10", ["1", ""])
    assert "retry *** of ***0" == redact("retry 1 of 10", [Secret("1")])
    assert "text" == redact("text", [])
    assert r"a.c a*c ***" == redact(r"a.c a*c a.*c", ["a.*c"])
