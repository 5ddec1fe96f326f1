"""What no option and no field of a role may be: refused at the dry-run by its name, its value and its bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from asyncsched.errors import AsyncSchedError, ConfigError
from asyncsched.schedulers.gcp_batch import GCPBatchOpts, GCPBatchScheduler
from asyncsched.specs import (
    AppDef,
    BindMount,
    DeviceMount,
    Mount,
    Resource,
    Role,
    Secret,
    SecretRef,
    VolumeMount,
    runopts,
)

NUMBERS = (-1, 10**30, math.nan, math.inf)
WRONG: dict[type, tuple[object, ...]] = {
    str: ("", " ", "a b", "line\n", 7, True),
    int: (*NUMBERS, True, 1.5, "3"),
    float: (*NUMBERS, 0, True, "3"),
    bool: (1, "yes", 0.0),
}
"""Values that no option of a type can have; a list and a dict hold texts, which have rules of their own."""

OTHERS: dict[str, tuple[object, ...]] = {
    "parallelism": (0, 5001),
    "task_count_per_node": (0, 100_001),
    "boot_disk_gb": (0, 65_537),
    "priority": (100,),
    "retry_on_preemption": (11,),
    "timeout": (14 * 24 * 3600 + 1,),
    "max_run_duration": (14 * 24 * 3600 + 1,),
    "service_account": ("runner",),
    "machine_type": ("E2-standard-4", "e2-"),
    "location": ("US", "us/central1", "us-central1-", "us-central1-a", "europe-west4-c"),
    "project": ("p/q", "my-project-", "example.com:p-"),
    "labels": ({"": "x"}, {"a": "B"}, {"goog-x": "1"}, {"a": 1}, ["a"]),
    "allowed_locations": ([""], ["us-central1"], ["zones/us"], [7], "regions/us-central1", ["regions/europe-west1"]),
    "pubsub_topic": ("changes", "projects/p/topics/"),
    "log_destination": ("path",),
}


def wrong(field: str, value: Any) -> dict[str, Any]:
    """Return a role's resource with one value that no type checker would let through."""
    return {"resource": Resource(**{"cpu": 1, "gpu": 0, "memMB": 1, field: value})}


def role(**fields: Any) -> Role:
    return Role("trainer", "image", entrypoint="train", **fields)


def wrong_options() -> Iterator[tuple[str, object]]:
    for name, option in runopts.of(GCPBatchOpts):
        for value in (*WRONG.get(option.opt_type, ()), *OTHERS.get(name, ())):
            yield name, value


async def test_every_option_refuses_what_it_cannot_be(scheduler: GCPBatchScheduler) -> None:
    untold: list[tuple[str, object, str]] = []
    for name, value in wrong_options():
        try:
            await scheduler.submit_dryrun(AppDef("app", [role()]), {name: value})  # type: ignore[dict-item] # that is the point
            untold.append((name, value, "taken"))
        except ConfigError as error:
            if name not in str(error) and "label" not in str(error):
                untold.append((name, value, str(error)))

    assert [] == untold


async def test_options_as_an_object_are_checked_too(scheduler: GCPBatchScheduler) -> None:
    for options in (GCPBatchOpts(machine_type=""), GCPBatchOpts(priority=True), GCPBatchOpts(timeout=math.nan)):
        with pytest.raises(ConfigError):
            await scheduler.submit_dryrun(AppDef("app", [role()]), options)


WRONG_FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("image of role trainer must be the name of an image, got ''", {"image": ""}),
    ("image of role trainer must be the name of an image, got 'a b'", {"image": "a b"}),
    *(
        (f"max_retries of role 'trainer' must be a whole number of at least 0, got {value!r}", {"max_retries": value})
        for value in (-1, True, 1.0, math.nan, "2")
    ),
    ("together must be at most 10, got 11", {"max_retries": 11}),
    ("args[1] of role trainer has NUL at position 2", {"args": ["a", "b\0"]}),
    ("args[0] of role trainer has NUL at position 1", {"args": [Secret("\0pass")]}),
    ("env['A'] of role trainer has NUL at position 1", {"env": {"A": "\0replica\0"}}),
    ("env['A\\x00'] of role trainer has NUL at position 2", {"env": {"A\0": "b"}}),
    ("env['A'] of role trainer has NUL at position 3", {"env": {"A": Secret("ab\0")}}),
    ("entrypoint of role trainer has NUL at position 2", {"entrypoint": "t\0"}),
    ("image of role trainer has NUL at position 2", {"image": "i\0"}),
    ("mounts[0].src of role trainer has NUL at position 9", {"mounts": [VolumeMount("gs://b/a\0", "/c")]}),
    *(
        (
            f"env['A'] must refer to a secret of Secret Manager, got {SecretRef(*words)!r}",
            {"env": {"A": SecretRef(*words)}},
        )
        for words in (
            ("a b",),
            ("a.b",),
            ("a\n",),
            ("s" * 256,),
            ("projects/p q/secrets/s",),
            ("projects/p/secrets/s/versions/1 2",),
            ("s", "the last"),
            ("s", "1/2"),
            ("s", "v" * 64),
        )
    ),
    *(
        (f"resource.cpu of role trainer must be at most 1000000000, got {value!r}", wrong("cpu", value))
        for value in (math.nan, math.inf, 1e30)
    ),
    ("resource.cpu of role trainer must be at least 0.001, got 0.0001", wrong("cpu", 0.0001)),
    *(
        (f"resource.cpu of role 'trainer' must be a number, got {value!r}", wrong("cpu", value))
        for value in (True, "2", None)
    ),
    *(
        (
            f"resource.gpu of role trainer must be a whole number of at most 1000000000, got {value!r}",
            wrong("gpu", value),
        )
        for value in (0.5, 1.0, math.nan)
    ),
    *(
        (f"resource.gpu of role 'trainer' must be a number, got {value!r}", wrong("gpu", value))
        for value in (True, "2")
    ),
    *(
        (
            f"resource.memMB of role trainer must be {bound} 1000000000, got {value!r}",
            wrong("memMB", value),
        )
        for bound, value in (
            ("a whole number of at most", 0.5),
            ("a whole number of at most", math.inf),
            ("at most", 10**30),
        )
    ),
    *(
        (f"resource.memMB of role 'trainer' must be a number, got {value!r}", wrong("memMB", value))
        for value in (True, "2")
    ),
]


