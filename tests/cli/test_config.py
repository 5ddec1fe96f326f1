from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from asyncsched.cli.command_config import component_defaults
from asyncsched.components import get_component
from asyncsched.errors import ConfigError, RunOptionError
from asyncsched.runner.config import Config, config_template, load_config, run_options
from asyncsched.schedulers import get_scheduler
from asyncsched.specs import runopts


def options() -> runopts:
    opts = runopts()
    opts.add("queue", str, "where to wait", required=True)
    opts.add("priority", int, "who comes first", default=0)
    opts.add("spot", bool, "whether it may be interrupted", default=False)
    opts.add("env", dict[str, str], "what to set")
    opts.add("zones", list[str], "where it may run", default=["a", "b"])
    return opts


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home/.config/asyncsched").mkdir(parents=True)
    (tmp_path / "work/project/deep").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def load(home: Path) -> Callable[..., Config]:
    def load(where: str = "project", known: Sequence[str] = ("aws_batch", "aws"), **environment: str) -> Config:
        config = load_config(home.parent / "work" / where, {"HOME": str(home), **environment})
        config.check_names("scheduler", known)
        return config

    return load


def values(config: Config, scheduler: str = "aws_batch", *cfg: str) -> dict[str, tuple[object, str]]:
    found = run_options(config, scheduler, options(), cfg, schedulers=["aws_batch", "aws"])
    return {name: (setting.value, setting.origin) for name, setting in found.items()}


def test_nothing_is_configured(load: Callable[..., Config]) -> None:
    assert {} == values(load())


def test_each_value_knows_its_line(home: Path, load: Callable[..., Config]) -> None:
    (home / "../work/project/asyncsched.toml").write_text(
        '# a comment\n[scheduler.aws_batch]\nqueue = "gpu"\nenv.A = "1"\nenv.B = "2"\n'
        'zones = [\n  "x",\n  "y",\n]\n\nspot = true\n[scheduler."aws"]\npriority = 3\n'
    )

    assert {
        "queue": ("gpu", "./asyncsched.toml:3"),
        "env": ({"A": "1", "B": "2"}, "./asyncsched.toml:4"),
        "zones": (["x", "y"], "./asyncsched.toml:6"),
        "spot": (True, "./asyncsched.toml:11"),
    } == values(load())
    assert {"priority": (3, "../asyncsched.toml:13")} == values(load("project/deep"), "aws")


def test_what_is_nearer_is_stronger(home: Path, load: Callable[..., Config]) -> None:
    project = home / "../work/project"
    (home / ".torchxconfig").write_text(
        "[aws_batch]\nqueue = 1\npriority = 1\nspot = yes\nzones = a;b\nenv = A:1;B:2\n"
    )
    (home / ".config/asyncsched/config.toml").write_text(
        '[scheduler.aws_batch]\nqueue = "2"\npriority = 2\nspot = false\n'
    )
    (home / "../work/.torchxconfig").write_text("[aws_batch]\nqueue: 3\npriority = 3\n")
    (project / "pyproject.toml").write_text(
        '[project]\nname = "x"\n[tool.asyncsched.scheduler.aws_batch]\nqueue = "4"\n'
    )

    assert {
        "queue": ("4", "./pyproject.toml:4"),
        "priority": (2, "~/.config/asyncsched/config.toml:3"),
        "spot": (False, "~/.config/asyncsched/config.toml:4"),
        "zones": (["a", "b"], "~/.torchxconfig:5"),
        "env": ({"A": "1", "B": "2"}, "~/.torchxconfig:6"),
    } == values(load())
    (project / "asyncsched.toml").write_text('[scheduler.aws_batch]\nqueue = "5"\n')

    assert ("5", "./asyncsched.toml:2") == values(load())["queue"]
    environment = {"ASYNCSCHED_AWS_BATCH_QUEUE": "6", "ASYNCSCHED_AWS_BATCH_ZONES": "z", "ASYNCSCHED_AWS_PRIORITY": "6"}

    assert ("6", "ASYNCSCHED_AWS_BATCH_QUEUE") == values(load(**environment))["queue"]
    assert (["z"], "ASYNCSCHED_AWS_BATCH_ZONES") == values(load(**environment))["zones"]
    assert {"priority": (6, "ASYNCSCHED_AWS_PRIORITY")} == values(load(**environment), "aws")
    assert ("8", "-cfg") == values(load(**environment), "aws_batch", "queue=7,spot=1", "queue=8")["queue"]


