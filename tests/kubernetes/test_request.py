"""Apps as objects: golden files, the published schemas, the peer's own output, and what is refused before any call."""

from __future__ import annotations

import copy
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched import specs
from asyncsched.errors import ConfigError, RunOptionError, UsageError
from asyncsched.schedulers._common.roles import left_out
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.names_note import read_note
from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.schedulers.kubernetes.request import KubernetesBodies, KubernetesJob, make_request, to_wire
from asyncsched.schedulers.kubernetes.request_by_hand import adopt
from asyncsched.schedulers.kubernetes.request_ignored import ignored_by
from asyncsched.schedulers.kubernetes.request_limits import MAX_BYTES, missing_queue
from asyncsched.schedulers.kubernetes.request_values import escaped
from asyncsched.schedulers.kubernetes.status import describe_app
from asyncsched.schedulers.kubernetes.status_jobs import Kind, job_record
from asyncsched.specs import AppDef, BindMount, Resource, RetryPolicy, Role, Secret, SecretRef, macros, named_resources
from asyncsched.specs.not_kept import NOT_KEPT, NotKept
from asyncsched.specs.secret import show_secrets
from tests.kubernetes.peer_apps import NAME, make_apps
from tests.kubernetes_schemas.check import faults

GOLDEN = Path(__file__).parent / "golden"
SMALL = Resource(cpu=1, gpu=0, memMB=2048)


def role(name: str = "main", **more: Any) -> Role:
    return Role(**{"name": name, "image": "alpine", "entrypoint": "echo", "resource": SMALL, **more})


def make(app: AppDef, kind: str = "volcano", app_id: str = "default:the-name", **options: Any) -> KubernetesJob:
    server = options.pop("server", (1, 34))
    chosen = KubernetesOpts(**({"queue": "test"} if kind == "volcano" else {}) | options)
    return make_request(app, app_id, chosen, kind=kind, session="session", version="1.2.3", server=server)  # type: ignore[arg-type]


def app(*roles: Role, **more: Any) -> AppDef:
    return AppDef("app", list(roles) or [role()], **more)


def wired(job: KubernetesJob, app_id: str = "default:the-name") -> KubernetesBodies:
    return to_wire(job, app_id, "the-digest")


def main_of(job: KubernetesJob, task: int = 0) -> dict[str, Any]:
    spec = job.resource["spec"]
    template = spec["tasks"][task]["template"] if "tasks" in spec else spec["template"]
    container: dict[str, Any] = template["spec"]["containers"][0]
    return container


def env_of(job: KubernetesJob, task: int = 0) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in main_of(job, task)["env"]}


DOCUMENTS = make_apps(specs)["documents"]
TWO_ROLES = app(
    role(
        "trainer",
        args=["--rank", macros.replica_id, "--meet", f"${{{macros.rank0_env}:-localhost}}"],
        num_replicas=4,
        min_replicas=2,
        port_map={"c10d": 29500},
    ),
    role("Reader_1", num_replicas=2, env={"HF_TOKEN": "not-shown", "POD": "[FIELD_PATH]status.podIP"}),
    metadata={"team": "vision"},
)
EFA = app(
    role(
        "trainer",
        image="train:1",
        num_replicas=2,
        max_retries=3,
        resource=named_resources["aws_p4d.24xlarge"],
        env={"KEY": SecretRef("login", "password")},
        mounts=[BindMount("/var/cache", "/cache", read_only=True)],
    )
)
RETRIED = app(
    role("worker", num_replicas=3, max_retries=2, retry_policy=RetryPolicy.REPLICA, env={"N": macros.replica_id})
)
EVERYTHING: dict[str, Any] = {
    "service_account": "robot",
    "priority_class": "high",
    "image_pull_policy": "Always",
    "image_secret": "registry",
    "node_selector": {"disk": "ssd"},
    "tolerations": ["nvidia.com/gpu:NoSchedule", "team=red"],
    "labels": {"example.com/cost": "42"},
    "annotations": {"example.com/note": "any text"},
    "grace_period": 2.5,
    "ttl": 3600,
    "timeout": 59.5,
    "pending_timeout": 30,
    "overlay": json.dumps({"spec": {"containers": [{"name": "main", "workingDir": "/work"}]}}),
}


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("volcano_documents", make(DOCUMENTS)),
        ("volcano_two_roles", make(TWO_ROLES)),
        ("volcano_efa", make(EFA)),
        ("volcano_stop", make(app(role(num_replicas=2)), on_failure="stop", **EVERYTHING)),
        ("job_documents", make(DOCUMENTS, "job")),
        ("job_two_roles", make(TWO_ROLES, "job")),
        ("job_retried_in_queue", make(RETRIED, "job", queue="team-a")),
        ("job_stop", make(app(role(num_replicas=2)), "job", on_failure="stop", **EVERYTHING)),
    ],
)
def test_golden(name: str, job: KubernetesJob) -> None:
    wire = wired(job)
    bodies = [wire.job, *wire.owned("the-uid")]
    path = GOLDEN / f"{name}.json"
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(json.dumps(bodies, indent=1) + "\n")

    assert json.loads(path.read_text()) == bodies
    assert [] == [fault for body in bodies for fault in faults(body)]


