"""Read a component's arguments: from a command line, or from values by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from asyncsched.components.signature import Parameter, Value
from asyncsched.errors import ComponentError
from asyncsched.specs.run_options_text import pairs_of_torchx, parse_value, split_pairs
from asyncsched.specs.secret import MASK
from asyncsched.specs.secret_names import is_secret_name

__all__ = ["HelpAskedError", "convert", "parse_arguments"]

_BOOLS = frozenset(("1", "true", "yes", "on", "0", "false", "no", "off"))


class HelpAskedError(Exception):
    """``--help`` is among the arguments."""


class _Reader:
    """Reads a command line, word by word."""

    def __init__(self, component: str, parameters: Iterable[Parameter]) -> None:
        self._component = component
        self._options = {parameter.name: parameter for parameter in parameters if parameter.shape != "rest"}
        self._aliases = {
            alias.lstrip("-"): parameter for parameter in self._options.values() for alias in parameter.aliases
        }
        self._rest = next((parameter for parameter in parameters if parameter.shape == "rest"), None)
        self.given: dict[str, object] = {}

    def read(self, words: Sequence[str]) -> None:
        """Read options up to the first word that is not one; keep the words after it, or after ``--``, unchanged."""
        position = 0
        while position < len(words):
            word = words[position]
            if word == "--":
                self._read_rest(words[position + 1 :])
                return
            if not word.startswith("-") or word == "-":
                self._read_rest(words[position:])
                return
            position += 1 + self._read_option(word, words[position + 1 : position + 2])

    def _read_option(self, word: str, following: Sequence[str]) -> int:
        """Read one option and return how many of the following words were its value."""
        name, equals, text = word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if name == "help" or (word == "-h" and "h" not in self._options):
            raise HelpAskedError
        parameter = self._options.get(name) or self._aliases.get(word.lstrip("-").partition("=")[0])
        if parameter is None and not word.startswith("--") and name[:1] in self._options:
            parameter, equals, text = self._options[name[0]], "=", word[2:]  # -j2x4
        if parameter is None:
            parameter = self._shortened(word, name)
        if parameter is None:
            return self._read_negation(word, name)
        if equals:
            self._set(parameter, text)
            return 0
        if parameter.value is bool and parameter.shape == "one":
            return self._read_bool(parameter, following)
        if not following or self._is_option(following[0]):
            raise ComponentError(
                f"{self._component}: {parameter.flag} needs a value",
                fix=f"write {parameter.flag} {parameter.type_name.upper()}",
            )
        self._set(parameter, following[0])
        return 1

    def _shortened(self, word: str, name: str) -> Parameter | None:
        """Return the parameter of a TorchX component whose name begins like this, if there is only one."""
        known = [each for each in self._options.values() if each.of_torchx and each.name.startswith(name)]
        return known[0] if len(known) == 1 and word.startswith("--") else None

    def _read_bool(self, parameter: Parameter, following: Sequence[str]) -> int:
        has_value = bool(following) and following[0].lower() in _BOOLS
        self._set(parameter, following[0] if has_value else "true")
        return int(has_value)

    def _read_negation(self, word: str, name: str) -> int:
        parameter = self._options.get(name.removeprefix("no_"))
        if not name.startswith("no_") or parameter is None or parameter.value is not bool:
            raise _unknown(self._component, word, [option.flag for option in self._options.values()], self._rest)
        self._set(parameter, "false")
        return 0

    def _is_option(self, word: str) -> bool:
        return word == "--" or (word.startswith("--") and word[2:].partition("=")[0].replace("-", "_") in self._options)

    def _read_rest(self, words: Sequence[str]) -> None:
        if self._rest is None:
            if words:
                raise ComponentError(
                    f"{self._component} does not take the argument {words[0]!r}",
                    why="its arguments are given by name",
                    fix=f"use {', '.join(option.flag for option in self._options.values()) or 'no arguments'}",
                )
            return
        self.given[self._rest.name] = [_value(self._component, self._rest, word) for word in words]

    def _set(self, parameter: Parameter, text: str) -> None:
        value = _parsed(self._component, parameter, text)
        earlier = None if parameter.of_torchx else self.given.get(parameter.name)
        self.given[parameter.name] = _joined(earlier, value)


def _joined(earlier: object, value: object) -> object:
    if isinstance(earlier, list) and isinstance(value, list):
        return [*cast("list[object]", earlier), *cast("list[object]", value)]
    if isinstance(earlier, dict) and isinstance(value, dict):
        return {**cast("dict[str, object]", earlier), **cast("dict[str, object]", value)}
    return value


def parse_arguments(component: str, parameters: Sequence[Parameter], words: Sequence[str]) -> dict[str, object]:
    """Return the arguments of a command line, by name; lists and dicts given twice are joined.

    For TorchX's components, the last value counts and names may be shortened, as in TorchX.

    Raises:
        ComponentError: An argument is unknown (the message names the nearest) or has a wrong value.
        HelpAskedError: ``--help`` is among them, before any word that is not an option.
    """
    reader = _Reader(component, parameters)
    reader.read(words)
    return reader.given


def convert(component: str, parameters: Sequence[Parameter], values: Mapping[str, object]) -> dict[str, object]:
    """Convert values by name to the types that the component takes; strings are read as on a command line.

    Raises:
        ComponentError: A name is unknown (the message names the nearest) or a value is wrong.
    """
    known = {parameter.name: parameter for parameter in parameters}
    converted: dict[str, object] = {}
    for name, value in values.items():
        if name not in known:
            raise _unknown(component, name, list(known), None)
        converted[name] = _converted(component, known[name], value)
    return converted


def _converted(component: str, parameter: Parameter, value: object) -> object:
    if value is None and (parameter.takes_none or (parameter.default is None and not parameter.required)):
        return None
    if isinstance(value, str) and parameter.shape == "rest":
        return [_value(component, parameter, value)]  # one word, as on a command line
    if isinstance(value, str):
        return _parsed(component, parameter, value)
    if parameter.shape in ("list", "rest") and isinstance(value, (list, tuple)):
        return [_checked(component, parameter, item) for item in cast("Sequence[object]", value)]
    if parameter.shape == "dict" and isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {str(key): _entry(component, parameter, str(key), item) for key, item in items}
    if parameter.shape == "one":
        return _checked(component, parameter, value)
    raise _mistyped(component, parameter, value)


def _checked(component: str, parameter: Parameter, value: object) -> Value:
    if isinstance(value, str):
        return _value(component, parameter, value)
    if parameter.value is float and type(value) is int:
        return float(value)
    if type(value) is parameter.value and isinstance(value, (int, float)):
        return value
    raise _mistyped(component, parameter, value)


def _parsed(component: str, parameter: Parameter, text: str) -> object:
    try:
        if parameter.shape == "list":
            items = parse_value(text, list)
            return [_value(component, parameter, item) for item in items] if isinstance(items, list) else []
        if parameter.shape == "dict":
            pairs = pairs_of_torchx(text) if parameter.of_torchx else split_pairs(text)
            return {name: _entry(component, parameter, name, _unquoted(part)) for name, part in pairs}
    except ValueError as error:
        if isinstance(error, ComponentError):
            raise
        raise _mistyped(component, parameter, text, str(error)) from None
    return _value(component, parameter, text)


def _entry(component: str, parameter: Parameter, name: str, value: object) -> Value:
    """Return a dict's value; the error does not repeat it, as its name may say that it is a secret."""
    try:
        return _checked(component, parameter, value)
    except ComponentError:
        raise _mistyped(component, parameter, {name: value}) from None


