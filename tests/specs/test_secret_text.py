from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.specs import AppDef, Secret, masked_env
from asyncsched.specs.masking import find_secrets, hidden, is_hidden, masked

SECRET: list[tuple[list[str], list[str]]] = [
    (["--password=argsecret1"], ["--password=***"]),
    (["--api-key=a b"], ["--api-key=***"]),
    (["--password", "P2"], ["--password", "***"]),
    (["-password", "P2", "P3"], ["-password", "***", "P3"]),
    (["--hf_token", "P2", "--other", "x"], ["--hf_token", "***", "--other", "x"]),
    (["++db.password=P2"], ["++db.password=***"]),
    (["-Djavax.net.ssl.trustStorePassword=P2"], ["-Djavax.net.ssl.trustStorePassword=***"]),
    (["-c", "export DB_PASSWORD=P5; x"], ["-c", "export DB_PASSWORD=***; x"]),
    (["-c", "set -e\nA_TOKEN='P 5' B=1 x"], ["-c", "set -e\nA_TOKEN='***' B=1 x"]),
    (["-c", 'cd /a && (PGPASS=P5 run "$x")'], ["-c", 'cd /a && (PGPASS=*** run "$x")']),
    (["-c", "mysql --password=P6 -u x"], ["-c", "mysql --password=*** -u x"]),
    (["-c", "mysql --password P6 -u x"], ["-c", "mysql --password *** -u x"]),
    (["curl", "https://h/?a=1&access_token=P7&b=2"], ["curl", "https://h/?a=1&access_token=***&b=2"]),
    (["postgres://user:p@w@host/db?x=1"], ["postgres://user:***@host/db?x=1"]),
    (["--url=redis://:pw@host:6379"], ["--url=redis://:***@host:6379"]),
    (["-c", "x http://u:pw@a http://v:pw@b"], ["-c", "x http://u:***@a http://v:***@b"]),
    (["DB_PASSWORD=postgres://u:pw@h"], ["DB_PASSWORD=***"]),
]


@pytest.mark.parametrize(("args", "shown"), SECRET)
def test_secrets_in_arguments_are_hidden(args: list[str], shown: list[str]) -> None:
    assert shown == masked(args)
    assert all(each not in json.dumps(shown) for each in find_secrets(args))
    assert any(is_hidden(text) for text in shown)


@pytest.mark.parametrize(
    "args",
    [
        ["--max-tokens=100", "--tokenizer", "bert", "--tokenizer-path=/a", "--pad-token", "<pad>"],
        ["--use-auth-token=true", "--use-password", "--user", "x", "--save-token", "False"],
        ["--password", "--user"],
        ["--password="],
        ["--password=${DB_PASSWORD}", "--token", "$(API_TOKEN)"],
        ["-c", 'export HF_TOKEN=$OTHER DB_PASSWORD="$PW" A_KEY=$(cat /key) B_KEY="$(cat "/k")"; run --token "$T"'],
        ["-c", "from a import f; f(token=x, password=y)"],
        ["-c", "psql postgres://user:$PW@host postgres://user:${PW}@host"],
        ["http://host:80/a@b", "http://user@host:80/", "s3://a/b:c@d", "a:b@c", "x://h/?q=a:b@c"],
        ["it: token = 5; tokens=5", "MAX_TOKENS=5 TOKENIZERS_PARALLELISM=false"],
    ],
)
def test_what_holds_no_secret_stays(args: list[str]) -> None:
    assert args == masked(args)
    assert [] == find_secrets(args)


def test_a_url_in_an_environment_hides_its_password() -> None:
    env = {"DATABASE_URL": "postgres://user:pw@host", "OTHER": "http://host"}

    assert {**env, "DATABASE_URL": "postgres://user:***@host"} == masked_env(env)
    assert {**env, "DATABASE_URL": "postgres://user:***@host"} == masked(env)


def test_a_secret_argument_stays_one() -> None:
    assert [Secret("a")] == find_secrets(["--password", Secret("a")])
    assert "***" in repr(AppDef("a", metadata={"x": "--password P2"}))


@given(text=st.text(alphabet="-+=_ :/@'\"$(){}.;,\\pT\n1") | st.text())
def test_hiding_twice_changes_nothing(text: str) -> None:
    once = hidden([text])

    assert once == hidden(once)
    assert (once == [text]) == (find_secrets([text]) in ([], ["***"]))


@pytest.mark.parametrize(
    "part",
    ["a", "--", "a.", "x://a:", "--token ", "A_TOKEN='", 'A_TOKEN="', "a:b@", "A_TOKEN=\\", "KEY", "pass ", "KEY-"],
)
def test_long_texts_are_read_in_time(part: str) -> None:
    """A step of a quadratic search here would run into the test's time limit."""
    masked([part * 20_000])


def test_a_secret_is_found_in_the_middle_of_a_long_text() -> None:
    long = "x" * 2_000_000

    assert [f"{long}; A_TOKEN=*** {long}"] == masked([f"{long}; A_TOKEN=abc {long}"])
    assert "A_TOKEN=***" == masked([f"A_TOKEN={long}"])[0]
    assert [f"{long}_TOKEN=abc"] == masked([f"{long}_TOKEN=abc"]), "nothing is called by two million letters"
