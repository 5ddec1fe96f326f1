"""The run options of a scheduler: their names, types, defaults and help.

A scheduler declares them once, as a dataclass; :meth:`runopts.of` turns it into an object that checks, parses and
prints them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar, cast

from asyncsched.errors import RunOptionError
from asyncsched.specs.given import is_a, kind
from asyncsched.specs.value import Value

__all__ = ["CfgVal", "get_type_name", "runopt", "runopts"]

CfgVal: TypeAlias = str | int | float | bool | list[str] | dict[str, str] | None
"""The type of a run option's value."""

OptionsT = TypeVar("OptionsT")

_SYNTAX = """write them as name=value,name=value and put values that hold , ; or quotes in "..." """.strip()
_KINDS = (str, bool, int, float, list, dict)


def get_type_name(tp: object) -> str:
    """Return a type's name: ``int``, ``list[str]``, ``typing.List[str]``."""
    return tp.__name__ if isinstance(tp, type) and not hasattr(tp, "__origin__") else str(tp)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class runopt(Value):  # noqa: N801 - the documents' name
    """One run option.

    Args:
        default: Its value when it is not given.
        opt_type: Its type: str, bool, int, float, ``list[str]`` or ``dict[str, str]``.
        is_required: Whether it must be given.
        help: What it is for.
        choices: The allowed values; empty allows any.
    """

    default: CfgVal
    opt_type: type[object]
    is_required: bool
    help: str
    choices: tuple[str, ...] = field(default=(), kw_only=True)

    def __hash__(self) -> int:
        return hash((self.default, self.opt_type, self.is_required, self.help, self.choices))

    @property
    def type_name(self) -> str:
        """The type as printed: the choices, if there are any."""
        return "|".join(self.choices) or get_type_name(self.opt_type)


