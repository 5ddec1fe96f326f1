"""The operations of AWS Batch that concern jobs."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tests.aws_emulator import render
from tests.aws_emulator.definitions import check_environment, task_containers
from tests.aws_emulator.errors import client_error
from tests.aws_emulator.model import Job, Json, Node, arn, merge_container, new_id, node_range

if TYPE_CHECKING:
    from tests.aws_emulator.cloud import Cloud

MAX_SUBMIT = 30 * 1024
MAX_OVERRIDES = 8192
MAX_TAGS = 50


class Batch:
    """Each operation is a method of the same name in lower case: request in, answer out."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self.jobs: dict[str, Job] = {}
        self._order = 0
        #: How often each status was listed.
        self.listed: Counter[str] = Counter()
        #: Give an empty page with a token before the first one of each list.
        self.sparse = False
        #: Refuse every token that has been given out so far.
        self._generation = 0
        #: Pages of lists, and what had happened by then: ten thousand quiet jobs are rendered once.
        self._pages: dict[str, tuple[int, Json]] = {}

    def createjobqueue(self, request: Json) -> Json:
        name = request["jobQueueName"]
        self._cloud.queues.add(name)
        if "schedulingPolicyArn" in request:
            self._cloud.fair_queues.add(name)
        return {"jobQueueName": name, "jobQueueArn": arn("job-queue", name)}

    def describejobqueues(self, request: Json) -> Json:
        wanted = [identifier.rsplit("/", 1)[-1] for identifier in request.get("jobQueues", self._cloud.queues)]
        rows = [
            {
                "jobQueueName": name,
                "jobQueueArn": arn("job-queue", name),
                "state": "ENABLED",
                "status": "VALID",
                "priority": 1,
                "computeEnvironmentOrder": [],
            }
            for name in sorted(wanted)
            if self._cloud.has_queue(name)
        ]
        start = int(request.get("nextToken", 0))
        end = start + min(request.get("maxResults", 100), 100)
        answer: Json = {"jobQueues": rows[start:end]}
        if end < len(rows):
            answer["nextToken"] = str(end)
        return answer

    def registerjobdefinition(self, request: Json) -> Json:
        return self._cloud.definitions.register(request)

    def deregisterjobdefinition(self, request: Json) -> Json:
        self._cloud.definitions.deregister(request["jobDefinition"])
        return {}

    def describejobdefinitions(self, request: Json) -> Json:
        return self._cloud.definitions.describe(request)

    def submitjob(self, request: Json) -> Json:
        queue = self._queue(request["jobQueue"])
        definition = self._cloud.definitions.for_submit(request["jobDefinition"])
        if len(json.dumps(request).encode()) > MAX_SUBMIT:
            raise client_error("SubmitJob request exceeds the 30 KiB limit")
        fair = queue in self._cloud.fair_queues
        if fair != ("shareIdentifier" in request):
            need = "requires" if fair else "does not support"
            raise client_error(f"Job queue {queue} {need} a shareIdentifier (scheduling policy)")
        job = self._new(request, queue, definition, new_id())
        size = request.get("arrayProperties", {}).get("size")
        for index in range(size or 0):
            child = self._new(request, queue, definition, f"{job.id}:{index}")
            child.array_index = index
            job.children.append(child)
        depends = [self.find(row["jobId"])[0] for row in request.get("dependsOn", ()) if "jobId" in row]
        for each in job.children or [job]:
            if _overrides_are_too_long(request):
                self._cloud.life.refuse(each, "Container Overrides length must be at most 8192")
            elif depends:
                self._cloud.life.depend(each, [other for other in depends if other])
            else:
                self._cloud.life.submit(each)
        return {"jobName": job.name, "jobId": job.id, "jobArn": job.arn}

    def describejobs(self, request: Json) -> Json:
        ids = request["jobs"]
        if not ids:
            raise client_error("jobs cannot be empty")
        if len(ids) > 100:
            raise client_error("Maximum number of jobs supported is  100")
        rows = []
        for identifier in dict.fromkeys(ids):
            job, node = self.find(identifier)
            if job is not None:
                _fold(job)
                rows.append(render.detail(job) if node is None else render.node_detail(job, node))
        return {"jobs": rows}

    def listjobs(self, request: Json) -> Json:
        self.listed[request.get("jobStatus", "RUNNING")] += 1
        selectors = [key for key in ("jobQueue", "arrayJobId", "multiNodeJobId") if key in request]
        if len(selectors) != 1:
            raise client_error("Exactly one of jobQueue, arrayJobId, multiNodeJobId must be specified")
        filters = request.get("filters", [])
        if len(filters) > 1:
            raise client_error("Only one filter key-value pair can be specified.")
        if selectors == ["multiNodeJobId"]:
            return {"jobSummaryList": list(self._nodes(request))}
        cap = 100 if filters else 1000
        page = min(request.get("maxResults", cap), cap)
        key = json.dumps(request)
        happened, answer = self._pages.get(key, (-1, {}))
        if happened == self._cloud.timeline.happened:
            return answer
        if self.sparse and "nextToken" not in request:
            return {"jobSummaryList": [], "nextToken": self._token(self._order + 1)}
        before = self._place(request.get("nextToken", self._token(self._order + 1)))
        ahead = (job for job in self._chosen(request, filters) if job.order < before)
        shown = list(itertools.islice(ahead, page))
        answer = {"jobSummaryList": [_listed(job, filters) for job in shown]}
        if next(ahead, None) is not None:
            answer["nextToken"] = self._token(shown[-1].order)
        self._pages[key] = self._cloud.timeline.happened, answer
        return answer

    def _token(self, order: int) -> str:
        return f"{self._generation}/{order}"

    def _place(self, token: str) -> int:
        generation, _, order = token.partition("/")
        if generation != str(self._generation):
            raise client_error("Invalid nextToken")
        return int(order)

    def tagresource(self, request: Json) -> Json:
        job = self._tagged(request)
        job.tags = _checked_tags({**job.tags, **request["tags"]})
        return {}

    def listtagsforresource(self, request: Json) -> Json:
        return {"tags": dict(self._tagged(request).tags)}

    def _tagged(self, request: Json) -> Job:
        job, _ = self.find(request["resourceArn"])
        if job is None:
            raise client_error(f"{request['resourceArn']} can not be found.")
        return job

    def terminatejob(self, request: Json) -> Json:
        job, _ = self.find(request["jobId"])
        if job is not None:
            self._cloud.life.stop(job, request["reason"])
        return {}

    def canceljob(self, request: Json) -> Json:
        job, _ = self.find(request["jobId"])
        if job is not None:
            self._cloud.life.cancel(job, request["reason"])
        return {}

    def terminatejobs(self, request: Json) -> Json:
        return self._bulk(request, self.terminatejob)

    def canceljobs(self, request: Json) -> Json:
        return self._bulk(request, self.canceljob)

    def expire_tokens(self) -> None:
        self._generation += 1
        self._pages.clear()

    def next_order(self) -> int:
        """Return a number for a job that is higher than those of all before it."""
        self._order += 1
        return self._order

    def find(self, identifier: str) -> tuple[Job | None, Node | None]:
        """A job by id, child id (``#node``, ``:index``) or ARN."""
        identifier = identifier.split(":job/", 1)[-1]
        base, _, number = identifier.partition("#")
        job = self.jobs.get(base)
        if job is None and ":" in base:
            parent = self.jobs.get(base.rpartition(":")[0])
            children = parent.children if parent else []
            job = next((child for child in children if child.id == base), None)
        if job is None or not number:
            return job, None
        node = job.nodes.get(int(number)) if number.isdigit() and job.multinode else None
        return (job, node) if node else (None, None)

    def _queue(self, identifier: str) -> str:
        name = identifier.rsplit("/", 1)[-1]
        if not self._cloud.has_queue(name):
            raise client_error(f"Job queue {identifier} can not be found.")
        return name

    def _new(self, request: Json, queue: str, definition: Json, identifier: str) -> Job:
        nodes, main = _node_containers(definition, request)
        timeout = request.get("timeout") or definition.get("timeout")
        if timeout and timeout["attemptDurationSeconds"] < 60:
            raise client_error("attemptDurationSeconds must be at least 60 seconds")
        job = Job(
            id=identifier,
            name=request["jobName"],
            queue=queue,
            definition=definition,
            nodes={index: Node(index, container) for index, container in nodes.items()},
            created=self._cloud.timeline.now_ms,
            order=self.next_order(),
            main=main,
            retry=request.get("retryStrategy") or definition.get("retryStrategy") or {},
            timeout=timeout,
            tags=_checked_tags(request.get("tags", {})),
            parameters={**definition.get("parameters", {}), **request.get("parameters", {})},
            depends_on=request.get("dependsOn", []),
            share=request.get("shareIdentifier"),
            priority=request.get("schedulingPriorityOverride", definition.get("schedulingPriority")),
        )
        if ":" not in identifier:
            self.jobs[identifier] = job
        return job

    def _nodes(self, request: Json) -> Iterator[Json]:
        job, _ = self.find(request["multiNodeJobId"])
        for node in job.nodes.values() if job else ():
            row = render.node_summary(job, node)  # type: ignore[arg-type] # there are nodes of a job only
            if row["status"] == request.get("jobStatus", "RUNNING"):
                yield row

    def _chosen(self, request: Json, filters: list[Json]) -> Iterator[Job]:
        status = request.get("jobStatus", "RUNNING")
        if "arrayJobId" in request:
            parent = self.jobs.get(request["arrayJobId"])
            jobs = iter(parent.children if parent else ())
            return (job for job in jobs if job.status == status)
        queue = self._queue(request["jobQueue"])
        newest = (job for job in reversed(self.jobs.values()) if job.queue == queue)
        for job in self.jobs.values():
            _fold(job)
        if not filters:
            return (job for job in newest if job.status == status)
        name, values = filters[0]["name"], filters[0]["values"]
        if name not in _FILTERS:
            raise client_error(f"Unknown filter {name}")
        test = _FILTERS[name]
        return (
            job
            for job in newest
            if any(test(job, value) for value in values)
            and (name != "SHARE_IDENTIFIER" or "jobStatus" not in request or job.status == status)
        )

    def _bulk(self, request: Json, single: Callable[[Json], Json]) -> Json:
        ids = request["jobs"]
        if len(ids) > 50:
            raise client_error("Maximum number of jobs supported is 50")
        known = [identifier for identifier in ids if self.find(identifier)[0]]
        for identifier in known:
            single({"jobId": identifier, "reason": request["reason"]})
        missing = [identifier for identifier in ids if identifier not in known]
        errors = [{"job": identifier, "code": "JOB_NOT_FOUND", "message": "not found"} for identifier in missing]
        return {"successful": known, "errors": errors}


