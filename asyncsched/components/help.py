"""Write a component's help."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from asyncsched.components.component import Component
from asyncsched.components.signature import Parameter

__all__ = ["component_help"]


def component_help(component: Component, width: int = 80) -> str:
    """Return a component's help: its usage, its purpose and its arguments."""
    required = [parameter for parameter in component.parameters if parameter.required]
    optional = [parameter for parameter in component.parameters if not parameter.required]
    usage = f"asyncsched run [OPTIONS] {component.name} {_usage(component.parameters)}".rstrip()
    parts = [textwrap.fill(f"usage: {usage}", max(width, 20), subsequent_indent="    ", break_on_hyphens=False)]
    if component.summary:
        parts += [textwrap.fill(paragraph, max(width, 20)) for paragraph in component.summary.split("\n\n")]
    for title, section in (("required", required), ("optional", optional)):
        if section:
            parts.append(f"{title}:\n" + "\n".join(_described(parameter, width) for parameter in section))
    return "\n\n".join(parts)


def _usage(parameters: Iterable[Parameter]) -> str:
    words = [f"{parameter.flag} {parameter.type_name.upper()}" for parameter in parameters if parameter.required]
    if any(not parameter.required and parameter.shape != "rest" for parameter in parameters):
        words.append("[--name value ...]")
    words += [f"[--] [{parameter.name.upper()} ...]" for parameter in parameters if parameter.shape == "rest"]
    return " ".join(words)


def _described(parameter: Parameter, width: int) -> str:
    default = "" if parameter.default is None else f" (default: {parameter.default})"
    text = f"{parameter.help}{default}".strip()
    head = f"  {_head(parameter)}"
    indent = " " * 6
    body = textwrap.fill(text, max(width, 20), initial_indent=indent, subsequent_indent=indent)
    return f"{head}\n{body}" if text else head


def _head(parameter: Parameter) -> str:
    if parameter.shape == "rest":
        return f"{parameter.name.upper()} {parameter.type_name}"
    if parameter.shape == "one" and parameter.value is bool:
        return f"{parameter.flag}, --no-{parameter.name.replace('_', '-')}"
    return f"{parameter.flag} {parameter.type_name}"