# The peer's own output


@pytest.mark.parametrize("name", ["documents", "per_replica"])
def test_it_is_what_the_peer_sends_but_for_what_is_meant(name: str) -> None:
    theirs = json.loads((GOLDEN / "peer.json").read_text())["jobs"][name]
    opts: dict[str, Any] = {"queue": "test", "service_account": "robot", "priority_class": "high"}
    job = wired(make(make_apps(specs)[name], app_id=f"default:{NAME}", **opts), f"default:{NAME}").job
    ours = json.loads(json.dumps(job))
    ours["metadata"] = {"name": ours["metadata"]["name"]}

    # Theirs are one more than what 0 and 2 retries mean, and made 3 where they are 0.
    assert {"documents": 1, "per_replica": 3}[name] == ours["spec"].pop("maxRetry")
    assert theirs["spec"].pop("maxRetry") == 0
    assert sum(task["replicas"] for task in ours["spec"]["tasks"]) == ours["spec"].pop("minAvailable")
    if name == "per_replica":  # its pods are to be reached at their port
        assert "--disable-network-policy=true" == ours["spec"]["plugins"]["svc"].pop()
    for mine, their in zip(ours["spec"]["tasks"], theirs["spec"]["tasks"], strict=True):
        _without_what_differs(mine, their)
    assert theirs == ours


def _without_empty(value: Any) -> Any:
    """Drop empty lists and objects: they say as much as a field that is left out."""
    if isinstance(value, dict):
        return {key: kept for key, item in value.items() if (kept := _without_empty(item)) not in ([], {})}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _without_what_differs(mine: dict[str, Any], their: dict[str, Any]) -> None:
    for task in (mine, their):
        task["template"]["metadata"].pop("labels")
        task.pop("maxRetry", None)
        task.pop("minAvailable", None)
        container = task["template"]["spec"]["containers"][0]
        container.pop("name")
        own = ("TORCHX_RANK0_HOST", "ASYNCSCHED_RESULT_FILE")
        container["env"] = [each for each in container["env"] if each["name"] not in own]
        task["template"] = _without_empty(task["template"])
    mine["template"]["spec"].pop("priorityClassName")
    if policies := mine.pop("policies", None):
        events = [(event, each["action"]) for each in policies for event in each["events"]]
        assert sorted(events) == sorted((each["event"], each["action"]) for each in their.pop("policies"))
    if mine["name"] == "echo":  # one task for a role, where theirs has one for each replica
        mine["name"] = "echo-0"
    command = mine["template"]["spec"]["containers"][0]["command"]
    command[:] = [word.replace(f"default:{NAME}", NAME) for word in command]


