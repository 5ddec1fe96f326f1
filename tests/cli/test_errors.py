"""What a user sees who has made a mistake: the exact lines, and the exit code."""

from __future__ import annotations

import pytest

from asyncsched import errors
from asyncsched.cli.errors import exit_code, in_one_line, render, worst
from tests.cli._cli import Cli

pytestmark = pytest.mark.slow

UNKNOWN = "`asyncsched list -s stage` shows the apps that exist"
FORM = "a handle is scheduler://session/app_id; `asyncsched list` shows the apps that exist"

GOLDEN: list[tuple[str, int, str]] = [
    ("status local_cwd://", 2, f"error: 'local_cwd://' is not a handle\n  fix: {FORM}"),
    ("log stage://a", 2, f"error: 'stage://a' is not a handle\n  fix: {FORM}"),
    ("cancel stage:/a/b", 2, f"error: 'stage:/a/b' is not a handle\n  fix: {FORM}"),
    (
        "log stage://a/b/main/x",
        2,
        "error: 'stage://a/b/main/x' names no replicas\n  why: 'x' is not a number\n"
        "  fix: write replicas as numbers and ranges: 0,2-3",
    ),
    ("status stgae://a/b", 2, "error: no scheduler is named 'stgae'    did you mean stage?"),
    ("run -s stgae utils.echo", 2, "error: no scheduler is named 'stgae'    did you mean stage?"),
    ("list -s stgae", 2, "error: no scheduler is named 'stgae'    did you mean stage?"),
    ("runopts stgae", 2, "error: no scheduler is named 'stgae'    did you mean stage?"),
    (
        "run -s stage nofile.py:train",
        2,
        "error: no file nofile.py\n  why: looked in {folder}\n"
        "  fix: write a component in a file as path/file.py:function",
    ),
    (
        "run -s stage job.py:trian",
        2,
        "error: no component job.py:trian\n  why: job.py has no function trian; it has train\n"
        "  fix: did you mean job.py:train?",
    ),
    (
        "run -s stage job.py:wrong",
        2,
        "error: job.py:wrong is not a component\n  why: job.py:6: x has no annotation: write its type, such as x: str\n"
        "       job.py:6: y has no annotation: write its type, such as y: str\n"
        "       job.py:6: z has no annotation: write its type, such as z: str\n"
        "       job.py:6: **more: a component must name all of its arguments\n"
        "       job.py:6: wrong has no return annotation: write -> AppDef",
    ),
    ("run -s stage utils.ehco", 2, "error: no component utils.ehco\n  why: {utils}\n  fix: did you mean utils.echo?"),
    ("run -s stage utils.echo --mgs x", 2, "error: utils.echo has no argument --mgs    did you mean --msg?"),
    (
        "run -s stage -cfg queue utils.echo",
        2,
        "error: The run options cannot be read\n  why: the text does not start with name=\n"
        """  fix: write them as name=value,name=value and put values that hold , ; or quotes in "..." """.rstrip(),
    ),
    ("run -s stage -cfg quue=x utils.echo", 2, "error: Unknown run option: quue    did you mean `queue`?"),
    (
        "run -s stage -cfg priority=x utils.echo",
        2,
        "error: Run option: priority, must be of type: int, but was: 'x' (str)",
    ),
    (
        "run -s stage dist.ddp -j 2x --script a.py",
        2,
        "error: -j must be a number of nodes and processes, got 2x\n"
        "  why: it is [min:]nodesxprocesses, each at least 1, and min at most nodes\n"
        "  fix: write -j 2x4 for 2 nodes with 4 processes each, or -j 1:2x4 to start with one node",
    ),
    ("status stage://a/nosuch", 4, f"error: no app nosuch on stage\n  fix: {UNKNOWN}"),
    ("describe stage://a/nosuch", 4, f"error: no app nosuch on stage\n  fix: {UNKNOWN}"),
    ("log stage://a/nosuch", 4, f"error: no app nosuch on stage\n  fix: {UNKNOWN}"),
    ("log -f stage://a/nosuch", 4, f"error: no app nosuch on stage\n  fix: {UNKNOWN}"),
    ("cancel stage://a/nosuch", 4, f"error: no app nosuch on stage\n  fix: {UNKNOWN}"),
    ("delete stage://a/nosuch", 4, f"error: no app nosuch on stage\n  fix: {UNKNOWN}"),
    ("wait stage://a/nosuch", 4, f"error: no app nosuch on stage\n  fix: {UNKNOWN}"),
    (
        "status down://a/b",
        5,
        "error: cannot reach the cluster                                [down: UnavailableError]\n"
        "  why: nothing listens at 10.0.0.1\n  fix: start it",
    ),
    (
        "run -s down utils.echo",
        5,
        "error: cannot reach the cluster                                [down: UnavailableError]\n"
        "  why: nothing listens at 10.0.0.1\n  fix: start it",
    ),
    (
        "list -s locked",
        6,
        "error: no credentials                                          [locked: AuthError]\n"
        "  why: CLUSTER_TOKEN is not set\n  fix: log in",
    ),
    (
        "run -s absent utils.echo",
        2,
        "error: absent needs the package a\n  why: it is not installed\n  fix: pip install a",
    ),
    ("stauts", 2, "error: no command stauts    did you mean status?"),
    ("run", 2, "error: nothing to run\n  fix: name a component, or write a command after --"),
    (
        "run --replicas 2 utils.echo",
        2,
        "error: --replicas is for a command after --\n  why: utils.echo has its own arguments\n"
        "  fix: asyncsched run utils.echo --help shows them",
    ),
    ("run -s stage --env A -- echo", 2, "error: --env A has no value\n  fix: write --env NAME=VALUE"),
    (
        "log --since soon stage://a/b",
        2,
        "error: invalid value for '--since': 'soon' is not a time\n"
        "  fix: write 5m for five minutes ago, or 2030-12-31T23:59",
    ),
    (
        "log --regex ( stage://a/b",
        2,
        "error: invalid value for '--regex': '(' is not a regular expression: missing ), unterminated subpattern at "
        "position 0\n  fix: see asyncsched log --help",
    ),
    (
        "log --since 99999999999999d stage://a/b",
        2,
        "error: invalid value for '--since': '99999999999999d' is not a time\n"
        "  fix: write 5m for five minutes ago, or 2030-12-31T23:59",
    ),
    (
        "log stage://a/b/main/3-1",
        2,
        "error: 'stage://a/b/main/3-1' names no replicas\n  why: '3-1' is not a range\n"
        "  fix: write replicas as numbers and ranges: 0,2-3",
    ),
    (
        "run --cpu -3 -- true",
        2,
        "error: invalid value for '--cpu': -3 is not in the range x>=1\n  fix: see asyncsched run --help",
    ),
    (
        "completion",
        2,
        "error: missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish\n"
        "  fix: see asyncsched completion --help",
    ),
    (
        "run -s stage ls",
        2,
        "error: no component ls\n  fix: to run a command: asyncsched run -s stage -- ls",
    ),
    (
        "run utils.touch --file x --detach",
        2,
        "error: utils.touch has no argument --detach\n"
        "  fix: it has --file, --image; put options of asyncsched run before utils.touch",
    ),
    (
        "run -s stage job.py",
        2,
        "error: job.py is a file, not a component\n  why: a component is a function in a file\n"
        "  fix: did you mean job.py:train?\n       to run the file: asyncsched run -s stage -- python job.py",
    ),
    ("run -s stage job:train", 2, "error: no file job\n  why: looked in {folder}\n  fix: did you mean job.py:train?"),
    ("builtins --print", 2, "error: --print needs a component\n  fix: asyncsched builtins lists all components"),
]  # fmt: skip

