"""What people see of apps in a terminal: one app, many of them, lists, and logs that are followed."""

from __future__ import annotations

import re

import pytest

from tests.cli._cli import Cli
from tests.cli._terminal import Terminal

pytestmark = pytest.mark.slow

RED = "\x1b[1;38;5;196m"
SAYS = "loading\nepoch 1\n\x1b[33mValueError\x1b[0m: batch is empty"


@pytest.fixture
def sixty(cli: Cli) -> Cli:
    """60 apps, of which six have failed and six succeeded."""
    cli.environment |= {"STAGE_APPS": "60", "STAGE_SAYS": SAYS}
    return cli


@pytest.fixture
def wide(cli: Cli) -> Cli:
    """Apps of 200 replicas."""
    cli.environment |= {"STAGE_APPS": "6", "STAGE_REPLICAS": "200", "STAGE_SAYS": SAYS}
    return cli


def shown(cli: Cli, *args: str, columns: int = 100, lines: int = 24) -> Terminal:
    with Terminal(cli, *args, columns=columns, lines=lines) as terminal:
        terminal.end()
        return terminal


@pytest.mark.parametrize("columns", [60, 100, 160])
def test_status_of_an_app_that_failed(sixty: Cli, columns: int) -> None:
    terminal = shown(sixty, "status", "stage://x/train-003", columns=columns)
    screen = [line for line in terminal.screen if line]

    assert f"{RED}FAILED\x1b[0m" in terminal.written
    assert "FAILED  stage://x/train-003" == screen[0]
    assert re.fullmatch(r"  when      ran 0 s, ended \d\d:\d\d:\d\d \(\d+s ago\)", screen[1])
    assert "  why       exited with code 1" == screen[2]
    assert screen[3].startswith("  command   sh -c 'echo loading")
    assert "  replica   main/0 on fake-main-0" == screen[4]
    told = ["  log of main/0, the last 3 lines:", "    loading", "    epoch 1", "    ValueError: batch is empty"]
    assert told == screen[5:9]
    assert ["  more: asyncsched log stage://x/train-003"] == screen[9:]
    assert max(map(len, screen)) <= columns


def test_status_tells_a_line_for_each_group_of_equal_replicas(wide: Cli) -> None:
    terminal = shown(wide, "status", "stage://x/train-003")
    screen = [line for line in terminal.screen if line]
    begin = screen.index("  replicas  197/200 done, 3 failed")

    assert [
        "    main/3,5          FAILED     2 x exited with code 1",
        "    main/6            FAILED     exited with code -9",
        "    main/0-2,4,7-199  SUCCEEDED  197",
    ] == screen[begin + 1 : begin + 4]
    assert "  log of main/3, the last 3 lines:" in screen
    assert screen[-1].endswith("more: asyncsched log stage://x/train-003/main/3")


def test_status_of_an_app_that_runs_and_of_one_role(wide: Cli) -> None:
    screen = shown(wide, "status", "stage://x/train-001").screen

    assert "RUNNING  stage://x/train-001" == screen[0]
    assert re.match("  when      running for [0-9]+ s, since ", screen[1])
    assert "    main/0-199  RUNNING    200" in screen
    assert "  more: asyncsched log -f stage://x/train-001" in screen
    assert "main" not in "".join(shown(wide, "status", "--roles", "other", "stage://x/train-001").screen)


@pytest.mark.parametrize("columns", [60, 100, 160])
def test_the_screen_of_sixty_jobs_answers_what_people_ask(sixty: Cli, columns: int) -> None:
    """How many failed, which, since when, why, and their last lines: on what is left of it on 24 lines."""
    terminal = shown(sixty, "status", "train-*", columns=columns)
    screen = [line for line in terminal.screen if line]
    (head,) = [line for line in screen if " failed since " in line]

    assert re.fullmatch(r"6 failed since \d\d:\d\d:\d\d \(\d+s ago\): exited with code 1", head)
    below = screen[screen.index(head) + 1 :]
    for number, line in zip(range(3, 60, 10), below[:6], strict=True):
        assert re.fullmatch(rf"  train-{number:03}  \d\d:\d\d:\d\d  ValueError: batch is empty", line)
    assert "  more: asyncsched log stage://old/train-003" == below[6]
    assert below[7].startswith("60 apps: 6 succeeded, 6 failed, 48 running  [")
    assert max(map(len, screen)) <= columns


