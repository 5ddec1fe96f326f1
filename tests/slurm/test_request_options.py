"""What ``sbatch`` may be told besides what is ours: no cluster is needed."""

from __future__ import annotations

import getopt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import RunOptionError
from asyncsched.schedulers.slurm import SlurmOpts
from asyncsched.schedulers.slurm.request_options import check_options

LETTERS = "HOQVWhksvA:B:C:D:F:G:J:L:M:N:S:a:b:c:d:e:i:m:n:o:p:q:t:w:x:"
FLAGS = """
contiguous exclusive help hold ignore-pbs no-requeue overcommit parsable quiet requeue test-only usage version wait
"""
VALUES = """
array chdir comment error export gid job-name mem nodes ntasks ntasks-per-node output partition uid wait-all-nodes wrap
"""
"""Some options of sbatch, as its own parser reads them."""
NAMES = [*FLAGS.split(), *(f"{name}=" for name in VALUES.split())]
HARMLESS = {"contiguous", "exclusive", "hold", "ignore-pbs", "overcommit"} | {
    "comment",
    "export",
    "mem",
    "nodes",
    "ntasks-per-node",
    "partition",
    "wait-all-nodes",
}
HARMLESS_LETTERS = {*"HOksvABCFGLNSbdimpqtwx"}

LONG = st.builds(
    lambda name, cut, value: f"--{name[: max(1, cut)]}{value}",
    st.sampled_from([name.rstrip("=") for name in NAMES]),
    st.integers(0, 20),
    st.sampled_from(["", "=", "=x", "=--wait"]),
)
SHORT = st.text("HOQVWahsJNpn01=-", max_size=4).map("-{}".format)
WORDS = st.lists(LONG | SHORT | st.sampled_from(["", "-", "--", ":", "x"]), max_size=4)


def check(*arguments: str) -> None:
    check_options(SlurmOpts(sbatch_args=[*arguments]), is_plain=True)


@given(WORDS)
def test_what_is_let_through_leaves_alone_what_is_ours(words: list[str]) -> None:
    """Python's getopt reads arguments as sbatch does."""
    try:
        check(*words)
    except RunOptionError:
        return
    try:
        found, rest = getopt.getopt([*words, "--", "batch.sh"], LETTERS, NAMES)
    except getopt.GetoptError:
        return  # sbatch refuses it, too

    assert {name.strip("-") for name, _ in found} <= HARMLESS | HARMLESS_LETTERS
    assert [["batch.sh"], ["--", "batch.sh"]].count(rest) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--wait"], "'--wait'.*sbatch reads it as --wait"),
        (["--quiet"], "'--quiet'.*sbatch reads it as --quiet"),
        (["-sQ"], "'-sQ'.*--quiet"),
        (["-sW"], "'-sW'.*--wait"),
        (["-sa0-1"], "'-sa0-1'.*--array"),
        (["--arr=0-1"], "'--arr=0-1'.*--array"),
        (["-Hs", "--uid=nobody"], "'--uid=nobody'.*--uid"),
        (["-n5"], "'-n5'.*--ntasks"),
        (["--"], "'--'.*it is not an option"),
        (["--hold", "other.sh"], "'other.sh'.*it is not an option.*as one argument"),
        (["--nodes", "2"], "'2'.*it is not an option.*as one argument"),
        (["-p", ":"], "':'.*it is not an option"),
        (["-Hp"], "ends with '-Hp', which needs a value"),
    ],
)
def test_what_is_ours_is_refused_by_its_name(words: list[str], told: str) -> None:
    with pytest.raises(RunOptionError, match=rf"(?s)sbatch_args .*{told}"):
        check(*words)


def test_what_is_not_ours_is_let_through() -> None:
    check(
        "--exclusive",
        "--hol",
        "-p",
        "wait",
        "-Hpwait",
        "-N2",
        "-N",
        "--x",
        "--wait-all-nodes=1",
        "--container-mounts=/a:/b",
    )
    check("--ntasks-per-node=2", "--export=NONE", "--comment=--wait", "--signal=B:TERM@60")