JOB = """
from asyncsched import AppDef, Role
def train() -> AppDef:
    return AppDef("x", [])

def wrong(x, y, z, **more: str):
    return None
"""


@pytest.mark.parametrize(("line", "code", "told"), GOLDEN, ids=[line for line, _, _ in GOLDEN])
def test_golden(broken: Cli, line: str, code: int, told: str) -> None:
    (broken.folder / "job.py").write_text(JOB)
    done = broken(*line.split())
    from asyncsched.components import utils

    there = f"{utils.__file__} has no function ehco; it has echo, touch, sh, python, binary, copy, booth"
    expected = told.replace("{folder}", str(broken.folder)).replace("{utils}", there)

    assert (code, "", expected) == (done.code, done.out, done.err.rstrip("\n"))
    assert len(done.err.splitlines()) <= 6


def test_configured_mistakes_name_their_line(cli: Cli) -> None:
    (cli.folder / "asyncsched.toml").write_text('\n[scheduler.stage]\nquue = "x"\n')

    assert cli("run", "-s", "stage", "utils.echo").err == (
        "error: unknown option `quue` for stage (from ./asyncsched.toml:3)    did you mean `queue`?\n"
    )
    (cli.folder / "asyncsched.toml").write_text('[command.run]\nshceduler = "x"\n')

    assert cli("run", "utils.echo").err == (
        "error: unknown option `shceduler` for the command run (from ./asyncsched.toml:2)"
        "    did you mean `scheduler`?\n"
    )
    (cli.folder / "asyncsched.toml").write_text('[component."utils.echo"]\nmgs = "x"\n')

    assert cli("run", "-s", "stage", "utils.echo").err == (
        "error: utils.echo has no argument mgs (from ./asyncsched.toml:2)    did you mean msg?\n"
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[command.rn]\nscheduler = 'x'\n",
            "unknown section [command.rn] (from ./asyncsched.toml:2)    did you mean [command.run]?\n",
        ),
        (
            "[command.run]\nreplicas = 'x'\n",
            "`replicas` of the command run: 'x' is not a valid whole number (from ./asyncsched.toml:2)\n"
            "  fix: see asyncsched run --help\n",
        ),
    ],
)
def test_a_configured_command_is_checked_with_its_line(cli: Cli, text: str, told: str) -> None:
    (cli.folder / "asyncsched.toml").write_text(text)
    done = cli("run", "-s", "stage", "utils.echo")

    assert (2, f"error: {told}") == (done.code, done.err)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (
            "[command.run]\nscheduler = 'stgae'\n",
            "run utils.echo",
            "no scheduler is named 'stgae' (from ./asyncsched.toml:2)    did you mean stage?\n",
        ),
        (
            "[command.list]\nscheduler = 'stgae'\n",
            "list",
            "no scheduler is named 'stgae' (from ./asyncsched.toml:2)    did you mean stage?\n",
        ),
        (
            "[command.run]\nscheduler = 'nosuch'\n",
            "run -s stgae utils.echo",
            "no scheduler is named 'stgae'    did you mean stage?\n",
        ),
        (
            "[command.run]\nscheduler = 'stage'\ncomponent = 'ehco'\n",
            "run",
            "no component ehco (from ./asyncsched.toml:3)\n"
            "  fix: did you mean utils.echo? (your own: path/file.py:function)\n"
            "       to run a command: asyncsched run -- ehco\n",
        ),
        (
            "[command.run]\nscheduler = 'stage'\ncfg = 'quue=x'\n",
            "run utils.echo",
            "Unknown run option: quue (from ./asyncsched.toml:3)    did you mean `queue`?\n",
        ),
        (
            "[command.run]\nscheduler = 'stage'\ncfg = { quue = 'x' }\n",
            "run utils.echo",
            "`cfg` of the command run: dict[str, str] is not a list of strings (from ./asyncsched.toml:3)\n"
            "  fix: see asyncsched run --help\n",
        ),
        (
            "[component.'utils.ehco']\nmsg = 'x'\n",
            "run -s stage utils.echo",
            "unknown section [component.utils.ehco] (from ./asyncsched.toml:2)"
            "    did you mean [component.utils.echo]?\n",
        ),
    ],
)
def test_a_configured_name_that_there_is_not_is_told_with_its_line(cli: Cli, text: str, line: str, told: str) -> None:
    (cli.folder / "asyncsched.toml").write_text(text)
    done = cli(*line.split())

    assert (2, f"error: {told}") == (done.code, done.err)


