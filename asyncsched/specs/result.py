"""What a replica leaves as its result: a small JSON file, whose path is in its environment."""

from __future__ import annotations

from asyncsched.specs.to_plain import JsonValue

__all__ = ["LARGEST_RESULT", "RESULT_FILE", "UnreadableResult", "read_result"]

RESULT_FILE = "ASYNCSCHED_RESULT_FILE"
"""The variable that names the file, where a scheduler can read it."""

LARGEST_RESULT = 64 << 10
"""Bytes that a result may have."""


class UnreadableResult(dict[str, JsonValue]):
    """Stands for a result that cannot be read; ``{"error": why}`` as JSON."""

    def __init__(self, why: str) -> None:
        super().__init__(error=why)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of it")


def read_result(data: bytes) -> JsonValue:
    """Parse a result file; one that is not JSON, or too large, is an `UnreadableResult`.

    Args:
        data: What the file holds; of a large one the first `LARGEST_RESULT` + 1 bytes are enough.
    """
    if len(data) > LARGEST_RESULT:
        return UnreadableResult(f"the result is larger than {LARGEST_RESULT} bytes")
    import json  # few read results

    try:
        value: JsonValue = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return UnreadableResult(f"the result is not JSON: {str(error)[:200]}")
    return value
