"""The note that a submit leaves of an app gives it back, without a secret, whatever somebody has made of it."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import ConfigError
from asyncsched.schedulers._common.roles import (
    app_note,
    note_of_role,
    read_app_note,
    role_of_note,
    without_env,
)
from asyncsched.specs import (
    AppDef,
    BindMount,
    DeviceMount,
    Resource,
    RetryPolicy,
    Role,
    Secret,
    SecretRef,
    VolumeMount,
    is_secret_name,
)
from asyncsched.specs.not_kept import NotKept
from asyncsched.testing import FakeScheduler

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COUNTS = st.integers(0, 10**6)
MOUNTS = st.one_of(
    st.builds(BindMount, TEXTS, TEXTS, st.booleans()),
    st.builds(VolumeMount, TEXTS, TEXTS, st.booleans()),
    st.builds(DeviceMount, TEXTS, TEXTS, st.sampled_from(["r", "rw", "rwm"])),
)
NAMES = TEXTS.filter(lambda name: not is_secret_name(name))
COUNTED = st.dictionaries(TEXTS, COUNTS)
ENVS = st.dictionaries(NAMES, st.one_of(TEXTS, st.builds(SecretRef, TEXTS.filter(bool), TEXTS)))
ROLES = st.builds(
    Role,
    name=TEXTS.filter(bool),
    image=TEXTS.filter(bool),
    entrypoint=TEXTS,
    args=st.lists(TEXTS.filter(lambda text: "=" not in text)),
    env=ENVS,
    num_replicas=COUNTS,
    max_retries=COUNTS,
    min_replicas=st.none() | st.integers(1, 5),
    retry_policy=st.sampled_from(RetryPolicy),
    resource=st.builds(Resource, COUNTS, COUNTS, COUNTS, COUNTED, COUNTED),
    port_map=COUNTED,
    mounts=st.lists(MOUNTS),
    metadata=st.dictionaries(TEXTS, TEXTS),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)
FIELDS = [field for field in vars(Role("", "")) if field != "base_image"]


@given(role=ROLES)
def test_a_role_comes_back_as_it_was(role: Role) -> None:
    again = role_of_note(json.loads(json.dumps(note_of_role(role))))

    assert _without_secret_metadata(role) == _without_secret_metadata(again)


def _without_secret_metadata(role: Role) -> dict[str, Any]:
    values = copy.copy(vars(role))
    values["metadata"] = {name: value for name, value in role.metadata.items() if not is_secret_name(name)}
    values["resource"].capabilities = {
        name: value for name, value in role.resource.capabilities.items() if not is_secret_name(name)
    }
    return values


def test_a_secret_is_never_in_a_note_and_is_read_back_as_not_kept() -> None:
    role = Role(
        "main",
        "i",
        args=["a", Secret("marker"), "API_TOKEN=marker"],
        env={"API_TOKEN": "marker", "B": Secret("marker"), "C": "c"},
    )
    note = note_of_role(role)
    again = role_of_note(note)

    assert "marker" not in json.dumps(note)
    assert {"API_TOKEN": NotKept("a secret"), "B": NotKept("a secret"), "C": "c"} == again.env
    assert [str, NotKept, NotKept] == [type(arg) for arg in again.args]
    assert "marker" not in repr(app_note(AppDef("a", [role], metadata={"PASSWORD": "marker"})))


def test_an_environment_that_was_left_out_is_told() -> None:
    role = role_of_note(without_env(note_of_role(Role("main", "i", env={"A": "1"}))))
    (value,) = role.env.values()

    assert isinstance(value, NotKept)
    assert "too large" in value.why


def test_defaults_take_no_room() -> None:
    note = note_of_role(Role("main", "i", entrypoint="e"))

    assert ["name", "image", "entrypoint", "args", "num_replicas", "max_retries", "resource"] == [*note]


@given(note=JSON | st.dictionaries(st.sampled_from([*FIELDS, "env_left_out"]), JSON))
def test_whatever_stands_in_a_note_breaks_nothing(note: object) -> None:
    role = role_of_note(note, name="main", image="i")
    roles, metadata = read_app_note({"roles": [note], "metadata": note})

    assert role.name
    assert all(isinstance(value, str) for value in (*role.args, *role.env.values(), *metadata.values()))
    repr(roles).encode()


def test_what_was_not_kept_keeps_its_reason() -> None:
    value = NotKept("a secret")

    for copied in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert ("a secret", "NotKept('a secret')") == (copied.why, repr(copied))


async def test_an_app_with_values_that_were_not_kept_is_refused() -> None:
    role = role_of_note(note_of_role(Role("main", "i", entrypoint="e", env={"API_TOKEN": "marker"}, num_replicas=1)))
    scheduler = FakeScheduler("me")
    with pytest.raises(ConfigError, match="role 'main': variable API_TOKEN was not kept") as caught:
        await scheduler.submit(AppDef("a", [role]))
    role.env["API_TOKEN"] = "again"

    assert "a secret" == caught.value.why
    assert await scheduler.submit(AppDef("a", [role]))
    await scheduler.close()
    scheduler.service.close()