def _listed(job: Job, filters: list[Json]) -> Json:
    row = render.summary(job)
    if filters and filters[0]["name"] == "JOB_NAME":
        row.pop("startedAt", None)  # Seen on the real service, and reported as boto3 #3315.
    return row


def _like(pattern: str, value: str) -> bool:
    return value.startswith(pattern[:-1]) if pattern.endswith("*") else value == pattern


def _of_definition(job: Job, pattern: str) -> bool:
    definition = job.definition
    if pattern.startswith("arn:"):
        return bool(definition["jobDefinitionArn"] == pattern)
    return _like(pattern, definition["jobDefinitionName"])


_FILTERS: dict[str, Callable[[Job, str], bool]] = {
    "JOB_NAME": lambda job, value: _like(value.lower(), job.name.lower()),
    "JOB_DEFINITION": _of_definition,
    "AFTER_CREATED_AT": lambda job, value: job.created > int(value),
    "BEFORE_CREATED_AT": lambda job, value: job.created < int(value),
    "SHARE_IDENTIFIER": lambda job, value: job.share == value,
}


def _fold(job: Job) -> None:
    """An array's parent is PENDING until every child has ended, and fails with any of them."""
    if not job.children or job.over:
        return
    states = {child.status for child in job.children}
    if states <= {"SUCCEEDED", "FAILED"}:
        job.status = "FAILED" if "FAILED" in states else "SUCCEEDED"
        job.stopped = max(child.stopped or 0 for child in job.children)
    else:
        job.status = "PENDING"