# Macros, variables, secrets


def expanded(text: str, variables: dict[str, str]) -> str:
    """Do what the kubelet does: third_party/forked/golang/expansion, byte by byte."""
    data, out, cursor = text.encode(), bytearray(), 0
    while cursor < len(data):
        if data[cursor] != ord("$") or cursor + 1 == len(data):
            out.append(data[cursor])
        elif data[cursor + 1] == ord("$"):
            out += b"$"
            cursor += 1
        elif data[cursor + 1] == ord("("):
            end = data.find(b")", cursor + 2)
            name = data[cursor + 2 : end].decode(errors="replace") if end > 0 else ""
            out += b"$(" if end < 0 else variables.get(name, f"$({name})").encode()
            cursor = cursor + 1 if end < 0 else end
        else:
            out += b"$" + chr(data[cursor + 1]).encode()
            cursor += 1
        cursor += 1
    return out.decode(errors="replace")


@given(st.text(alphabet=st.sampled_from("$$$()AB é\n"), max_size=12))
def test_the_kubelet_gives_a_program_what_was_written(text: str) -> None:
    assert text == expanded(escaped(text), {"A": "1", "B": "2"})


def test_a_shells_dollars_survive() -> None:
    script = "echo $$ $(date) $HOME ${PATH}"
    command = main_of(make(app(role(entrypoint="sh", args=["-c", script]))))["command"]

    assert script == expanded(command[2], {})
    assert "$HOME ${PATH}" in command[2]  # what is not expanded stays readable


@pytest.mark.parametrize(("kind", "variable"), [("volcano", "VC_TASK_INDEX"), ("job", "JOB_COMPLETION_INDEX")])
def test_replicas_share_a_command_that_names_their_index(kind: str, variable: str) -> None:
    job = make(app(role(args=["--id=${replica_id}", "$(X)", Secret("s${replica_id}")], num_replicas=5)), kind)
    words = main_of(job)["command"]

    assert f"--id=$({variable})" == words[1]
    assert "$$(X)" == words[2]
    assert isinstance(words[3], Secret)
    assert f"s$({variable})" == words[3].reveal()
    alone = make(app(role(args=["${replica_id}"])), kind)
    assert ["echo", "0"] == main_of(alone)["command"]


def test_variables_with_the_replicas_number() -> None:
    mine = app(role(env={"N": "n${replica_id}"}, num_replicas=2), role("other", num_replicas=3))
    volcano, job = make(mine), make(mine, "job")

    # Volcano adds its index after our variables, where ours cannot name it.
    tasks = volcano.resource["spec"]["tasks"]
    assert [("main-0", 1), ("main-1", 1), ("other", 3)] == [(task["name"], task["replicas"]) for task in tasks]
    assert ["n0", "n1"] == [env_of(volcano, task)["N"] for task in (0, 1)]
    assert "1" == tasks[1]["template"]["metadata"]["labels"][names.REPLICA]
    assert "n$(ASYNCSCHED_REPLICA_INDEX)" == env_of(job)["N"]
    assert "ASYNCSCHED_REPLICA_INDEX" == main_of(job)["env"][0]["name"]  # before those that name it
    assert "the-name-main-0-0.the-name" == env_of(volcano)["TORCHX_RANK0_HOST"]


def test_two_tasks_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two tasks of the job would be named main-1"):
        make(app(role(env={"N": macros.replica_id}, num_replicas=2), role("main-1")))


def test_secrets_and_fields_are_named_not_copied() -> None:
    job = make(app(role(env={"A": SecretRef("login", "password"), "IP": "[FIELD_PATH]status.podIP"})))

    assert {"secretKeyRef": {"name": "login", "key": "password"}} == env_of(job)["A"]
    assert {"fieldRef": {"fieldPath": "status.podIP"}} == env_of(job)["IP"]
    with pytest.raises(ConfigError, match=r"A of role 'main' refers to the secret login without a key.*SecretRef"):
        make(app(role(env={"A": SecretRef("login")})))