class runopts:  # noqa: N801 - the documents' name
    """The run options of a scheduler. Print them to see their help.

    Values are checked strictly: ``"5"`` is not an int and ``1`` is not a bool, except when text is parsed
    (:meth:`cfg_from_str`, :meth:`parse`). An int is accepted for a float.
    """

    def __init__(self) -> None:
        self._opts: dict[str, runopt] = {}

    @classmethod
    def of(cls, options: type[object]) -> runopts:
        """Make run options from a dataclass with fields like ``queue: Annotated[str, Doc("where to wait")]``.

        A field without a default is required. ``Optional`` and ``Literal`` are understood.

        Raises:
            TypeError: It is not a dataclass, or a field has a type that no run option can have.
        """
        from asyncsched.specs.run_options_dataclass import read_options

        result = cls()
        for name, opt in read_options(options):
            result.add(name, opt.opt_type, opt.help, opt.default, opt.is_required, choices=opt.choices)
        return result

    @classmethod
    def build(cls, options: type[OptionsT], cfg: OptionsT | Mapping[str, CfgVal] | None = None) -> OptionsT:
        """Return an instance of the dataclass from resolved options; an instance is checked and returned as it is.

        Raises:
            RunOptionError: An option is unknown, missing or of the wrong type.
        """
        known = _known.get(options)
        if known is None:
            known = _known[options] = cls.of(options)
        if isinstance(cfg, options):
            known._given({name: getattr(cfg, name) for name, _ in known})  # a dataclass does not check types
            return cfg
        if cfg is not None and not isinstance(cfg, Mapping):
            what = f"cfg must be {options.__name__} or a mapping, got {kind(cfg)}"
            fix = f"write {{'name': value}}, or {options.__name__}(name=value)"
            raise RunOptionError(what, fix=fix)
        return options(**known._given(cast("Mapping[str, CfgVal]", cfg or {})))

    def add(
        self,
        cfg_key: str,
        type_: type[object],
        help: str,  # noqa: A002 - the documents' name
        default: CfgVal = None,
        required: bool = False,
        *,
        choices: tuple[str, ...] = (),
    ) -> None:
        """Add an option.

        Raises:
            ValueError: It is required and has a default.
            TypeError: The default has another type, or no run option can have the type.
        """
        try:
            _kind(type_)
        except TypeError as error:
            raise TypeError(f"Option: {cfg_key}, cannot be of type: {get_type_name(type_)}") from error
        if required and default is not None:
            raise ValueError(f"Required option: {cfg_key} must not specify default value. Given: {default}")
        if default is not None and not self.is_type(default, type_):
            given = f"{default} ({type(default).__name__})"
            raise TypeError(f"Option: {cfg_key}, must be of type: {get_type_name(type_)}. Given: {given}")
        self._opts[cfg_key] = runopt(default, type_, required, help, choices=choices)

    def get(self, name: str) -> runopt | None:
        """Return the option of this name, if there is one."""
        return self._opts.get(name)

    def update(self, other: runopts) -> None:
        """Add the options of another; they replace those of the same name."""
        self._opts.update(other._opts)

    def __or__(self, other: runopts) -> runopts:
        result = runopts()
        result.update(self)
        result.update(other)
        return result

    def __iter__(self) -> Iterator[tuple[str, runopt]]:
        return iter(self._opts.items())

    def __contains__(self, name: object) -> bool:
        return name in self._opts

    def __len__(self) -> int:
        return len(self._opts)

    @staticmethod
    def is_type(obj: object, tp: type[object]) -> bool:
        """Return whether a value is of an option's type; a bool is not an int, but an int is a float."""
        kind = _kind(tp)
        if isinstance(obj, (list, dict)):
            members = cast("list[object] | dict[object, object]", obj)
            values = members.values() if isinstance(members, dict) else ()
            return isinstance(obj, kind) and all(isinstance(item, str) for item in (*members, *values))
        if isinstance(obj, bool):
            return kind is bool
        return isinstance(obj, (float, int) if kind is float else kind)

    def resolve(self, cfg: Mapping[str, CfgVal]) -> dict[str, CfgVal]:
        """Check the given options, and fill in defaults for those that are missing or None.

        Raises:
            RunOptionError: An option is unknown (the message names the nearest), missing or mistyped.
        """
        given = self._given(cfg)
        return {name: given[name] if name in given else _copied(opt.default) for name, opt in self}

    def _given(self, cfg: Mapping[str, CfgVal]) -> dict[str, CfgVal]:
        """Return the given options, checked, without those that are None."""
        checked = {name: self.check(name, value) for name, value in cfg.items()}
        given: dict[str, CfgVal] = {name: value for name, value in checked.items() if value is not None}
        for name, opt in self:
            if opt.is_required and name not in given:
                what = f"Required run option: {name}, must be provided and not `None`"
                raise RunOptionError(what, key=name, fix=f"give {name}={name.upper()} ({opt.help})")
        return given

    def cfg_from_str(self, cfg_str: str) -> dict[str, CfgVal]:
        """Parse ``a=1,b=x;y,c="u,v"``, without filling in defaults; :meth:`resolve` does that.

        Raises:
            RunOptionError: An option is unknown, given twice or mistyped, or the text cannot be read.
        """
        from asyncsched.specs.run_options_text import split_pairs  # imported late: only options as text need it

        try:
            pairs = split_pairs(cfg_str)
        except ValueError as error:
            raise RunOptionError("The run options cannot be read", why=str(error), fix=_SYNTAX) from None
        cfg: dict[str, CfgVal] = {}
        for name, text in pairs:
            if name in cfg:
                raise RunOptionError(f"Run option: {name}, is given twice", key=name)
            cfg[name] = self.parse(name, text)
        return cfg

    def parse(self, name: str, text: str) -> CfgVal:
        """Parse the text of one option, as in :meth:`cfg_from_str`: ``yes`` is True for a bool.

        Raises:
            RunOptionError: The option is unknown or mistyped.
        """
        from asyncsched.specs.run_options_text import parse_value

        opt = self._known(name)
        kind = _kind(opt.opt_type)
        try:
            value = parse_value(text, kind)
        except ValueError as error:
            if kind in (int, float, bool):
                raise _mistyped(name, opt, text) from None
            # The text is not shown: it may be a secret, and an unreadable value cannot be masked.
            what = f"Run option: {name}, must be of type: {opt.type_name}"
            fix = _SYNTAX if kind is not dict else f"write it as {name}=NAME:value,NAME:value"
            raise RunOptionError(what, key=name, why=str(error), fix=fix) from None
        return self.check(name, value)

    def cfg_from_json_repr(self, json_repr: str) -> dict[str, CfgVal]:
        """Parse a JSON object of options, without filling in defaults; :meth:`resolve` does that.

        Raises:
            RunOptionError: An option is unknown or mistyped, or the text is not a JSON object.
        """
        import json

        try:
            cfg: object = json.loads(json_repr)
        except (ValueError, RecursionError) as error:
            raise RunOptionError("The run options are not JSON", why=str(error)) from None
        if not isinstance(cfg, dict):
            raise RunOptionError("The run options are not a JSON object", why=f"got {type(cfg).__name__}")
        pairs = cast("dict[str, object]", cfg)
        return {name: self.check(name, value) for name, value in pairs.items()}

    @staticmethod
    def cfg_to_str(cfg: Mapping[str, CfgVal]) -> str:
        """Format options as :meth:`cfg_from_str` reads them, without those that are None.

        A ``Secret`` is written as its mask.
        """
        from asyncsched.specs.run_options_text import format_pairs

        return format_pairs(cfg)

    def _known(self, name: str) -> runopt:
        opt = self._opts.get(name)
        if opt is None:
            raise self._unknown(name)
        return opt

    def _unknown(self, name: str) -> RunOptionError:
        from difflib import get_close_matches

        if not isinstance(cast("object", name), str):
            return RunOptionError(f"The name of a run option must be a str, got {kind(name)}", key=str(name))
        known = {known.lower(): known for known in self._opts}
        nearest = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
        fix = f"did you mean `{known[nearest[0]]}`?" if nearest else f"valid are: {', '.join(self._opts) or 'none'}"
        return RunOptionError(f"Unknown run option: {name}", key=name, fix=fix)

    def check(self, name: str, value: object) -> CfgVal:
        """Check a value as :meth:`resolve` does, and return a copy of it.

        Raises:
            RunOptionError: The option is unknown (the message names the nearest) or the value is of another type.
        """
        opt = self._known(name)
        if value is None:
            return None
        if not self.is_type(value, opt.opt_type) or (opt.choices and value not in opt.choices):
            raise _mistyped(name, opt, value)
        return _copied(cast("CfgVal", value))

    def __repr__(self) -> str:
        required = [(name, opt) for name, opt in self if opt.is_required]
        optional = [(name, opt) for name, opt in self if not opt.is_required]
        usage = [f"{name}={name.upper()}" for name, _ in required]
        usage += [f"[{name}={name.upper()}]" for name, _ in optional]
        text = f"    usage:\n        {','.join(usage)}"
        for title, section in (("required", required), ("optional", optional)):
            if section:
                text += f"\n\n    {title} arguments:" + "".join(_help(name, opt) for name, opt in section)
        return text