def _node_containers(definition: Json, request: Json) -> tuple[dict[int, Json], int]:
    """Each node's container with the overrides of this submit, and the main node's index."""
    if definition["type"] != "multinode":
        if "nodeOverrides" in request:
            raise client_error("nodeOverrides are for multi-node job definitions only")
        if containers := task_containers(definition):
            return {0: _task_container(containers, request)}, 0
        if "ecsPropertiesOverride" in request:
            raise client_error("ecsPropertiesOverride are for job definitions with ecsProperties only")
        overrides = request.get("containerOverrides", {})
        _check_overrides(overrides)
        return {0: merge_container(definition.get("containerProperties", {}), overrides)}, 0
    if "containerOverrides" in request:
        raise client_error("containerOverrides are not supported for multi-node jobs; use nodeOverrides")
    properties = definition["nodeProperties"]
    overrides = request.get("nodeOverrides", {})
    total = overrides.get("numNodes", properties["numNodes"])
    nodes: dict[int, Json] = {}
    for row in properties["nodeRangeProperties"]:
        nodes |= dict.fromkeys(node_range(row["targetNodes"], total), row["container"])
    for row in overrides.get("nodePropertyOverrides", ()):
        _check_overrides(row.get("containerOverrides", {}))
        for index in node_range(row["targetNodes"], total):
            if index not in nodes:
                raise client_error(f"nodePropertyOverrides name node {index}, which the job does not have")
            nodes[index] = merge_container(nodes[index], row.get("containerOverrides", {}))
    return nodes, properties["mainNode"]


