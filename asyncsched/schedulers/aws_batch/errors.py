"""Translate AWS's errors into asyncsched's, without importing the SDK: its classes are matched by name."""

from __future__ import annotations

import os
import re
from typing import Any

from asyncsched._platform import WANTS, want_behind
from asyncsched.errors import (
    AsyncSchedError,
    AuthError,
    ConfigError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    SchedulerError,
    ThrottledError,
    UnavailableError,
)

__all__ = ["may_have_happened", "translate"]

BACKEND = "aws_batch"

_THROTTLED = {
    "BandwidthLimitExceeded",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}
_TOO_SLOW = {"RequestTimeout", "RequestTimeoutException"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
_REFUSED_KEYS = {
    "AuthFailure",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "InvalidToken",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_DENIED = {"AccessDeniedException", "AccessDenied", "UnauthorizedOperation"}
_NO_CREDENTIALS = {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "NoAuthTokenError"}
_SSO = {"SSOTokenLoadError", "UnauthorizedSSOTokenError", "TokenRetrievalError", "SSOError"}
_LOGIN = {"LoginRefreshRequired", "LoginInsufficientPermissions", "LoginTokenLoadError", "LoginError"}
_CONFIG = {
    "ConfigNotFound",
    "ConfigParseError",
    "InfiniteLoopConfigError",
    "InvalidConfigError",
    "InvalidDefaultsMode",
    "InvalidEndpointConfigurationError",
    "InvalidMaxRetryAttemptsError",
    "InvalidProxiesConfigError",
    "InvalidRetryModeError",
    "UnknownCredentialError",
}
_UNREACHED = {"ConnectTimeoutError", "ProxyConnectionError", "SSLError"}
_NOT_CONNECTED = {"ClientConnectorError", "ConnectError", "NewConnectionError", "gaierror"}
"""The reasons for an `EndpointConnectionError` after which nothing can have been sent: those of the HTTP clients."""
_MISSING = re.compile(r"does not exist|can ?not be found|not found|INACTIVE", re.IGNORECASE)


def translate(
    error: Exception, operation: str, *, service: str = "batch", profile: str | None = None
) -> AsyncSchedError:
    """Return the error to raise for an error of botocore, or for a timeout.

    Args:
        error: The original error.
        operation: AWS's name of the operation.
        service: The service's name, the prefix of IAM actions.
        profile: The profile in use, for the advice.
    """
    kind = type(error).__name__
    if response := _answer(error):
        return _from_answer(response, operation, service)
    if isinstance(error, TimeoutError):
        return _unavailable(operation, str(error) or "no answer in time")
    if kind in _SSO | _LOGIN:
        login = "aws sso login" if kind in _SSO else "aws login"
        login += f" --profile {profile}" if profile else ""
        return AuthError("the AWS sign-on is no longer valid", why=str(error), fix=f"run {login}", **_where(operation))
    if kind in _NO_CREDENTIALS:
        fix = "run aws configure, or set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        return AuthError("no AWS credentials found", why=str(error), fix=fix, **_where(operation))
    if kind == "ProfileNotFound":
        fix = "check ~/.aws/config, AWS_PROFILE and the run option profile"
        return ConfigError("the AWS profile does not exist", why=str(error), fix=fix)
    if kind in _CONFIG:
        return ConfigError("the AWS configuration is invalid", why=str(error), fix="correct ~/.aws/config")
    if isinstance(error, ValueError) and "nvalid endpoint" in str(error):
        fix = "write endpoint_url or AWS_ENDPOINT_URL as http://host:port"
        return ConfigError("the AWS endpoint must be a URL", why=str(error), fix=fix)
    if kind in ("NoRegionError", "InvalidRegionError"):
        fix = "set AWS_REGION, the run option region, or the profile's region"
        return ConfigError("no valid AWS region is set", why=str(error), fix=fix)
    if kind in ("ParamValidationError", "ParamValidation"):
        why = re.sub(r"value: .*?(?=, type|, valid|$)", "value: ***", str(error), flags=re.MULTILINE)
        return InvalidRequestError(f"the parameters of {operation} are invalid", why=why, **_where(operation))
    if (want := want_behind(error)) is not None:
        return _unavailable(operation, f"{error} ({os.strerror(want)})", WANTS[want])
    return _unavailable(operation, str(error) or kind)


def may_have_happened(error: BaseException) -> bool:
    """Return whether a failed operation may have taken effect: its answer was lost, and it was not refused."""
    cause = error.__cause__
    if not isinstance(error, UnavailableError):
        return False
    if cause is not None and (response := _answer(cause)):
        return _status(response) >= 500
    return not _is_unreached(cause)


def _is_unreached(cause: BaseException | None) -> bool:
    kind = type(cause).__name__
    if kind != "EndpointConnectionError":
        return kind in _UNREACHED
    # aiobotocore raises it also for a connection that was reset while the answer was awaited.
    reason: object = getattr(cause, "kwargs", {}).get("error")
    return not _NOT_CONNECTED.isdisjoint(each.__name__ for each in type(reason).__mro__)


def _answer(error: BaseException) -> dict[str, Any]:
    """Return the service's answer in an error of the SDK; empty if there was none."""
    response: dict[str, Any] = getattr(error, "response", None) or {}
    return response if "Error" in response else {}


def _from_answer(response: dict[str, Any], operation: str, service: str) -> AsyncSchedError:
    code: str = response.get("Error", {}).get("Code", "")
    message: str = response.get("Error", {}).get("Message", "")
    where = _where(operation)
    if code in _THROTTLED or _status(response) == 429:
        fix = "try again later, or ask AWS for a higher limit"
        return ThrottledError(f"AWS throttles {operation}", why=message, fix=fix, **where)
    if code in _EXPIRED:
        fix = "sign in again, or get new credentials"
        return AuthError("the AWS credentials have expired", why=message, fix=fix, **where)
    if code in _REFUSED_KEYS:
        fix = "check the credentials, their partition and region, and this machine's clock"
        return AuthError("AWS does not accept the credentials", why=message, fix=fix, **where)
    if code in _DENIED or _status(response) == 403:
        action = f"{service}:{operation}"
        fix = f"allow the IAM action {action}"
        return PermissionDeniedError(f"AWS does not allow {action}", why=message, fix=fix, **where)
    if _status(response) >= 500 or code in _TOO_SLOW:
        return _unavailable(operation, f"{code}: {message}")
    if code in ("ResourceNotFoundException", "RepositoryNotFoundException") or _MISSING.search(message):
        return NotFoundError(
            f"the resource of {operation} does not exist", why=message, fix=_found_where(message), **where
        )
    if "share" in message.lower():
        fix = "set share_id for queues with a fair-share policy, and omit it for others"
        return InvalidRequestError(f"{operation} was refused", why=message, fix=fix, **where)
    return InvalidRequestError(f"{operation} was refused", why=f"{code}: {message}" if code else message, **where)


def _found_where(message: str) -> str:
    if "queue" in message.lower():
        return "use a queue of this account and region: aws batch describe-job-queues lists them"
    return "check the name, the account and the region"


def _status(response: dict[str, Any]) -> int:
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _unavailable(operation: str, why: str, fix: str = "check the network and the endpoint") -> SchedulerError:
    return UnavailableError(f"AWS did not answer {operation}", why=why, fix=fix, **_where(operation))


def _where(operation: str) -> dict[str, Any]:
    return {"backend": BACKEND, "operation": operation}
