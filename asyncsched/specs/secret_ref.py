"""References to secrets that the service keeps; only the replica reads them."""

from __future__ import annotations

__all__ = ["SecretRef"]


class SecretRef(str):
    """The value of an environment variable that the service fills in from one of its own secrets.

    It prints as its name, which is not secret. A scheduler without such secrets refuses it at the dry-run.

    Args:
        name: The secret's name in the service: a Kubernetes Secret, the ARN of an AWS secret or parameter, ...
        key: The entry in the secret, if it has several.
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
