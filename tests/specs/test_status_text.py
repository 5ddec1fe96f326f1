from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.specs import AppState, AppStatus, ReplicaStatus, RoleStatus
from asyncsched.specs.status_text import error_message


def error(message: object, code: object = 1, timestamp: object = "1293182") -> str:
    extra = {"timestamp": timestamp, "py_callstack": "Traceback"}
    return json.dumps({"message": {"message": message, "errorCode": code, "extraInfo": extra}})


def status(*replicas: ReplicaStatus) -> AppStatus:
    roles = [
        RoleStatus(name, [replica for replica in replicas if replica.role == name])
        for name in dict.fromkeys(replica.role for replica in replicas)
    ]
    return AppStatus(AppState.FAILED, num_restarts=2, msg="gone", ui_url="http://x", roles=roles)


def failed(text: str, exit_code: int | None = None) -> ReplicaStatus:
    return ReplicaStatus(0, AppState.FAILED, "ps", "host1", text, exit_code=exit_code)


def replica_lines(text: str) -> list[str]:
    return status(failed(text)).format().split("\n")[4:-4]


def test_format_is_the_documents() -> None:
    local_time = datetime.fromtimestamp(1293182)  # noqa: DTZ006 - as it is printed
    shown = status(
        ReplicaStatus(1, AppState.RUNNING, "ps", "host2"),
        failed(error("boom")),
        ReplicaStatus(0, AppState.CANCELLED, "trainer", "host3"),
    ).format()

    assert shown == (
        "AppStatus:\n"
        "    State: FAILED\n"
        "    Num Restarts: 2\n"
        "    Roles: \n"
        " *ps[0]:FAILED (exitcode: 1)\n"
        f"        timestamp: {local_time}\n"
        "        hostname: host1\n"
        "        error_msg: boom\n"
        "  ps[1]:RUNNING\n"
        " *trainer[0]:CANCELLED (no reply file)\n"
        "    Msg: gone\n"
        "    Structured Error Msg: <NONE>\n"
        "    UI URL: http://x\n"
        "    "
    )


def test_printed_it_is_for_people_and_its_repr_is_yaml() -> None:
    shown = status(ReplicaStatus(0, AppState.RUNNING, "ps", "host2"))

    assert shown.format().rstrip() == str(shown) == f"{shown}"
    assert repr(shown).startswith("AppStatus:\n  msg: gone\n")


@pytest.mark.parametrize("levels", [1, 95, 105, *range(900, 1000, 5), 20_000])
def test_an_error_is_printed_however_deep_it_is(levels: int) -> None:
    text = error(0).replace(" 0,", f" {'[' * levels}0{']' * levels},")
    deep = status(failed(text))
    deep.structured_error_msg = text

    assert text in str(deep)
    assert (1 < levels < 100) == ("- - " in repr(deep))


@pytest.mark.parametrize(
    "piece", ["[", "a", "'", "(", "('On WorkerInfo(", "('On WorkerInfo(x):\n\n", "x\n\n", "Exception"]
)
async def test_a_long_error_does_not_hold_the_loop(piece: str) -> None:
    text = piece * ((256 << 10) // len(piece))

    assert text == error_message(text)


RPC = re.compile(r"\w*\('On WorkerInfo\(.+\):\n(?:.*\n)*'\)")
"""What is meant, as a pattern that takes seconds for some long texts."""


@given(st.lists(st.sampled_from(["E", "_", " ", "('On WorkerInfo(", "i", "):", "\n", "')", "\x0b", "é"]), max_size=30))
def test_what_rpc_has_wrapped_is_found_as_by_its_pattern(pieces: list[str]) -> None:
    text = "".join(pieces)
    match = RPC.search(text)

    assert (match[0] if match else text) == error_message(text)


def test_format_of_chosen_roles() -> None:
    two = status(ReplicaStatus(0, AppState.RUNNING, "ps", "h"), ReplicaStatus(0, AppState.RUNNING, "trainer", "h"))

    assert "trainer[0]" in two.format()
    assert "trainer[0]" not in two.format(filter_roles=["ps"])
    assert two.format() == two.format([])
    assert '"trainer"' not in json.dumps(two.to_json(["ps"]))


def test_a_long_message_is_wrapped_at_spaces() -> None:
    first, *more = replica_lines(error("word " * 39 + "word"))[3:]

    assert "        error_msg: " + "word " * 16 + "word" == first
    assert [" " * 15 + " word" * 16, " " * 15 + " word" * 7] == more


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "a\nRuntimeError('On WorkerInfo(id=1, name=t:0:0):\nTraceback\nboom\n')\nrest",
            "RuntimeError('On Wo",
        ),
        ("c10::Error: CUDA error\nException raised from x at y.cpp:1", "c10::Error: CUDA error"),
    ],
)
def test_the_innermost_error_is_shown(message: str, shown: str) -> None:
    assert f"        error_msg: {shown}" in "\n".join(replica_lines(error(message)))
    assert "rest" not in "\n".join(replica_lines(error(message)))
    assert "raised from" not in "\n".join(replica_lines(error(message)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("not json", "not json"),
        ('["a"]', '["a"]'),
        ("{}", "{}"),
        ('{"message": null}', '{"message": null}'),
        ('{"message": {"errorCode": 1}}', '{"message": {"errorCode": 1}}'),
        ('{"message": "plain text"}', "plain text"),
        ('{"message": {"message": "boom", "extraInfo": 5}}', "boom"),
        (error("boom", timestamp="soon"), "boom"),
        (error("boom", timestamp=10**30), "boom"),
    ],
)
def test_a_malformed_error_is_shown_as_text(text: str, shown: str) -> None:
    lines = replica_lines(text)

    assert lines[0].startswith(" *ps[0]:FAILED (exitcode: ")
    assert ["        hostname: host1", f"        error_msg: {shown}"] == lines[1:]


