"""The note that a submit leaves of an app gives it back, without a secret, whatever somebody has made of it."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import ConfigError
from asyncsched.schedulers._common.app_notes import app_note, read_app_note
from asyncsched.schedulers._common.roles import note_of_role, role_of_command, role_of_note, shortened
from asyncsched.schedulers.validation import check_app
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
    show_secrets,
)
from asyncsched.specs.mentions import may_hold_secret
from asyncsched.specs.not_kept import NOT_KEPT, NotKept
from asyncsched.specs.secret import MASK
from asyncsched.specs.secret_names import is_secret_name
from asyncsched.specs.secret_text import gives_password
from asyncsched.testing import FakeScheduler


def is_harmless(text: str) -> bool:
    """Tell whether a text is kept wherever it stands, and so is what stands below or after it."""
    named = may_hold_secret(text) or is_secret_name(text) or gives_password(text, "user:password")
    return not named and text != MASK  # in metadata a mask says that something was left out


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(is_harmless)
COUNTS = st.integers(0, 10**6)
MOUNTS = st.one_of(
    st.builds(BindMount, TEXTS, TEXTS, st.booleans()),
    st.builds(VolumeMount, TEXTS, TEXTS, st.booleans()),
    st.builds(DeviceMount, TEXTS, TEXTS, st.sampled_from(["r", "rw", "rwm"])),
)
COUNTED = st.dictionaries(TEXTS, COUNTS)
ENVS = st.dictionaries(TEXTS, st.one_of(TEXTS, st.builds(SecretRef, TEXTS.filter(bool), TEXTS)))
ROLES = st.builds(
    Role,
    name=TEXTS.filter(bool),
    image=TEXTS.filter(bool),
    base_image=st.none() | TEXTS.filter(bool),
    entrypoint=TEXTS,
    args=st.lists(TEXTS),
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
FIELDS = [*vars(Role("", ""))]


@pytest.mark.parametrize(
    "role",
    [
        Role("r", "i", entrypoint="sh", args=["-c", "echo s3cr3t-value"], env={"A": Secret("s3cr3t-value")}),
        Role("r", "i", entrypoint="mysql", args=["-ps3cr3t-value"], env={"DB_PASSWORD": Secret("s3cr3t-value")}),
        Role("r", "i", args=[Secret("s3cr3t-value")], metadata={"cmd": {"run": ["x s3cr3t-value"]}}),
        Role("r", "repo/s3cr3t-value", env={"A": Secret("s3cr3t-value"), "B": "its s3cr3t-value"}),
        Role("r", "i", env={"A": Secret("s3cr3t-value")}, mounts=[BindMount("/s3cr3t-value/x", "/y")]),
    ],
)  # fmt: skip
def test_a_secret_that_is_said_again_is_not_kept(role: Role) -> None:
    note = note_of_role(role)

    assert "s3cr3t-value" not in json.dumps(note)
    assert "s3cr3t-value" not in repr(role_of_note(json.loads(json.dumps(note))))
    kept: Any = note["env"]
    assert (role.name, list(role.env)) == (note["name"], list(kept))


@given(role=ROLES)
def test_a_role_comes_back_as_it_was(role: Role) -> None:
    again = role_of_note(json.loads(json.dumps(note_of_role(role))))

    assert role == again


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


FULL = Role(
    "main",
    "i",
    entrypoint="e",
    args=["a"],
    env={"A": "1"},
    mounts=[BindMount("/a", "/b")],
    port_map={"http": 80},
    metadata={"a": "b"},
)


@pytest.mark.parametrize(
    ("large", "missing"),
    [
        ({"env": {"A": "x" * 2000}}, "env"),
        ({"args": ["x" * 2000]}, "args"),
        ({"env": {"A": "x" * 2000}, "args": ["x" * 2000]}, "env and args"),
        ({"mounts": [BindMount("x" * 2000, "/b")]}, "mounts"),
        (
            {"mounts": [BindMount("x" * 2000, "/b")], "metadata": {"a": "b" * 2000}},
            "env and args and metadata and mounts",
        ),
        ({"image": "x" * 2000}, "everything"),
    ],
)
def test_what_a_service_has_no_room_for_is_named_and_never_taken_for_empty(large: dict[str, Any], missing: str) -> None:
    whole = dataclasses.replace(FULL, num_replicas=1, **large)
    note = shortened(note_of_role(whole), lambda each: len(json.dumps(each)) < 1000)
    role = role_of_note(json.loads(json.dumps(note)), name="main", image="i")

    mark = role.env[NOT_KEPT]
    assert isinstance(mark, NotKept)
    assert NotKept(f"{missing} did not fit into the service's note") == mark
    assert f"{missing} did not fit into the service's note" == mark.why
    role.entrypoint, role.num_replicas = "e", 1
    with pytest.raises(ConfigError, match="role 'main': not all of it was kept") as caught:
        check_app(AppDef("a", [role]))
    assert (mark.why, "remove <NOT_KEPT> from its env") == (
        caught.value.why,
        (caught.value.fix or "")[16:46],
    )


def test_what_fits_is_kept_whole() -> None:
    assert note_of_role(FULL) == shortened(note_of_role(FULL), lambda each: len(json.dumps(each)) < 1000)


@pytest.mark.parametrize(
    ("old", "why"),
    [
        ({"env_left_out": True, "args": []}, "env did not fit into the service's note"),
        ({"env_left_out": True}, "env and args and metadata did not fit into the service's note"),
        ({"args": ["x"]}, "env and mounts were not recorded"),
        (None, "entrypoint, args, env, mounts and resource were not recorded"),
    ],
)
def test_what_earlier_releases_did_not_write_down_is_not_taken_for_empty(old: object, why: str) -> None:
    (value,) = role_of_note(old, name="main", image="i").env.values()

    assert isinstance(value, NotKept)
    assert why == value.why


@given(note=JSON | st.dictionaries(st.sampled_from([*FIELDS, "env_left_out", "left_out"]), JSON))
def test_whatever_stands_in_a_note_breaks_nothing(note: object) -> None:
    role = role_of_note(note, name="main", image="i")
    roles, metadata = read_app_note({"roles": [note], "metadata": note})

    assert role.name
    assert all(type(count) is int for count in (role.num_replicas, role.max_retries, role.min_replicas or 1))
    assert all(isinstance(value, str) for value in (*role.args, *role.env.values(), *metadata.values()))
    repr(roles).encode()


def test_what_was_not_kept_keeps_its_reason() -> None:
    value = NotKept("a secret")

    for copied in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert ("a secret", "NotKept('a secret')") == (copied.why, repr(copied))


LOST: list[tuple[str, dict[str, Any]]] = [
    ("role 'main': variable API_TOKEN was", {"env": {"API_TOKEN": "marker"}}),
    ("role 'main': variable PLAIN was", {"env": {"PLAIN": Secret("marker")}}),
    ("role 'main': argument 1 was", {"args": ["a", Secret("marker")]}),
    ("role 'main': argument 0 was", {"args": ["API_TOKEN=marker"]}),
    ("role 'main': argument 0 was", {"args": ["--password=marker"]}),
    ("role 'main': argument 1, argument 2 were", {"args": ["-x", "--password", "marker"]}),
    ("role 'main': argument 1 was", {"args": ["-c", "export DB_PASSWORD=marker; x"]}),
    ("role 'main': variable URL was", {"env": {"URL": "postgres://user:marker@host"}}),
    ("role 'main': metadata url was", {"metadata": {"url": "postgres://user:marker@host"}}),
    ("role 'main': image was", {"image": Secret("marker")}),
    ("role 'main': base_image was", {"base_image": Secret("marker")}),
    ("role 'main': mount 1 was", {"mounts": [BindMount("/a", "/b"), BindMount(Secret("marker"), "/c")]}),
    ("role 'main': mount 0 was", {"mounts": [VolumeMount(Secret("marker"), "/c")]}),
    ("role 'main': mount 0 was", {"mounts": [DeviceMount(Secret("marker"), "/c")]}),
    (
        "role 'main': variable A_KEY, variable B_KEY, argument 0 were not kept",
        {"env": {"A_KEY": "marker", "B": "b", "B_KEY": "marker"}, "args": [Secret("marker")]},
    ),
    (
        "variable KEY_8_KEY, variable KEY_9_KEY and 3 more were not kept",
        {"env": {f"KEY_{k}_KEY": "marker" for k in range(13)}},
    ),
    ("role 'main': entrypoint was", {"entrypoint": Secret("marker")}),
    ("role 'main': metadata a was", {"metadata": {"a": [{"PASSWORD": "marker"}]}}),
    ("role 'main': metadata a was", {"metadata": {"a": ["b", "A_TOKEN=marker"]}}),
    ("role 'main': capability A_KEY was", {"resource": Resource(1, 0, 1, {"A_KEY": "marker"})}),
]


@pytest.mark.parametrize(("what", "lost"), LOST)
async def test_what_was_not_kept_is_refused_by_name(what: str, lost: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"name": "main", "image": "i", "entrypoint": "e", "num_replicas": 1}
    whole = Role(**fields | lost)
    with show_secrets():  # for what is printed, and not for what is kept
        note = note_of_role(whole)

    assert "marker" not in json.dumps(note)
    with pytest.raises(ConfigError, match=re.escape(what)) as caught:
        check_app(AppDef("a", [role_of_note(note)]))
    assert "a secret" == caught.value.why


def _read_back(role: Role) -> Role:
    return role_of_note(json.loads(json.dumps(note_of_role(role))))


@pytest.mark.parametrize(
    ("what", "edit"),
    [
        ("variable API_TOKEN", lambda env, args: env.update(json.loads(json.dumps(env)))),
        ("variable AUTH", lambda env, args: env.update(API_TOKEN="again", AUTH=f"Bearer {env['API_TOKEN']}")),
        ("variable AUTH", lambda env, args: env.update(API_TOKEN="again", AUTH=Secret(f"{env['API_TOKEN']}"))),
        ("argument 1", lambda env, args: args.append(f"--token={env.pop('API_TOKEN')}")),
    ],
)
def test_the_text_of_what_was_not_kept_is_refused_too(what: str, edit: Callable[[Any, Any], None]) -> None:
    role = _read_back(Role("main", "i", entrypoint="e", args=["a"], env={"API_TOKEN": "marker"}, num_replicas=1))
    edit(role.env, role.args)

    with pytest.raises(ConfigError, match=f"role 'main': {what} was not kept") as caught:
        check_app(AppDef("a", [role]))
    assert "its text contains <NOT_KEPT>" in (caught.value.why or "")


def test_why_a_text_was_not_kept_is_kept() -> None:
    """A text with `$${` in a request that was put together by hand is no secret."""
    role = _read_back(role_of_command("main", "i", ["e", "a", "$${b"], {"A": "$${c", "A_KEY": "marker"}, 1))

    why = "it holds $${, which always becomes ${"
    assert {"A": NotKept(why).why, "A_KEY": "a secret"} == {k: v.why for k, v in role.env.items()}  # type: ignore[attr-defined] # they are
    with pytest.raises(ConfigError, match="role 'main': variable A, variable A_KEY, argument 1 were") as caught:
        check_app(AppDef("a", [role]))
    assert f"{why}; a secret" == caught.value.why
    assert why == _read_back(role).args[1].why  # type: ignore[attr-defined] # as above


def test_what_was_not_kept_of_several_roles_is_named_at_once() -> None:
    roles = [_read_back(Role(name, "i", entrypoint="e", env={"A_KEY": "a"}, num_replicas=1)) for name in "ab"]

    with pytest.raises(ConfigError, match="role 'a': variable A_KEY; role 'b': variable A_KEY were not kept"):
        check_app(AppDef("a", roles))


def test_an_apps_metadata_that_was_not_kept_is_refused_by_name() -> None:
    with show_secrets():
        note = app_note(AppDef("a", [FULL], metadata={"PASSWORD": "marker", "a": "b"}))
    roles, metadata = read_app_note(note)

    assert "marker" not in json.dumps(note)
    assert "b" == metadata["a"]
    with pytest.raises(ConfigError, match="app 'a': metadata PASSWORD was not kept"):
        check_app(AppDef("a", roles, metadata=metadata))


async def test_what_was_not_kept_can_be_filled_in() -> None:
    role = role_of_note(note_of_role(Role("main", "i", entrypoint="e", env={"API_TOKEN": "marker"}, num_replicas=1)))
    scheduler = FakeScheduler("me")
    with pytest.raises(ConfigError, match="variable API_TOKEN"):
        await scheduler.submit(AppDef("a", [role]))
    role.env["API_TOKEN"] = "again"

    assert await scheduler.submit(AppDef("a", [role]))
    await scheduler.close()
    scheduler.service.close()
