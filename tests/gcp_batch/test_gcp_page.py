"""The page of this backend: every option stands there in its own words, under the headings of every backend."""

from __future__ import annotations

import re
from pathlib import Path

from asyncsched.schedulers.gcp_batch import GCPBatchOpts
from asyncsched.schedulers.gcp_batch.logs_entries import MAX_UIDS
from asyncsched.schedulers.gcp_batch.logs_hub import LogTimes
from asyncsched.specs import runopts

PAGE = (Path(__file__).parents[2] / "docs/backends/gcp_batch.md").read_text()


def test_the_headings_are_those_of_every_backend() -> None:
    assert [
        "Setup",
        "Run options",
        "How an app is mapped",
        "States",
        "Logs",
        "Cancelling and deleting",
        "What happens when",
        "Scheduler Support",
        "IAM roles and quotas",
        "Limits",
    ] == re.findall(r"^## (.*)$", PAGE, re.MULTILINE)


def test_every_option_is_explained_in_its_own_words() -> None:
    section = PAGE.partition("## Run options\n")[2].partition("\n## ")[0]
    rows = [row.split(" | ") for row in re.findall(r"^\| (.*) \|$", section, re.MULTILINE)][1:]

    assert {name: option.help for name, option in runopts.of(GCPBatchOpts)} == {
        row[0].strip("`"): row[-1].strip() for row in rows
    }


def test_the_times_of_logs_are_those_that_hold() -> None:
    told = PAGE.partition("## Logs\n")[2].partition("\n## ")[0].replace("\n", " ")

    for name, seconds in LogTimes()._asdict().items():
        if f"`log_{name}`" in told:
            assert re.search(rf"{seconds:.0f}( seconds)?( old)? \(`log_{name}`\)", told), name
    assert f"up to {MAX_UIDS} jobs" in told
