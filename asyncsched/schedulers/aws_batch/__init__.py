"""AWS Batch: ``aws_batch``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from typing_extensions import Unpack

from asyncsched.schedulers.aws_batch.options import AWSBatchOpts
from asyncsched.schedulers.aws_batch.request import BatchJob
from asyncsched.schedulers.aws_batch.scheduler import AWSBatchScheduler
from asyncsched.schedulers.bounds import Tunables

if TYPE_CHECKING:
    from asyncsched.schedulers._common.pacing import Limits

__all__ = ["AWSBatchOpts", "AWSBatchScheduler", "BatchJob", "create_scheduler"]


def create_scheduler(
    session_name: str,
    client: object | None = None,
    log_client: object | None = None,
    docker_client: object | None = None,
    *,
    region: str | None = None,
    profile: str | None = None,
    endpoint_url: str | None = None,
    limits: object | None = None,
    log_interval: float = 0.4,
    log_settle_polls: int = 5,
    **tunables: Unpack[Tunables],
) -> AWSBatchScheduler:
    """Make a scheduler for AWS Batch; no call is made and nothing is read before its first use.

    Args:
        session_name: The session that submitted apps are marked with.
        client: A client of aiobotocore or boto3 for ``batch``: its credentials, region, endpoint, proxies and TLS are
            used, by a client of our own; it is never closed here.
        log_client: Likewise one for ``logs``.
        docker_client: What pushes local images.
        region: The AWS region; else ``AWS_REGION``, or what the AWS configuration says.
        profile: The profile of the AWS configuration.
        endpoint_url: Another address of the services.
        limits: The pacers (`asyncsched.schedulers._common.pacing.Limits`) to share with other schedulers.
        log_interval: Seconds between two looks for log lines while some come; up to five while none do.
        log_settle_polls: After an app's end, so many looks without a new line are the end of its log.
        tunables: What every scheduler takes: `request_timeout`, `retry_for`, `cleanup_timeout`, `clock`.
    """
    return AWSBatchScheduler(
        session_name,
        client,
        log_client,
        docker_client,
        region=region,
        profile=profile,
        endpoint_url=endpoint_url,
        limits=cast("Limits | None", limits),
        log_interval=log_interval,
        log_settle_polls=log_settle_polls,
        **tunables,
    )
