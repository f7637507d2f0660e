"""Our errors as the vendor says them."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from llmstream.errors import ErrorInfo
from llmstream.exchange import HttpResponse

__all__ = ["encode_error", "error_event", "error_type", "exception_type"]

_STATUS_OF_TYPE: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""source: "Errors" in Anthropic's documents"""

_TYPE_OF_STATUS: Final = {status: kind for kind, status in _STATUS_OF_TYPE.items()}

_TYPE_OF_CODE: Final = {
    "bad-request": "invalid_request_error",
    "context-too-long": "invalid_request_error",
    "content-filtered": "invalid_request_error",
    "invalid-request": "invalid_request_error",
    "unsupported": "invalid_request_error",
    "authentication": "authentication_error",
    "missing-key": "authentication_error",
    "permission-denied": "permission_error",
    "not-found": "not_found_error",
    "rate-limited": "rate_limit_error",
    "overloaded": "overloaded_error",
    "deadline-exceeded": "timeout_error",
}

_EXCEPTIONS: Final = {
    "invalid_request_error": "validationException",
    "rate_limit_error": "throttlingException",
    "overloaded_error": "serviceUnavailableException",
    "timeout_error": "modelTimeoutException",
}

_CODE: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")


def error_type(info: ErrorInfo) -> str:
    """The vendor's word for an error: its own where it came from there."""
    if info.reason in _STATUS_OF_TYPE:
        return str(info.reason)
    if info.status in _TYPE_OF_STATUS:
        return _TYPE_OF_STATUS[info.status]
    return _TYPE_OF_CODE.get(info.code, "api_error")


def error_event(info: ErrorInfo) -> dict[str, Any]:
    """The error object, the same in a whole answer and inside a stream.

    A reason finer than the type is the code in its details, as `thread_not_found` is.
    """
    error: dict[str, Any] = {"type": error_type(info), "message": info.message}
    if info.reason not in _STATUS_OF_TYPE and _CODE.fullmatch(info.reason or ""):
        error["details"] = {"error_code": info.reason}
    return {"type": "error", "error": error, "request_id": info.request_id}


def exception_type(info: ErrorInfo) -> str:
    """What Bedrock's runtime calls an error inside a stream."""
    return _EXCEPTIONS.get(error_type(info), "internalServerException")


def encode_error(info: ErrorInfo) -> HttpResponse:
    """The answer that a refused request gets."""
    status = info.status if info.status is not None and info.status >= 400 else None
    headers = {"content-type": "application/json", "x-should-retry": "true" if info.retryable else "false"}
    if info.request_id is not None:
        headers["request-id"] = info.request_id
    if info.retry_after_s is not None:
        headers["retry-after"] = f"{info.retry_after_s:g}"
    body = msgspec.json.encode(error_event(info))
    return HttpResponse(status or _STATUS_OF_TYPE[error_type(info)], body, headers)
