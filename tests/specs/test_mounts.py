from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.errors import MountError
from asyncsched.specs import BindMount, DeviceMount, VolumeMount, format_mounts, parse_mounts

paths = st.text(min_size=1).filter(lambda text: not text.startswith("~"))
mounts = st.one_of(
    st.builds(BindMount, paths, paths, st.booleans()),
    st.builds(VolumeMount, paths, paths, st.booleans()),
    st.builds(DeviceMount, paths, paths, st.text("rwm")),
)


@given(st.lists(mounts))
def test_what_is_written_is_read_back(given_mounts: list[BindMount | VolumeMount | DeviceMount]) -> None:
    assert given_mounts == parse_mounts(format_mounts(given_mounts))


def test_each_type_and_each_spelling() -> None:
    opts = [
        *("type=bind", "src=/a", "dst=/b"),
        *("type=bind", "source=/a", "readonly", "target=/b"),
        *("type=volume", "destination=/b", "src=data", "read_only=true"),
        *("type=device", "src=/dev/fuse"),
        *("type=device", "src=/dev/fuse", "dst=/dev/f", "perm=rw"),
    ]

    assert parse_mounts(opts) == [
        BindMount("/a", "/b"),
        BindMount("/a", "/b", read_only=True),
        VolumeMount("data", "/b", read_only=True),
        DeviceMount("/dev/fuse", "/dev/fuse", "rwm"),
        DeviceMount("/dev/fuse", "/dev/f", "rw"),
    ]


def test_home_is_expanded_for_a_bind_mount_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")

    assert [BindMount("/home/me/x", "/x")] == parse_mounts(["type=bind", "src=~/x", "dst=/x"])
    assert [VolumeMount("~x", "/x")] == parse_mounts(["type=volume", "src=~x", "dst=/x"])


def test_readonly_can_be_said_no_to() -> None:
    assert [BindMount("/a", "/b")] == parse_mounts(["type=bind", "src=/a", "dst=/b", "readonly=false"])


@pytest.mark.parametrize(
    ("opts", "message"),
    [
        (["foo=bar"], "unknown mount option foo; must be one of .*'destination'.*'perm'"),
        (["src=/a"], "type must be specified first"),
        (["type=nfs"], "invalid mount type 'nfs'; must be one of .*bind.*volume.*device"),
        (["type=bind", "dst=/a"], "A bind mount needs src"),
        (["type=volume", "src=a"], "A volume mount needs dst"),
        (["type=bind", "src=/a", "dst="], "A bind mount needs dst"),
        (["type=device", "src=/dev/a", "perm=rx"], "x is not a valid permission flag"),
        (["type=device", "src=/dev/a", "readonly"], "A device mount does not take the option readonly"),
        (["type=bind", "src=/a", "source=/b"], "src is given twice"),
        (["type=bind", "src=/a", "dst=/b", "readonly=maybe"], "readonly must be yes or no, got 'maybe'"),
    ],
)
def test_mistakes(opts: list[str], message: str) -> None:
    with pytest.raises(MountError, match=message) as caught:
        parse_mounts(opts)

    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, ValueError)