@pytest.mark.parametrize(
    ("message", "fields"), WRONG_FIELDS, ids=[message.strip()[:120] for message, _ in WRONG_FIELDS]
)
async def test_a_field_of_a_role_that_google_would_refuse(
    scheduler: GCPBatchScheduler, message: str, fields: dict[str, Any]
) -> None:
    made = role()
    for name, value in fields.items():
        setattr(made, name, value)
    with pytest.raises(ConfigError) as told:
        await scheduler.submit_dryrun(AppDef("app", [made]), {})

    assert message in str(told.value)


@pytest.mark.parametrize(
    ("mounts", "message"),
    [
        ([BindMount("/a:b", "/c")], "src_path of mount 0 of role trainer must be a mountable path, got '/a:b'"),
        ([BindMount("", "/c")], "src_path of mount 0 of role trainer must be a mountable path, got ''"),
        ([BindMount("/a", "c")], "dst_path of mount 0 of role trainer must be a mountable path, got 'c'"),
        (
            [BindMount("/a", "/b"), VolumeMount("gs://b", "/c:d")],
            "dst_path of mount 1 of role trainer must be a mountable path, got '/c:d'",
        ),
        ([BindMount("/a", "/c"), VolumeMount("gs://b", "/c/")], "mount 1 of role trainer hides another"),
        ([VolumeMount("gs://", "/c")], "the volume gs://"),
        ([VolumeMount("nfs://host", "/c")], "the volume nfs://host"),
        ([VolumeMount("disk:x", "/c")], "gs://BUCKET/FOLDER or nfs://SERVER/PATH"),
        ([DeviceMount("/dev/fuse", "")], "dst_path of mount 0 of role trainer must be a mountable path, got ''"),
        (
            [DeviceMount("/dev/fuse", "/dev/fuse", "")],
            "permissions of mount 0 of role trainer must be some of rwm, got ''",
        ),
        (
            [DeviceMount("/dev/fuse", "/dev/fuse", "rx")],
            "permissions of mount 0 of role trainer must be some of rwm, got 'rx'",
        ),
    ],
)
async def test_a_mount_that_cannot_be_is_refused(
    scheduler: GCPBatchScheduler, mounts: list[Mount], message: str
) -> None:
    with pytest.raises(AsyncSchedError) as told:
        await scheduler.submit_dryrun(AppDef("app", [role(mounts=mounts)]), {})

    assert message in str(told.value)


async def test_a_zone_as_the_location_is_told_where_zones_are_named(scheduler: GCPBatchScheduler) -> None:
    with pytest.raises(ConfigError, match="location must be a region, got the zone 'us-central1-a'") as told:
        await scheduler.submit_dryrun(AppDef("app", [role()]), {"location": "us-central1-a"})

    assert "allowed_locations=zones/us-central1-a" in str(told.value)


@pytest.mark.parametrize(
    "ref",
    [SecretRef("s" * 255, "latest"), SecretRef("a_B-9", "v" * 63), SecretRef("projects/example.com:p/secrets/s", "7")],
)
async def test_a_secret_that_secret_manager_can_have_is_taken(scheduler: GCPBatchScheduler, ref: SecretRef) -> None:
    await scheduler.submit_dryrun(AppDef("app", [role(env={"A": ref})]), {})


@pytest.mark.parametrize("seconds", [1e-10, 0.0015, 60])
async def test_a_short_time_never_becomes_none(scheduler: GCPBatchScheduler, seconds: float) -> None:
    info = await scheduler.submit_dryrun(AppDef("app", [role()]), {"timeout": seconds})
    groups: Any = info.request.job_def["taskGroups"]

    assert seconds == pytest.approx(float(groups[0]["taskSpec"]["maxRunDuration"].rstrip("s")), abs=1e-9)
    assert "0s" != groups[0]["taskSpec"]["maxRunDuration"]
