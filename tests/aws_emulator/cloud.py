"""One account in one region: all of the emulator in one object, without a network."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable

from tests.aws_emulator import shapes
from tests.aws_emulator.batch import Batch
from tests.aws_emulator.definitions import Definitions
from tests.aws_emulator.errors import ApiError
from tests.aws_emulator.events import LogEvents
from tests.aws_emulator.lifecycle import Lifecycle, Runner, Task
from tests.aws_emulator.logs import Logs
from tests.aws_emulator.model import TERMINAL, Job, Json, Pace
from tests.aws_emulator.processes import run_process
from tests.aws_emulator.scripts import IMAGE, run_script
from tests.aws_emulator.timeline import Timeline
from tests.aws_emulator.traffic import DroppedError, Traffic


class Registries:
    """ECR's tokens; the registries themselves are moto's, or a real one of the tests."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def getauthorizationtoken(self, _: Json) -> Json:
        token = base64.b64encode(":".join(self._cloud.ecr_login).encode()).decode()
        return {"authorizationData": [{"authorizationToken": token, "proxyEndpoint": "https://localhost"}]}

    def createrepository(self, request: Json) -> Json:
        name = request["repositoryName"]
        self._cloud.repositories.add(name)
        return {"repository": {"repositoryName": name}}


class Cloud:
    """The services, their data, and the knobs of tests.

    Args:
        clock: Where the time comes from; a test on virtual time gives its own.
        run_node: What runs the nodes whose image is not ``script``: processes, unless it is given.
    """

    def __init__(self, clock: Callable[[], float] = time.time, run_node: Runner = run_process) -> None:
        self.timeline = Timeline(clock)
        self.events = LogEvents()
        self.life = Lifecycle(self.timeline, self.events, self._run)
        self.definitions = Definitions()
        self.batch = Batch(self)
        self.traffic = Traffic(lambda: self.timeline.now)
        self.queues = {"default"}
        #: Queues with a fair-share policy, which want a shareIdentifier.
        self.fair_queues: set[str] = set()
        #: The user and the password that ECR's token stands for.
        self.ecr_login = "AWS", "password"
        #: The repositories that were made.
        self.repositories: set[str] = set()
        self._run_node = run_node
        self._services = {"batch": self.batch, "logs": Logs(self.events), "ecr": Registries(self)}

    @property
    def pace(self) -> Pace:
        return self.life.pace

    @property
    def jobs(self) -> list[Job]:
        return list(self.batch.jobs.values())

    def has_queue(self, name: str) -> bool:
        return name in self.queues

    def handles(self, service: str, operation: str) -> bool:
        return hasattr(self._services.get(service), operation)

    def call(self, service: str, operation: str, request: Json, key: str = "") -> Json:
        """Do an operation (its name in lower case), as the service would.

        Raises:
            ApiError: The service refuses.
            DroppedError: The connection is cut; the operation may have taken effect.
        """
        model = shapes.operations(service)[operation]
        with self.timeline.lock:
            self.timeline.catch_up()
            fault = self.traffic.enter(service, model.name, key)
            shapes.check_request(model, request)
            if not operation.startswith(("describe", "list", "get", "filter")):
                self.timeline.happened += 1
            answer: Json = getattr(self._services[service], operation)(request)
            self.traffic.problems += shapes.problems(model, answer)
        if fault:
            if fault.kind == "garbage":
                raise ApiError("garbage", "half an answer", 200)
            raise DroppedError(resets=fault.kind == "reset_after")
        return answer

    def purge(self, job_id: str) -> None:
        """Forget a job, as the service does some days after its end."""
        with self.timeline.lock:
            del self.batch.jobs[job_id]
            self.timeline.happened += 1

    def stop_everything(self) -> None:
        """Stop every node, so that no process or container outlives a test."""
        with self.timeline.lock:
            self.timeline.catch_up()
            for job in self.jobs:
                for node in (node for each in (job, *job.children) for node in each.nodes.values()):
                    if node.current and job.status not in TERMINAL:
                        node.current.stop()

    def _run(self, task: Task) -> Callable[[], None]:
        if task.container["image"] == IMAGE:
            return run_script(self.timeline, task)
        return self._run_node(task)
