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
    (["-c", "curl -u me:P5 https://h"], ["-c", "curl -u me:*** https://h"]),
    (["-c", "curl --proxy-user='me:P5' h; curl -ume:P5 h"], ["-c", "curl --proxy-user='me:***' h; curl -ume:*** h"]),
    (["curl", "-u", "me:P5"], ["curl", "-u", "***"]),
    (["docker", "login", "-u", "me", "-p", "P5", "host"], ["docker", "login", "-u", "me", "-p", "***", "host"]),
    (["-c", "docker login -u me -p P5 h && x"], ["-c", "docker login -u me -p *** h && x"]),
    (["-c", "az login -p='P 5' h; login \\\n -p P5"], ["-c", "az login -p='***' h; login \\\n -p ***"]),
    (["keytool", "-storepass", "P5"], ["keytool", "-storepass", "***"]),
    (["DB_PASSWORD=postgres://u:pw@h"], ["DB_PASSWORD=***"]),
    (["-H", "Authorization: Bearer P8"], ["-H", "Authorization: Bearer ***"]),
    (["--header=Authorization: Basic dTpw"], ["--header=Authorization: Basic ***"]),
    (["-c", "curl -H 'Authorization: token P8' h"], ["-c", "curl -H 'Authorization: token ***' h"]),
    (["-c", 'curl -H "authorization:P8" h'], ["-c", 'curl -H "authorization:***" h']),
    (["-c", 'x -H "Proxy-Authorization: Bearer P8, b"'], ["-c", 'x -H "Proxy-Authorization: Bearer ***"']),
    (["-c", 'curl -H "X-Api-Key: P8" h'], ["-c", 'curl -H "X-Api-Key: ***" h']),
    (["--header=X-Api-Key: P8"], ["--header=X-Api-Key: ***"]),
    (['{"user": "u", "password": "P 9", "n": 1}'], ['{"user": "u", "password": "***", "n": 1}']),
    (['{"password":"P\\"9"}'], ['{"password":"***"}']),
    (["{'db': {'api_key': 'P9'}}"], ["{'db': {'api_key': '***'}}"]),
    (['"{\\"a_token\\": \\"P9\\", \\"b\\": 1}"'], ['"{\\"a_token\\": \\"***\\", \\"b\\": 1}"']),
    (['{"headers": {"Authorization": "Bearer P9"}}'], ['{"headers": {"Authorization": "Bearer ***"}}']),
    (['{"password": 1234}'], ['{"password": ***}']),
    (['{"password": "P9'], ['{"password": "***']),
    (["password: P9"], ["password: ***"]),
    (["a: 1\n- db_password: P 9 \n  b: 2"], ["a: 1\n- db_password: *** \n  b: 2"]),
    (["a:\n    client_secret: 'P 9'  # x"], ["a:\n    client_secret: '***'  # x"]),
    (["a:\n  password: P 9, b"], ["a:\n  password: ***"]),
    (["x: '{password: P9, b: c}'", "my_token: ${A}x"], ["x: '{password: ***, b: c}'", "my_token: ***"]),
    (["{user: a, password: P9, b: c}"], ["{user: a, password: ***, b: c}"]),
    (["https://P0123456789ab@github.com/a"], ["https://***@github.com/a"]),
    (["git clone https://P0123456789ab:x-oauth-basic@h/a"], ["git clone https://***:***@h/a"]),
    (["git+https://P0123456789ab:@h/a"], ["git+https://***:@h/a"]),
    (["-c", "mysql --password \\\n  P6 -u x"], ["-c", "mysql --password \\\n  *** -u x"]),
    (["--password\nP6"], ["--password\n***"]),
    (["REDIS_AUTH=P6"], ["REDIS_AUTH=***"]),
    (["-c", "A=b GITHUB_PAT=P6 x --gh-pat P7"], ["-c", "A=b GITHUB_PAT=*** x --gh-pat ***"]),
    (["-c", "PATH=a githubPat=P6 x --githubPath=b"], ["-c", "PATH=a githubPat=*** x --githubPath=b"]),
    (["A=b;AccountKey=P6==;C=d"], ["A=b;AccountKey=***;C=d"]),
    (["Server=h;Uid=a;Pwd=P6;"], ["Server=h;Uid=a;Pwd=***;"]),
    (["--pwd", "P6", "--ssh-key=P7"], ["--pwd", "***", "--ssh-key=***"]),
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
        ["Authorization: Bearer $TOKEN", "-H", "Authorization: Bearer ${TOKEN}", "Authorization: Bearer"],
        ["-c", """x = {'Authorization': f'Bearer {token}', "Authorization": "Bearer " + token}"""],
        ['{"token": null, "password": "", "use_token": true, "tokens": 5, "secret": {"a": 1}, "api_key": "${KEY}"}'],
        ["password:\n  a", "api_key: ${KEY}", "token: str = None", "def f(a: int, token: str) -> str: pass"],
        ["a:b@c", "user:token:x", "see the password: it is elsewhere", "password: {{ secret }}"],
        ["http://administrator@host", "https://user.name.0123456789@host", "ssh://deploy-0123456789@host"],
        ["-c", 'docker run -u 1000:1000 i; curl --user "me:$PW" h; python -u x.py --a b:c', "--user", "0:0", "-u", "x"],
        ["PWD=/a OLDPWD=/b", "pwd", "--with-pwd", "-c", "cd a && pwd && ls"],
        [
            "--sort-key=a",
            "--partition-key",
            "b",
            "--primary-key=id",
            "--foreign_key=a",
            "cache-key: a",
            "--group.key=a",
        ],
        ["--key-file=/a", "--private-key-file", "/b", "--key", "a", "--public-key=a", "topologyKey: a", "sortKey=a"],
        ["docker login -p $A; ssh -p 22 h", "login; ssh -p 22 h", "mylogin -p 22", "login --port -p", "a login"],
        ["login", "-p", "${A}"],
        ["login", "-p", "-x"],
        ["ssh", "-p", "22", "login"],
        ["PATH=/a", "--pat", "--auth=basic", "--use-auth x", "AUTHOR=me", "--file-pat=*.py"],
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


