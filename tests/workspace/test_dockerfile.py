"""What is understood of a Dockerfile: what it starts from, and what it cannot get."""

from __future__ import annotations

import pytest

from asyncsched.errors import RunOptionError, WorkspaceError
from asyncsched.specs import AppDef, Role
from asyncsched.workspace.dockerfile import Dockerfile
from asyncsched.workspace.image_names import check_image_repo, check_platform, push_ids, repository_of

VALUES = {"IMAGE": "app:1", "WORKSPACE": "/w"}


def of(text: str) -> Dockerfile:
    return Dockerfile(text=text.encode(), path="Dockerfile.asyncsched")


@pytest.mark.parametrize(
    ("text", "images"),
    [
        ("ARG IMAGE\nFROM $IMAGE\nCOPY . .", ["app:1"]),
        ("from ${IMAGE} as build\nFROM build\nCOPY --from=build /a /b", ["app:1"]),
        ("ARG BASE=python:3.12\nFROM ${BASE}-slim AS x\nFROM scratch\nCOPY --from=x / /", ["python:3.12-slim"]),
        (
            "FROM --platform=linux/arm64 one:1\nCOPY --chown=1 --from=two:2 /a /b\nCOPY --from=0 /a /b",
            ["one:1", "two:2"],
        ),
        ("# FROM not:this\nFROM \\\n  one:1\nRUN --mount=type=bind,from=three:3,target=/x true", ["one:1", "three:3"]),
        ("FROM ${NOTHING:-other:1}\nARG IMAGE=inside\nRUN echo FROM x", ["other:1"]),
        ("FROM one:1\nFROM one:1", ["one:1"]),
        ('ARG IMAGE\nFROM "$IMAGE"', ["app:1"]),
        ("ARG IMAGE\nFROM '$IMAGE'", ["$IMAGE"]),
        ('ARG A=one B="t"wo\nFROM "$A:${B}"', ["one:two"]),
        ("ARG A\nFROM ${A:-${IMAGE}}\nFROM ${IMAGE:+other:1}", ["app:1", "other:1"]),
        ("# escape=`\nARG IMAGE\nFROM `\n  $IMAGE\nCOPY a\\ b\\", ["app:1"]),
        ("# syntax=docker/dockerfile:1\n#Escape = `\r\nFR`\r\nOM `$x", ["$x"]),
        ("#\n# escape=`\nFROM one`two", ["one`two"]),
        ("FROM one:1\nRUN <<-A cat <<'B'\nFROM two:2 \\\n\tA\nFROM three:3\nB\nFROM four:4", ["one:1", "four:4"]),
        ("FROM one:1\nRUN a \\\n\n# b\n  c\n\nFROM two:2\\", ["one:1", "two:2"]),
        ("\ufeffFROM one:1", ["one:1"]),
    ],
)
def test_images_that_it_starts_from(text: str, images: list[str]) -> None:
    assert images == of(text).images(VALUES)


def test_only_arguments_that_it_names_change_what_is_built() -> None:
    assert {} == Dockerfile.default().arguments(VALUES)
    assert {"IMAGE": "app:1"} == of("ARG IMAGE\nFROM $IMAGE\nCOPY WORKSPACES .").arguments(VALUES)
    assert {"IMAGE": "app:1"} == of("arg A=1 IMAGE\nFROM $IMAGE\n# WORKSPACE\nENV WORKSPACE=/app").arguments(VALUES)
    assert VALUES == of("ARG IMAGE\nFROM $IMAGE\nARG WORKSPACE\nENV W=${WORKSPACE}").arguments(VALUES)


@pytest.mark.parametrize("kind", ["secret", "ssh"])
def test_what_needs_a_session_is_refused(kind: str) -> None:
    with pytest.raises(WorkspaceError, match=f"--mount=type={kind}.*docker build"):
        of(f"FROM $IMAGE\nRUN --network=none \\\n  --mount=id=x,type={kind} true").check()
    of(f"FROM $IMAGE\n# RUN --mount=type={kind} true\nRUN --mount=type=cache,target=/c true").check()


@pytest.mark.parametrize(
    ("text", "is_understood"),
    [
        ("FROM x\n# syntax=docker/dockerfile:1", True),
        ("#syntax = docker/dockerfile:1\nFROM x", False),
        ("# escape=`\n# SYNTAX=docker/dockerfile:1\nFROM x", False),
        ("FROM x\nRUN <<EOF\ntrue\nEOF", False),
        ("FROM x\nRUN --mount=type=cache,target=/c true", False),
    ],
)
def test_what_the_classic_builder_understands(text: str, is_understood: bool) -> None:
    hidden = Dockerfile(text=text.encode(), path="Dockerfile.asyncsched", is_hidden=True)

    assert is_understood is not hidden.needs_buildkit()
    if is_understood:
        hidden.check()
    else:
        with pytest.raises(WorkspaceError, match=r"write !Dockerfile\.asyncsched as the last line of \.dockerignore"):
            hidden.check()
    of(text).check()


def test_the_default_keeps_itself_out_of_the_image() -> None:
    default = Dockerfile.default()

    assert {"Dockerfile": b"ARG IMAGE\nFROM $IMAGE\nCOPY workspace/ .\n"} == default.extra
    assert "workspace" == default.below
    assert {} == of("FROM x").extra


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("busybox", "busybox"),
        ("busybox:1", "busybox"),
        ("host:5000/a/b", "host:5000/a/b"),
        ("host:5000/a/b:1@sha256:00", "host:5000/a/b"),
    ],
)
def test_an_image_without_tag_and_digest_is_its_repository(image: str, repository: str) -> None:
    assert repository == repository_of(image)


@pytest.mark.parametrize("given", ["https://host/x", "host/x:1", "a b", "host/x@sha256:0", "-x"])
def test_what_is_not_a_repository_is_refused(given: str) -> None:
    with pytest.raises(RunOptionError, match="does not name a repository"):
        check_image_repo(given, "aws_batch", "it is pushed")


@pytest.mark.parametrize("given", ["host:5000/x", "x", "123.dkr.ecr.eu-west-1.amazonaws.com/team/app", "a/b_c.d-e"])
def test_a_repository_is_taken(given: str) -> None:
    assert given == check_image_repo(given, "aws_batch", "it is pushed")


def test_platforms_are_checked() -> None:
    for good in ("linux/amd64", "linux/arm/v7"):
        check_platform(good)
    for bad in ("arm64", "linux/", "Linux/amd64", "linux/amd64/x/y"):
        with pytest.raises(RunOptionError, match="does not name a platform"):
            check_platform(bad)


def test_images_named_by_id_are_pushed_once_and_others_are_left() -> None:
    ids = f"sha256:{'1' * 64}"
    app = AppDef("app", [Role("a", ids), Role("b", ids), Role("c", "named:1")])

    assert {ids: ("host/x", "1" * 64)} == push_ids(app, "host/x", "kubernetes")
    assert [f"host/x:{'1' * 64}"] * 2 + ["named:1"] == [role.image for role in app.roles]
