"""Checked, never run: each ignore marks a misuse that type checkers must refuse."""

from __future__ import annotations

from asyncsched import AppStatusError, ConfigError, ReplicaFailure, SchedulerError, ThrottledError


def tree(error: ConfigError) -> ValueError:
    return error


def rights(error: SchedulerError) -> tuple[str, bool]:
    return error.backend, error.retryable


def wrongs(error: SchedulerError) -> None:
    ThrottledError("slow down", retry_after="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    SchedulerError("no", "because")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    AppStatusError()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ReplicaFailure("role", 0, cause=error)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
