"""AWS's errors as ours: each kind its own, with what, why and what to do."""

from __future__ import annotations

import socket

import aiohttp
import botocore.exceptions as aws
import pytest
from aiohttp.client_reqrep import ConnectionKey

from asyncsched.errors import (
    AsyncSchedError,
    AuthError,
    ConfigError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    ThrottledError,
    UnavailableError,
)
from asyncsched.schedulers.aws_batch.errors import may_have_happened, translate

NOT_CONNECTED = aiohttp.ClientConnectorError(
    ConnectionKey("x", 80, is_ssl=False, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None),
    ConnectionRefusedError(),
)


def answer(code: str, message: str = "", status: int = 400) -> aws.ClientError:
    response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return aws.ClientError(response, "SubmitJob")  # a part of it is enough


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (aws.NoCredentialsError(), AuthError, "aws configure"),
        (aws.PartialCredentialsError(provider="env", cred_var="x"), AuthError, "aws configure"),
        (aws.SSOTokenLoadError(error_msg="x", profile_name="work"), AuthError, "aws sso login --profile work"),
        (aws.UnauthorizedSSOTokenError(), AuthError, "aws sso login"),
        (aws.ProfileNotFound(profile="nosuch"), ConfigError, "nosuch"),
        (aws.NoRegionError(), ConfigError, "AWS_REGION"),
        (aws.ConfigParseError(path="/home/x/.aws/config"), ConfigError, "/home/x/.aws/config"),
        (aws.ConfigNotFound(path="/nowhere"), ConfigError, "/nowhere"),
        (aws.InfiniteLoopConfigError(source_profile="a", visited_profiles=["a"]), ConfigError, "~/.aws/config"),
        (ValueError("Invalid endpoint: localhost:5000"), ConfigError, "localhost:5000"),
        (aws.LoginTokenLoadError(error_msg="x", profile_name="work"), AuthError, "aws login --profile work"),
        (answer("SignatureDoesNotMatch", status=403), AuthError, "check the credentials"),
        (answer("MissingAuthenticationTokenException", status=403), AuthError, "check the credentials"),
        (answer("RequestTimeTooSkewed", status=403), AuthError, "clock"),
        (answer("RequestThrottledException"), ThrottledError, "throttles SubmitJob"),
        (answer("ProvisionedThroughputExceededException"), ThrottledError, "throttles SubmitJob"),
        (answer("RequestTimeoutException", "slow", 400), UnavailableError, "slow"),
        (aws.EndpointConnectionError(endpoint_url="http://x:1"), UnavailableError, "http://x:1"),
        (aws.ReadTimeoutError(endpoint_url="http://x"), UnavailableError, "SubmitJob"),
        (TimeoutError("no answer within 30 s"), UnavailableError, "30 s"),
        (answer("ExpiredTokenException", status=403), AuthError, "expired"),
        (answer("UnrecognizedClientException", status=403), AuthError, "partition and region"),
        (answer("AccessDeniedException", "User x", 403), PermissionDeniedError, "batch:SubmitJob"),
        (answer("TooManyRequestsException", status=429), ThrottledError, "throttles SubmitJob"),
        (answer("ThrottlingException", "Rate exceeded"), ThrottledError, "throttles SubmitJob"),
        (answer("ServerException", "oops", 500), UnavailableError, "oops"),
        (answer("ServiceUnavailableException", "busy", 503), UnavailableError, "busy"),
        (answer("ClientException", "JobQueue x does not exist"), NotFoundError, "describe-job-queues"),
        (answer("ClientException", "d:1 can not be found."), NotFoundError, "region"),
        (answer("ClientException", "JobDefinition d:1 is INACTIVE"), NotFoundError, "INACTIVE"),
        (answer("ClientException", "queue needs a shareIdentifier"), InvalidRequestError, "share_id"),
        (answer("ClientException", "too large"), InvalidRequestError, "too large"),
    ],
)
def test_each_kind(error: Exception, kind: type[AsyncSchedError], words: str) -> None:
    ours = translate(error, "SubmitJob", profile="work" if "work" in words else None)

    assert kind is type(ours)
    assert words in str(ours)
    assert ours.what
    assert ours.fix or ours.why


def test_what_the_sdk_itself_refuses_quotes_no_values() -> None:
    report = "Invalid type for parameter containerOverrides.environment[0].value, value: m4rk3r, type: <class 'int'>"
    ours = translate(aws.ParamValidationError(report=report), "SubmitJob")

    assert "m4rk3r" not in str(ours)
    assert "containerOverrides.environment[0].value" in str(ours)


@pytest.mark.parametrize(
    ("error", "may"),
    [
        (aws.ReadTimeoutError(endpoint_url="x"), True),
        (aws.ConnectionClosedError(endpoint_url="x"), True),
        (TimeoutError(), True),
        (answer("ServerException", status=500), True),
        (answer("TooManyRequestsException", status=429), False),
        (answer("ClientException", "no"), False),
        (aws.EndpointConnectionError(endpoint_url="x"), True),
        (aws.EndpointConnectionError(endpoint_url="x", error=aiohttp.ClientOSError(104, "reset by peer")), True),
        (aws.EndpointConnectionError(endpoint_url="x", error=aiohttp.ClientConnectionError()), True),
        (aws.EndpointConnectionError(endpoint_url="x", error=NOT_CONNECTED), False),
        (aws.EndpointConnectionError(endpoint_url="x", error=socket.gaierror()), False),
        (aws.ConnectTimeoutError(endpoint_url="x"), False),
    ],
)
def test_only_a_lost_answer_leaves_doubt(error: Exception, may: bool) -> None:
    ours = translate(error, "SubmitJob")
    ours.__cause__ = error

    assert may == may_have_happened(ours)