def test_no_secret_is_shown_and_each_is_sent() -> None:
    marker = "marker-of-a-secret"
    mine = app(role(args=[Secret(marker)], env={"A_TOKEN": marker, "B": Secret(marker)}))
    job = make(
        mine,
        overlay=json.dumps({"spec": {"containers": [{"name": "main", "env": [{"name": "C_KEY", "value": marker}]}]}}),
    )

    assert marker not in repr(job)
    assert marker not in job.resource["metadata"]["annotations"][names.ROLES]
    with show_secrets():
        assert repr(job).count(marker) >= 4
    assert json.dumps(wired(job).job).count(marker) == 4
    assert marker not in repr(wired(job))


@pytest.mark.parametrize("kind", ["volcano", "job"])
def test_where_replica_0_is(kind: str) -> None:
    alone, many = make(app(), kind), make(app(role(num_replicas=2)), kind)

    assert "localhost" == env_of(alone)["TORCHX_RANK0_HOST"]
    wanted = {"volcano": "the-name-main-0.the-name", "job": "the-name-0.the-name"}[kind]
    assert wanted == env_of(many)["TORCHX_RANK0_HOST"]
    mine = app(role(num_replicas=2, env={"TORCHX_RANK0_HOST": "mine", "ASYNCSCHED_RESULT_FILE": "/r"}))
    assert ("mine", "/r") == tuple(
        env_of(make(mine, kind))[key] for key in ("TORCHX_RANK0_HOST", "ASYNCSCHED_RESULT_FILE")
    )


# Volcano


def test_what_the_webhook_would_change_is_always_set() -> None:
    spec = make(app(role(num_replicas=3))).resource["spec"]

    assert ("volcano", "test", 3, 1) == tuple(
        spec[key] for key in ("schedulerName", "queue", "minAvailable", "maxRetry")
    )
    assert [(3, 1)] == [(task["minAvailable"], task["maxRetry"]) for task in spec["tasks"]]
    assert "policies" not in spec
    assert "policies" not in spec["tasks"][0]


@pytest.mark.parametrize(
    ("policy", "action"),
    [
        (RetryPolicy.APPLICATION, "RestartJob"),
        (RetryPolicy.ROLE, "RestartTask"),
        (RetryPolicy.REPLICA, "RestartPod"),
        (RetryPolicy.HOT_SPARE, "RestartPod"),
    ],
)
def test_volcanos_retries_are_one_more(policy: RetryPolicy, action: str) -> None:
    spec = make(app(role(num_replicas=2, max_retries=2, retry_policy=policy))).resource["spec"]

    assert 3 == spec["maxRetry"] == spec["tasks"][0]["maxRetry"]
    assert [{"events": ["PodFailed", "PodEvicted"], "action": action}] == spec["tasks"][0]["policies"]


def test_a_replica_alone_is_restarted_with_its_job() -> None:
    # RestartPod would delete the pod of the last failure, and its log with it.
    spec = make(app(role(max_retries=2, retry_policy=RetryPolicy.REPLICA))).resource["spec"]

    assert "RestartJob" == spec["tasks"][0]["policies"][0]["action"]


def test_no_role_gets_more_restarts_than_it_asks_for() -> None:
    mine = app(role("a", max_retries=5), role("b", max_retries=2), role("c"))
    spec = make(mine, on_failure="stop").resource["spec"]

    assert 3 == spec["maxRetry"]
    assert "policies" not in spec  # a restart of the job would not be the end
    assert ["RestartJob", "RestartJob", "TerminateJob"] == [task["policies"][0]["action"] for task in spec["tasks"]]


def test_stop_and_pending_timeout_are_policies_of_the_job() -> None:
    job = make(app(), on_failure="stop", pending_timeout=1.5)

    assert [
        {"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"},
        {"event": "PodPending", "action": "TerminateJob", "timeout": "2s"},
    ] == job.resource["spec"]["policies"]
    assert 1.5 == job.pending_timeout