def test_a_pyproject_without_our_table_is_passed_over(home: Path, load: Callable[..., Config]) -> None:
    (home / "../work/asyncsched.toml").write_text('[scheduler.aws_batch]\nqueue = "up"\n')
    for text in ('[project]\nname = "x"\n', '[project]\nname = "x"  # see tool.asyncsched\n'):
        (home / "../work/project/pyproject.toml").write_text(text)

        assert ("up", "../asyncsched.toml:2") == values(load())["queue"]
    (home / "../work/project/pyproject.toml").write_text("[tool.asyncsched]\nx =")
    with pytest.raises(ConfigError, match=r"\./pyproject\.toml cannot be read"):
        load()


def test_a_folder_that_may_not_be_looked_into_is_passed_over(home: Path, load: Callable[..., Config]) -> None:
    # A path that is too long for the system is as good as one that is forbidden, which a test that is root never meets.
    assert {} == values(load(XDG_CONFIG_HOME="x" * 5000))


def test_one_file_in_place_of_all_others(home: Path, load: Callable[..., Config]) -> None:
    (home / "../work/project/asyncsched.toml").write_text('[scheduler.aws_batch]\nqueue = "a"\n')
    (home / "mine.toml").write_text("[scheduler.aws_batch]\npriority = 1\n")

    assert {"priority": (1, "~/mine.toml:2")} == values(load(ASYNCSCHED_CONFIG=f"{home}/mine.toml"))
    with pytest.raises(ConfigError, match="no file nothing: ASYNCSCHED_CONFIG names it"):
        load(ASYNCSCHED_CONFIG="nothing")


def test_torchxconfig(home: Path, load: Callable[..., Config]) -> None:
    path = home / "../work/project/.torchxconfig"
    path.write_text(
        "[cli:run]\ncomponent = dist.ddp\nscheduler: aws_batch\n\n[component:dist.ddp]\nJ = 2x2\nj = 1x1\n"
        "[tracker:my]\nconfig = x\n[torchx:tracker]\nmy =\n[aws_batch]\nqueue = None\nunknown = 1\nspot = True\n"
    )
    config = load()

    assert ("dist.ddp", "./.torchxconfig:2") == config.command("run")["component"][:2]
    assert ("aws_batch", "./.torchxconfig:3") == config.command("run")["scheduler"][:2]
    assert {"J": "2x2", "j": "1x1"} == {name: each.value for name, each in config.component("dist.ddp").items()}
    assert {"queue": (None, "./.torchxconfig:13"), "spot": (True, "./.torchxconfig:15")} == values(config)
    assert config.notes == ["./.torchxconfig is read too; `asyncsched configure` writes a file of asyncsched's own"]
    assert ["./.torchxconfig"] == config.files
    (home / ".torchxconfig").write_text("[aws_batch]\npriority = 1\n")
    (home / "other.ini").write_text("[aws_batch]\nqueue = x\n")

    assert {"queue": ("x", "~/other.ini:2")} == values(load(TORCHXCONFIG=str(home / "other.ini")))
    with pytest.raises(ConfigError, match=r"no file .*/nothing: TORCHXCONFIG names it"):
        load(TORCHXCONFIG=str(home / "nothing"))


def test_a_name_of_a_torchxconfig_that_nothing_knows_is_told(
    home: Path, load: Callable[..., Config], caplog: pytest.LogCaptureFixture
) -> None:
    (home / "../work/project/.torchxconfig").write_text(
        "[DEFAULT]\nteam = vision\n[slurm]\nmail-user = me@x\nPartition = %(team)s\n[component:utils.echo]\nmsgs = x\n"
    )
    config = load()
    options = run_options(config, "slurm", runopts.of(get_scheduler("slurm", "s").options))
    component_defaults(config, get_component("utils.echo"))

    assert {"mail_user": "me@x"} == {name: setting.value for name, setting in options.items()}
    assert [
        "./.torchxconfig:5: slurm has no option Partition; it is passed over",
        "./.torchxconfig:7: the component utils.echo has no option msgs; it is passed over",
    ] == caplog.messages