# Cached: a class's annotations do not change, and reading them took a third of each submit's time. Never handed out.
_known: weakref.WeakKeyDictionary[type[object], runopts] = weakref.WeakKeyDictionary()


def _help(name: str, opt: runopt) -> str:
    default = "" if opt.is_required else f", {opt.default}"
    return f"\n        {name}={name.upper()} ({opt.type_name}{default})\n            {opt.help}"


def _mistyped(name: str, opt: runopt, value: object) -> RunOptionError:
    from asyncsched.specs.masking import masked, repeated  # imported late: only a wrong value needs it

    shown = masked({name: value})
    assert isinstance(shown, dict)
    is_container = is_a(value, dict, list, tuple)
    given = repeated(value) if is_container else f"{repeated(shown[name])} ({type(value).__name__})"
    what = f"Run option: {name}, must be of type: {opt.type_name}, but was: {given}"
    return RunOptionError(what, key=name)


def _kind(tp: type[object]) -> type[object]:
    """Return the run-option type that a type annotation means."""
    kind = getattr(tp, "__origin__", tp)
    members = set(getattr(tp, "__args__", ()))
    if kind not in _KINDS or members - {str}:
        raise TypeError(f"A run option cannot be of type {get_type_name(tp)}")
    return kind


def _copied(value: CfgVal) -> CfgVal:
    # A new list, so that two uses of one default do not share it.
    if isinstance(value, list):
        return list(value)
    return dict(value) if isinstance(value, dict) else value