def test_a_gang_of_fewer() -> None:
    elastic = make(app(role("a", num_replicas=4, min_replicas=2), role("b"))).resource["spec"]

    assert (3, [2, 1]) == (elastic["minAvailable"], [task["minAvailable"] for task in elastic["tasks"]])
    assert 1 == make(app(role(num_replicas=4)), min_available=1).resource["spec"]["minAvailable"]


def test_ports_are_not_shut_by_the_plugins_network_policy() -> None:
    shut, opened = make(app()), make(app(role(port_map={"http": 80, "A name that ports cannot have": 81})))

    assert ["--publish-not-ready-addresses"] == shut.resource["spec"]["plugins"]["svc"]
    assert "--disable-network-policy=true" in opened.resource["spec"]["plugins"]["svc"]
    assert [{"name": "http", "containerPort": 80}, {"containerPort": 81}] == main_of(opened)["ports"]


def test_five_thousand_replicas_are_small() -> None:
    job = make(app(role(num_replicas=5000, args=[macros.replica_id])))

    assert 1 == len(job.resource["spec"]["tasks"])
    assert len(json.dumps(wired(job).job)) < 4000


# kind=job


def test_one_replica_alone_is_one_object() -> None:
    job = make(app(), "job")

    assert ([], False) == (job.others, job.released_last)
    assert "suspend" not in job.resource["spec"]
    assert "subdomain" not in job.resource["spec"]["template"]["spec"]


def test_several_replicas_wait_for_their_service() -> None:
    job = make(app(role(num_replicas=2)), "job")
    wire = wired(job)

    assert (True, True) == (job.released_last, job.resource["spec"]["suspend"])
    (service,) = wire.owned("the-uid")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "the-name", "uid": "the-uid"}
    assert [owner] == service["metadata"]["ownerReferences"]
    assert {names.APP: "the-name"} == service["spec"]["selector"]
    assert "ownerReferences" not in wire.others[0]["metadata"]


def test_several_roles_are_several_jobs() -> None:
    job = make(app(role("a"), role("B b", num_replicas=2)), "job", ttl=60)
    service, second = job.others

    assert ("the-name", "the-name-b-b") == (service["metadata"]["name"], second["metadata"]["name"][:12])
    assert "suspend" not in second["spec"]  # it may begin at once: nobody looks for it before the first
    assert [None, None] == [each["spec"].get("ttlSecondsAfterFinished") for each in (job.resource, second)]
    assert "B b" == second["spec"]["template"]["metadata"]["annotations"][names.ROLE]
    assert 60 == make(app(role()), "job", ttl=60).resource["spec"]["ttlSecondsAfterFinished"]


def test_kueue_releases_what_is_in_its_queue() -> None:
    job = make(app(role("a"), role("b")), "job", queue="team-a")

    assert not job.released_last
    for each in (job.resource, job.others[1]):
        assert ("team-a", True) == (each["metadata"]["labels"][names.KUEUE_QUEUE], each["spec"]["suspend"])


@pytest.mark.parametrize(
    ("retries", "on_failure", "wanted"),
    [
        (0, "continue", {"backoffLimitPerIndex": 0}),
        (2, "continue", {"backoffLimitPerIndex": 2}),
        (0, "stop", {"backoffLimit": 0}),
        (2, "stop", {"backoffLimitPerIndex": 2, "maxFailedIndexes": 0}),
    ],
)
def test_how_a_job_counts_failures(retries: int, on_failure: str, wanted: dict[str, int]) -> None:
    spec = make(app(role(num_replicas=2, max_retries=retries)), "job", on_failure=on_failure).resource["spec"]

    keys = ("backoffLimit", "backoffLimitPerIndex", "maxFailedIndexes")
    assert wanted == {key: spec[key] for key in keys if key in spec}
    assert "Failed" == spec["podReplacementPolicy"]
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert [rule] == spec["podFailurePolicy"]["rules"]


