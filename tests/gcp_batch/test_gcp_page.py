"""The page of this backend: every option stands there in its own words, under the headings of every backend."""

from __future__ import annotations

import re
from pathlib import Path

from google.cloud import batch_v1

from asyncsched.schedulers._common.untrusted import LONGEST_JSON
from asyncsched.schedulers.gcp_batch import GCPBatchOpts
from asyncsched.schedulers.gcp_batch.changes import FEW
from asyncsched.schedulers.gcp_batch.logs_budget import SHARE, USUAL
from asyncsched.schedulers.gcp_batch.logs_entries import MAX_UIDS
from asyncsched.schedulers.gcp_batch.logs_entries import PAGE as ENTRIES
from asyncsched.schedulers.gcp_batch.logs_hub import LogTimes
from asyncsched.schedulers.gcp_batch.lookup import PAGE as TASKS
from asyncsched.schedulers.gcp_batch.request import make_request, to_wire
from asyncsched.schedulers.gcp_batch.request_limits import MAX_JOB_BYTES, MAX_RETRIES, MAX_TASKS
from asyncsched.schedulers.gcp_batch.request_options import LONGEST_RUN, MAX_HOSTS, MAX_PARALLEL
from asyncsched.specs import AppDef, Role, runopts
from tests.gcp_double.checks import check_job
from tests.gcp_double.wire import parse

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


def test_every_option_has_an_example_that_is_taken() -> None:
    section = PAGE.partition("## Run options\n")[2].partition("\n## ")[0]
    examples = dict(re.findall(r"^\| `(\w+)` \|.* \| `(\1=[^`]*)` \|", section, re.MULTILINE))
    options = runopts.of(GCPBatchOpts)
    app = AppDef("app", [Role("trainer", "image", entrypoint="train", num_replicas=2)])
    base = "project=my-project;network=n;subnetwork=s"

    assert {name for name, _ in options} == examples.keys()
    for name, example in examples.items():
        cfg = options.cfg_from_str(base) | options.cfg_from_str(example)
        assert cfg[name] != options.get(name).default  # type: ignore[union-attr] # it is there
        made = runopts.build(GCPBatchOpts, cfg)
        app_id = f"my-project:{made.location}:app-x1"
        job = to_wire(make_request(app, made, app_id=app_id, session="me", version="1"), digest="d", note="{}")
        check_job(parse(batch_v1.Job.pb(batch_v1.Job()), job))


def test_the_times_of_logs_are_those_that_hold() -> None:
    told = PAGE.partition("## Logs\n")[2].partition("\n## ")[0].replace("\n", " ")

    for name, seconds in LogTimes()._asdict().items():
        if f"`log_{name}`" in told:
            assert re.search(rf"{seconds:.0f}( seconds)?( old)? \(`log_{name}`\)", told), name
    assert f"up to {MAX_UIDS} jobs" in told


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.replace("\n", " ")

    assert f"at most {MAX_TASKS:,} replicas" in page
    assert f"{MAX_TASKS:,} replicas, {MAX_PARALLEL} of them at the same time; {MAX_RETRIES} retries" in page
    assert f"up to {MAX_HOSTS} VMs a file with all hosts" in page
    assert f"without secrets, up to {LONGEST_JSON >> 10} KiB" in page
    assert f"one for up to {TASKS} tasks" in page
    assert f"Up to {FEW} watched apps of a location are read one by one" in page
    assert f"allows a project {USUAL} reads per minute, with at most {ENTRIES} entries per read" in page
    assert f"reads {USUAL * SHARE:.0f} times per minute" in page
    assert 14 * 24 * 3600 == LONGEST_RUN
    assert MAX_JOB_BYTES == 1_000_000
    assert "14 days; 1 MB per job" in page
