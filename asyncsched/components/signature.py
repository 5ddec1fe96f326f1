"""Read a component's parameters from its annotations, and report what is wrong with them, with file and line."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Literal, TypeAlias, Union, cast, get_args, get_origin

from asyncsched._torchx import is_torchx_app
from asyncsched.components.docstring import parse_docstring
from asyncsched.components.place import where
from asyncsched.specs.app import AppDef

__all__ = ["Parameter", "Shape", "Value", "read_parameters"]

Value: TypeAlias = str | int | float | bool
Shape: TypeAlias = Literal["one", "list", "dict", "rest"]

_VALUES = (str, int, float, bool)
_SHAPES: dict[object, Shape] = {list: "list", Sequence: "list", dict: "dict", Mapping: "dict"}
_SUPPORTED = "str, int, float, bool, Literal of strings, list[...], dict[str, ...], and each of them | None"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parameter:
    """One parameter of a component.

    Attributes:
        name: Its name.
        value: The type of one value: str, int, float or bool.
        shape: One value, a list, a dict with string keys, or the remaining arguments (``*args``).
        required: Whether it must be given.
        takes_none: Whether its annotation allows None.
        default: Its default value.
        choices: The only values allowed; empty for any.
        help: Its help, from the docstring.
        aliases: Other spellings of its flag, as in ``Annotated[str, "-cn"]``.
        of_torchx: Whether the component is TorchX's, and its command line is read as there.
    """

    name: str
    value: type[Value]
    shape: Shape
    required: bool
    takes_none: bool = False
    default: object = None
    choices: tuple[str, ...] = ()
    help: str = ""
    aliases: tuple[str, ...] = ()
    of_torchx: bool = False

    @property
    def flag(self) -> str:
        """Its flag on a command line."""
        return f"-{self.name}" if len(self.name) == 1 else f"--{self.name}"

    @property
    def type_name(self) -> str:
        """Its type for help and messages."""
        one = "|".join(self.choices) or self.value.__name__
        return {"one": one, "rest": one, "list": f"{one},...", "dict": f"name={one},..."}[self.shape]


def read_parameters(function: Callable[..., object]) -> tuple[list[Parameter], list[str]]:
    """Return the usable parameters, and a list of what is wrong, as ``file:line: what``."""
    parameters: list[Parameter] = []
    problems: list[tuple[int, str]] = []
    helps = parse_docstring(function.__doc__).arguments
    file, lines = where(function), _lines(function)
    for parameter in inspect.signature(function).parameters.values():
        try:
            parameters.append(_parameter(parameter, function, helps.get(parameter.name, "")))
        except _UnusableError as error:
            problems.append((lines.get(parameter.name, file[1]), str(error)))
    problems += [(lines.get("return", file[1]), problem) for problem in _return_problem(function)]
    return parameters, [f"{file[0]}:{line}: {problem}" for line, problem in problems]


class _UnusableError(Exception):
    """A parameter that a command line cannot set."""


def _parameter(parameter: inspect.Parameter, function: Callable[..., object], help_text: str) -> Parameter:
    if parameter.kind is parameter.VAR_KEYWORD:
        raise _UnusableError(f"**{parameter.name}: a component must name all of its arguments")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise _UnusableError(f"{parameter.name} can only be given by position: move it after the /")
    if parameter.annotation is parameter.empty:
        raise _UnusableError(f"{parameter.name} has no annotation: write its type, such as {parameter.name}: str")
    hint = _evaluated(parameter.annotation, function)
    shape, value, choices = _read_hint(hint, parameter)
    is_rest = parameter.kind is parameter.VAR_POSITIONAL
    if is_rest and shape != "one":
        raise _UnusableError(f"*{parameter.name}: {_written(hint)}: each argument is one value, such as str")
    has_default = parameter.default is not parameter.empty
    return Parameter(
        name=parameter.name,
        value=value,
        shape="rest" if is_rest else shape,
        required=not has_default and not is_rest,
        takes_none=_without_none(_without_notes(hint)) is not _without_notes(hint),
        default=parameter.default if has_default else None,
        choices=choices,
        help=help_text,
        aliases=_aliases(hint),
        of_torchx=str(function.__module__).startswith("torchx."),
    )


def _aliases(hint: object) -> tuple[str, ...]:
    notes = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return tuple(note for note in notes if isinstance(note, str) and note.startswith("-"))


def _evaluated(annotation: object, function: Callable[..., object]) -> object:
    names = dict(getattr(inspect.unwrap(function), "__globals__", {}))
    try:
        while isinstance(annotation, str):  # quoted in a file that defers its annotations: a string twice
            annotation = cast("object", eval(annotation, names))  # noqa: S307 - the component's own annotation
        return annotation
    except Exception as error:  # noqa: BLE001 - an annotation may raise anything, and the message has it
        raise _UnusableError(f"cannot read the annotation {annotation}: {error}") from None


def _read_hint(hint: object, parameter: inspect.Parameter) -> tuple[Shape, type[Value], tuple[str, ...]]:
    inner = _without_none(_without_notes(hint))
    shape = _SHAPES.get(get_origin(inner) or inner, "one")
    if shape == "one":
        value, choices = _read_value(inner)
    else:
        arguments = get_args(inner) or ((str, str) if shape == "dict" else (str,))
        value, choices = _read_value(arguments[-1])
        if shape == "dict" and arguments[0] is not str:
            value = None
    if value is None:
        raise _UnusableError(f"{parameter.name} has the unsupported type {_written(hint)}: use {_SUPPORTED}")
    return shape, value, choices


def _read_value(hint: object) -> tuple[type[Value] | None, tuple[str, ...]]:
    choices = get_args(hint)
    if get_origin(hint) is Literal and all(isinstance(choice, str) for choice in choices):
        return str, choices
    return next((value for value in _VALUES if hint is value), None), ()


def _without_notes(hint: object) -> object:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _without_none(hint: object) -> object:
    if get_origin(hint) not in (Union, UnionType):
        return hint
    members = [member for member in get_args(hint) if member is not NoneType]
    return members[0] if len(members) == 1 else hint


def _written(hint: object) -> str:
    return str(hint) if get_args(hint) else str(getattr(hint, "__name__", hint))


def _return_problem(function: Callable[..., object]) -> Iterator[str]:
    if inspect.iscoroutinefunction(function):
        yield f"{function.__name__} is a coroutine: a component is a plain function, write def instead of async def"
    annotation: object = inspect.signature(function).return_annotation
    if annotation is inspect.Signature.empty:
        yield f"{getattr(function, '__name__', 'it')} has no return annotation: write -> AppDef"
        return
    try:
        annotation = _evaluated(annotation, function)
    except _UnusableError:  # the name may be imported only for type checkers
        if str(annotation).strip("'\"").rpartition(".")[2] != "AppDef":
            yield f"it returns {annotation}: a component returns an AppDef"
        return
    if not (inspect.isclass(annotation) and (issubclass(annotation, AppDef) or is_torchx_app(annotation))):
        yield f"it returns {_written(annotation)}: a component returns an AppDef"


def _lines(function: Callable[..., object]) -> Mapping[str, int]:
    """Return the line of each parameter and of the return annotation, if the source can be read."""
    code = inspect.unwrap(function).__code__
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:
        return {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and code.co_firstlineno in (node.lineno, *_decorated(node)):
            return dict(_argument_lines(node))
    return {}


def _decorated(node: ast.FunctionDef) -> list[int]:
    # A function's code begins at its first decorator.
    return [decorator.lineno for decorator in node.decorator_list[:1]]


def _argument_lines(node: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    arguments = node.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        yield argument.arg, argument.lineno
    for rest in (arguments.vararg, arguments.kwarg):
        if rest is not None:
            yield rest.arg, rest.lineno
    yield "return", node.returns.lineno if node.returns else node.lineno