def test_an_old_server_is_not_sent_what_it_does_not_know() -> None:
    mine = app(role(num_replicas=2, max_retries=1))
    spec = make(mine, "job", server=(1, 28)).resource["spec"]

    assert 1 == spec["backoffLimit"]
    assert not {"backoffLimitPerIndex", "podReplacementPolicy"} & spec.keys()
    options = KubernetesOpts()
    assert "max_retries" in {each.field for each in ignored_by(mine, options, "job", (1, 28))}
    assert "max_retries" not in {each.field for each in ignored_by(mine, options, "job", (1, 29))}


# What is not honoured


@pytest.mark.parametrize(
    ("kind", "mine", "options", "told"),
    [
        ("volcano", app(role(num_replicas=2)), {}, set()),
        ("volcano", app(role(num_replicas=2, max_retries=1)), {}, {"on_failure"}),
        ("volcano", app(role(num_replicas=2, max_retries=1)), {"on_failure": "stop"}, set()),
        ("volcano", app(role(max_retries=1, retry_policy=RetryPolicy.REPLICA)), {}, set()),
        (
            "volcano",
            app(role(num_replicas=2, max_retries=1, retry_policy=RetryPolicy.HOT_SPARE)),
            {"on_failure": "stop"},
            {"max_retries", "retry_policy"},
        ),
        ("volcano", app(role("a", max_retries=1), role("b", max_retries=2)), {"on_failure": "stop"}, {"max_retries"}),
        ("job", app(role(num_replicas=2, max_retries=1)), {}, {"retry_policy"}),
        ("job", app(role(num_replicas=2, max_retries=1, retry_policy=RetryPolicy.REPLICA)), {}, set()),
        ("job", app(role(num_replicas=2, min_replicas=1)), {"min_available": 1}, {"min_replicas", "min_available"}),
        ("job", app(role("a"), role("b")), {"on_failure": "stop", "ttl": 5}, {"on_failure", "ttl"}),
        ("job", app(role(max_retries=1)), {"timeout": 5, "pending_timeout": 5}, {"timeout", "pending_timeout"}),
        ("job", app(role(resource=Resource(1, 0, 1, {"arch": "arm"}))), {}, {"resource.capabilities"}),
    ],
)
def test_what_is_not_honoured_is_told(kind: Any, mine: AppDef, options: dict[str, Any], told: set[str]) -> None:
    assert told == {each.field for each in ignored_by(mine, KubernetesOpts(**options), kind, (1, 34))}


# What is refused


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"namespace": "Not_OK"}, "namespace must be a valid name, got 'Not_OK'"),
        ({"namespace": "n" * 80}, "namespace must be a valid name, got 'nnn"),
        ({"queue": None}, "queue is missing.*kubectl get queues"),
        ({"queue": "A b"}, "queue must be a valid name, got 'A b'"),
        ({"service_account": "x_y"}, "service_account must be a valid name, got 'x_y'"),
        ({"priority_class": ""}, "priority_class must be a valid name, got ''"),
        ({"timeout": 0}, "timeout must be more than 0 and at most 1000000000 seconds, got 0"),
        ({"pending_timeout": float("nan")}, "pending_timeout must be"),
        ({"grace_period": -1}, "grace_period must be at least 0 and at most 1000000000 seconds, got -1"),
        ({"ttl": -1}, "ttl must be"),
        ({"reserved_memmb": -1}, "reserved_memmb must be"),
        ({"min_available": 9}, "min_available must be 1 to 1.*got 9"),
        ({"labels": {"asyncsched/app": "x"}}, "labels cannot contain asyncsched/app.*choose another key"),
        ({"labels": {"volcano.sh/job-name": "x"}}, "labels cannot contain volcano.sh/job-name"),
        ({"labels": {"app.kubernetes.io/instance": "x"}}, "labels cannot contain app.kubernetes.io/instance"),
        ({"labels": {"app.kubernetes.io/managed-by": "x"}}, "labels cannot contain app.kubernetes.io/managed-by"),
        ({"labels": {"a": "not a value"}}, "labels cannot contain a='not a value'.*annotations"),
        ({"labels": {"a b": "x"}}, "labels cannot contain 'a b'"),
        ({"annotations": {"asyncsched/x": "x"}}, "annotations cannot contain asyncsched/x"),
        ({"annotations": {"a": "x" * 300_000}}, "annotations of the Job are too large.*300,"),
        ({"node_selector": {"a": "b c"}}, "node_selector cannot contain a='b c'"),
        ({"tolerations": ["a:Never"]}, "tolerations cannot contain 'a:Never'.*NoSchedule"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=re.compile(words, re.DOTALL)):
        make(app(), **options)


