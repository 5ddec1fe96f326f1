"""Access to the page: one token for one cookie, requests to exactly this address, and from exactly this page. Pure."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from hmac import compare_digest

__all__ = ["HEADERS", "Gate"]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "asyncsched",
}
"""The headers of every answer. They keep a browser from running scripts and markup other than the page's own files."""


class Gate:
    """Admits requests with the token, then with the cookie, that go to this address and come from this page.

    Args:
        port: The server's port on the loopback interface.

    Attributes:
        token: The token in the printed address; it is exchanged once for a cookie.
    """

    def __init__(self, port: int) -> None:
        self.cookie = f"asyncsched_{port}"
        self.token = secrets.token_urlsafe(32)
        self._secret = secrets.token_urlsafe(32)
        self._is_used = False
        self._hosts = {f"{name}:{port}" for name in LOOPBACK}

    def is_our_host(self, host: str) -> bool:
        """Return whether a request names this address; another name that resolves to it is DNS rebinding."""
        return host.lower() in self._hosts

    def is_our_page(self, method: str, headers: Mapping[str, str], *, stream: bool) -> bool:
        """Return whether a request comes from a page of this address.

        Args:
            method: The request's method.
            headers: The request's headers.
            stream: Whether it requests a stream, which a page of another address must not open either. For that a
                browser sends no origin, but says whether the page has the same one.
        """
        origin = headers.get("Origin")
        if origin is not None:
            return origin.lower() == f"http://{headers.get('Host', '')}".lower()
        if stream:
            return headers.get("Sec-Fetch-Site") == "same-origin"
        return method in ("GET", "HEAD")

    def exchange(self, token: str) -> str | None:
        """Return the cookie's value for the token, once; None for anything else."""
        if not _equal(token, self.token) or self._is_used:
            return None
        self._is_used = True
        return self._secret

    def is_let_in(self, cookies: Mapping[str, str]) -> bool:
        """Return whether a request has the cookie."""
        return _equal(cookies.get(self.cookie, ""), self._secret)


def _equal(given: str, wanted: str) -> bool:
    return compare_digest(given.encode(errors="replace"), wanted.encode())