def test_each_of_many_failures_is_named_with_its_last_line_in_as_many_ways_as_there_are(cli: Cli) -> None:
    cli.schedulers = ["local_cwd"]
    (cli.folder / "fails.sh").write_text('echo "$2" >&2; exit $1')
    codes = [*[1] * 7, *[2] * 3, 3, 4, 5, 6]
    for number, code in enumerate(codes):
        done = cli("run", "--detach", "-s", "local_cwd", "--", "sh", "fails.sh", str(code), f"last of {number}")
        assert 0 == done.code, done.err
    cli("wait", "sh-*")
    screen = shown(cli, "status", "sh-*", lines=80).screen

    for number in range(len(codes)):
        assert 1 == sum(bool(re.fullmatch(rf"  sh-\w+  \d\d:\d\d:\d\d  last of {number}", line)) for line in screen)
    assert [7, 3, 1, 1, 1, 1] == [int(line.split()[0]) for line in screen if " failed since " in line]
    assert not any("other way" in line for line in screen)


def test_status_shows_the_last_five_lines_of_stderr(cli: Cli) -> None:
    cli.schedulers = ["local_cwd"]
    (cli.folder / "many.sh").write_text("echo no; for k in 1 2 3 4 5 6 7; do echo line $k >&2; done; exit 1")
    handle = cli("run", "-s", "local_cwd", "--", "sh", "many.sh").lines[0]
    screen = [line for line in shown(cli, "status", handle).screen if line]

    begin = screen.index("  stderr of sh/0, the last 5 lines:")
    assert [f"    line {k}" for k in range(3, 8)] == screen[begin + 1 : -1]


def test_every_verb_says_in_the_same_words_why_an_app_failed(cli: Cli) -> None:
    cli.schedulers = ["local_cwd"]
    script = "[ ${replica_id} = 2 ] && exit 0; exit 7"
    with Terminal(cli, "run", "-s", "local_cwd", "--replicas", "3", "--", "sh", "-c", script, columns=160) as terminal:
        assert 1 == terminal.end()
        screens = [terminal.screen]
    handle = screens[0][0]
    verbs = (["status", handle], ["status", "-w", handle], ["wait", handle], ["list"])
    screens += [shown(cli, *verb, columns=160).screen for verb in verbs]

    for screen in screens:
        assert 1 == sum(" 2 of 3 failed: exit code 7" in line for line in screen), screen


def test_in_a_narrow_terminal_reasons_are_told_in_full(cli: Cli) -> None:
    cli.environment |= {"STAGE_APPS": "6", "STAGE_REPLICAS": "200"}
    screen = [line for line in shown(cli, "list", columns=60, lines=40).screen if line]
    row = next(number for number, line in enumerate(screen) if line.startswith("train-003"))
    told = "3 of 200 failed, main/3 first: 2 x exited with code 1, exited with code -9"

    assert told == " ".join(" ".join(screen[row + 1 : row + 3]).split())
    assert screen[row + 3].startswith("train-002")


@pytest.fixture
def named(cli: Cli) -> Cli:
    """Apps of long names, two of which fail."""
    cli.schedulers = ["local_cwd"]
    (cli.folder / "job.sh").write_text("echo last words of $1; exit $1")
    for name, code in (("train-lr0001-seed1", 3), ("train-lr0001-seed2", 0), ("eval-resnet-imagenet", 4)):
        words = ("--name", name, "--detach", "-s", "local_cwd", "--", "sh", "job.sh", str(code))
        assert 0 == cli("run", *words).code
    cli("wait", "*")
    return cli