def test_of_the_files_of_torchx_the_one_in_the_home_is_the_stronger(home: Path, load: Callable[..., Config]) -> None:
    (home / ".torchxconfig").write_text("[aws_batch]\nqueue = mine\nzones = None\n")
    (home / "../work/project/.torchxconfig").write_text("[aws_batch]\nqueue = ours\nzones = x\npriority = 3\n")

    assert {
        "queue": ("mine", "~/.torchxconfig:2"),
        "zones": (None, "~/.torchxconfig:3"),
        "priority": (3, "./.torchxconfig:4"),
    } == values(load())


def test_a_torchxconfig_names_other_values(home: Path, load: Callable[..., Config]) -> None:
    path = home / "../work/project/.torchxconfig"
    path.write_text(
        "[DEFAULT]\nteam = vision\n[aws_batch]\nqueue = %(team)s-100%%\n[aws]\nqueue = 50%\n"
        "[component:utils.echo]\nmsg = %(nothing)s\n"
    )

    assert {"queue": ("vision-100%", "./.torchxconfig:4")} == values(load())
    with pytest.raises(
        ConfigError, match=r"`queue` of \[aws\] cannot be read \(from \./\.torchxconfig:6\).*write %% for"
    ):
        values(load(), "aws")
    with pytest.raises(ConfigError, match=r"`msg` of \[component:utils\.echo\] cannot be read"):
        load().component("utils.echo")


@pytest.mark.parametrize("line", ["spot = maybe", "priority = 1.5", "env = A"])
def test_a_value_of_a_torchxconfig_that_is_none_is_told_with_its_line(
    home: Path, load: Callable[..., Config], line: str
) -> None:
    (home / "../work/project/.torchxconfig").write_text(f"[aws_batch]\n{line}\n")

    with pytest.raises(RunOptionError, match=r"must be of type: .* \(from \./\.torchxconfig:2\)") as caught:
        values(load())
    assert line.partition(" = ")[2] not in str(caught.value).split(), "it may be a secret"


def test_components_with_and_without_quotes(home: Path, load: Callable[..., Config]) -> None:
    (home / "../work/project/asyncsched.toml").write_text(
        '[component."utils.echo"]\nmsg = "hi"\n[component.dist.ddp]\nj = "2x2"\nenv = { A = "1" }\n'
        '[component."jobs.py:train"]\ndata = "/d"\n[component.greet]\nname = "you"\n'
    )
    config = load()

    assert ("hi", "./asyncsched.toml:2") == config.component("utils.echo")["msg"][:2]
    assert ["2x2", {"A": "1"}] == [each.value for each in config.component("dist.ddp").values()]
    assert ("./asyncsched.toml:5", "./asyncsched.toml:7") == (
        config.component("dist.ddp")["env"].origin,
        config.component("jobs.py:train")["data"].origin,
    )
    assert "you" == config.component("greet")["name"].value
    assert {
        "component": ["dist.ddp", "greet", "jobs.py:train", "utils.echo"],
        "command": [],
        "scheduler": [],
    } == config.names


