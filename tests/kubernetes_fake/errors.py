"""What the API server refuses, in its own words."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


class StatusError(Exception):
    """An answer that is not the one that was asked for.

    Args:
        code: The HTTP status.
        reason: The machine's word for it; empty where the server gives none.
        message: The sentence.
        details: More for machines.
        text: Whether the body is plain text and not a Status.
        retry_after: Seconds for the header of that name.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Json | None = None,
        text: bool = False,
        retry_after: int | None = None,
        meta: Json | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.text = text
        self.retry_after = retry_after
        self.meta = meta

    def body(self) -> Json:
        """Return the Status."""
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.meta or {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        return {**body, "code": self.code}


def not_found(qualified: str, name: str) -> StatusError:
    group, plural = _halves(qualified)
    return StatusError(
        404, "NotFound", f'{qualified} "{name}" not found', details={"name": name, **_group(group), "kind": plural}
    )


def no_such_path() -> StatusError:
    return StatusError(404, "", "404 page not found\n", text=True)


def already_exists(qualified: str, name: str) -> StatusError:
    group, plural = _halves(qualified)
    return StatusError(
        409,
        "AlreadyExists",
        f'{qualified} "{name}" already exists',
        details={"name": name, **_group(group), "kind": plural},
    )


def conflict(qualified: str, name: str) -> StatusError:
    _, plural = _halves(qualified)
    return StatusError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again",
        details={"name": name, "kind": plural},
    )


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def invalid(kind: str, name: str, group: str, causes: list[tuple[str, str, str]]) -> StatusError:
    """Refuse an object; each cause is a reason, a field and a sentence."""
    sentences = [f"{field}: {sentence}" for _, field, sentence in causes]
    text = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    qualified = f"{kind}.{group}" if group else kind
    return StatusError(
        422,
        "Invalid",
        f'{qualified} "{name}" is invalid: {text}',
        details={
            "name": name,
            **_group(group),
            "kind": kind,
            "causes": [{"reason": reason, "message": text, "field": field} for reason, field, text in causes],
        },
    )


def denied(webhook: str, sentence: str) -> StatusError:
    """Refuse as Volcano's webhook does: 400, without a reason and without details."""
    return StatusError(400, "", f'admission webhook "{webhook}" denied the request: {sentence}')


def forbidden(user: str, verb: str, qualified: str, namespace: str | None, name: str = "") -> StatusError:
    group, resource = _halves(qualified)
    where = "at the cluster scope" if namespace is None else f'in the namespace "{namespace}"'
    named = f' "{name}"' if name else ""
    base = resource.partition("/")[0]
    head = f"{base}.{group}" if group else base
    return StatusError(
        403,
        "Forbidden",
        f'{head}{named} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "{group}" {where}',
        details={**({"name": name} if name else {}), **_group(group), "kind": base},
    )


def path_forbidden(user: str, path: str) -> StatusError:
    return StatusError(403, "Forbidden", f'forbidden: User "{user}" cannot get path "{path}"', details={})


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def expired(message: str, meta: Json | None = None) -> StatusError:
    return StatusError(410, "Expired", message, meta=meta)


def too_many() -> StatusError:
    return StatusError(429, "", "Too many requests, please try again later.", text=True, retry_after=1)


def _halves(qualified: str) -> tuple[str, str]:
    plural, _, group = qualified.partition(".")
    return group, plural


def _group(group: str) -> Json:
    return {"group": group} if group else {}
