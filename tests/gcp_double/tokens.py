"""Where credentials are exchanged for tokens: a service account's, a user's, an impersonated one's, the machine's."""

from __future__ import annotations

import uuid
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.gcp_double.wire import write_time

_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
"""Made once: how long that takes is chance, and some doubles are made while a test's steps are timed."""

_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
SUBJECT = "of another provider"


class Tokens:
    """The tokens that are good, and how exchanges go.

    Attributes:
        good: Tokens that are accepted.
        exchanges: How often one was asked for.
        lasts: Seconds that a token lasts.
        refuses: Answers ``invalid_grant`` to every exchange.
        failures: So many exchanges fail with 503.
        cuts: So many exchanges with the metadata server are cut; all if it is negative.
        gate: Exchanges wait for it, if it is set.
        acted_as: The accounts that others have acted as.
        minted: What every token is; each is another one while it is empty.
    """

    def __init__(self, project: str, now_ns: Any) -> None:
        self.project, self._now_ns = project, now_ns
        self.good: set[str] = set()
        self.exchanges = 0
        self.lasts = 3600
        self.refuses = False
        self.failures = 0
        self.cuts = 0
        self.gate: Any = None
        self.minted = ""
        self.acted_as: list[str] = []

    def key_file(self, base: str) -> dict[str, str]:
        """Return the file of a service account."""
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        key = _KEY.private_bytes(encoding, form, serialization.NoEncryption()).decode()
        return {
            "type": "service_account",
            "project_id": self.project,
            "private_key_id": "k1",
            "client_id": "1",
            "client_email": f"tests@{self.project}.iam.gserviceaccount.com",
            "token_uri": f"{base}/token",
            "private_key": key,
        }

    def user_file(self, base: str) -> dict[str, str]:
        """Return the file of a user who has signed in."""
        return {
            "type": "authorized_user",
            "client_id": "1",
            "client_secret": "s",
            "refresh_token": "good",
            "quota_project_id": self.project,
            "token_uri": f"{base}/token",
        }

    def mint(self) -> str:
        token = self.minted or f"ya29.{uuid.uuid4().hex}"
        self.good.add(token)
        return token

    async def exchange(self, request: web.Request) -> web.Response:
        self.exchanges += 1
        form = await request.post()
        if self.gate is not None:
            await self.gate()
        if self.failures:
            self.failures -= 1
            return web.json_response({"error": "internal_failure"}, status=503)
        if self.refuses or not self._is_good(form, str(request.url)):
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response({"access_token": self.mint(), "expires_in": self.lasts, "token_type": "Bearer"})

    def _is_good(self, form: Any, audience: str) -> bool:
        if form["grant_type"] == _EXCHANGE:
            return form["subject_token"] == SUBJECT
        if form["grant_type"] != _BEARER:
            return form["grant_type"] == "refresh_token" and form["refresh_token"] == "good"
        try:  # signature, audience and times are really checked
            told = jwt.decode(form["assertion"], _KEY.public_key(), algorithms=["RS256"], audience=audience, leeway=10)
        except jwt.PyJWTError:
            return False
        return "cloud-platform" in told["scope"]

    async def subject(self, request: web.Request) -> web.Response:
        """Answer as the identity provider of an external account does."""
        return web.Response(text=SUBJECT)

    async def metadata(self, request: web.Request) -> web.Response:
        if request.headers.get("Metadata-Flavor") != "Google":
            return web.Response(status=403)
        if request.path.endswith("/token"):
            self.exchanges += 1
            if self.cuts and request.transport is not None:
                self.cuts -= 1
                request.transport.abort()
            return web.json_response({"access_token": self.mint(), "expires_in": self.lasts, "token_type": "Bearer"})
        return web.Response(text=self.project, headers={"Metadata-Flavor": "Google"})

    async def impersonate(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.good:
            return web.json_response({"error": "unauthorized"}, status=401)
        self.acted_as.append(request.match_info["account"])
        until = write_time(self._now_ns() + self.lasts * 10**9)
        return web.json_response({"accessToken": self.mint(), "expireTime": until})
