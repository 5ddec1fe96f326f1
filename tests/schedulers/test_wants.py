"""A connection that failed because this machine is short of something is told with what helps here."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import aiohttp
import pytest
from botocore.exceptions import EndpointConnectionError

from asyncsched._dockerd.endpoint import Endpoint
from asyncsched._dockerd.errors import translate as of_docker
from asyncsched._platform import WANTS, want_behind
from asyncsched.errors import SchedulerError, UnavailableError
from asyncsched.schedulers.aws_batch.errors import translate as of_aws
from asyncsched.schedulers.gcp_batch.errors import translate as of_google
from asyncsched.schedulers.kubernetes.errors import translate as of_kubernetes

SHORT = OSError(errno.EMFILE, "Too many open files")
REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


def connector_error(error: OSError) -> Exception:
    key = SimpleNamespace(host="127.0.0.1", port=9, ssl=True, is_ssl=False)
    return aiohttp.ClientConnectorError(key, error)  # type: ignore[arg-type]  # what its text needs


def told(error: OSError) -> dict[str, SchedulerError]:
    at = Endpoint(url="unix:///var/run/docker.sock", source="DOCKER_HOST")
    failed = connector_error(error)
    of_botocore = EndpointConnectionError(endpoint_url="https://batch.us-east-1.amazonaws.com", error=failed)
    amazon = of_aws(of_botocore, "ListJobs")
    assert isinstance(amazon, SchedulerError)
    return {
        "docker": of_docker(failed, "list", endpoint=at, what="", backend="local_docker"),
        "kubernetes": of_kubernetes(failed, "list"),
        "aws": amazon,
        "google": of_google(failed, "jobs.list"),
    }


@pytest.mark.parametrize("backend", ["docker", "kubernetes", "aws", "google"])
def test_what_the_machine_lacks_is_told_with_what_helps(backend: str) -> None:
    short, refused = told(SHORT)[backend], told(REFUSED)[backend]

    assert [UnavailableError] * 2 == [type(short), type(refused)]
    assert "too many open files" in str(short).lower()
    assert (WANTS[errno.EMFILE], False) == (short.fix, "ulimit" in str(refused))


def test_a_busy_service_is_no_want_of_this_machine() -> None:
    assert want_behind(BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")) is None


def test_causes_that_go_in_a_circle_end() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one

    assert want_behind(one) is None
