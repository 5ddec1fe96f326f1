"""Submit an app exactly once: its name is fixed in advance, so a request whose answer was lost can be repeated."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TypeVar, cast

from asyncsched._tasks import gather_bounded
from asyncsched.clock import Clock
from asyncsched.errors import ConflictError, NotFoundError, SchedulerError, UnavailableError
from asyncsched.logs.backoff import Backoff
from asyncsched.schedulers.kubernetes import lookup_paths as paths
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.client import LARGE_BODY, KubeClient
from asyncsched.schedulers.kubernetes.errors import BACKEND, failure_of
from asyncsched.schedulers.kubernetes.request import KubernetesBodies, release_patch
from asyncsched.schedulers.kubernetes.status_jobs import JobRecord, Kind, job_record
from asyncsched.schedulers.kubernetes.status_pods import items, section, text
from asyncsched.schedulers.request_checks import other_app
from asyncsched.specs.secret import Secret, reveal

__all__ = ["BACKGROUND", "KubernetesSubmission", "unhurried", "validate"]

ResultT = TypeVar("ResultT")

BACKGROUND: Mapping[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
"""Delete the pods too: by default a Job's pods would stay."""
SUBMIT = "asyncsched/submit"
"""Annotation of a job: a token of the submit that created it, as opposed to another submit of the same app."""
MERGE_PATCH = "application/merge-patch+json"
STRICT = {"fieldValidation": "Strict"}
"""Refuse unknown fields by name instead of dropping them."""
AT_ONCE = 8
SMALL = 50
"""The request of an app with up to this many tasks is made without a thread."""
_LOOKS = (0.1, 0.5, 1.0)
"""Seconds between checks for a job whose request was not answered; it may still be in flight."""
RELEASE_PAUSES = (0.05, 0.2, 0.5, 1.0)
"""Seconds between the tries to release a job that others, such as its controller, write at the same time."""