@pytest.mark.parametrize("verb", [("list",), ("status", "*")])
def test_in_a_narrow_terminal_names_are_told_before_counts_of_one(named: Cli, verb: tuple[str, ...]) -> None:
    screen = [line for line in shown(named, *verb, columns=60).screen if line]

    assert "REPLICAS" not in screen[0]
    for line, (name, told) in zip(
        screen[1:4],
        [("eval-resnet-imagene", "code 4"), ("train-lr0001-seed2", ""), ("train-lr0001-seed1", "code 3")],
        strict=True,
    ):
        assert line.startswith(name)
        assert line.endswith(told)


def test_in_a_narrow_terminal_the_command_that_shows_more_fits(named: Cli) -> None:
    screen = [line for line in shown(named, "status", "eval-resnet", columns=60).screen if line]

    assert re.fullmatch("  more: asyncsched log eval-resnet-imagenet-[a-z0-9]+", screen[-1])


def test_a_list_says_how_many_failed_and_what_tells_more_of_them(named: Cli) -> None:
    def last(*options: str) -> str:
        return [line for line in shown(named, "list", *options, columns=160).screen if line][-1]

    assert "2 failed: `asyncsched status '*'` shows when, why, and the last output" == last()
    only = last("--name", "train-*", "--since", "1h")
    assert re.fullmatch(
        r"1 failed: `asyncsched status train-lr0001-seed1-\w+` shows when, why, and the last output", only
    )
    assert "SUCCEEDED" in last("--state", "succeeded")
    assert " failed: " not in named("list", "-o", "json").err


def test_prefixes_are_short_while_names_are_distinct(cli: Cli) -> None:
    cli.schedulers = ["local_cwd"]
    for name in ("train-1", "train-22"):
        words = ("--name", name, "--replicas", "2", "--", "sh", "-c", "echo hi")
        assert 0 == cli("run", "-s", "local_cwd", "--wait", *words).code
    screen = [line for line in shown(cli, "log", "train-*").screen if line]

    assert {f"{name} | hi" for name in ("train-1/0 ", "train-1/1 ", "train-22/0", "train-22/1")} == {*screen}


REPLICAS = """
import os, sys, time
k = int(sys.argv[1])
if k == 2:
    {first}
    sys.exit(1)
while not os.path.exists("go"):
    time.sleep(0.01)
print("SECOND", file=sys.stderr)
sys.exit(2)
"""


@pytest.mark.parametrize(
    ("first", "told"),
    [
        ('print("FIRST", file=sys.stderr)', ["  stderr of python3/2, the last line:", "    FIRST"]),
        ('print("on stdout")', ["  log of python3/2, the last line:", "    on stdout"]),
        ("pass", ["  python3/2 wrote nothing"]),
    ],
)
def test_why_and_last_lines_are_those_of_the_replica_that_failed_first(cli: Cli, first: str, told: list[str]) -> None:
    cli.schedulers = ["local_cwd"]
    (cli.folder / "replicas.py").write_text(REPLICAS.format(first=first))
    done = cli("run", "--detach", "-s", "local_cwd", "--replicas", "3", "--", "python3", "replicas.py", "${replica_id}")
    assert 0 == done.code, done.err
    handle = done.lines[0]
    asked = iter(range(100))  # each takes a while
    while "1/3 failed" not in cli("list").out:
        assert 99 != next(asked)
    (cli.folder / "go").touch()
    cli("wait", handle)
    screen = [line for line in shown(cli, "status", handle).screen if line]

    assert "  why       3 of 3 failed, python3/2 first: exit code 1, 2 x exit code 2" in screen
    begin = screen.index(told[0])
    assert [*told, f"  more: asyncsched log {handle}/python3/2"] == screen[begin : begin + len(told) + 1]


