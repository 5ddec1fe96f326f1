"""TorchX's apps and ours, from the one to the other and back."""

from __future__ import annotations

import copy
import dataclasses
import json
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from asyncsched import specs
from asyncsched.errors import ConfigError
from asyncsched.torchx import convert
from tests.torchx.test_templates import VALUES, texts, theirs
from tests.torchx.twins import NEW, OLD

POLICIES = {OLD: ["REPLICA", "APPLICATION", "HOT_SPARE"], NEW: ["REPLICA", "APPLICATION", "ROLE"]}

names = st.text(max_size=4)
plain_words = st.text(max_size=4).filter(lambda text: "$${" not in text)  # it comes back as the "${" that it means
numbers = st.integers(0, 9)
mounts = st.one_of(
    st.builds(specs.BindMount, names, names, st.booleans()),
    st.builds(specs.VolumeMount, names, names, st.booleans()),
    st.builds(specs.DeviceMount, names, names, st.sampled_from(["r", "rw", "rwm"])),
)
resources = st.builds(
    specs.Resource,
    numbers,
    numbers,
    numbers,
    st.dictionaries(names, st.none() | st.integers() | names),
    st.dictionaries(names, numbers),
)


def nested(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.integers() | text,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3) | st.tuples(inner),
        max_leaves=4,
    )


def apps(policies: list[str]) -> st.SearchStrategy[specs.AppDef]:
    secrets = plain_words.map(specs.Secret)
    role = st.builds(
        specs.Role,
        name=names,
        image=plain_words,
        min_replicas=st.none() | numbers,
        entrypoint=plain_words,
        args=st.lists(plain_words | secrets, max_size=3),
        env=st.dictionaries(names, plain_words | secrets | st.just(specs.SecretRef("a", "b")), max_size=3),
        num_replicas=numbers,
        max_retries=numbers,
        retry_policy=st.sampled_from(policies).map(specs.RetryPolicy),
        resource=resources,
        port_map=st.dictionaries(names, numbers, max_size=3),
        metadata=st.dictionaries(names, nested(plain_words), max_size=3),
        mounts=st.lists(mounts, max_size=3),
    )
    roles = st.lists(role, max_size=2)
    return st.builds(specs.AppDef, names, roles, st.dictionaries(names, plain_words, max_size=2))


APPS = {module: apps(policies) for module, policies in POLICIES.items()}

searched = texts.filter(lambda text: "rank0_env" not in text)  # test_templates.py looks at that one
FIELDS = st.fixed_dictionaries(
    {
        "args": st.lists(searched, max_size=3),
        "env": st.dictionaries(names, searched, max_size=3),
        "metadata": st.dictionaries(names, nested(searched), max_size=3),
    }
)


@pytest.mark.parametrize("module", [OLD, NEW], ids=["old", "new"])
@given(data=st.data())
def test_an_app_of_ours_comes_back(module: ModuleType, data: st.DataObject) -> None:
    app = data.draw(APPS[module])
    before = copy.deepcopy(app)

    assert app == convert.to_ours(convert.to_theirs(app, module))
    assert before == app


@pytest.mark.parametrize("module", [OLD, NEW], ids=["old", "new"])
@given(data=st.data())
def test_an_app_of_theirs_comes_back(module: ModuleType, data: st.DataObject) -> None:
    app = convert.to_theirs(data.draw(APPS[module]), module)
    before = copy.deepcopy(app)

    assert app == convert.to_theirs(convert.to_ours(app), module)
    assert before == app


def filled_in(module: ModuleType, metadata: Any) -> Any:
    """Fill macros in as TorchX does: in dicts, in the texts of lists in these, and nightlies in the dicts, too."""
    known = {name for name in VALUES if module is OLD or name != "base_img_root"}
    searched = str if module is OLD else (str, dict)

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: filled_in_dict(item) for name, item in value.items()}
        return theirs(value, known) if isinstance(value, str) else value

    def filled_in_dict(value: Any) -> Any:
        if not isinstance(value, list):
            return filled(value)
        return [filled(item) if isinstance(item, searched) else item for item in value]

    return filled(metadata)


@pytest.mark.parametrize("module", [OLD, NEW], ids=["old", "new"])
@given(data=st.data())
def test_what_replicas_are_given_is_what_torchx_gives_them(module: ModuleType, data: st.DataObject) -> None:
    role = module.Role("role", "image", **data.draw(FIELDS))
    try:
        ours = convert.role_to_ours(role)
    except ConfigError:
        assume(False)
    filled = specs.macros.Values(**VALUES).apply(ours)

    assert filled_in(module, role.metadata) == filled.metadata
    assert filled_in(module, {"args": role.args, "env": role.env}) == {"args": filled.args, "env": filled.env}


@pytest.mark.parametrize("module", [OLD, NEW], ids=["old", "new"])
def test_what_cannot_be_written_is_refused_by_role_and_place_and_not_repeated(module: ModuleType) -> None:
    fine = module.Role("fine", "image")
    refused: dict[str, dict[str, Any]] = {
        "args[1]": {"args": ["x", "hunter2$$${app_id}"]},
        "env['PASSWORD']": {"env": {"PASSWORD": "hunter2$$${app_id}"}},
        "metadata": {"metadata": {"x": {"y": ["hunter2$$${app_id}"]}}},
    }
    for place, values in refused.items():
        with pytest.raises(ConfigError) as caught:
            convert.to_ours(module.AppDef("app", [fine, module.Role("trainer", "image", **values)]))

        assert f"role 'trainer': {place} cannot be converted" in str(caught.value)
        assert "hunter2" not in str(caught.value)


