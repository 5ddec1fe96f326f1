"""Refusals of the API server, and what keeps it from answering, as errors of ours."""

from __future__ import annotations

import json
import pickle
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import (
    AuthError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    SchedulerError,
    ThrottledError,
    UnavailableError,
)
from asyncsched.schedulers.kubernetes.errors import (
    ApiFailure,
    Peer,
    failure_of,
    is_expired,
    read_failure,
    translate,
)

PEER = Peer("https://10.0.0.1:6443", "lab")
WEBHOOK = 'admission webhook "validatejob.volcano.sh" denied the request: '
FORBIDDEN = (
    'jobs.batch.volcano.sh is forbidden: User "alice" cannot create resource "jobs" in API group "batch.volcano.sh" '
    'in the namespace "lab"'
)


def told(code: int, message: str = "", reason: str = "", **details: object) -> SchedulerError:
    return translate(ApiFailure(code, reason, message, details), "submit", PEER)


@pytest.mark.parametrize(
    ("code", "message", "kind", "said"),
    [
        (401, "Unauthorized", AuthError, "(context lab) does not accept the credentials: Unauthorized"),
        (403, FORBIDDEN, PermissionDeniedError, "alice may not create jobs.batch.volcano.sh in the namespace lab"),
        (403, 'pods is forbidden: User "system:anonymous" cannot list', AuthError, "got a request without credentials"),
        (403, 'pods "x" is forbidden: exceeded quota: small', InvalidRequestError, "exceeded quota: small"),
        (404, "404 page not found", NotFoundError, "does not know this kind of object"),
        (409, 'jobs.batch "a" already exists', ConflictError, 'jobs.batch "a" already exists'),
        (429, "Too many requests, please try again later.", ThrottledError, "throttles calls"),
        (400, f'{WEBHOOK}unable to find job queue: "x";', InvalidRequestError, "refused the request: unable to find"),
        (500, "etcdserver: request is too large", InvalidRequestError, "too large for the cluster"),
        (500, "rpc error: trying to send message larger than max (3 vs. 2)", InvalidRequestError, "too large"),
        (413, "Request entity too large", InvalidRequestError, "too large"),
        (500, "boom", UnavailableError, "500: boom"),
        (503, "", UnavailableError, "failed"),
        (504, "Timeout: Too large resource version", UnavailableError, "504"),
        (405, "the server does not allow this method", InvalidRequestError, "does not allow this method"),
    ],
)
def test_a_refusal_becomes_an_error_that_says_what_to_do(
    code: int, message: str, kind: type[SchedulerError], said: str
) -> None:
    error = told(code, message)

    assert kind is type(error)
    assert said in str(error)
    assert error.fix or code == 409 or "quota" in message or code in (400, 405)
    assert ("kubernetes", "submit") == (error.backend, error.operation)
    assert str(error) == str(pickle.loads(pickle.dumps(error)))


@given(
    code=st.sampled_from([400, 401, 403, 404, 405, 409, 410, 413, 422, 429, 500, 503]),
    reason=st.sampled_from(["", "NotFound", "Invalid", "Forbidden"]),
    what=st.from_regex(r"[a-z]+ [\"][a-z-]{5,20}[\"]", fullmatch=True),
    how=st.sampled_from(["not found", "already exists", "is forbidden: no", "is invalid: spec.x: Required value"]),
)
def test_what_the_server_says_is_said_once(code: int, reason: str, what: str, how: str) -> None:
    message = f"{what} {how}"

    assert 1 == str(told(code, message, reason)).count(message)
    assert 1 == str(told(400, f"{WEBHOOK}{message};")).count(message)


def test_a_schema_error_names_the_field() -> None:
    error = told(422, "no", "Invalid", causes=[{"field": "spec.tasks[0].name"}, {"field": "spec.queue"}, "hostile"])

    assert isinstance(error, InvalidRequestError)
    assert "correct spec.tasks[0].name, spec.queue" in str(error)


def test_the_pause_that_the_server_asks_for_is_kept() -> None:
    failure = read_failure(429, b"Too many requests, please try again later.", {"Retry-After": "7"})
    error = translate(failure, "list")

    assert isinstance(error, ThrottledError)
    assert 7.0 == error.retry_after
    assert read_failure(429, b"", {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}).retry_after is None


def test_the_refusal_itself_is_at_hand() -> None:
    error = told(400, 'container "c" in pod "x" is waiting to start: ContainerCreating', "BadRequest")

    failure = failure_of(error)
    assert failure is not None
    assert (400, "BadRequest") == (failure.code, failure.reason)
    assert failure_of(translate(OSError("cut"), "x")) is None


@pytest.mark.parametrize("body", [b"", b"{", b'{"kind": "Pod"}', b"[]", b"\xff\xfe", b"[" * 100_000])
def test_any_body_of_a_refusal_is_read(body: bytes) -> None:
    assert 500 == read_failure(500, body, {}).code


def test_a_long_message_is_cut() -> None:
    body = json.dumps({"kind": "Status", "message": "x" * 100_000}).encode()

    assert len(str(translate(read_failure(422, body, {}), "submit"))) < 3000


@pytest.mark.parametrize("failure", [ApiFailure(410, "Expired", "too old"), ApiFailure(410, "Gone", "too old")])
def test_an_expired_list_is_known(failure: ApiFailure) -> None:
    assert is_expired(translate(failure, "watch"))
    assert not is_expired(told(500))


def test_a_certificate_that_is_not_trusted_is_said_so() -> None:
    error = translate(ssl.SSLCertVerificationError("unable to get local issuer certificate"), "list", PEER)

    assert isinstance(error, AuthError)
    assert "certificate-authority" in error.fix


def test_silence_can_be_tried_again() -> None:
    error = translate(TimeoutError(), "list", PEER)

    assert isinstance(error, UnavailableError)
    assert error.retryable
    assert "https://10.0.0.1:6443 (context lab) did not answer: no answer in time" in str(error)
