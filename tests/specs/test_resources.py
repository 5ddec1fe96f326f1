from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from asyncsched.errors import ConfigError, UnknownResourceError
from asyncsched.specs import NULL_RESOURCE, Resource, get_named_resources, named_resources, resource
from asyncsched.specs.resources import NamedResources
from asyncsched.specs.resources_aws import AWS_RESOURCES
from asyncsched.specs.resources_generic import GENERIC_RESOURCES

MB_PER_GIB_ON_AWS = 983
EFA, NEURON = "vpc.amazonaws.com/efa", "aws.amazon.com/neurondevice"


@pytest.mark.parametrize(
    ("name", "cpu", "gpu", "mem_mb"),
    [
        ("gpu.small", 8, 1, 32768),
        ("gpu.medium", 16, 2, 65536),
        ("gpu.large", 32, 4, 131072),
        ("gpu.xlarge", 64, 8, 262144),
        ("cpu.nano", 1, 0, 512),
        ("cpu.micro", 1, 0, 1024),
        ("cpu.small", 1, 0, 2048),
        ("cpu.medium", 2, 0, 4096),
        ("cpu.large", 2, 0, 8192),
        ("cpu.xlarge", 8, 0, 32768),
    ],
)
def test_generic(name: str, cpu: int, gpu: int, mem_mb: int) -> None:
    assert Resource(cpu, gpu, mem_mb) == named_resources[name]


AWS = [
    ("t3.medium", 2, 0, 4, 0, 0),
    ("m5.2xlarge", 8, 0, 32, 0, 0),
    ("p3.2xlarge", 8, 1, 61, 0, 0),
    ("p3.8xlarge", 32, 4, 244, 0, 0),
    ("p3.16xlarge", 64, 8, 488, 0, 0),
    ("p3dn.24xlarge", 96, 8, 768, 1, 0),
    ("p4d.24xlarge", 96, 8, 1152, 4, 0),
    ("p4de.24xlarge", 96, 8, 1152, 4, 0),
    ("p5.48xlarge", 192, 8, 2048, 32, 0),
    ("g4dn.xlarge", 4, 1, 16, 0, 0),
    ("g4dn.2xlarge", 8, 1, 32, 0, 0),
    ("g4dn.4xlarge", 16, 1, 64, 0, 0),
    ("g4dn.8xlarge", 32, 1, 128, 1, 0),
    ("g4dn.12xlarge", 48, 4, 192, 1, 0),
    ("g4dn.16xlarge", 64, 1, 256, 1, 0),
    ("g4dn.metal", 96, 8, 384, 1, 0),
    ("g5.xlarge", 4, 1, 16, 0, 0),
    ("g5.2xlarge", 8, 1, 32, 0, 0),
    ("g5.4xlarge", 16, 1, 64, 0, 0),
    ("g5.8xlarge", 32, 1, 128, 1, 0),
    ("g5.12xlarge", 48, 4, 192, 1, 0),
    ("g5.16xlarge", 64, 1, 256, 1, 0),
    ("g5.24xlarge", 96, 4, 384, 1, 0),
    ("g5.48xlarge", 192, 8, 768, 1, 0),
    ("trn1.2xlarge", 8, 0, 32, 0, 1),
    ("trn1.32xlarge", 128, 0, 512, 8, 16),
]


@pytest.mark.parametrize(("name", "cpu", "gpu", "gib", "efa", "neuron"), AWS)
def test_aws(name: str, cpu: int, gpu: int, gib: int, efa: int, neuron: int) -> None:
    devices = {EFA: efa} if efa else {}
    devices |= {NEURON: neuron} if neuron else {}
    capabilities: dict[str, object] = {"node.kubernetes.io/instance-type": name}

    assert Resource(cpu, gpu, gib * MB_PER_GIB_ON_AWS, capabilities, devices) == named_resources[f"aws_{name}"]


def test_all_are_listed() -> None:
    assert {f"aws_{name}" for name, *_ in AWS} == set(AWS_RESOURCES)
    assert {*GENERIC_RESOURCES, *AWS_RESOURCES, "NULL", "MISSING"} <= set(named_resources)
    assert len(named_resources) == len(list(named_resources))
    assert "gpu.small" in repr(named_resources)


def test_null() -> None:
    assert NULL_RESOURCE == named_resources["NULL"] == named_resources["MISSING"]


def test_what_is_handed_out_may_be_changed() -> None:
    named_resources["aws_p5.48xlarge"].devices.clear()
    named_resources["NULL"].cpu = 1

    assert {EFA: 32} == named_resources["aws_p5.48xlarge"].devices
    assert -1 == NULL_RESOURCE.cpu


def test_an_unknown_name() -> None:
    with pytest.raises(KeyError, match=r"No named resource found for `gpu.smal`; Did you mean `gpu.small`\?"):
        get_named_resources("gpu.smal")
    with pytest.raises(UnknownResourceError, match=r"registered are gpu.small, .*aws_t3.medium"):
        named_resources["?"]
    assert "gpu.smal" not in named_resources
    assert named_resources.get("gpu.smal") is None


def test_resource() -> None:
    assert Resource(2, 0, 1024) == resource()
    assert Resource(1, 0, 1024) == resource(cpu=1, gpu=0)
    assert Resource(2, 0, 1024) == resource(cpu=0, memMB=0)
    assert Resource(3, 1, 5) == resource(3, 1, 5)
    assert Resource(8, 1, 32768) == resource(cpu=1, h="gpu.small")
    assert Resource(1, 0, 1024) == resource(cpu=1, h="")


PLUGIN = """
from asyncsched.specs import Resource

def big() -> Resource:
    return Resource(1000, 0, 1)

def no_resource():
    return "big"

def failing():
    raise OSError("no licence")
"""


@pytest.fixture
def with_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_big_resources.py").write_text(PLUGIN)
    info = tmp_path / "my_big_resources-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-big-resources\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[asyncsched.named_resources]\n"
        "big = my_big_resources:big\n"
        "gpu.small = my_big_resources:big\n"
        "odd = my_big_resources:no_resource\n"
        "failing = my_big_resources:failing\n"
        "gone = my_big_resources_that_are_gone:big\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("with_plugins")
def test_plugins_add_and_never_replace() -> None:
    assert Resource(1000, 0, 1) == named_resources["big"]
    assert "big" in named_resources
    assert Resource(8, 1, 32768) == named_resources["gpu.small"]
    assert 1 == list(named_resources).count("gpu.small")


@pytest.mark.usefixtures("with_plugins")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("odd", "it returned 'big'"),
        ("failing", "OSError: no licence"),
        ("gone", "ModuleNotFoundError: No module"),
    ],
)
def test_a_broken_plugin_is_named_and_hides_nothing(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"`{name}` cannot be loaded from my_big_resources.*: {why}"):
        named_resources[name]
    assert "gpu.small" in named_resources
    assert name in list(named_resources)


def test_plugins_are_not_looked_for_as_long_as_a_name_is_built_in() -> None:
    def unexpected() -> dict[str, EntryPoint]:
        raise AssertionError("looked for plugins")

    assert Resource(8, 1, 32768) == NamedResources(unexpected)["gpu.small"]
    assert "gpu.small" in NamedResources(unexpected)
