"""A component: a function that makes an `AppDef`, with its command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from asyncsched._torchx import adopted
from asyncsched.components.arguments import convert, parse_arguments
from asyncsched.components.docstring import parse_docstring
from asyncsched.components.place import place_of, where
from asyncsched.components.signature import Parameter, read_parameters
from asyncsched.errors import AsyncSchedError, ComponentError
from asyncsched.specs.app import AppDef

__all__ = ["Component"]


class Component:
    """A function that makes an `AppDef`.

    Args:
        name: The name that was asked for.
        function: The function; its annotations and docstring are read.

    Raises:
        ComponentError: The function cannot be a component; the message has each reason with file and line.
    """

    def __init__(self, name: str, function: Callable[..., object]) -> None:
        self.name = name
        self.function = function
        self.parameters, problems = _read(name, function)
        if problems:
            raise ComponentError(f"{name} is not a component", why="\n".join(problems))

    def __repr__(self) -> str:
        return f"<component {self.name} in {':'.join(map(str, where(self.function)))}>"

    @property
    def summary(self) -> str:
        """The docstring up to its first section."""
        return parse_docstring(self.function.__doc__).summary

    @property
    def source(self) -> str:
        """The source of the function."""
        return inspect.getsource(self.function)

    def app(
        self, args: Sequence[str] | Mapping[str, object] = (), defaults: Mapping[str, object] | None = None
    ) -> AppDef:
        """Make the app.

        Args:
            args: The component's command line, or its arguments by name.
            defaults: Arguments by name that are used where `args` has none.

        Raises:
            ComponentError: An argument is unknown, missing or wrong, or the function failed.
            HelpAskedError: ``--help`` is among the arguments.
        """
        given = convert(self.name, self.parameters, defaults or {})
        if isinstance(args, Mapping):
            given |= convert(self.name, self.parameters, args)
        else:
            given |= parse_arguments(self.name, self.parameters, args)
        if missing := [each for each in self.parameters if each.required and each.name not in given]:
            raise _missing(self.name, missing)
        return self._call(given)

    def _call(self, given: dict[str, object]) -> AppDef:
        arguments = inspect.signature(self.function).bind_partial()
        # All arguments, defaults too: if one were left out, those after it, and *args, would become keywords.
        for parameter in self.parameters:
            value = given.get(parameter.name, parameter.default)
            arguments.arguments[parameter.name] = tuple(_list(value)) if parameter.shape == "rest" else value
        try:
            app: Any = self.function(*arguments.args, **arguments.kwargs)
        except AsyncSchedError:
            raise
        except (Exception, SystemExit) as error:  # the user's code: report whatever it raises
            raise ComponentError(
                f"{self.name} failed", why=f"{place_of(error)}: {type(error).__name__}: {error}"
            ) from error
        app = adopted(app)
        if not isinstance(app, AppDef):
            file, line = where(self.function)
            raise ComponentError(f"{self.name} returned no AppDef", why=f"{file}:{line}: it returned {app!r}")
        return app


def _read(name: str, function: object) -> tuple[list[Parameter], list[str]]:
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        raise ComponentError(f"{name} is not a component", why=f"it is {function!r}, not a function")
    return read_parameters(function)


def _list(value: object) -> list[object]:
    return list(cast("Sequence[object]", value)) if isinstance(value, (list, tuple)) else []


def _missing(name: str, parameters: Sequence[Parameter]) -> ComponentError:
    flags = ", ".join(each.flag for each in parameters)
    added = ", ".join(
        f"{each.flag} {each.type_name.upper()}{f' ({each.help})' if each.help else ''}" for each in parameters
    )
    return ComponentError(f"{name} needs {flags}", fix=f"add {added}")
