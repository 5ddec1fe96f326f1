"""The table, row by row, in both ways."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import asyncsched
from asyncsched import errors, specs
from asyncsched.schedulers import Scheduler
from asyncsched.schedulers.registry import known_names
from asyncsched.sync import SyncScheduler
from tests.aws_emulator.server import Server
from tests.cli._cli import Cli
from tests.documents.options import OPTIONS
from tests.documents.places import PLACES
from tests.documents.signatures import OF_METHODS, SIGNATURES, Signature, disagreements, documented, owner
from tests.documents.table import ROWS, Row, has_landed, parameters
from tests.documents.ways import Awaiting, Blocking, Way, run_through
from tests.gcp_double.server import Double
from tests.kubernetes_fake.cluster import FakeCluster
from tests.services.dockerd import BUSYBOX_IMAGE

for rows in ("interface", "local", "docker", "aws_batch", "later"):
    import_module(f"tests.documents.rows_{rows}")


def way_of(row: Row, way: type[Way], request: pytest.FixtureRequest) -> Way:
    if not row.served:
        return way()
    place = PLACES[row.backend]
    for fixture in place.fixtures:
        request.getfixturevalue(fixture)
    return way(place)


@pytest.mark.parametrize(("row", "up"), [*parameters()], indirect=["up"])
async def test_a_row_awaiting(row: Row, up: None, request: pytest.FixtureRequest) -> None:
    way = way_of(row, Awaiting, request)
    try:
        await row.program(way)
    finally:
        await way.close()


@pytest.mark.parametrize(("row", "up"), [*parameters()], indirect=["up"])
def test_a_row_blocking(row: Row, up: None, request: pytest.FixtureRequest) -> None:
    way = way_of(row, Blocking, request)
    try:
        run_through(row.program(way))
    finally:
        run_through(way.close())


def test_rows_are_of_schedulers_that_there_are_or_will_be() -> None:
    named = {row.backend for row in ROWS} | {each.backend for each in SIGNATURES} | {*OPTIONS}

    assert {*OPTIONS} <= named <= {"", "fake", *known_names()}
    assert len(ROWS) == len({(row.page, row.program.__name__, row.backend) for row in ROWS})


# Signatures


@pytest.mark.parametrize(
    "signature", [each for each in SIGNATURES if has_landed(each.backend)], ids=lambda each: each.name.partition(".")[2]
)
def test_a_signature(signature: Signature) -> None:
    module, first, last = owner(signature.name)
    found: Any = import_module(module)
    for name in filter(None, (first, last)):
        found = getattr(found, name)

    assert [] == [*disagreements(signature.name, found, documented(signature.parameters))]


@pytest.mark.parametrize("cls", [Scheduler, SyncScheduler])
@pytest.mark.parametrize("name", OF_METHODS)
def test_a_method(cls: type, name: str) -> None:
    found = [*disagreements(f"{cls.__name__}.{name}", getattr(cls, name), documented(OF_METHODS[name]))]

    assert [] == found


def test_a_signature_that_differs_is_found() -> None:
    wanted = documented("(a, b=1, c=None)")

    assert [] == [*disagreements("f", lambda a, b=1, c=None, *, d=2, **more: None, wanted)]
    assert ["f: parameter 1 is c=None, and not b", "f: parameter 2 is b=1, and not c"] == [
        *disagreements("f", lambda a, c=None, b=1: None, wanted)
    ]
    assert ["f: the default of b is True, and not 1"] == [*disagreements("f", lambda a, b=True, c=None: None, wanted)]
    assert ["f: d has to be given"] == [*disagreements("f", lambda a, b=1, c=None, *, d: None, wanted)]
    assert ["f: e=1 has to be given"] == [*disagreements("f", lambda a, b=1, c=None, e=1: None, wanted)]


# Options


@pytest.mark.parametrize("backend", [each for each in OPTIONS if has_landed(each)])
async def test_the_options_of_a_scheduler_awaiting(backend: str) -> None:
    way = Awaiting()
    await check_options(way, backend)
    await way.close()


@pytest.mark.parametrize("backend", [each for each in OPTIONS if has_landed(each)])
def test_the_options_of_a_scheduler_blocking(backend: str) -> None:
    way = Blocking()
    run_through(check_options(way, backend))
    run_through(way.close())


async def check_options(way: Way, backend: str) -> None:
    options = await way(way.made(way.factories()[backend]("session")).run_opts())
    for name, wanted in OPTIONS[backend].items():
        found = options.get(name)

        assert found is not None, name
        assert (wanted.type, wanted.default, wanted.is_required) == (found.opt_type, found.default, found.is_required)
        assert found.help
        assert f"{name}={name.upper()}" in repr(options)
    required = {name for name, found in options if found.is_required}
    assert {name for name, wanted in OPTIONS[backend].items() if wanted.is_required} == required


# Names


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("InvalidRunConfigException", "RunOptionError"),
        ("MalformedAppHandleException", "MalformedHandleError"),
        ("UnknownAppException", "UnknownAppError"),
        ("UnknownSchedulerException", "UnknownSchedulerError"),
    ],
)
def test_an_error_is_caught_by_its_name_in_the_documents(theirs: str, ours: str) -> None:
    for room in (asyncsched, errors, specs):
        assert getattr(errors, ours) is getattr(room, theirs)


def test_what_is_wrong_with_an_option_is_told_by_its_key() -> None:
    options = specs.runopts()
    options.add("queue", type_=str, help="where it waits", required=True)

    with pytest.raises(specs.InvalidRunConfigException) as caught:
        options.resolve({})
    assert "queue" == caught.value.cfg_key
    with pytest.raises(specs.MalformedAppHandleException):
        specs.parse_app_handle("no handle")
    with pytest.raises(specs.UnknownSchedulerException):
        asyncsched.get_scheduler("nosuch", "session")


# Commands


COMMANDS = [
    ("local_cwd", "run --scheduler local_cwd utils.echo --msg hello"),
    (
        "aws_batch",
        "run --scheduler aws_batch --scheduler_args queue=torchx utils.echo --image alpine:latest --msg hello",
    ),
    (
        "kubernetes",
        "run --scheduler kubernetes --scheduler_args namespace=default,queue=test utils.echo --image alpine:latest"
        " --msg hello",
    ),
    ("gcp_batch", "run --scheduler gcp_batch utils.echo --msg hello"),
]
"""What the pages have typed into a shell, after the program's name; the handle that is printed goes to ``status``."""


