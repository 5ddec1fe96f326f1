"""The trimmed schemas are those that were published, and the checker refuses what the server refuses."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes_schemas.check import columns_of, faults, faults_of, names
from tests.kubernetes_schemas.make import FILES, MODULES, find_module, made_from

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "x"},
    "spec": {"containers": [{"name": "main", "image": "a", "resources": {"limits": {"cpu": "100m", "memory": 5}}}]},
}
GOLDEN = Path(__file__).parents[1] / "kubernetes" / "golden" / "volcano_two_roles.json"


@pytest.mark.parametrize("name", FILES)
def test_they_are_what_the_modules_hold(name: str) -> None:
    try:
        module = find_module(name)
    except (FileNotFoundError, OSError) as error:
        pytest.skip(f"the module is not in Go's cache: {error}")

    assert made_from(name, module) == FILES[name].read_text()


@pytest.mark.parametrize("name", FILES)
def test_each_says_where_it_is_from(name: str) -> None:
    about = json.loads(FILES[name].read_text())[""]

    assert (*MODULES[name], "Apache-2.0") == (about["module"], about["version"], about["licence"])


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (["foo"], 1, 'unknown field "foo"'),
        (["spec", "containers", 0, "foo"], 1, 'unknown field "spec.containers[0].foo"'),
        (["spec", "containers", 0, "name"], None, "spec.containers[0].name: is required"),
        (["spec", "containers"], {}, "spec.containers: must be an array"),
        (["spec", "restartPolicy"], 1, "spec.restartPolicy: must be a string"),
        (["spec", "activeDeadlineSeconds"], 1.5, "spec.activeDeadlineSeconds: must be an integer"),
        (["spec", "hostNetwork"], "yes", "spec.hostNetwork: must be a boolean"),
        (["spec", "nodeSelector"], {"a": 1}, "spec.nodeSelector.a: must be a string"),
        (["spec", "containers", 0, "resources", "limits", "cpu"], "much", "must be a quantity"),
        (["metadata", "creationTimestamp"], "yesterday", "must be a time"),
        (["metadata", "nmae"], "x", 'unknown field "metadata.nmae"'),
        (["spec", "terminationGracePeriodSeconds"], 2**63, "is out of range"),
    ],
)
def test_what_is_wrong_with_a_pod(path: list[Any], value: object, fault: str) -> None:
    assert [] == faults(POD)
    pod: Any = copy.deepcopy(POD)
    owner = pod
    for step in path[:-1]:
        owner = owner[step]
    owner[path[-1]] = value

    assert fault in " ".join(faults(pod))


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (["spec", "tasks", 0, "name"], "Not_OK", "spec.tasks[0].name: should match"),
        (["spec", "tasks"], [], "spec.tasks: should have at least 1 items"),
        (["spec", "maxRetry"], -1, "spec.maxRetry: should be greater than or equal to 0"),
        (["spec", "policies"], [{"event": "Nosuch", "action": "AbortJob"}], "must be one of"),
        (["spec", "tasks", 0, "template", "spec", "foo"], 1, 'unknown field "spec.tasks[0].template.spec.foo"'),
        (["metadata", "lables"], {}, 'unknown field "metadata.lables"'),
    ],
)
def test_what_is_wrong_with_a_volcano_job(path: list[Any], value: object, fault: str) -> None:
    (job,) = json.loads(GOLDEN.read_text())
    assert [] == faults(job)
    owner = job
    for step in path[:-1]:
        owner = owner[step]
    owner[path[-1]] = value

    assert fault in " ".join(faults(job))


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "details": {"name": "x"}},
        {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"},
        {
            "kind": "Command",
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "metadata": {"generateName": "x-"},
            "action": "AbortJob",
            "target": {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "x", "uid": "u"},
        },
        {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [POD]},
    ],
)
def test_what_is_right(body: dict[str, Any]) -> None:
    assert [] == faults(body)


def test_what_is_not_known_is_a_fault() -> None:
    assert ["no kind 'Deployment' of 'apps/v1' is known here"] == faults(
        {"apiVersion": "apps/v1", "kind": "Deployment"}
    )
    assert ["is not an object"] == faults([])


def test_columns_of_a_table() -> None:
    columns = columns_of("batch.volcano.sh/v1alpha1/Job")

    assert ["STATUS", "minAvailable", "RUNNINGS", "AGE", "QUEUE"] == [column["name"] for column in columns]
    assert "io.k8s.apimachinery.pkg.version.Info" in names()
    assert [] == faults_of(
        "io.k8s.apimachinery.pkg.version.Info",
        dict.fromkeys(
            (
                "major",
                "minor",
                "gitVersion",
                "gitCommit",
                "gitTreeState",
                "buildDate",
                "goVersion",
                "compiler",
                "platform",
            ),
            "x",
        ),
    )
