"""Clients that the caller gives: what is taken from them, and what only stands in for one.

An SDK's client repeats a request by itself, a SubmitJob too, and that can make two jobs. So a real client only tells
where AWS is and with which credentials to call it; the requests go through a client of our own. The SDKs are known
by the names of their classes.
"""

from __future__ import annotations

from typing import Any

from asyncsched.errors import ConfigError

__all__ = ["GivenAWSClient", "accept"]

_KNOWN = {
    "batch": ("client", ("submit_job", "describe_jobs", "list_jobs")),
    "logs": ("log_client", ("filter_log_events", "get_log_events")),
}
"""By service, the argument and the operations of which a stand-in has at least one."""

_STUBBER = "boto_stubber"
"""What botocore's and aiobotocore's Stubber leave behind in a client whose answers they give."""


class GivenAWSClient:
    """A client of the caller's for one service; it is never closed here.

    Attributes:
        client: The client itself.
    """

    def __init__(self, client: Any, service: str) -> None:
        self.client = client
        self._service = service
        self._is_real = _is_real(client)

    @property
    def stands_in(self) -> bool:
        """Whether it is to be called as it is: a mock of any kind, or a client while a Stubber answers for it."""
        return not self._is_real or _is_stubbed(self.client)

    @property
    def region(self) -> str | None:
        """The region of a real client."""
        return self.client.meta.region_name if self._is_real else None

    @property
    def credentials(self) -> Any:
        """The credentials of a real client, which may renew themselves; None if it has found none."""
        return _inside(self.client, "_request_signer", "_credentials") if self._is_real else None

    def endpoint(self, region: str | None) -> str | None:
        """Return the address that it uses; None for another region than its own, if the address belongs to that one."""
        if not self._is_real:
            return None
        url: str = self.client.meta.endpoint_url
        return None if region != self.region and str(self.region) in url else url

    def connector(self) -> dict[str, Any]:
        """Return the settings of its proxies and TLS, as a client's configuration takes them."""
        if not self._is_real:
            return {}
        config = self.client.meta.config
        settings: dict[str, Any] = {
            name: getattr(config, name) for name in ("proxies", "proxies_config", "client_cert")
        }
        connector: dict[str, Any] = getattr(config, "connector_args", {})  # aiobotocore's only
        context = connector.get("ssl_context")
        settings["connector_args"] = {"ssl_context": context} if context is not None else None
        return {name: value for name, value in settings.items() if value is not None}

    @property
    def verify(self) -> bool | str | None:
        """Whom it trusts: a file of certificates, everybody (False), or whom the AWS configuration says (None)."""
        trusted: bool | str | None = _inside(self.client, "_endpoint", "http_session", "_verify")
        return trusted if self._is_real else None


def accept(**clients: Any) -> dict[str, GivenAWSClient]:
    """Return the clients that were given, by service.

    Raises:
        ConfigError: One is neither a client for its service nor like one.
    """
    given = {service: client for service, client in clients.items() if client is not None}
    for service, client in given.items():
        if (why := _unfit(client, service)) is not None:
            parameter, entered = _KNOWN[service][0], f'`async with AioSession().create_client("{service}")`'
            raise ConfigError(
                f"{parameter} is not a client for the AWS service {service}",
                why=why,
                fix=f'give boto3.client("{service}"), or what {entered} gives',
            )
    return {service: GivenAWSClient(client, service) for service, client in given.items()}


def _unfit(client: Any, service: str) -> str | None:
    if _is_real(client):
        name = client.meta.service_model.service_name
        return None if name == service else f"it is a client for {name}"
    if any(callable(getattr(client, operation, None)) for operation in _KNOWN[service][1]):
        return None
    return f"it is of the type {type(client).__module__}.{type(client).__qualname__}"


def _is_real(client: Any) -> bool:
    """Tell whether its `meta.config` is the SDK's: a mock's is another mock, whatever class the mock claims."""
    classes = type(_inside(client, "meta", "config")).__mro__
    return ("botocore.config", "Config") in [(each.__module__, each.__name__) for each in classes]


def _is_stubbed(client: Any) -> bool:
    return _STUBBER in (_inside(client, "meta", "events", "_emitter", "_unique_id_handlers") or {})


def _inside(found: Any, *names: str) -> Any:
    for name in names:
        found = getattr(found, name, None)
    return found