def _unquoted(text: str) -> str:
    return str(parse_value(text, str))


def _value(component: str, parameter: Parameter, text: str) -> Value:
    if parameter.choices and text not in parameter.choices:
        raise _mistyped(component, parameter, text)
    if parameter.value is str:
        return text
    try:
        value = parse_value(text, parameter.value)
    except ValueError:
        raise _mistyped(component, parameter, text) from None
    assert isinstance(value, (bool, int, float))
    return value


def _mistyped(component: str, parameter: Parameter, value: object, why: str = "") -> ComponentError:
    from asyncsched.specs.masking import repeated  # imported late: only a wrong value needs it

    shown = MASK if is_secret_name(parameter.name) else repeated(value)
    return ComponentError(f"{component}: {parameter.flag} must be {parameter.type_name}, got {shown}", why=why)


def _unknown(component: str, name: str, known: Sequence[str], rest: Parameter | None) -> ComponentError:
    import difflib

    near = difflib.get_close_matches(name.partition("=")[0], known, n=1)
    hints = [f"did you mean {near[0]}?"] if near else []
    if not near and rest is None:
        hints.append(f"it has {', '.join(known) or 'none'}")
    if rest is not None:
        hints.append(f"write arguments for the program after -- : {component} ... -- {name}")
    return ComponentError(f"{component} has no argument {name.partition('=')[0]}", fix="; ".join(hints))