@pytest.mark.parametrize(
    ("mine", "words"),
    [
        (app(role(image=" ")), "the role 'main' has no image"),
        (app(role(min_replicas=3)), "min_replicas .*must be 1 to 1, .*got 3"),
        (app(role(env={"é": "x"})), "environment variable with the invalid name 'é'"),
        (app(role(num_replicas=200_000)), "must be at most 100,000, got 200,000"),
    ],
)
def test_apps_that_kubernetes_would_refuse(mine: AppDef, words: str) -> None:
    with pytest.raises(ConfigError, match=re.compile(words, re.DOTALL)):
        make(mine, "job")


@pytest.mark.parametrize("replicas", [200_000, 10**30])
def test_volcano_is_not_asked_for_more_pods_than_clusters_have(replicas: int) -> None:
    with pytest.raises(ConfigError, match=f"num_replicas of role 'main' must be at most 100,000, got {replicas:,}"):
        make(app(role(num_replicas=replicas, env={"K": "${replica_id}"})))


@pytest.mark.parametrize(
    ("queues", "words"),
    [(["b", "a"], "one of a, b"), ([], "there is none"), (None, "kubectl get queues")],
)
def test_a_missing_queue_says_which_there_are(queues: list[str] | None, words: str) -> None:
    assert words in str(missing_queue(queues))
    assert "queue" == missing_queue(queues).key


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("*", {"operator": "Exists"}),
        ("a", {"key": "a", "operator": "Exists"}),
        ("a:NoSchedule", {"key": "a", "operator": "Exists", "effect": "NoSchedule"}),
        ("x.com/a=b:NoExecute", {"key": "x.com/a", "operator": "Equal", "value": "b", "effect": "NoExecute"}),
        ("a=", {"key": "a", "operator": "Equal", "value": ""}),
    ],
)
def test_tolerations(text: str, wanted: dict[str, str]) -> None:
    template = make(app(), tolerations=[text]).resource["spec"]["tasks"][0]["template"]

    assert [wanted] == template["spec"]["tolerations"]


def test_what_is_too_large_is_refused_with_its_bytes() -> None:
    with pytest.raises(ConfigError, match=rf"Job is too large.*[\d,]+ bytes.*{MAX_BYTES:,}"):
        make(app(role(args=["x" * MAX_BYTES])))
    with pytest.raises(ConfigError, match="too large"):
        make(app(role(env={"N": macros.replica_id}, num_replicas=2000)))


def test_a_request_names_its_app() -> None:
    job = make(app())
    assert "default:the-name" == job.app_id
    job.resource["metadata"]["name"] = "other"
    assert "default:other" == job.app_id
    job.resource["metadata"]["namespace"] = "elsewhere"
    assert "elsewhere:other" == job.app_id


def test_the_digest_is_an_annotation_of_what_is_sent() -> None:
    job = make(app())

    assert "the-digest" == wired(job).job["metadata"]["annotations"][names.REQUEST]
    assert names.REQUEST not in job.resource["metadata"]["annotations"]