class KubernetesSubmission:
    """The submit of one app.

    The first job is created first, then the objects that it owns. A job that owns others is created suspended and
    released last. Deleting the first job makes garbage collection remove the rest.

    Args:
        client: The client of the cluster.
        wire: The request bodies.
        kind: The kind of job.
        app_id: The app's id.
        digest: The digest of the request.
        released_last: Whether the job stays suspended until all objects exist.
        clock: The time source.
        retry_for: Seconds for which to retry.
    """

    def __init__(
        self,
        client: KubeClient,
        wire: KubernetesBodies,
        *,
        kind: Kind,
        app_id: str,
        digest: str,
        released_last: bool,
        clock: Clock,
        retry_for: float,
    ) -> None:
        self._client, self._wire, self._clock = client, wire, clock
        self._is_large = wire.size >= LARGE_BODY
        self._kind: Kind = kind
        self._app_id, self._digest, self._released_last = app_id, digest, released_last
        self._path = paths.job(wire.namespace, kind, wire.name)
        self._retry_for = retry_for
        self._token = secrets.token_hex(8)
        self._is_open = False  # a request was sent and its outcome is unknown
        self._is_made = False

    async def send(self, request: object = None) -> None:
        """Create the missing objects of the app, and start it.

        Args:
            request: Where the secrets are that are removed from errors: a webhook that refuses an object may quote it.

        Raises:
            ConflictError: Another app or object has its name.
            SchedulerError: The server refuses it.
        """
        try:
            await self._send()
        except SchedulerError as error:
            _hide(error, {*_secrets_of(request)})
            raise

    async def _send(self) -> None:
        job = await self._create_job()
        if self._wire.others:
            bodies = self._wire.owned(job.uid)
            await gather_bounded(lambda body: self._create_other(body, job.uid), bodies, AT_ONCE)
        if self._released_last and job.suspended:
            await self._release(job)

    async def undo(self) -> None:
        """Delete the job that `send` created, and with it the objects that it owns."""
        if not (self._is_made or self._is_open):
            return
        for pause in (*_LOOKS, 0.0):
            try:
                there = (await self._client.request("GET", self._path, operation="submit")).json
            except NotFoundError:
                there = None
            if there is not None:
                if self._is_mine(there):
                    await self._delete(text(section(there, "metadata").get("uid")))
                return
            if not self._is_open:
                return
            await self._clock.sleep(pause)

    async def _delete(self, uid: str) -> None:
        body = {**BACKGROUND, "preconditions": {"uid": uid}}
        try:
            await self._client.request("DELETE", self._path, body=body, idempotent=True, operation="submit")
        except (NotFoundError, ConflictError):
            return  # it is gone

    async def _create_job(self) -> JobRecord:
        """Create the job, or return the existing one if it is the same."""
        path = paths.jobs(self._wire.namespace, self._kind)
        backoff = Backoff(self._clock, retry_for=self._retry_for, shortest=0.25)
        while True:
            try:
                self._is_open = True
                answer = await self._client.request(
                    "POST", path, query=STRICT, body=self._marked(), is_large=self._is_large, operation="submit"
                )
                self._is_open, self._is_made = False, True
                return self._read(answer.json)
            except UnavailableError as error:
                found = await self._looked_up()  # the job may have been created
                pause = 0.0 if found is not None else backoff.failed(error)
            except ConflictError as error:
                found = await self._existing(error)
                pause = 0.0 if found is not None else backoff.failed(_removed(error))
            except SchedulerError:
                self._is_open = False
                raise
            if found is not None:
                self._is_open, self._is_made = False, True
                return found
            await self._clock.sleep(pause)

    def _marked(self) -> dict[str, Any]:
        """Return the job's body with the token of this submit."""
        metadata = self._wire.job["metadata"]
        annotations = {**metadata.get("annotations", {}), SUBMIT: self._token}
        return {**self._wire.job, "metadata": {**metadata, "annotations": annotations}}

    def _is_mine(self, raw: object) -> bool:
        return section(section(raw, "metadata"), "annotations").get(SUBMIT) == self._token

    async def _looked_up(self) -> JobRecord | None:
        """Return the job if an unanswered request created it; wait a little for it to appear."""
        for pause in (0.0, *_LOOKS):
            await self._clock.sleep(pause)
            found = await self._existing(None)
            if found is not None:
                return found
        return None

    async def _existing(self, conflict: ConflictError | None) -> JobRecord | None:
        try:
            answer = await self._client.request("GET", self._path, operation="submit")
        except NotFoundError:
            return None
        return self._checked(answer.json, conflict)

    def _checked(self, raw: object, conflict: ConflictError | None = None) -> JobRecord:
        """Return the job with the name; raise if it is not the job to submit, or was cancelled meanwhile."""
        record = job_record(raw, self._kind)
        if record is None or record.app != self._wire.name:
            raise self._taken("job", self._wire.name) from conflict
        if record.digest != self._digest:
            raise other_app(self._app_id, BACKEND) from conflict
        if record.cancelled and self._released_last and record.suspended:
            raise ConflictError(
                f"{self._app_id} was cancelled during its submit",
                fix="dry-run the app again to submit it with a new id",
                backend=BACKEND,
                operation="submit",
            ) from conflict
        return record

    def _read(self, raw: object) -> JobRecord:
        record = job_record(raw, self._kind)
        if record is None or not record.is_first:  # an admission webhook has removed asyncsched's labels
            raise SchedulerError(
                f"{self._app_id} was stored without the labels and annotations that identify it",
                why="an admission webhook of the cluster has removed them",
                fix=f"configure the webhook to keep those that begin with {names.APP.split('/')[0]}/",
                backend=BACKEND,
                operation="submit",
            )
        return record

    async def _create_other(self, body: Mapping[str, Any], owner: str) -> None:
        """Create an object that the job owns; it may exist from an interrupted submit."""
        is_service = body.get("kind") == "Service"
        space = self._wire.namespace
        path = paths.services(space) if is_service else paths.jobs(space, "job")
        try:
            await self._client.request(
                "POST",
                path,
                query=STRICT,
                body=body,
                is_large=self._is_large,
                idempotent=True,
                operation="submit",
            )
        except ConflictError as error:
            name = str(body["metadata"]["name"])
            found = await self._client.request("GET", f"{path}/{name}", operation="submit")
            owners = section(found.json, "metadata").get("ownerReferences")
            uids = [text(each.get("uid")) for each in items(owners)]
            if owner not in uids:
                raise self._taken("service" if is_service else "job", name) from error

    async def _release(self, job: JobRecord) -> None:
        """Start the job, unless it was cancelled meanwhile: a cancel suspends a job too."""
        for pause in (*RELEASE_PAUSES, None):
            answer = await self._client.request("GET", self._path, operation="submit")
            found = self._checked(answer.json)
            if not found.suspended:
                return  # the answer to an earlier try was lost
            seen = section(answer.json, "metadata").get("resourceVersion")
            patch = {**release_patch(), "metadata": {"uid": job.uid, "resourceVersion": seen}}
            try:
                await self._client.request(
                    "PATCH", self._path, body=patch, content_type=MERGE_PATCH, idempotent=True, operation="submit"
                )
                return
            except ConflictError:  # it was changed since it was read
                if pause is None or found.uid != job.uid:
                    raise
                await self._clock.sleep(pause)

    def _taken(self, what: str, name: str) -> ConflictError:
        return ConflictError(
            f"the namespace {self._wire.namespace} already has a {what} {name}",
            why="it does not belong to an asyncsched app",
            fix="dry-run the app again for a new id, or delete it with kubectl",
            backend=BACKEND,
            operation="submit",
        )


