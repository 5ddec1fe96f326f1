"""Who may ask: one token for one cookie, requests to this very address, and from this very page. Pure."""

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
"""What every answer says, whatever it is. No script and no markup that is not a file of ours is run by a browser."""


class Gate:
    """Lets in who has the token, then the cookie, and asks this address from this page.

    Args:
        port: Where the server listens, on the loopback device.

    Attributes:
        token: What is printed with the address. It is good for one cookie.
    """

    def __init__(self, port: int) -> None:
        self.cookie = f"asyncsched_{port}"
        self.token = secrets.token_urlsafe(32)
        self._secret = secrets.token_urlsafe(32)
        self._is_used = False
        self._hosts = {f"{name}:{port}" for name in LOOPBACK}

    def is_our_host(self, host: str) -> bool:
        """Tell whether a request asked for this address; another name that leads here is DNS rebinding."""
        return host.lower() in self._hosts

    def is_our_page(self, method: str, headers: Mapping[str, str], *, stream: bool) -> bool:
        """Tell whether a request comes from a page of this address.

        Args:
            method: Its method.
            headers: Its headers.
            stream: Whether it asks for a stream, which a page of another address must not open either. A browser
                names no origin with that, but says that the page is of the same one.
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
        """Tell whether a request carries the cookie."""
        return _equal(cookies.get(self.cookie, ""), self._secret)


def _equal(given: str, wanted: str) -> bool:
    return compare_digest(given.encode(errors="replace"), wanted.encode())
