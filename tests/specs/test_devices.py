from __future__ import annotations

import pytest

from asyncsched.specs import DeviceMount, get_device_mounts, named_resources


def test_known_devices() -> None:
    assert get_device_mounts({"vpc.amazonaws.com/efa": 2, "aws.amazon.com/neurondevice": 1}) == [
        DeviceMount("/dev/infiniband/uverbs0", "/dev/infiniband/uverbs0"),
        DeviceMount("/dev/infiniband/uverbs1", "/dev/infiniband/uverbs1"),
        DeviceMount("/dev/neuron0", "/dev/neuron0"),
    ]


def test_of_a_named_resource() -> None:
    assert 8 + 16 == len(get_device_mounts(named_resources["aws_trn1.32xlarge"].devices))


def test_an_unknown_device_gives_a_warning() -> None:
    with pytest.warns(UserWarning, match="Could not find named device: tpu"):
        assert [] == get_device_mounts({"tpu": 4})
