"""A component: each public function here is one, named ``demo.`` and its name."""

from __future__ import annotations

from asyncsched import AppDef, Role, resource


def hello(name: str = "world", times: int = 1) -> AppDef:
    """Greet somebody.

    Args:
        name: Whom to greet.
        times: How often, each time from another replica.
    """
    role = Role(
        name="greeter",
        image="",
        entrypoint="sh",
        args=["-c", f"echo hello {name}"],
        num_replicas=times,
        resource=resource(h="demo.tiny"),
    )
    return AppDef(name="hello", roles=[role])
