"""Maps a failure to the HTTP status that a server of ours responds with."""

from __future__ import annotations

from typing import Final

from llmstream.errors import ErrorInfo

__all__ = ["failure_headers", "status_of"]

# By error code; every other failure is the vendor's or the network's, so 502.
_STATUS: Final = {
    "invalid-request": 400,
    "context-too-long": 413,
    "content-filtered": 422,
    "rate-limited": 429,
    # The client may come back: the vendor is busy, not broken.
    "overloaded": 503,
    "deadline-exceeded": 504,
    "tool-timeout": 504,
    # The server's own mistakes: a missing or refused key, an unknown model, an option nobody supports.
    "missing-key": 500,
    "authentication": 500,
    "permission-denied": 500,
    "not-found": 500,
    "unsupported": 500,
    "caller-error": 500,
}


def status_of(error: ErrorInfo) -> int:
    """Returns the HTTP status for a failure before the first byte of a response."""
    return _STATUS.get(error.code, 502)


def failure_headers(error: ErrorInfo) -> dict[str, str]:
    """Returns `retry-after`, rounded up to seconds, if the vendor named a wait."""
    if error.retry_after_s is None:
        return {}
    # Rounded up: a client that returns a moment early is refused again.
    return {"retry-after": str(max(1, -int(-error.retry_after_s // 1)))}
