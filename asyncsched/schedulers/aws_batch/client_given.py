"""Take the settings of the caller's clients, and recognise mocks.

An SDK's client retries requests by itself, including SubmitJob, which can create two jobs. So only the settings and
credentials of a real client are used; requests go through a separate client. The SDKs' classes are matched by name.
"""

from __future__ import annotations

from typing import Any

from asyncsched.errors import ConfigError

__all__ = ["GivenAWSClient", "accept"]

_KNOWN = {
    "batch": ("client", ("submit_job", "describe_jobs", "list_jobs")),
    "logs": ("log_client", ("filter_log_events", "get_log_events")),
}
"""The argument for each service, and operations of which a mock must have at least one."""

_STUBBER = "boto_stubber"
"""The event handler that the Stubbers of botocore and aiobotocore register in a client."""


class GivenAWSClient:
    """The caller's client for one service; it is never closed.

    Attributes:
        client: The client itself.
    """

    def __init__(self, client: Any, service: str) -> None:
        self.client = client
        self._service = service
        self._is_real = _is_real(client)

    @property
    def stands_in(self) -> bool:
        """Whether it is called directly: a mock of any kind, or a client while a Stubber answers for it."""
        return not self._is_real or _is_stubbed(self.client)

    @property
    def region(self) -> str | None:
        """The region of a real client."""
        return self.client.meta.region_name if self._is_real else None

    @property
    def credentials(self) -> Any:
        """The credentials of a real client, which may renew themselves; None if it has none."""
        return _inside(self.client, "_request_signer", "_credentials") if self._is_real else None

    def endpoint(self, region: str | None) -> str | None:
        """Return its address; None if the address belongs to its region and `region` is another one."""
        if not self._is_real:
            return None
        url: str = self.client.meta.endpoint_url
        return None if region != self.region and str(self.region) in url else url

    def connector(self) -> dict[str, Any]:
        """Return its settings for proxies and TLS, as arguments of a client's configuration."""
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

    def endpoint_kind(self) -> dict[str, Any]:
        """Return which kind of the vendor's addresses it uses, FIPS or dual-stack, as arguments of a configuration."""
        config = self.client.meta.config if self._is_real else None
        names = ("use_fips_endpoint", "use_dualstack_endpoint")
        return {name: True for name in names if getattr(config, name, None)}

    @property
    def verify(self) -> bool | str | None:
        """How it verifies TLS: a file of certificates, not at all (False), or by the AWS configuration (None).

        A client on httpx keeps only what it has made of its file, which another client cannot use.
        """
        trusted = _inside(self.client, "_endpoint", "http_session", "_verify")
        return trusted if self._is_real and isinstance(trusted, (bool, str)) else None


def accept(**clients: Any) -> dict[str, GivenAWSClient]:
    """Return the given clients by service.

    Raises:
        ConfigError: One is neither a client for its service nor a mock of one.
    """
    given = {service: client for service, client in clients.items() if client is not None}
    for service, client in given.items():
        if (why := _unfit(client, service)) is not None:
            parameter, entered = _KNOWN[service][0], f'`async with AioSession().create_client("{service}")`'
            raise ConfigError(
                f"{parameter} must be a client for the AWS service {service}",
                why=why,
                fix=f'pass boto3.client("{service}"), or the client from {entered}',
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
    """Return whether its `meta.config` is the SDK's; that of a mock is another mock, whatever class it claims."""
    classes = type(_inside(client, "meta", "config")).__mro__
    return ("botocore.config", "Config") in [(each.__module__, each.__name__) for each in classes]


def _is_stubbed(client: Any) -> bool:
    return _STUBBER in (_inside(client, "meta", "events", "_emitter", "_unique_id_handlers") or {})


def _inside(found: Any, *names: str) -> Any:
    for name in names:
        found = getattr(found, name, None)
    return found