HERE = "(from ./asyncsched.toml:"
ABOUT_BATCH = "[scheduler.aws_batch]\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{ABOUT_BATCH}\nquue = 1\n", f"unknown option `quue` for aws_batch {HERE}3); did you mean `queue`?"),
        (f"{ABOUT_BATCH}priority = 'x'\n", f"must be of type: int, but was: 'x' (str) {HERE}2)"),
        (f"{ABOUT_BATCH}spot = 1\n", f"must be of type: bool, but was: 1 (int) {HERE}2)"),
        ("[shceduler.x]\ny = 1\n", f"unknown section [shceduler] {HERE}1); did you mean [scheduler.NAME]?"),
        ("[aws_batch]\nspot = 1\n", f"unknown section [aws_batch] {HERE}1); there are [scheduler.local_cwd]"),
        ("scheduler = 'x'\n", f"unknown section [scheduler] {HERE}1)"),
        ("[scheduler]\nqueue = 'x'\n", f"`queue` stands in [scheduler] itself {HERE}1)"),
        (f"{ABOUT_BATCH}queue =\n", "./asyncsched.toml cannot be read: Invalid value (at line 2"),
        ("[scheduler.aws_bacth]\nx = ''\n", f"unknown section [scheduler.aws_bacth] {HERE}2); did you mean"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(home: Path, load: Callable[..., Config], text: str, told: str) -> None:
    (home / "../work/project/asyncsched.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        values(load(known=["aws_batch"]))

    assert told in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        f"{'[' * 50_000}{']' * 50_000}",
        f"{'{a=' * 50_000}1{'}' * 50_000}",
        f"{'[' * 101}{']' * 101}",
        f"1\nb.{'a.' * 5000}a = 1",
        "[" * 50_000,
    ],
    ids=["lists", "tables", "few lists", "dotted", "not closed"],
)
@pytest.mark.parametrize("file", ["asyncsched.toml", "pyproject.toml"])
def test_a_file_nested_too_deeply_is_named(home: Path, load: Callable[..., Config], value: str, file: str) -> None:
    table = "[scheduler.aws_batch]" if file == "asyncsched.toml" else "[tool.asyncsched.scheduler.aws_batch]"
    (home / "../work/project" / file).write_text(f"{table}\ntags = {value}\n")

    with pytest.raises(ConfigError, match=rf"\./{file} cannot be read: .*nested on more than 100 levels"):
        values(load(known=["aws_batch"]))


def test_a_file_nested_too_deeply_that_is_not_about_us_is_passed_over(home: Path, load: Callable[..., Config]) -> None:
    (home / "../work/project/pyproject.toml").write_text(f"# asyncsched\n[tool.other]\nx = {'[' * 50_000}\n")

    values(load(known=["aws_batch"]))


def test_wrong_variables_and_texts(home: Path, load: Callable[..., Config]) -> None:
    with pytest.raises(RunOptionError, match=r"unknown option `quue` for aws_batch \(from ASYNCSCHED_AWS_BATCH_QUUE\)"):
        values(load(ASYNCSCHED_AWS_BATCH_QUUE="x"))
    with pytest.raises(RunOptionError, match=r"int, but was: 'x' \(str\) \(from ASYNCSCHED_AWS_BATCH_PRIORITY\)"):
        values(load(ASYNCSCHED_AWS_BATCH_PRIORITY="x"))
    with pytest.raises(RunOptionError, match="name=value"):
        values(load(), "aws_batch", "queue")
    (home / ".torchxconfig").write_text("no section\n")
    with pytest.raises(ConfigError, match=r"~/\.torchxconfig cannot be read: line 1 is before the first"):
        load()


def test_the_template_is_toml_that_sets_nothing(home: Path, load: Callable[..., Config]) -> None:
    text = config_template({"aws_batch": options()})
    (home / "../work/project/asyncsched.toml").write_text(text)

    assert {} == values(load())
    assert "# (str, required)\n# queue =" in text


def test_every_option_of_the_template_can_be_uncommented() -> None:
    opts = runopts()
    for number, kind in enumerate((str, int, float, bool, list[str], dict[str, str])):
        opts.add(f"option_{number}", kind, "An option.", None)
    lines = [line.removeprefix("# ") for line in config_template({"mine": opts}).splitlines() if "option_" in line]
    values = tomllib.loads("\n".join(lines))

    assert values == {name: opts.check(name, value) for name, value in values.items()}
    assert len(opts) == len(values)


def test_the_template_uncommented_is_what_holds_by_default(home: Path, load: Callable[..., Config]) -> None:
    lines = config_template({"aws_batch": options()}).splitlines()
    start = lines.index("[scheduler.aws_batch]")
    told = [line.removeprefix("# ") for line in lines[start:] if " = " in line and not line.startswith("# env")]
    table = tomllib.loads("\n".join(told))

    assert {"priority": 0, "spot": False, "zones": ["a", "b"]} == table
    assert "priority" not in config_template({"aws_batch": options()}, required_only=True)
