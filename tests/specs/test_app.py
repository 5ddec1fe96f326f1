from __future__ import annotations

import copy
from dataclasses import dataclass, fields
from typing import TypeVar

from asyncsched.specs import (
    NULL_RESOURCE,
    AppDef,
    AppDryRunInfo,
    BindMount,
    Resource,
    RetryPolicy,
    Role,
    Secret,
)

T = TypeVar("T")


def test_fields_stand_in_the_documents_order() -> None:
    role = [
        *("name", "image", "min_replicas", "base_image", "entrypoint", "args", "env", "num_replicas"),
        *("max_retries", "retry_policy", "resource", "port_map", "metadata", "mounts"),
    ]

    assert role == [field.name for field in fields(Role)]
    assert ["name", "roles", "metadata"] == [field.name for field in fields(AppDef)]
    assert ["cpu", "gpu", "memMB", "capabilities", "devices"] == [field.name for field in fields(Resource)]


def test_defaults() -> None:
    role = Role("trainer", "image:1")

    assert "<MISSING>" == role.entrypoint
    assert 1 == role.num_replicas
    assert 0 == role.max_retries
    assert RetryPolicy.APPLICATION is role.retry_policy
    assert NULL_RESOURCE == role.resource == Resource(-1, -1, -1)
    assert ([], []) == (role.args, role.mounts)
    assert ({}, {}, {}) == (role.env, role.port_map, role.metadata)
    assert AppDef("app") == AppDef("app", roles=[], metadata={})


def test_no_default_is_shared_between_roles() -> None:
    first, second = Role("a", "i"), Role("b", "i")
    first.resource.cpu = 8
    first.args.append("x")

    assert -1 == second.resource.cpu == NULL_RESOURCE.cpu
    assert [] == second.args


def test_retry_policies() -> None:
    assert ["REPLICA", "APPLICATION", "HOT_SPARE", "ROLE"] == [str(policy) for policy in RetryPolicy]
    assert "ROLE" == RetryPolicy.ROLE


def test_a_resource_is_copied_with_other_capabilities() -> None:
    original = Resource(1, 2, 3, capabilities={"a": 1, "b": 2}, devices={"efa": 1})
    copied = Resource.copy(original, b=3, c=4)
    copied.devices["efa"] = 9

    assert Resource(1, 2, 3, {"a": 1, "b": 3, "c": 4}, {"efa": 9}) == copied
    assert Resource(1, 2, 3, {"a": 1, "b": 2}, {"efa": 1}) == original


def test_pre_proc_leaves_the_request_alone() -> None:
    info = AppDryRunInfo({"a": 1})

    assert info is Role("trainer", "i").pre_proc("local_cwd", info)


@dataclass
class TunedRole(Role):
    nice: int = 0

    def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[T]) -> AppDryRunInfo[T]:
        return AppDryRunInfo(dryrun_info.request, app_id=f"{scheduler}-{self.nice}")


def test_pre_proc_can_be_overridden() -> None:
    assert "local_cwd-5" == TunedRole("t", "i", nice=5).pre_proc("local_cwd", AppDryRunInfo(1)).app_id


def test_no_repr_shows_a_secret() -> None:
    env = {"HF_TOKEN": "marker", "OTHER": Secret("marker"), "PATH": "/bin"}
    metadata: dict[str, object] = {"kubernetes": {"env": [{"name": "DB_PASSWORD", "value": "marker"}]}}
    role = Role("trainer", "i", env=env, metadata=metadata, args=["--auth", Secret("marker")])
    role.args += ["--password", "marker", "--api-key=marker", "export A_TOKEN=marker; x", "db://me:marker@host"]
    app = AppDef("app", [role], metadata={"api_token": "marker"})
    tuned = TunedRole("trainer", "i", env=env, metadata=metadata)

    for shown in (repr(role), repr(app), f"{app}", repr(tuned), repr([role])):
        assert "marker" not in shown
    assert "'HF_TOKEN': '***', 'OTHER': '***', 'PATH': '/bin'" in repr(role)


def test_a_repr_can_be_read_back() -> None:
    role = Role("trainer", "i", args=["a"], env={"A": "b"}, mounts=[BindMount("/a", "/b")])
    names = {"Role": Role, "Resource": Resource, "BindMount": BindMount}
    text = repr(role).replace(repr(role.retry_policy), "'APPLICATION'")

    assert role == eval(text, names)
    assert role == copy.deepcopy(role)
