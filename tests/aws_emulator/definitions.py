"""Job definitions: names, revisions, and what the service refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tests.aws_emulator.errors import ApiError, client_error
from tests.aws_emulator.model import Json, arn, node_range

MAX_BYTES = 24 * 1024


class Definitions:
    """Every revision of every definition; nothing is ever deleted."""

    def __init__(self) -> None:
        self.revisions: dict[str, list[Json]] = {}

    def register(self, request: Json) -> Json:
        name = request["jobDefinitionName"]
        _check(request)
        rows = self.revisions.setdefault(name, [])
        revision = len(rows) + 1
        row = {
            **request,
            "jobDefinitionArn": arn("job-definition", f"{name}:{revision}"),
            "revision": revision,
            "status": "ACTIVE",
            "containerOrchestrationType": "ECS",
        }
        rows.append(row)
        return {key: row[key] for key in ("jobDefinitionName", "jobDefinitionArn", "revision")}

    def deregister(self, identifier: str) -> None:
        row = self.find(identifier)
        if row is not None:
            row["status"] = "INACTIVE"

    def find(self, identifier: str) -> Json | None:
        """A revision by ARN, by ``name:revision``, or the newest active one by name."""
        name, _, revision = identifier.rsplit("/", 1)[-1].partition(":")
        rows = self.revisions.get(name, [])
        if revision:
            return next((row for row in rows if str(row["revision"]) == revision), None)
        return next((row for row in reversed(rows) if row["status"] == "ACTIVE"), None)

    def for_submit(self, identifier: str) -> Json:
        row = self.find(identifier)
        if row is None:
            raise client_error(f"JobDefinition {identifier} can not be found.")
        if row["status"] == "INACTIVE":
            raise client_error(f"JobDefinition {identifier} is INACTIVE.")
        return row

    def describe(self, request: Json) -> Json:
        rows = list(self._selected(request))
        start = int(request.get("nextToken", 0))
        end = start + min(request.get("maxResults", 100), 100)
        answer: Json = {"jobDefinitions": rows[start:end]}
        if end < len(rows):
            answer["nextToken"] = str(end)
        return answer

    def _selected(self, request: Json) -> Iterator[Json]:
        named, wanted = request.get("jobDefinitionName"), request.get("jobDefinitions")
        for name, rows in self.revisions.items():
            for row in reversed(rows):
                keys = {name, f"{name}:{row['revision']}", row["jobDefinitionArn"]}
                if named is not None and named != name:
                    continue
                if wanted is not None and not keys & set(wanted):
                    continue
                if request.get("status") in (None, row["status"]):
                    yield row


def _check(request: Json) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", request["jobDefinitionName"]):
        raise client_error("jobDefinitionName should match valid pattern")
    if len(json.dumps(request).encode()) > MAX_BYTES:
        raise client_error("Job definition size exceeds the 24 KiB limit")
    kind = request["type"]
    member = "nodeProperties" if kind == "multinode" else "containerProperties"
    if member not in request and not (kind == "container" and "ecsProperties" in request):
        raise client_error(f"{member} are required for type {kind}")
    containers = [request.get("containerProperties", {}), *task_containers(request)]
    if kind == "multinode":
        containers = _nodes(request)
    for container in containers:
        check_environment(container)
        _check_secrets(container, request)
    if "FARGATE" in request.get("platformCapabilities", ()):
        _check_fargate(request)
    if "MANAGED_INSTANCES" in request.get("platformCapabilities", ()):
        _check_managed(request)


def task_containers(definition: Json) -> list[Json]:
    """The containers of a definition by tasks: those that are not named by `containerProperties`."""
    tasks = definition.get("ecsProperties", {}).get("taskProperties", [])
    return [container for task in tasks for container in task["containers"]]


def _check_managed(request: Json) -> None:
    if request["type"] == "multinode":
        raise client_error("Multi-node parallel jobs are not supported on Amazon ECS Managed Instances")
    if "ecsProperties" not in request or "containerProperties" in request:
        raise client_error("MANAGED_INSTANCES job definitions must use ecsProperties")
    if "networkConfiguration" in request["ecsProperties"]["taskProperties"][0]:
        raise client_error("networkConfiguration is not applicable for MANAGED_INSTANCES")


def _nodes(request: Json) -> list[Json]:
    nodes = request["nodeProperties"]
    ranges = nodes["nodeRangeProperties"]
    if len(ranges) > 5:
        raise client_error("At most 5 node groups are supported")
    if not 0 < nodes["numNodes"] <= 1000:
        raise client_error("numNodes must be between 1 and 1000")
    covered = {k for row in ranges for k in node_range(row["targetNodes"], nodes["numNodes"])}
    if covered != set(range(nodes["numNodes"])):
        raise client_error("nodeRangeProperties must cover all nodes")
    if "FARGATE" in request.get("platformCapabilities", ()):
        raise client_error("Multi-node parallel jobs are not supported on Fargate")
    return [row["container"] for row in ranges if "container" in row]


def _check_fargate(request: Json) -> None:
    container = request["containerProperties"]
    if "executionRoleArn" not in container:
        raise client_error("executionRoleArn is required for Fargate jobs")
    for member in ("privileged", "instanceType", "ulimits"):
        if container.get(member):
            raise client_error(f"{member} is not applicable for Fargate")
    if any(row["type"] == "GPU" for row in container.get("resourceRequirements", ())):
        raise client_error("GPU is not supported on Fargate")


def _check_secrets(container: Json, request: Json) -> None:
    tasks = request.get("ecsProperties", {}).get("taskProperties", [{}])
    if container.get("secrets") and not (container.get("executionRoleArn") or tasks[0].get("executionRoleArn")):
        raise client_error(
            "When you are specifying container secrets, you must also specify a value for 'executionRoleArn'"
        )


def check_environment(container: Json) -> None:
    for row in container.get("environment", ()):
        if row["name"].startswith("AWS_BATCH"):
            raise ApiError("ClientException", "Environment variables cannot start with AWS_BATCH")
