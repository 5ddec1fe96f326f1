"""The overlay: what is merged and how, what is refused, and what a dry-run shows of it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import RunOptionError
from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.schedulers.kubernetes.request import KubernetesJob, make_request
from asyncsched.schedulers.kubernetes.request_overlay import differences, overlaid, read_overlay
from asyncsched.specs import AppDef, Role

APP = AppDef(
    "app",
    [
        Role("trainer", "alpine", entrypoint="sh", env={"A": "1"}, num_replicas=2),
        Role("ps", "alpine", entrypoint="sh"),
    ],
)


def make(overlay: object, kind: str = "volcano", **more: Any) -> KubernetesJob:
    text = overlay if isinstance(overlay, str) else json.dumps(overlay)
    options = KubernetesOpts(queue="q" if kind == "volcano" else None, overlay=text, **more)
    return make_request(APP, "default:x", options, kind=kind, session="s", version="1")  # type: ignore[arg-type]


def pods(job: KubernetesJob) -> list[dict[str, Any]]:
    return [task["template"] for task in job.resource["spec"]["tasks"]]


def test_one_patch_is_for_all_roles_and_one_for_a_role_comes_after_it() -> None:
    for_all = make({"spec": {"dnsPolicy": "Default"}})
    each = make({"*": {"spec": {"dnsPolicy": "Default"}}, "ps": {"spec": {"dnsPolicy": "None"}}})

    assert ["Default", "Default"] == [pod["spec"]["dnsPolicy"] for pod in pods(for_all)]
    assert ["Default", "None"] == [pod["spec"]["dnsPolicy"] for pod in pods(each)]


def test_lists_are_merged_by_what_their_items_are_known_by() -> None:
    job = make(
        {
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
                        "volumeMounts": [{"mountPath": "/dev/shm", "name": "dshm", "subPath": "x"}],
                        "ports": [{"containerPort": 1}],
                    },
                    {"name": "proxy", "image": "envoy"},
                ],
                "volumes": [{"name": "dshm", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "tmp", "emptyDir": {}}],
                "tolerations": [{"key": "a", "effect": "NoSchedule", "operator": "Exists"}],
            }
        },
        tolerations=["a:NoSchedule", "a:NoExecute"],
    )
    spec = pods(job)[0]["spec"]
    main, proxy = spec["containers"]

    assert ("main", "proxy", "alpine") == (main["name"], proxy["name"], main["image"])
    assert {"A": "2", "B": "3"}.items() <= {each["name"]: each["value"] for each in main["env"]}.items()
    assert [{"name": "dshm", "mountPath": "/dev/shm", "subPath": "x"}] == main["volumeMounts"]
    assert {"medium": "Memory", "sizeLimit": "1Gi"} == spec["volumes"][0]["emptyDir"]
    assert ["dshm", "tmp"] == [volume["name"] for volume in spec["volumes"]]
    assert ["NoSchedule", "NoExecute"] == [each["effect"] for each in spec["tolerations"]]


def test_null_deletes_and_other_lists_are_replaced() -> None:
    job = make(
        {
            "metadata": {"annotations": {"sidecar.istio.io/inject": None}},
            "spec": {"nodeSelector": None, "volumes": None, "imagePullSecrets": [{"name": "b"}]},
        },
        node_selector={"a": "b"},
        image_secret="a",
    )
    pod = pods(job)[0]

    assert "sidecar.istio.io/inject" not in pod["metadata"]["annotations"]
    assert not {"nodeSelector", "volumes"} & pod["spec"].keys()
    assert [{"name": "b"}] == pod["spec"]["imagePullSecrets"]


def test_an_init_container_leaves_the_end_of_its_log() -> None:
    job = make(
        {
            "spec": {
                "initContainers": [
                    {"name": "fetch", "image": "a"},
                    {"name": "b", "image": "b", "terminationMessagePolicy": "File"},
                ]
            }
        }
    )
    init = pods(job)[0]["spec"]["initContainers"]

    assert ["FallbackToLogsOnError", "File"] == [each["terminationMessagePolicy"] for each in init]


@pytest.mark.parametrize(
    ("overlay", "words"),
    [
        ("{", "overlay must be JSON"),
        ("[]", "overlay must be a JSON object"),
        ({"nosuch": {}}, "the overlay has 'nosuch', which is neither a role nor a field of a pod"),
        ({"ps": 1}, "the overlay of 'ps' must be an object"),
        ({"ps": {"status": {}}}, "of 'ps' has 'status', which is not a field of a pod"),
        ({"spec": []}, "spec must be an object"),
        ({"spec": None}, "deletes spec"),
        ({"metadata": None}, "deletes metadata"),
        ({"spec": {"containers": {}}}, "containers must be a list"),
        ({"metadata": {"name": "x"}}, "sets metadata.name"),
        ({"metadata": {"labels": None}}, "deletes metadata.labels"),
        ({"metadata": {"labels": {"asyncsched/app": "x"}}}, "sets metadata.labels.asyncsched/app"),
        ({"metadata": {"labels": {"volcano.sh/task-index": None}}}, "sets metadata.labels.volcano.sh/task-index"),
        (
            {"metadata": {"labels": {"app.kubernetes.io/instance": "x"}}},
            "sets metadata.labels.app.kubernetes.io/instance",
        ),
        ({"ps": {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}}}, "app.kubernetes.io/managed-by"),
        (
            {"spec": {"containers": [{"name": "main", "restartPolicy": "Always"}]}},
            "sets restartPolicy of container 'main'.*retry_policy",
        ),
        (
            {"spec": {"containers": [{"name": "main", "terminationMessagePath": "/x"}]}},
            "sets terminationMessagePath of container 'main'.*ASYNCSCHED_RESULT_FILE",
        ),
        ({"kind": "Job", "spec": {}}, "sets kind.*Pod"),
        ({"ps": {"apiVersion": "batch/v1"}}, "of 'ps' sets apiVersion.*v1"),
        (
            {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "x"}}},
            "sets metadata.annotations.scheduling.k8s.io/group-name",
        ),
        ({"spec": {"restartPolicy": "Always"}}, "sets spec.restartPolicy.*retry_policy"),
        ({"spec": {"schedulerName": "mine"}}, "sets spec.schedulerName.*Volcano schedules"),
        ({"spec": {"hostname": "x"}}, "sets spec.hostname"),
        ({"spec": {"containers": None}}, "deletes spec.containers.*main"),
        ({"spec": {"containers": [{"image": "x"}]}}, "in spec.containers an item without its name"),
        ({"spec": {"containers": [{"name": "main", "env": [{"value": "x"}]}]}}, "in env of container 'main'"),
        ({"spec": {"containers": [{"name": "main", "env": ["x"]}]}}, "in env of container 'main'"),
        ({"spec": {"initContainers": [{"name": "main"}]}}, "names an init container main"),
        ({"spec": {"containers": [{"name": "main", "env": None}]}}, "deletes env of container 'main'"),
        (
            {"ps": {"spec": {"containers": [{"name": "main", "env": [{"name": "TORCHX_RANK0_HOST", "value": "x"}]}]}}},
            "sets the variable TORCHX_RANK0_HOST of container 'main'",
        ),
        (
            {"spec": {"containers": [{"name": "main", "env": [{"name": "ASYNCSCHED_RESULT_FILE", "value": None}]}]}},
            "sets the variable ASYNCSCHED_RESULT_FILE of container 'main'",
        ),
        (
            {"spec": {"containers": [{"name": "main", "env": [{"name": "ASYNCSCHED_REPLICA_INDEX"}]}]}},
            "sets the variable ASYNCSCHED_REPLICA_INDEX of container 'main'",
        ),
    ],
)
def test_what_is_not_the_users_is_refused_by_name(overlay: object, words: str) -> None:
    with pytest.raises(RunOptionError, match=words) as raised:
        make(overlay)
    assert "overlay" == raised.value.key


@pytest.mark.parametrize("kind", ["volcano", "job"])
def test_the_command_of_the_main_container_is_the_users_and_a_change_of_it_is_shown(kind: str) -> None:
    job = make({"ps": {"spec": {"containers": [{"name": "main", "command": ["env"], "args": ["-0"]}]}}}, kind)
    template = pods(job)[1] if kind == "volcano" else job.others[1]["spec"]["template"]
    (main,) = template["spec"]["containers"]

    assert (["env"], ["-0"]) == (main["command"], main["args"])
    assert [
        'ps: ~ spec.containers[main].command: ["sh"] -> ["env"]',
        'ps: + spec.containers[main].args: ["-0"]',
    ] == job.overlay


def test_a_whole_manifest_of_a_pod_is_taken() -> None:
    make({"apiVersion": "v1", "kind": "Pod", "spec": {"priority": 1}})


def test_variables_of_other_containers_are_the_users() -> None:
    env = [{"name": "TORCHX_RANK0_HOST", "value": "x"}]
    job = make({"spec": {"containers": [{"name": "main", "image": "a"}, {"name": "beside", "env": env}]}})

    assert env == pods(job)[0]["spec"]["containers"][1]["env"]


def test_a_job_without_volcano_may_have_another_scheduler() -> None:
    job = make({"spec": {"schedulerName": "mine"}}, kind="job")

    assert "mine" == job.resource["spec"]["template"]["spec"]["schedulerName"]


def test_a_dry_run_shows_what_it_has_changed() -> None:
    job = make(
        {
            "ps": {
                "metadata": {"annotations": {"sidecar.istio.io/inject": None}},
                "spec": {
                    "nodeSelector": {"a": "b"},
                    "containers": [
                        {"name": "main", "image": "busybox", "env": [{"name": "API_TOKEN", "value": "not-shown"}]}
                    ],
                },
            }
        }
    )

    assert [
        'ps: - metadata.annotations.sidecar.istio.io/inject: "false"',
        'ps: ~ spec.containers[main].image: "alpine" -> "busybox"',
        'ps: + spec.containers[main].env[API_TOKEN]: {"name": "API_TOKEN", "value": "***"}',
        'ps: + spec.nodeSelector: {"a": "b"}',
    ] == job.overlay
    assert "not-shown" not in repr(job)


def test_both_kinds_take_it() -> None:
    job = make({"ps": {"spec": {"dnsPolicy": "None"}}}, "job")

    first, second = job.resource, job.others[1]
    assert (None, "None") == tuple(each["spec"]["template"]["spec"].get("dnsPolicy") for each in (first, second))


PATCHES = st.recursive(
    st.none() | st.integers(0, 3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: isinstance(value, dict))


@given(PATCHES, PATCHES)
def test_a_merge_is_that_of_rfc_7396_and_changes_nothing_it_is_given(base: Any, patch: Any) -> None:
    def merged(target: Any, change: Any) -> Any:
        if not isinstance(change, dict):
            return change
        result = dict(target) if isinstance(target, dict) else {}
        for key, value in change.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = merged(result.get(key), value)
        return result

    before = copy.deepcopy((base, patch))
    after = overlaid({"spec": base}, [{"spec": patch}])

    assert merged({"spec": base}, {"spec": patch}) == after
    assert before == (base, patch)
    assert (after == {"spec": base}) == (differences({"spec": base}, after) == [])


def test_without_an_overlay_nothing_is_merged() -> None:
    assert {"a": [], "b": []} == read_overlay(None, ["a", "b"])
