"""How the services refuse."""

from __future__ import annotations


class ApiError(Exception):
    """An answer that is an error, in the service's own words."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.status = code, message, status


def client_error(message: str) -> ApiError:
    return ApiError("ClientException", message)