def test_a_note_too_long_leaves_something_out_and_says_so() -> None:
    long = app(role(env={"A": "x" * 40_000}))
    longer = app(role(args=["x" * 40_000], env={"A": "x"}), role("b", env={"B": "1"}))
    for mine, left in ((long, [["env"]]), (longer, [["args"], []])):
        note = make(mine).resource["metadata"]["annotations"][names.ROLES]
        roles, _ = read_note(note, ())

        assert len(note) <= 32 * 1024
        assert left == [left_out(each) for each in json.loads(note)["roles"]]
        assert [bool(each) for each in left] == [NOT_KEPT in each.env for each in roles]
    with pytest.raises(ConfigError, match="metadata of app 'app' is too large"):
        make(app(metadata={"a": "x" * 40_000}))


def test_a_request_that_was_put_together_by_hand_gets_what_it_is_found_by() -> None:
    template = {"spec": {"containers": [{"name": "trainer", "image": "a"}, {"name": "proxy", "image": "b"}]}}
    spec = {"queue": "q", "tasks": [{"name": "trainer", "replicas": 2, "template": template}]}
    mine = KubernetesJob(
        {}, {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "x"}, "spec": spec}
    )
    before = copy.deepcopy(mine)
    app_id, adopted = adopt(mine, session="me", version="1")

    assert ("default:x", before) == (app_id, mine)
    labels = adopted.resource["spec"]["tasks"][0]["template"]["metadata"]["labels"]
    assert {
        names.APP: "x",
        names.KIND: "volcano",
        names.ROLE: "trainer",
        names.ROLE_INDEX: "0",
    }.items() <= labels.items()
    assert ["main", "proxy"] == [each["name"] for each in main_task(adopted)["spec"]["containers"]]
    assert [] == faults(to_wire(adopted, app_id, "d").job)


@pytest.mark.parametrize("kind", ["volcano", "job"])
def test_a_request_of_a_dry_run_is_adopted_as_it_is(kind: str) -> None:
    job = make(TWO_ROLES, kind)

    assert ("default:the-name", job) == adopt(job, session="session", version="1.2.3")


@pytest.mark.parametrize("resource", [{}, {"metadata": {"name": "A b"}}, {"metadata": {"name": 1}}])
def test_a_request_by_hand_names_its_job(resource: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"resource\['metadata'\]\['name'\] must be the name of the job, got"):
        adopt(KubernetesJob({}, resource), session="", version="1")


def main_task(job: KubernetesJob) -> dict[str, Any]:
    template: dict[str, Any] = job.resource["spec"]["tasks"][0]["template"]
    return template


def test_the_app_is_not_changed() -> None:
    before = repr(TWO_ROLES)
    make(TWO_ROLES), make(TWO_ROLES, "job")

    assert before == repr(TWO_ROLES)


def test_the_option_class_is_checked_like_any() -> None:
    assert RunOptionError("x", key="queue").key == "queue"
    known = specs.runopts.of(KubernetesOpts)
    assert {"namespace": "default"}.items() <= known.resolve({}).items()
    assert {"namespace": "default", "queue": "test"} == known.cfg_from_str("namespace=default,queue=test")


@pytest.mark.parametrize("kind", ["volcano", "job"])
def test_what_is_sent_is_what_is_described(kind: Kind) -> None:
    wire = wired(make(TWO_ROLES, kind))
    bodies = [body for body in (wire.job, *wire.others) if body["kind"] == "Job"]
    jobs = [
        job_record({**body, "metadata": {**body["metadata"], "uid": str(n)}}, kind) for n, body in enumerate(bodies)
    ]
    found = describe_app([job for job in jobs if job is not None])

    assert found is not None
    assert ("default:the-name", "app", "session") == (found.app_id, found.name, found.session)
    assert [("trainer", 4), ("Reader_1", 2)] == [(role.role, len(role.replicas)) for role in found.roles_statuses]
    assert {"team": "vision"} == found.metadata
    assert TWO_ROLES.roles[0] == found.roles[0]
    assert NotKept is type(found.roles[1].env["HF_TOKEN"])
