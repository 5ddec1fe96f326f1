"""AWS's errors as ours: what happened, why, and what to do next. Pure: the SDK's classes are known by name."""

from __future__ import annotations

import re
from typing import Any

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
_UNREACHED = {"EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError", "SSLError"}
_MISSING = re.compile(r"does not exist|can ?not be found|not found|INACTIVE", re.IGNORECASE)


def translate(
    error: Exception, operation: str, *, service: str = "batch", profile: str | None = None
) -> AsyncSchedError:
    """Return our error for one of botocore's, or for a time limit that has passed.

    Args:
        error: What the SDK raised.
        operation: AWS's name of the operation.
        service: The service's name, as IAM actions begin with it.
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
        return AuthError(
            "The AWS sign-on is not valid any more", why=str(error), fix=f"run {login}", **_where(operation)
        )
    if kind in _NO_CREDENTIALS:
        fix = "run aws configure, or set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        return AuthError("There are no AWS credentials", why=str(error), fix=fix, **_where(operation))
    if kind == "ProfileNotFound":
        fix = "look at ~/.aws/config, or correct AWS_PROFILE or the run option profile"
        return ConfigError("The AWS profile does not exist", why=str(error), fix=fix)
    if kind in _CONFIG:
        return ConfigError("The AWS configuration is wrong", why=str(error), fix="correct ~/.aws/config")
    if isinstance(error, ValueError) and "nvalid endpoint" in str(error):
        fix = "write endpoint_url or AWS_ENDPOINT_URL as http://host:port"
        return ConfigError("The AWS endpoint is no URL", why=str(error), fix=fix)
    if kind in ("NoRegionError", "InvalidRegionError"):
        fix = "set AWS_REGION, the run option region, or the profile's region"
        return ConfigError("No AWS region is set", why=str(error), fix=fix)
    if kind in ("ParamValidationError", "ParamValidation"):
        why = re.sub(r"value: .*?(?=, type|, valid|$)", "value: ***", str(error), flags=re.MULTILINE)
        return InvalidRequestError(f"{operation} would not be accepted", why=why, **_where(operation))
    return _unavailable(operation, str(error) or kind)


def may_have_happened(error: BaseException) -> bool:
    """Tell whether the operation may have taken effect although it failed: its answer was lost, not refused."""
    cause = error.__cause__
    if not isinstance(error, UnavailableError):
        return False
    if cause is not None and (response := _answer(cause)):
        return _status(response) >= 500
    return type(cause).__name__ not in _UNREACHED


def _answer(error: BaseException) -> dict[str, Any]:
    """Return the service's answer that an error of the SDK carries; empty if there was none."""
    response: dict[str, Any] = getattr(error, "response", None) or {}
    return response if "Error" in response else {}


def _from_answer(response: dict[str, Any], operation: str, service: str) -> AsyncSchedError:
    code: str = response.get("Error", {}).get("Code", "")
    message: str = response.get("Error", {}).get("Message", "")
    where = _where(operation)
    if code in _THROTTLED or _status(response) == 429:
        fix = "wait a little, or ask AWS for a higher limit"
        return ThrottledError(f"AWS wants fewer calls of {operation}", why=message, fix=fix, **where)
    if code in _EXPIRED:
        fix = "sign in again, or get new credentials"
        return AuthError("The AWS credentials have expired", why=message, fix=fix, **where)
    if code in _REFUSED_KEYS:
        fix = "check the credentials, that they belong to this partition and region, and this machine's clock"
        return AuthError("AWS does not accept the credentials", why=message, fix=fix, **where)
    if code in _DENIED or _status(response) == 403:
        action = f"{service}:{operation}"
        fix = f"allow the IAM action {action}"
        return PermissionDeniedError(f"AWS does not allow {action}", why=message, fix=fix, **where)
    if _status(response) >= 500 or code in _TOO_SLOW:
        return _unavailable(operation, f"{code}: {message}")
    if code in ("ResourceNotFoundException", "RepositoryNotFoundException") or _MISSING.search(message):
        return NotFoundError(
            f"{operation} names something that does not exist", why=message, fix=_found_where(message), **where
        )
    if "share" in message.lower():
        fix = "give share_id on queues with a fair-share policy, and leave it out on others"
        return InvalidRequestError(f"{operation} was refused", why=message, fix=fix, **where)
    return InvalidRequestError(f"{operation} was refused", why=f"{code}: {message}" if code else message, **where)


def _found_where(message: str) -> str:
    if "queue" in message.lower():
        return "name a queue of this account and region: aws batch describe-job-queues lists them"
    return "check the name, the account and the region"


def _status(response: dict[str, Any]) -> int:
    return int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _unavailable(operation: str, why: str) -> SchedulerError:
    return UnavailableError(
        f"AWS did not answer {operation}", why=why, fix="check the network and the endpoint", **_where(operation)
    )


def _where(operation: str) -> dict[str, Any]:
    return {"backend": BACKEND, "operation": operation}
