"""Who may do what: tokens, users and the rules of their roles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.kubernetes_fake.errors import StatusError, forbidden, unauthorized
from tests.kubernetes_fake.resources import Resource


@dataclass(frozen=True)
class Rule:
    """Verbs on resources, in one namespace or in all."""

    group: str
    resource: str
    verbs: frozenset[str]
    namespace: str | None = None

    def allows(self, verb: str, group: str, resource: str, namespace: str | None) -> bool:
        return (
            self.group in ("*", group)
            and self.resource in ("*", resource)
            and ("*" in self.verbs or verb in self.verbs)
            and (self.namespace is None or self.namespace == namespace)
        )


EVERYTHING = (Rule("*", "*", frozenset({"*"})),)

_ROLE = Path(__file__).parents[2] / "docs" / "backends" / "kubernetes-role.yaml"


def minimal(namespace: str) -> tuple[Rule, ...]:
    """Return the rules of the role that the documentation gives, as its file has them."""
    return tuple(
        Rule(group, resource, frozenset(rule["verbs"]), namespace)
        for rule in yaml.safe_load(_ROLE.read_text())["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    )


class Rights:
    """The users by their tokens; a test may add some, and take tokens away.

    Attributes:
        users: The users by their tokens.
        rules: What each may do.
        readyz_is_open: Whether everybody may ask if the server is ready (the role system:public-info-viewer).
    """

    def __init__(self) -> None:
        self.readyz_is_open = True
        self.users: dict[str, str] = {"admin-token": "admin", "alice-token": "alice"}
        self.rules: dict[str, tuple[Rule, ...]] = {
            "admin": EVERYTHING,
            "alice": minimal("default"),
            "system:anonymous": (),
        }

    def user(self, authorization: str | None) -> str:
        """Return who sends a request; 401 for a token that is not known."""
        if not authorization:
            return "system:anonymous"
        scheme, _, token = authorization.partition(" ")
        if scheme != "Bearer" or token not in self.users:
            raise unauthorized()
        return self.users[token]

    def allows(self, user: str, verb: str, group: str, resource: str, namespace: str | None) -> bool:
        return any(rule.allows(verb, group, resource, namespace) for rule in self.rules.get(user, ()))

    def check(
        self, user: str, verb: str, resource: Resource, namespace: str | None, name: str = "", sub: str = ""
    ) -> None:
        full = f"{resource.plural}/{sub}" if sub else resource.plural
        if not self.allows(user, verb, resource.group, full, namespace):
            raise self.refusal(user, verb, resource.group, full, namespace, name)

    def refusal(
        self, user: str, verb: str, group: str, resource: str, namespace: str | None, name: str = ""
    ) -> StatusError:
        qualified = f"{resource}.{group}" if group else resource
        return forbidden(user, verb, qualified, namespace, name)