LEAD_TO_GOOGLE = ("GOOGLE_", "CLOUDSDK_")
"""What the variables begin with that lead to Google Cloud."""


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    folder = tmp_path / "shell"
    folder.mkdir()
    return Cli(folder)


@pytest.mark.parametrize(
    ("backend", "line"),
    [
        pytest.param(
            backend, line, marks=[pytest.mark.service(PLACES[backend].service)] * bool(PLACES[backend].service)
        )
        for backend, line in COMMANDS
        if has_landed(backend) and backend in PLACES
    ],
)
def test_a_command(backend: str, line: str, cli: Cli, request: pytest.FixtureRequest) -> None:
    for fixture in PLACES[backend].fixtures:
        found = request.getfixturevalue(fixture)
        if isinstance(found, Server):
            cli.environment |= {
                "AWS_ENDPOINT_URL": found.url,
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
            }
        elif isinstance(found, FakeCluster):
            cli.environment["KUBECONFIG"] = os.environ["KUBECONFIG"]
        elif isinstance(found, Double):
            cli.environment |= {name: value for name, value in os.environ.items() if name.startswith(LEAD_TO_GOOGLE)}
            cli.environment["ASYNCSCHED_IMAGE"] = BUSYBOX_IMAGE  # the tests' daemon pulls nothing
    done = cli(*line.split())
    assert 0 == done.code, done.err
    handles = [word for word in f"{done.out}\n{done.err}".split() if word.startswith(f"{backend}://")]

    status = cli("status", handles[0])
    assert status.code == 0, status.err
    name = handles[0].rpartition("/")[2].rpartition(":")[2]
    assert name in status.out or "SUCCEEDED" in status.out
