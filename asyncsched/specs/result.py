"""Results of replicas: small JSON files, whose paths are in the replicas' environment."""

from __future__ import annotations

from asyncsched.specs.to_plain import JsonValue

__all__ = ["LARGEST_RESULT", "RESULT_FILE", "UnreadableResult", "read_result"]

RESULT_FILE = "ASYNCSCHED_RESULT_FILE"
"""The environment variable with the file's path, on schedulers that can read results."""

LARGEST_RESULT = 64 << 10
"""Largest size of a result, in bytes."""


class UnreadableResult(dict[str, JsonValue]):
    """Replaces a result that cannot be read; ``{"error": why}`` as JSON."""

    def __init__(self, why: str) -> None:
        super().__init__(error=why)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON value")


def read_result(data: bytes) -> JsonValue:
    """Parse a result file; return an `UnreadableResult` if it is not JSON, or too large.

    Args:
        data: The file's content; of a large file the first `LARGEST_RESULT` + 1 bytes are enough.
    """
    if len(data) > LARGEST_RESULT:
        return UnreadableResult(f"the result is larger than {LARGEST_RESULT} bytes")
    import json  # imported late: few programs read results

    try:
        value: JsonValue = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return UnreadableResult(f"the result is not JSON: {str(error)[:200]}")
    return value
