"""What the command line says where AWS is not configured."""

from __future__ import annotations

import pytest

from tests.cli._cli import Cli

REGION = [
    "error: no valid AWS region is set",
    "  why: You must specify a region.",
    "  fix: set AWS_REGION, the run option region, or the profile's region",
]


@pytest.mark.parametrize(
    "line", ["list -s aws_batch", "status aws_batch://a/q:b", "run -s aws_batch -cfg queue=q,timeout=3600 utils.echo"]
)
def test_no_region(cli: Cli, line: str) -> None:
    done = cli(*line.split())

    assert (2, REGION) == (done.code, done.err.splitlines())


def test_no_credentials(cli: Cli) -> None:
    cli.environment |= {"AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    done = cli("list", "-s", "aws_batch")
    what, *more = done.err.splitlines()

    assert 6 == done.code
    assert what.startswith("error: ")
    assert what.endswith("[aws_batch: AuthError]")
    assert ["  why: ", "  fix: "] == [line[:7] for line in more]


def test_a_required_option_is_named(cli: Cli) -> None:
    done = cli("run", "-s", "aws_batch", "utils.echo")

    assert 2 == done.code
    assert "queue" in done.err


def test_backends_that_are_not_configured_are_told_by_the_doctor(cli: Cli) -> None:
    done = cli("doctor", "--timeout", "60s")  # a busy machine takes its time to load what AWS needs
    (line,) = [line for line in done.lines if line.startswith("scheduler aws_batch")]

    assert "not configured  no valid AWS region is set" in line