def test_a_list_has_what_people_look_for_and_says_that_there_are_more(sixty: Cli) -> None:
    terminal = shown(sixty, "list", lines=40)
    screen = [line for line in terminal.screen if line]

    assert ["APP", "STATE", "REPLICAS", "DURATION", "AGE", "REASON"] == screen[0].split()
    assert 33 == len(screen)
    assert "6 failed: `asyncsched status '*'` shows when, why, and the last output" == screen[-2]
    assert "the newest 30; 30 more (3 failed): --limit shows them" == screen[-1]
    assert re.search(r"train-053 +FAILED +1 +\d+s +\d+s +exited with code 1", "\n".join(screen))
    assert f"{RED}FAILED" in terminal.written
    assert RED not in shown(sixty, "list", "--no-color").written
    assert 61 == len(sixty("list", "--limit", "100").lines)
    assert 60 == len(sixty("list", "-o", "json").json)


def test_a_list_as_json_tells_what_its_table_does(cli: Cli) -> None:
    cli.environment |= {"STAGE_APPS": "6", "STAGE_REPLICAS": "200"}
    rows = {row["app_id"]: row for row in cli("list", "-o", "json").json}
    lines = {row["app_id"]: row for row in cli("list", "-o", "jsonl").jsonl}

    assert rows.keys() == lines.keys()
    failed, running = rows["train-003"], rows["train-001"]
    assert {"of": 200, "done": 197, "failed": 3, "running": 0, "cancelled": 0} == failed["counts"]
    assert "3 of 200 failed, main/3 first: 2 x exited with code 1, exited with code -9" == failed["reason"]
    assert failed["reason"] in cli("list").out
    assert ("200/200", 200, "") == (running["replicas"], running["counts"]["running"], running["reason"])
    told = cli("status", "*", "-o", "json").json
    assert rows == {
        row["app_id"]: {**rows[row["app_id"]], "replicas": row["replicas"], "counts": row["counts"]} for row in told
    }
    assert (True, True) == (failed["duration"] >= 0, running["duration"] > 0)


def test_a_list_as_json_says_that_nothing_is_known(broken: Cli) -> None:
    broken.schedulers = ["stage", "mute"]
    done = broken("list", "-o", "json")
    (told,) = [row for row in done.json if row["scheduler"] == "mute"]

    assert (None, None, None, "") == (told["replicas"], told["counts"], told["duration"], told["reason"])
    assert (5, 1) == (done.code, len(done.err.splitlines()))


def test_an_empty_list_says_so(cli: Cli) -> None:
    empty, asked = cli("list"), cli("list", "--name", "other")

    assert (0, "no apps\n") == (empty.code, empty.err)
    assert (0, True) == (asked.code, asked.err.startswith("no apps match"))
    assert [] == cli("list", "-o", "json").json


def test_a_list_can_be_narrowed_down(sixty: Cli) -> None:
    def listed(*options: str) -> list[str]:
        screen = shown(sixty, "list", *options, lines=80).screen
        return re.findall(r"(train-\d+)  ", "\n".join(screen))

    assert 12 == len(listed("--state", "failed,succeeded"))
    assert ["train-053"] == listed("--state", "FAILED", "--limit", "1")
    assert 60 == len(listed("--name", "tr*", "--session", "old", "--since", "1h", "--limit", "60"))
    assert [] == listed("--name", "other")
    assert [] == listed("--session", "mine")
    assert 60 == len(sixty("list", "-o", "json", "--name", "tr*", "--session", "old", "--since", "1h").json)
    screen = shown(sixty, "list", "--state", "broken", lines=80).screen
    assert "one of unsubmitted, submitted, pending" in " ".join(screen)


def test_what_could_not_be_asked_is_no_row_of_a_list(broken: Cli) -> None:
    done = broken("list", "-o", "json")

    assert all("handle" in row for row in done.json)
    assert 30 == len(done.json)
    assert "error: cannot reach the cluster" in done.err


@pytest.mark.parametrize(
    ("columns", "head"),
    [
        (60, "APP        STATE      REPLICAS  DURATION  REASON"),
        (40, "APP        STATE      REASON"),
        (100, "APP                    STATE      REPLICAS  DURATION  AGE  REASON"),
    ],
)
def test_in_a_narrow_terminal_what_all_handles_begin_with_goes_first(sixty: Cli, columns: int, head: str) -> None:
    screen = [line for line in shown(sixty, "list", columns=columns, lines=40).screen if line]

    assert head == screen[0]
    assert max(map(len, screen[:31])) <= columns


