from __future__ import annotations

import pytest

from asyncsched.cli.app_arguments import Target, parse_replicas, parse_target
from asyncsched.errors import MalformedHandleError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train-1", Target(app="train-1")),
        ("gpu:train-1", Target(app="gpu:train-1")),
        ("train-*", Target(app="train-*")),
        ("s://me/a", Target(app="s://me/a")),
        ("s:///a", Target(app="s:///a")),
        ("s://me/q:a", Target(app="s://me/q:a")),
        ("train-1/worker", Target(app="train-1", role="worker")),
        ("train-1/worker/0,2-4", Target(app="train-1", role="worker", replicas=(0, 2, 3, 4))),
        ("s://me/a/worker/3", Target(app="s://me/a", role="worker", replicas=(3,))),
    ],
)
def test_what_an_argument_names(text: str, expected: Target) -> None:
    assert expected == parse_target(text, parts=True)


@pytest.mark.parametrize(
    "text", ["", "/", "s://", "s://a", "s://a/", "://a/b", "s:/a/b", "a//b", "a/b/", "a/b/x", "a/b/1-", "a/b/1/c"]
)
def test_what_names_nothing(text: str) -> None:
    with pytest.raises(MalformedHandleError):
        parse_target(text, parts=True)


def test_roles_are_for_logs() -> None:
    with pytest.raises(MalformedHandleError):
        parse_target("train-1/worker")


def test_replicas() -> None:
    assert None is parse_replicas("")
    assert (0, 2, 3) == parse_replicas("0,2-3,3")
    for wrong in ("a", "3-1", "0-99999999999"):
        with pytest.raises(MalformedHandleError, match=f"'{wrong}' names no replicas"):
            parse_replicas(wrong)
    with pytest.raises(MalformedHandleError, match="'train/worker/x' names no replicas"):
        parse_target("train/worker/x", parts=True)