def test_sections_of_ones_own_components_are_left_to_them(cli: Cli) -> None:
    (cli.folder / "asyncsched.toml").write_text("[component.'job.py:train']\nx = 1\n[component.'job.train']\ny = 1\n")

    assert 0 == cli("run", "-s", "stage", "utils.echo").code
    (cli.folder / "asyncsched.toml").unlink()
    (cli.folder / ".torchxconfig").write_text(
        "[component:utils.ehco]\nx = 1\n[component:utils.echo]\nnone = 1\nmsg = m\n"
    )

    assert "- m" in cli("run", "-s", "stage", "--dryrun", "utils.echo").out


@pytest.mark.parametrize(
    ("text", "within", "code"), [("all = true", "1", 124), ("any = true", "60", 0), ("any = false", "1", 124)]
)
def test_both_names_of_a_switch_can_be_configured(staged: Cli, text: str, within: str, code: int) -> None:
    (staged.folder / "asyncsched.toml").write_text(f"[command.wait]\n{text}\n")

    # The first has ended, the second does not.
    assert code == staged("wait", "--timeout", within, "stage://x/train-005", "stage://x/train-001").code


def install(cli: Cli, entries: str) -> None:
    """Make a package of somebody else's, as an installer leaves it."""
    meta = cli.folder / "site" / "theirs-1.dist-info"
    meta.mkdir(parents=True)
    (meta.parent / "theirs.py").write_text("def explode(session_name):\n    return 1 / 0\n")
    (meta.parent / "leaves.py").write_text("raise SystemExit(0)\n")
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (meta / "entry_points.txt").write_text(entries)
    cli.plugins.append(meta.parent)


