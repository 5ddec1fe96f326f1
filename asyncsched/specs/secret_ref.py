"""A secret that the service holds: named here, and read by nobody but the replica."""

from __future__ import annotations

__all__ = ["SecretRef"]


class SecretRef(str):
    """The value of an environment variable that the service itself fills in, from a secret that it keeps.

    It prints as its name, which is not secret. A scheduler that has no such secrets refuses it at the dry-run.

    Args:
        name: The secret, as the service calls it: a Kubernetes Secret, an AWS secret's or parameter's ARN, ...
        key: The entry in it, where it has several.
    """

    __slots__ = ("key", "name")
    name: str
    key: str

    def __new__(cls, name: str, key: str = "") -> SecretRef:  # noqa: D102 - the class says it
        if not name:
            raise ValueError("name must be the name of a secret, got ''")
        self = super().__new__(cls, f"secret://{name}#{key}" if key else f"secret://{name}")
        self.name = name
        self.key = key
        return self

    def __repr__(self) -> str:
        return f"SecretRef({self.name!r}, {self.key!r})" if self.key else f"SecretRef({self.name!r})"

    def __copy__(self) -> SecretRef:
        return self

    def __deepcopy__(self, memo: object) -> SecretRef:
        return self

    def __reduce__(self) -> tuple[type[SecretRef], tuple[str, str]]:
        return type(self), (self.name, self.key)