def _secrets_of(value: object) -> Iterator[str]:
    """Yield the secrets of a request in plain text."""
    if isinstance(value, Secret):
        yield reveal(value)
    elif isinstance(value, Mapping):
        for each in cast("Mapping[object, object]", value).values():
            yield from _secrets_of(each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _secrets_of(each)


def _hide(error: SchedulerError, secrets: Collection[str]) -> None:
    failure = failure_of(error)
    for secret in secrets:
        if secret and failure is not None and secret in failure.message:
            error.why = error.why.replace(secret, "***")
            failure.message = failure.message.replace(secret, "***")
            failure.args = (failure.code, failure.reason, failure.message)
            failure.details = {}


def _removed(error: ConflictError) -> SchedulerError:
    """Return a retryable error for a name that was taken and is free again."""
    again = UnavailableError("the job's name was still taken", why=error.why, backend=BACKEND, operation="submit")
    again.__cause__ = error
    return again


async def unhurried(make: Callable[[], ResultT], size: int) -> ResultT:
    """Call `make`, in a thread if the app is large, and return its result.

    Args:
        make: The function.
        size: How many replicas or tasks the app has.
    """
    return await asyncio.to_thread(make) if size > SMALL else make()


async def validate(client: KubeClient, wire: KubernetesBodies, kind: Kind) -> None:
    """Have the server and its admission webhooks check the requests; nothing is stored.

    Raises:
        SchedulerError: The server would refuse them.
    """
    query = {"dryRun": "All", **STRICT}
    path = paths.jobs(wire.namespace, kind)
    is_large = wire.size >= LARGE_BODY

    async def check(path: str, body: Mapping[str, Any]) -> None:
        await client.request(
            "POST", path, query=query, body=body, is_large=is_large, idempotent=True, operation="submit_dryrun"
        )

    await check(path, wire.job)
    others = [(body, paths.services if body.get("kind") == "Service" else _jobs) for body in wire.others]
    await asyncio.gather(*(check(where(wire.namespace), body) for body, where in others))


def _jobs(namespace: str) -> str:
    return paths.jobs(namespace, "job")