def test_a_scheduler_that_explodes_is_told_as_its_packages_fault(cli: Cli) -> None:
    install(cli, "[asyncsched.schedulers]\nexplodes = theirs:explode\n")
    done = cli("run", "-s", "explodes", "utils.echo")

    assert 2 == done.code
    assert done.err == (
        "error: the scheduler explodes cannot be loaded from theirs:explode\n"
        "  why: ZeroDivisionError: division by zero\n  fix: repair or remove theirs\n"
    )


@pytest.mark.slow
def test_a_package_that_leaves_stops_nobody_and_one_that_takes_our_names_is_told(cli: Cli) -> None:
    groups = ("components", "commands", "named_resources", "schedulers")
    entries = dict.fromkeys(groups, "leaves = leaves:x\n")
    entries["commands"] += "run = leaves:x\n"
    entries["schedulers"] += "local_cwd = leaves:x\n"
    entries["named_resources"] += "gpu.small = leaves:x\n"
    install(cli, "\n".join(f"[asyncsched.{group}]\n{text}" for group, text in entries.items()))
    done = cli("doctor")
    checks = {line.split("  ")[0]: line for line in done.lines}

    assert done.code in (2, 5)  # 5 where there is no Docker
    for name in ("component leaves", "command leaves", "named resource leaves", "scheduler leaves"):
        assert "broken, from theirs" in checks[name]
        assert "SystemExit: 0" in checks[name]
    for name in ("command run", "named resource gpu.small", "scheduler local_cwd"):
        assert any(name in line and "from theirs: the name is built in" in line for line in done.lines)
    assert "utils.echo" in cli("builtins").out
    assert 0 == cli("run", "-s", "stage", "utils.echo").code
    assert (2, "") == ((told := cli("leaves")).code, told.out)


def test_a_scheduler_that_the_variable_names_has_to_exist(cli: Cli) -> None:
    cli.schedulers = ["stgae"]
    done = cli("list")

    assert (2, "error: no scheduler is named 'stgae'    did you mean stage?\n") == (done.code, done.err)


def test_a_command_in_quotes_is_told_without_its_secrets(cli: Cli) -> None:
    done = cli("run", "-s", "stage", "--", "curl --password=hunter22 x")

    assert 2 == done.code
    assert done.err == (
        "error: the program after -- must be one word, got 'curl --password=*** x'\n"
        "  why: no shell splits it into words\n"
        "  fix: leave out the quotes (run -- curl --password=*** x), or run a shell (run -- sh -c '...')\n"
    )


def test_a_traceback_is_for_who_asks(cli: Cli) -> None:
    for line in ("--debug status stage://a/nosuch", "status --debug stage://a/nosuch"):
        done = cli(*line.split())

        assert "Traceback" in done.err
        assert 4 == done.code


def test_a_fault_of_ours_is_no_traceback_either() -> None:
    assert [
        "error: KeyError: 'x'",
        "  why: this is a bug in asyncsched",
        "  fix: --debug shows the traceback",
    ] == render(KeyError("x"))
    assert 70 == exit_code(KeyError("x"))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.MissingExtraError(""), 2),
        (errors.UnknownAppError(""), 4),
        (errors.UnavailableError(""), 5),
        (errors.ThrottledError(""), 5),
        (errors.AuthError(""), 6),
        (errors.PermissionDeniedError(""), 6),
        (errors.NotFoundError(""), 4),
        (errors.ConflictError(""), 2),
        (errors.WorkspaceError(""), 2),
        (errors.LogStreamError(""), 5),
        (TimeoutError(), 124),
        (KeyboardInterrupt(), 130),
        (ValueError("role 'a' has no entrypoint"), 2),
    ],
)
def test_exit_codes(error: BaseException, code: int) -> None:
    assert code == exit_code(error)


def test_an_error_counts_more_than_an_end() -> None:
    assert [0, 0, 1, 5, 3] == [worst([]), worst([0]), worst([0, 3, 1]), worst([1, 5, 0]), worst([3, 0])]


def test_never_more_than_six_lines() -> None:
    error = errors.ComponentError("a\nb\nc", why="\n".join("12345"), fix="\n".join("123"))

    assert 6 == len(render(error))
    assert 1 == len(in_one_line(error).splitlines())
