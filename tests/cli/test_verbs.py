"""What each verb prints, and how it ends; on schedulers that need nothing but themselves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests._support import eventually_blocking
from tests.cli._cli import Cli

pytestmark = pytest.mark.slow

FIELDS = {"handle", "scheduler", "session", "app_id", "state"}


@pytest.mark.slow
def test_help_says_what_there_is(cli: Cli) -> None:
    done = cli("--help")

    assert 0 == done.code
    for verb in ("run", "status", "describe", "list", "log", "wait", "monitor", "cancel", "delete", "runopts"):
        assert f"\n  {verb} " in done.out
        assert cli(verb, "-h").out.startswith(f"Usage: asyncsched {verb} ")
    assert cli("--version").out.startswith("asyncsched, version ")


def test_a_components_help(cli: Cli) -> None:
    assert "What to print. (default: hello world)" in cli("run", "utils.echo", "--help").out
    assert "What to print. (default: hello world)" in cli("builtins", "utils.echo").out


def test_nothing_of_asyncio_is_imported_for_help(cli: Cli) -> None:
    code = "import sys, asyncsched.cli.main as m\ntry: m.main(['--help'])\nexcept SystemExit: pass\n"
    code += "bad = {'asyncio', 'rich', 'logging', 'asyncsched.runner', 'importlib.metadata'} & set(sys.modules)\n"
    code += "assert not bad, bad"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert 0 == done.returncode, done.stderr


def test_run_follows_an_app_when_it_is_asked_to(cli: Cli) -> None:
    done = cli("run", "-s", "stage", "--log", "utils.sh", "echo one\necho two >&2\nexit 3")

    assert 1 == done.code
    handle, *lines = done.lines
    assert handle.startswith("stage://cli/sh-")
    assert ["sh/0 one", "sh/0 two"] == lines
    assert "FAILED" in done.err
    assert "exited with code 3" in done.err


def test_run_of_a_remote_app_returns_at_once(cli: Cli) -> None:
    done = cli("run", "-s", "stage", "utils.sh", "sleep 3600")

    assert (0, 1, "") == (done.code, len(done.lines), done.err)


def test_run_a_command_without_a_component(cli: Cli) -> None:
    done = cli("run", "-s", "stage", "--log", "--replicas", "2", "--env", "A=b=c", "--", "sh", "-c", "echo $A --help")

    assert 0 == done.code
    assert ["sh/0 b=c --help", "sh/1 b=c --help"] == sorted(done.lines[1:])


def test_a_dry_run_prints_the_request_and_hides_secrets(cli: Cli) -> None:
    line = ("run", "-s", "stage", "--dryrun", "--env", "API_TOKEN=hunter22", "--memMB", "7", "--", "Prog.sh", "x")
    done = cli(*line)

    assert (0, "") == (done.code, done.err)
    assert "name: prog" in done.out
    assert "entrypoint: Prog.sh" in done.out
    assert "memMB: 7" in done.out
    assert "hunter22" not in done.out
    assert "hunter22" in cli(*line[:4], "--show-secrets", *line[4:]).out
    request = cli(*line[:1], "-o", "json", *line[1:]).json

    assert "***" == request["request"]["app"]["roles"][0]["env"]["API_TOKEN"]


def test_run_as_json(cli: Cli) -> None:
    attached = cli("run", "-s", "stage", "-o", "json", "--log", "utils.sh", "echo one")

    assert {*FIELDS, "cause", "msg", "num_restarts", "roles", "structured_error_msg", "url"} == {*attached.json}
    assert "SUCCEEDED" == attached.json["state"]
    assert "sh/0 one" in attached.err
    first, line, last = cli("run", "-s", "stage", "-o", "jsonl", "--log", "utils.sh", "echo one").jsonl

    assert ["one", "sh", 0, "stdout"] == [line[key] for key in ("text", "role", "replica", "stream")]
    assert first["handle"] == last["handle"]
    detached = cli("run", "-s", "stage", "-o", "json", "utils.sh", "echo one").json

    assert FIELDS - {"state"} == {*detached}


@pytest.mark.slow
def test_the_configuration_counts(cli: Cli) -> None:
    (cli.folder / "asyncsched.toml").write_text(
        '[command.run]\nscheduler = "stage"\ncomponent = "utils.sh"\nlog = true\n'
        '[component."utils.sh"]\nargs = ["echo from the file"]\n[scheduler.stage]\nqueue = "a"\n'
    )

    assert "sh/0 from the file" == cli("run").lines[1]
    assert "sh/0 mine" == cli("run", "utils.sh", "echo mine").lines[1]
    assert "queue: a" in cli("run", "--dryrun").out
    assert "queue: a" in cli("run", "--dryrun", "dist.ddp", "-h", "cpu.small", "--script", "x.py").out
    assert "queue: a" in cli("run", "--dryrun", "--", "x", "--help").out
    assert "queue: b" in cli("run", "-cfg", "priority=1,queue=b", "--dryrun").out
    assert "queue: c" in cli("run", "--dryrun", ASYNCSCHED_STAGE_QUEUE="c").out
    assert "queue (str) = a   (from ./asyncsched.toml:8; by default default)" in cli("runopts", "stage").out
    (row,) = [row for row in cli("runopts", "stage", "-o", "json").json if row["option"] == "queue"]
    assert ("a", "default", "./asyncsched.toml:8") == (row["value"], row["default"], row["origin"])


def test_a_configured_shape_is_for_commands_and_leaves_components_alone(cli: Cli) -> None:
    (cli.folder / "asyncsched.toml").write_text('[command.run]\nscheduler = "stage"\nimage = "mine"\nenv = ["A=1"]\n')

    assert "image: mine" in cli("run", "--dryrun", "--", "true").out
    assert "image: mine" not in (done := cli("run", "--dryrun", "utils.echo")).out
    assert (0, "") == (done.code, done.err)
    assert 2 == cli("run", "--image", "x", "utils.echo").code


def test_the_format_may_stand_before_the_verb(staged: Cli) -> None:
    assert ["train-029", "train-028"] == [row["app_id"] for row in staged("-o", "json", "list", "-n", "2").json]
    assert ["train-029"] == [row["app_id"] for row in staged("-o", "json", "list", "-n", "1", "-o", "jsonl").jsonl]


def test_status_of_one_and_of_many(staged: Cli) -> None:
    one = staged("status", "train-001")

    assert 0 == one.code
    assert "RUNNING  stage://old/train-001" == one.lines[0]
    assert "  more: asyncsched log -f stage://old/train-001" == one.lines[-1]
    many = staged("status", "stage://old/train-00*", "stage://x/train-013")

    assert ["APP", "STATE", "REPLICAS", "SINCE", "REASON"] == many.lines[0].split()
    assert 12 == many.lines.index("")
    assert ["stage://x/train-013", "FAILED", "1", "exited", "with", "code", "1"] in [
        [*words[:3], *words[4:]] for words in map(str.split, many.lines)
    ]
    assert "11 apps: 1 succeeded, 2 failed, 8 running" in many.lines[-1]
    rows = staged("status", "-o", "jsonl", "stage://x/train-003", "stage://x/nosuch").jsonl

    assert ["FAILED", None] == [row.get("state") for row in rows]
    assert {"type": "UnknownAppError", "what": "no app nosuch on stage"}.items() <= rows[1]["error"].items()


def test_which_app_is_meant(staged: Cli) -> None:
    ambiguous = staged("status", "train-00")

    assert 2 == ambiguous.code
    assert "error: 'train-00' matches 10 apps" in ambiguous.err
    assert "error: no app matches 'x*'" in staged("status", "x*").err
    assert "stage://old/train-007" in staged("status", "-o", "json", "train-007").out


def test_one_scheduler_that_fails_does_not_hide_the_others(broken: Cli) -> None:
    staged = broken
    told = "error: cannot reach the cluster: nothing listens at 10.0.0.1; start it  [down: UnavailableError]"
    for line in (["list"], ["status", "train-*"], ["status", "stage://x/train-001", "down://x/y"]):
        done = staged(*line)

        assert done.code in (5, 6)
        assert told in done.err.splitlines()
        assert any("train-001" in line for line in done.lines)
    cancelled = staged("cancel", "stage://x/train-001", "down://x/y")

    assert (5, "train-001\n") == (cancelled.code, (staged.folder / "cancelled").read_text())
    waited = staged("wait", "--any", "stage://x/train-001", "stage://x/train-003", "down://x/y")

    assert "stage://x/train-003  FAILED  exited with code 1" in waited.lines


def test_a_package_that_is_not_installed_is_no_failure(broken: Cli) -> None:
    cli = broken
    assert "absent" not in cli("list").err
    assert "absent needs the package a" in cli("runopts").err
    assert 0 == cli("runopts").code


def test_list(staged: Cli) -> None:
    rows = staged("list", "-s", "stage", "-n", "3", "-o", "json").json

    assert [{*FIELDS, "name", "created_at", "replicas", "counts", "duration", "reason"}] * 3 == [{*row} for row in rows]
    assert ["train-029", "train-028", "train-027"] == [row["app_id"] for row in rows]


def test_wait(staged: Cli) -> None:
    assert (0, ["stage://x/train-005  SUCCEEDED"]) == (
        (done := staged("wait", "stage://x/train-005")).code,
        done.lines,
    )
    both = staged("wait", "-o", "json", "stage://x/train-005", "stage://x/train-003")

    assert (1, {"SUCCEEDED", "FAILED"}) == (both.code, {row["state"] for row in both.json})
    late = staged("wait", "--timeout", "100ms", "stage://x/train-001")

    assert 124 == late.code
    assert "error: stage://x/train-001 did not end within 0.1 s" in late.err


def test_status_until_the_end(staged: Cli) -> None:
    done = staged("status", "-w", "stage://x/train-003", "stage://x/train-005")

    assert 1 == done.code
    assert {"stage://x/train-003  FAILED  exited with code 1", "stage://x/train-005  SUCCEEDED"} == {*done.lines}
    assert "2 apps: 1 succeeded, 1 failed" in done.err


def test_delete(staged: Cli) -> None:
    assert "stage://x/train-005: deleted\n" == staged("delete", "stage://x/train-005").err
    refused = staged("delete", "stage://x/train-001")

    assert 2 == refused.code
    assert "train-001 has not ended" in refused.err


@pytest.mark.slow
def test_logs_of_several_apps(staged: Cli) -> None:
    done = staged("log", "train-00[12]")

    assert ["train-001/0 hello from the stage", "train-002/0 hello from the stage"] == sorted(done.lines)
    assert ["main/0 hello from the stage"] == staged("log", "stage://x/train-001/main/0").lines
    assert ["main/0 hello from the stage"] == staged("log", "--role", "main", "--replica", "0", "train-001").lines
    assert [] == staged("log", "--regex", "nothing", "train-001").lines
    stamped = staged("log", "--timestamps", "train-001").lines[0]

    assert re.match(r"main/0 \d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:\d\d hello from the stage", stamped)
    wrong = staged("log", "stage://x/train-001/main/3")

    assert 4 == wrong.code
    assert "has no replica 3" in wrong.err


def test_builtins(cli: Cli) -> None:
    assert "utils.echo" in cli("builtins").out
    assert "def echo(" in cli("builtins", "--print", "utils.echo").out
    assert {"component", "summary"} == {*cli("builtins", "-o", "json").json[0]}
    assert "usage: asyncsched run" in cli("builtins", "utils.echo", "-o", "json").json[0]["help"]
    assert "def echo(" in cli("builtins", "utils.echo", "--print", "-o", "jsonl").jsonl[0]["source"]


@pytest.mark.slow
def test_doctor_looks_at_everything(broken: Cli) -> None:
    cli = broken
    done = cli("doctor", "--timeout", "10s")
    checks = {line.split("  ")[0]: line for line in done.lines}

    assert done.code in (5, 6)
    assert " ok" in checks["scheduler stage"]
    assert "cannot reach the cluster" in checks["scheduler down"]
    assert "not installed" in checks["scheduler absent"]
    assert "no answer within 10 s" in checks["scheduler silent"]
    (cli.folder / "asyncsched.toml").write_text("[scheduler.stage]\nquue = 'x'\n")

    assert "unknown option `quue` for stage (from ./asyncsched.toml:2)" in cli("doctor").out
    for text, told in (
        ("[command.run]\nshceduler = 1\n", "unknown option `shceduler` for the command run (from ./asyncsched.toml:2)"),
        ("[command.list]\nscheduler = 'x'\n", "no scheduler is named 'x' (from ./asyncsched.toml:2)"),
        ("[component.'utils.echo']\nmgs = 'x'\n", "utils.echo has no argument mgs (from ./asyncsched.toml:2)"),
        ("[component.'utils.ehco']\nmsg = 'x'\n", "unknown section [component.utils.ehco] (from ./asyncsched.toml:2)"),
    ):
        (cli.folder / "asyncsched.toml").write_text(text)

        assert told in cli("doctor").out
    (cli.folder / "asyncsched.toml").write_text("x =")

    assert "./asyncsched.toml cannot be read" in cli("doctor").out


def test_configure_writes_a_file_and_never_over_one(cli: Cli) -> None:
    printed = cli("configure", "-s", "stage", "--print")

    assert '[scheduler.stage]\n# Where the app waits.\n# queue = "default"' in printed.out
    assert 0 == cli("configure").code
    assert "[scheduler.stage]" in (cli.folder / "asyncsched.toml").read_text()
    assert "error: asyncsched.toml exists already" in cli("configure").err
    assert 0 == cli("run", "-s", "stage", "utils.echo").code


def test_configure_writes_nothing_for_a_scheduler_that_is_not_there(cli: Cli) -> None:
    done = cli("configure", "-s", "stage,stagg")

    assert (2, "") == (done.code, done.out)
    assert "no scheduler is named 'stagg'; did you mean stage?" in done.err
    assert not (cli.folder / "asyncsched.toml").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(cli: Cli, shell: str) -> None:
    assert "_ASYNCSCHED_COMPLETE" in cli("completion", shell).out


def test_ctrl_c_detaches_from_a_remote_app(cli: Cli) -> None:
    running = cli.start("run", "-s", "stage", "--log", "utils.sh", "echo ready\nsleep 3600")
    assert running.stdout is not None
    handle = running.stdout.readline().strip()
    assert "sh/0 ready\n" == running.stdout.readline()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)

    assert 130 == running.returncode
    assert [
        f"detached: {handle.rpartition('/')[2]} is still running",
        f"  resume: asyncsched log -f {handle}",
        f"  stop:   asyncsched cancel {handle}",
    ] == err.splitlines()


def test_ctrl_c_leaves_one_document_as_json(cli: Cli) -> None:
    running = cli.start("run", "-s", "stage", "-o", "json", "--log", "utils.sh", "echo ready\nsleep 3600")
    assert running.stderr is not None
    assert "sh/0 ready\n" == running.stderr.readline()
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)

    assert FIELDS - {"state"} == {*json.loads(out)}


def test_ctrl_c_says_what_runs_on(staged: Cli) -> None:
    following = staged.start("log", "-f", "stage://x/train-001")
    assert following.stdout is not None
    assert "main/0 hello from the stage\n" == following.stdout.readline()
    following.send_signal(signal.SIGINT)

    told = "  resume: asyncsched log -f stage://x/train-001\n  stop:   asyncsched cancel stage://x/train-001\n"
    assert ("", f"train-001 is still running\n{told}") == following.communicate(timeout=60)
    assert 130 == following.returncode


def test_a_reader_that_leaves_ends_it_quietly_also_when_nothing_comes(staged: Cli) -> None:
    following = staged.start("log", "-f", "stage://x/train-001")
    assert following.stdout is not None
    assert "main/0 hello from the stage\n" == following.stdout.readline()
    following.stdout.close()
    eventually_blocking(lambda: following.poll() is not None)

    assert following.stderr is not None
    assert ("", 0) == (following.stderr.read(), following.returncode)
    following.stderr.close()


def test_a_monitor_of_nothing_says_so(cli: Cli) -> None:
    done = cli("monitor")

    assert (0, "", "no app is running\n") == (done.code, done.out, done.err)


def test_a_monitor_without_a_terminal_prints_changes(staged: Cli) -> None:
    done = staged("monitor", "stage://x/train-003", "-o", "jsonl")

    assert ["FAILED"] == [json.loads(line)["state"] for line in done.lines]


@pytest.mark.parametrize("verb", [["status", "-w"], ["monitor"]])
def test_changes_as_json_are_one_document(staged: Cli, verb: list[str]) -> None:
    done = staged(*verb, "stage://x/train-003", "stage://x/train-005", "-o", "json")

    assert (1, {"FAILED", "SUCCEEDED"}) == (done.code, {row["state"] for row in done.json})


def test_a_pattern_that_names_a_scheduler_asks_no_other(broken: Cli) -> None:
    assert (0, "") == ((done := broken("status", "stage://*/train-00*")).code, done.err)
    alone = broken("status", "down://*/train-*")

    assert (5, 3) == (alone.code, len(alone.err.splitlines()))
    assert 2 == broken("status", "stgae://*/train-*").code


def test_the_timeout_of_wait_holds_for_the_look_up_as_well(broken: Cli) -> None:
    broken.schedulers = ["stage", "silent"]
    done = broken("wait", "--timeout", "300ms", "train-*")

    assert (124, "error: the apps did not end within 0.3 s\n") == (done.code, done.err)


@pytest.mark.parametrize(
    "line", [["list"], ["log", "stage://x/train-001"], ["builtins"], ["--help"], ["--version"], ["run", "--help"]]
)
def test_a_pipe_that_is_closed_already_is_no_failure(staged: Cli, line: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    running = staged.start(*line, stdout=writer)
    os.close(writer)

    assert (None, "") == running.communicate(timeout=60)
    assert 0 == running.returncode


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_streams_that_are_closed_are_no_fault(staged: Cli, closed: str) -> None:
    for line, code in (("list", 0), ("monitor stage://x/train-003", 1), ("status stage://x/nosuch", 4)):
        command = f"{' '.join(staged.command(*line.split()))} {closed}"
        done = subprocess.run(
            ["sh", "-c", command], cwd=staged.folder, env=staged.env, capture_output=True, text=True, check=False
        )

        assert code == done.returncode
        assert "Traceback" not in done.stderr
        assert "fault" not in done.stderr


def test_a_disk_that_is_full_is_told(staged: Cli) -> None:
    with Path("/dev/full").open("w") as full:
        running = staged.start("list", stdout=full)
        _, err = running.communicate(timeout=60)

    assert (2, "error: [Errno 28] No space left on device\n") == (running.returncode, err)


def test_a_component_may_run_a_loop_of_its_own(cli: Cli) -> None:
    (cli.folder / "job.py").write_text(
        "import asyncio\nfrom asyncsched import AppDef, Role\n"
        "async def look_up() -> str:\n    return 'x'\n"
        "def train() -> AppDef:\n"
        "    return AppDef('t', [Role('main', '', entrypoint='sh', args=['-c', f'echo {asyncio.run(look_up())}'])])\n"
    )

    assert ["main/0 x"] == cli("run", "-s", "stage", "--log", "job.py:train").lines[1:]


def test_a_shell_is_told_completions_whatever_is_configured(cli: Cli) -> None:
    (cli.folder / "asyncsched.toml").write_text("x =")
    for words, expected in (("asyncsched run --sch", "--scheduler"), ("asyncsched stat", "status")):
        done = cli(_ASYNCSCHED_COMPLETE="bash_complete", COMP_TEXT=words)

        assert (0, "") == (done.code, done.err)
        assert expected in done.out