FRAGMENTS = [
    *(
        "token",
        "--token",
        "login ",
        " -p ",
        "X-Api-Key",
        "Authorization",
        "Bearer ",
        "pwd",
        "https://",
        "Abcdef012345",
        "***",
        "${A}",
    ),
    *(": ", ":", "=", " ", "@", "'", '"', "\\", "\n", "{", "}", ", ", "- ", "a", "$", "(", "str", "1"),
]


@given(
    text=st.text(alphabet="-+=_ :/@'\"$(){}.;,\\pT\n1")
    | st.text()
    | st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)
)
def test_hiding_twice_changes_nothing(text: str) -> None:
    once = hidden([text])

    assert once == hidden(once)
    assert (once == [text]) == (find_secrets([text]) in ([], ["***"]))


@pytest.mark.parametrize(
    "part",
    [
        *(
            "a",
            "--",
            "a.",
            "x://a:",
            "--token ",
            "A_TOKEN='",
            'A_TOKEN="',
            "a:b@",
            "A_TOKEN=\\",
            "KEY",
            "pass ",
            "KEY-",
        ),
        *('"token":"', '"token":"\\', '"token":"\\"', "token: ", "\ntoken: a", " token:", "{token: ", "_PAT"),
        *("Authorization: ", "Authorization:", "authorization: a ", "https://a1", "--token \\\n", '\\"token\\":\\"'),
        *("=token: `", "=token: ${", '"token": {', "{token: str", "https://a:", "=token: a(", "=token: {"),
    ],
)
def test_long_texts_are_read_in_time(part: str) -> None:
    """A step of a quadratic search here would run into the test's time limit."""
    masked([part * 20_000])


def test_a_secret_is_found_in_the_middle_of_a_long_text() -> None:
    long = "x" * 2_000_000

    assert [f"{long}; A_TOKEN=*** {long}"] == masked([f"{long}; A_TOKEN=abc {long}"])
    assert ["A_TOKEN=***"] == masked([f"A_TOKEN={long}"])
    assert [f"{long}_TOKEN=abc"] == masked([f"{long}_TOKEN=abc"]), "nothing is called by two million letters"