def _task_container(containers: list[Json], request: Json) -> Json:
    """The one container of a task, which is all that runs here, with the overrides of this submit."""
    if "containerOverrides" in request:
        raise client_error("containerOverrides are not supported for ecsProperties; use ecsPropertiesOverride")
    if len(containers) != 1:
        raise client_error("this emulator runs tasks of one container")
    (container,) = containers
    for task in request.get("ecsPropertiesOverride", {}).get("taskProperties", ()):
        for override in task["containers"]:
            if override["name"] != container["name"]:
                raise client_error(f"there is no container {override['name']}")
            _check_overrides(override)
            container = merge_container(container, override)
    return container


def _overrides_are_too_long(request: Json) -> bool:
    """What ECS says when a job is to start, which Batch does not look at when it is submitted."""
    nodes = request.get("nodeOverrides", {}).get("nodePropertyOverrides", ())
    tasks = request.get("ecsPropertiesOverride", {}).get("taskProperties", ())
    overrides = [request.get("containerOverrides", {}), *(row.get("containerOverrides", {}) for row in nodes), *tasks]
    return any(len(json.dumps(each)) > MAX_OVERRIDES for each in overrides)


def _checked_tags(tags: Json) -> Json:
    if len(tags) > MAX_TAGS:
        raise client_error(f"Maximum number of tags is {MAX_TAGS}")
    return dict(tags)


def _check_overrides(overrides: Json) -> None:
    check_environment(overrides)
    if "" in overrides.get("command", ()):
        raise client_error("Container overrides' command must not contain an empty string")
