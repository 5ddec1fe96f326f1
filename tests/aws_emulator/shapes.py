"""botocore's service models as the judge: what a request may hold, and what an answer must look like."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import botocore.session
from botocore.model import OperationModel, Shape
from botocore.validate import ParamValidator

from tests.aws_emulator.errors import ApiError

_NEWER = re.compile(
    r"\.jobSummaryList\[\]\.is(Cancelled|Terminated): not in the model|: 'MANAGED_INSTANCES' is not one of"
)
"""What AWS Batch answers since it knows TerminateJobs; a release of botocore from before knows none of it."""


@functools.cache
def operations(service: str) -> dict[str, OperationModel]:
    """A service's operations by their name in lower case."""
    model = botocore.session.get_session().get_service_model(service)
    return {name.lower(): model.operation_model(name) for name in model.operation_names}


def check_request(operation: OperationModel, request: dict[str, Any]) -> None:
    """Refuse what botocore would not have sent, and members that the operation does not have."""
    report = ParamValidator().validate(request, operation.input_shape)
    unknown = [problem for problem in _walk(operation.input_shape, request, "") if "not in the model" in problem]
    if report.has_errors() or unknown:
        raise ApiError("ClientException", report.generate_report() or "; ".join(unknown))


def problems(operation: OperationModel, answer: Any) -> list[str]:
    """What is wrong with an answer: unknown members, wrong types, nulls, values outside an enumeration."""
    shape = operation.output_shape
    found = _walk(shape, answer, "") if shape else ()
    is_old = "terminatejobs" not in operations("batch")
    return [f"{operation.name}{problem}" for problem in found if not (is_old and _NEWER.search(problem))]


def _walk(shape: Shape, value: Any, path: str) -> Iterator[str]:
    kind = shape.type_name
    if kind == "structure":
        yield from _structure(shape, value, path)
    elif kind == "list":
        if not isinstance(value, list):
            yield f"{path}: expected a list, got {value!r}"
        else:
            # One row is made like the other: the first hundred stand for a page of a thousand.
            for row in value[:100]:
                yield from _walk(shape.member, row, f"{path}[]")
    elif kind == "map":
        for key, row in value.items():
            yield from _walk(shape.value, row, f"{path}{{{key}}}")
    elif not _is(kind, value):
        yield f"{path}: expected {kind}, got {value!r}"
    elif kind == "string" and shape.enum and value not in shape.enum:
        yield f"{path}: {value!r} is not one of {shape.enum}"


def _structure(shape: Shape, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: expected an object, got {value!r}"
        return
    for key, row in value.items():
        if key not in shape.members:
            yield f"{path}.{key}: not in the model"
        elif row is None:
            yield f"{path}.{key}: null"
        else:
            yield from _walk(shape.members[key], row, f"{path}.{key}")
    for key in shape.required_members:
        if key not in value:
            yield f"{path}.{key}: required, and missing"


def _is(kind: str, value: object) -> bool:
    if kind in ("integer", "long"):
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, _TYPES.get(kind, object))


_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "double": (int, float),
    "float": (int, float),
}
