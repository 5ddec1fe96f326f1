"""Generic named resources, for examples and first tries; their sizes may change."""

from __future__ import annotations

from asyncsched.specs.app import Resource

__all__ = ["GENERIC_RESOURCES"]

_GIB = 1024

GENERIC_RESOURCES: dict[str, Resource] = {
    "gpu.small": Resource(cpu=8, gpu=1, memMB=32 * _GIB),
    "gpu.medium": Resource(cpu=16, gpu=2, memMB=64 * _GIB),
    "gpu.large": Resource(cpu=32, gpu=4, memMB=128 * _GIB),
    "gpu.xlarge": Resource(cpu=64, gpu=8, memMB=256 * _GIB),
    "cpu.nano": Resource(cpu=1, gpu=0, memMB=_GIB // 2),
    "cpu.micro": Resource(cpu=1, gpu=0, memMB=1 * _GIB),
    "cpu.small": Resource(cpu=1, gpu=0, memMB=2 * _GIB),
    "cpu.medium": Resource(cpu=2, gpu=0, memMB=4 * _GIB),
    "cpu.large": Resource(cpu=2, gpu=0, memMB=8 * _GIB),
    "cpu.xlarge": Resource(cpu=8, gpu=0, memMB=32 * _GIB),
}