def test_a_macro_that_a_nightly_lacks_is_refused() -> None:
    role = specs.Role("role", "image", args=["${base_img_root}"])

    assert ["${base_img_root}"] == convert.role_to_theirs(role, OLD).args
    with pytest.raises(ConfigError, match="no macro base_img_root"):
        convert.role_to_theirs(role, NEW)
    assert ["$${base_img_root}"] == convert.role_to_ours(NEW.Role("role", "image", args=["${base_img_root}"])).args


def test_a_mount_of_another_class_is_refused() -> None:
    role = OLD.Role("role", "image", mounts=[object()])

    with pytest.raises(ConfigError, match=r"role 'role': .* is not a mount.*BindMount, VolumeMount, DeviceMount"):
        convert.role_to_ours(role)


def test_a_retry_policy_that_the_other_lacks_is_told(caplog: pytest.LogCaptureFixture) -> None:
    role = specs.Role("role", "image", retry_policy=specs.RetryPolicy.HOT_SPARE)

    assert "APPLICATION" == convert.role_to_theirs(role, NEW).retry_policy.value
    assert "role role: this TorchX has no retry policy HOT_SPARE" in caplog.text


def test_secrets_are_revealed_on_demand_only() -> None:
    role = specs.Role("role", "image", args=[specs.Secret("hunter2")], env={"KEY": specs.Secret("hunter2")})
    app = specs.AppDef("app", [role], {"token": specs.Secret("hunter2")})
    hidden, shown = convert.to_theirs(app, NEW), convert.to_theirs(app, NEW, reveal=True)

    assert "hunter2" not in repr(hidden)
    assert app == convert.to_ours(hidden)
    assert (["hunter2"], {"KEY": "hunter2"}) == (shown.roles[0].args, shown.roles[0].env)
    assert {"token": "hunter2"} == shown.metadata
    assert all(type(value) is str for value in (*shown.roles[0].args, *shown.metadata.values()))


def test_a_value_that_was_not_kept_is_a_plain_text_that_no_submit_takes() -> None:
    role = specs.Role("role", "image", env={"KEY": specs.NotKept("a secret")})
    value = convert.role_to_theirs(role, NEW).env["KEY"]

    assert "<NOT_KEPT>" == value
    assert str is type(value)


@pytest.mark.parametrize("module", [OLD, NEW], ids=["old", "new"])
def test_states(module: ModuleType) -> None:
    assert [state.name for state in specs.AppState] == [
        convert.state_to_theirs(state, module).name for state in specs.AppState
    ]
    assert list(specs.AppState) == [convert.state_to_ours(state) for state in module.AppState]


def test_an_error_file_has_the_shape_that_torchx_prints() -> None:
    ended = datetime(2026, 1, 2, tzinfo=UTC)
    failed = specs.ReplicaStatus(
        0, specs.AppState.FAILED, "main", "host", "no space left", exit_code=3, finished_at=ended
    )
    whole = json.dumps({"message": {"message": "x", "errorCode": 1, "extraInfo": {"timestamp": "5"}}})
    (status,) = convert.statuses_to_theirs([specs.RoleStatus("main", [failed])], OLD)
    (replica,) = status.replicas

    assert (0, OLD.AppState.FAILED, "main", "host") == (replica.id, replica.state, replica.role, replica.hostname)
    assert {
        "message": "no space left",
        "errorCode": 3,
        "extraInfo": {"timestamp": int(ended.timestamp())},
    } == json.loads(replica.structured_error_msg)["message"]
    assert whole == convert.structured_error(whole)
    assert "<NONE>" == convert.structured_error("") == convert.structured_error("<NONE>")


@given(st.recursive(st.none() | st.floats() | st.text() | st.integers(), lambda x: st.dictionaries(st.text(), x)))
def test_torchx_can_print_any_error_file(content: object) -> None:
    inner = json.loads(convert.structured_error(json.dumps(content)))["message"]

    assert inner["message"].strip is not None
    assert inner["errorCode"] is None
    assert 0 == int(inner["extraInfo"]["timestamp"])


class Told:
    """A dry-run's answer of TorchX's, which has a request."""

    def __init__(self, request: object) -> None:
        self.request = request


def test_an_adopted_role_changes_the_request_as_it_would_in_torchx() -> None:
    @dataclasses.dataclass
    class Mine(NEW.Role):  # type: ignore[name-defined]
        def pre_proc(self, scheduler: str, dryrun_info: Any) -> Any:
            return Told(f"{dryrun_info.request} of {self.name} on {scheduler}")

    plain, mine = convert.adopt(NEW.AppDef("app", [NEW.Role("a", "image"), Mine("b", "image")])).roles
    info = specs.AppDryRunInfo("request")

    assert specs.Role is type(plain)
    assert info is plain.pre_proc("local_cwd", info)
    assert "request of b on local_cwd" == copy.deepcopy(mine).pre_proc("local_cwd", info).request
    assert specs.Role is type(convert.to_ours(NEW.AppDef("app", [Mine("b", "image")])).roles[0])


def test_a_role_with_a_workspace_of_its_own_is_not_adopted() -> None:
    app = NEW.AppDef("app", [NEW.Role("a", "image", workspace=NEW.Workspace({"/x": ""}))])

    with pytest.raises(ConfigError, match="role 'a' has its own workspace"):
        convert.adopt(app)
    assert "a" == convert.to_ours(app).roles[0].name