def test_changes_are_lines_and_then_what_they_came_to(sixty: Cli) -> None:
    done = sixty("monitor", "stage://x/train-003", "stage://x/train-005")

    assert {"stage://x/train-003  FAILED  exited with code 1", "stage://x/train-005  SUCCEEDED"} == {*done.lines}
    assert done.err.startswith("note: this is not a terminal, so each change is printed as a line")
    assert "train-003  " in done.err
    assert "ValueError: batch is empty" in done.err
    assert "2 apps: 1 succeeded, 1 failed" in done.err
    assert 1 == done.code


def test_prefixes_are_aligned_and_ends_are_told_where_several_are_followed(cli: Cli) -> None:
    cli.schedulers = ["local_cwd"]
    waits = "until [ -e go ]; do sleep 0.05; done"
    for name, script in (("a", "exit 3"), ("b", f"echo out; echo oh no >&2; {waits}; echo last")):
        (cli.folder / f"job-{name}").write_text(script)
        done = cli("run", "--detach", "-s", "local_cwd", "--replicas", "2", "--", "sh", f"job-{name}")
        assert 0 == done.code, done.err
    with Terminal(cli, "log", "-f", "sh-*") as terminal:
        terminal.until(lambda screen: screen.shows(" FAILED after "))
        (cli.folder / "go").touch()
        assert 0 == terminal.end()
    screen = [line for line in terminal.screen if line]
    ended, lasted = (line for line in screen if line.startswith("-- "))

    assert re.fullmatch(r"-- sh-\w+ FAILED after \d+ s: .*exit code 3", ended)
    assert re.fullmatch(r"-- sh-\w+ SUCCEEDED after (\d+ min )?\d+ s", lasted)
    assert screen[-1] == lasted, "an end stands behind the app's last line"
    assert 2 == sum(" ! oh no" in line for line in screen)
    assert 2 == sum(" | out" in line for line in screen)


def test_times_of_a_line_are_local(staged: Cli) -> None:
    staged.environment["TZ"] = "America/St_Johns"  # half an hour off all others
    (line,) = staged("log", "--timestamps", "train-001").lines

    assert re.search(r"T\d\d:\d\d:\d\d\.\d{6}-0[23]:30 hello", line)
    terminal = shown(staged, "log", "--timestamps", "train-001")
    here = re.search(r"\d{4}-\d\d-\d\d \d\d:(\d\d):\d\d\.\d{3} hello", terminal.screen[0])
    assert here


BAR = """
import sys
for done in range(0, 101, 10):
    print(f"\\r{done:3d}% of the work", end="", flush=True)
    if done == 50:
        print("halfway", file=sys.stderr, flush=True)
print()
print("done")
"""


def test_progress_bars_of_several_replicas_are_one_line_each(cli: Cli) -> None:
    (cli.folder / "bar.py").write_text(BAR)
    with Terminal(cli, "run", "-s", "local_cwd", "--replicas", "3", "--", "python3", "bar.py", lines=12) as terminal:
        assert 0 == terminal.end()
    screen = [line for line in terminal.screen if line]

    for k in range(3):
        assert [f"python3/{k} | 100% of the work", f"python3/{k} | done"] == [
            line for line in screen if line.startswith(f"python3/{k} |")
        ]
        assert f"python3/{k} ! halfway" in screen
    assert "\x1b[" in terminal.written
    assert 11 == len(screen), "a handle, nine lines, an end"


@pytest.mark.parametrize("columns", [60, 100, 160])
def test_doctor_says_in_full_what_to_do(broken: Cli, columns: int) -> None:
    terminal = shown(broken, "doctor", "--timeout", "10s", columns=columns, lines=60)
    text = " ".join(" ".join(terminal.screen).split())

    assert "cannot reach the cluster: nothing listens at 10.0.0.1; start it" in text
    assert "…" not in text
    assert max(map(len, terminal.screen)) <= columns