def test_a_flat_error_has_its_code_and_time_too() -> None:
    text = json.dumps({"message": "evicted", "errorCode": 137, "timestamp": 1293182})
    local_time = datetime.fromtimestamp(1293182)  # noqa: DTZ006 - as it is printed

    assert [
        " *ps[0]:FAILED (exitcode: 137)",
        f"        timestamp: {local_time}",
        "        hostname: host1",
        "        error_msg: evicted",
    ] == replica_lines(text)


def test_the_exit_code_we_know_serves_where_the_report_has_none() -> None:
    assert "FAILED (exitcode: 7)" in status(failed("not json", exit_code=7)).format()
    assert "FAILED (exitcode: <N/A>)" in status(failed(error("boom", code=None))).format()


@given(
    st.text()
    | st.recursive(
        st.none() | st.text(),
        lambda x: st.dictionaries(st.sampled_from(["message", "extraInfo", "errorCode", "timestamp"]), x),
    ).map(json.dumps)
)
def test_any_report_can_be_shown(text: str) -> None:
    app = status(failed(text))
    app.structured_error_msg = text

    assert app.format()
    assert repr(app)
    assert json.dumps(app.to_json())


def test_repr_is_yaml_with_the_error_parsed() -> None:
    app = status(failed("<NONE>", exit_code=3))
    app.structured_error_msg = '{"message": {"message": "boom", "errorCode": 3}}'

    assert repr(app) == (
        "AppStatus:\n"
        "  msg: gone\n"
        "  num_restarts: 2\n"
        "  roles:\n"
        "  - replicas:\n"
        "    - exit_code: 3\n"
        "      hostname: host1\n"
        "      id: 0\n"
        "      role: ps\n"
        "      state: FAILED (5)\n"
        "      structured_error_msg: <NONE>\n"
        "    role: ps\n"
        "  state: FAILED (5)\n"
        "  structured_error_msg:\n"
        "    message:\n"
        "      errorCode: 3\n"
        "      message: boom\n"
        "  ui_url: http://x\n"
    )


def test_to_json_is_json() -> None:
    replica = ReplicaStatus(0, AppState.FAILED, "ps", "h", exit_code=1, started_at=datetime(2026, 1, 2, 3, tzinfo=UTC))

    assert json.loads(json.dumps(status(replica).to_json())) == {
        "state": "FAILED",
        "num_restarts": 2,
        "roles": [
            {
                "role": "ps",
                "replicas": [
                    {
                        "id": 0,
                        "state": "FAILED",
                        "role": "ps",
                        "hostname": "h",
                        "structured_error_msg": "<NONE>",
                        "exit_code": 1,
                        "signal": None,
                        "reason": "",
                        "num_restarts": None,
                        "started_at": "2026-01-02T03:00:00+00:00",
                        "finished_at": None,
                        "cause": None,
                    }
                ],
            }
        ],
        "msg": "gone",
        "structured_error_msg": "<NONE>",
        "url": "http://x",
        "cause": None,
    }
