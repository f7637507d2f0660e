"""Errors as OpenAI answers them: the reverse of reading them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.errors import ErrorInfo
from llmstream.exchange import HttpResponse

__all__ = ["error_object", "error_response"]

_ANSWERS: Final[dict[str, tuple[int, str, str | None]]] = {
    "bad-request": (400, "invalid_request_error", None),
    "context-too-long": (400, "invalid_request_error", "context_length_exceeded"),
    "content-filtered": (400, "invalid_request_error", "content_filter"),
    "authentication": (401, "authentication_error", "invalid_api_key"),
    "permission-denied": (403, "permission_error", None),
    "not-found": (404, "not_found_error", "model_not_found"),
    "rate-limited": (429, "rate_limit_error", "rate_limit_exceeded"),
    "overloaded": (503, "overloaded_error", None),
    "deadline-exceeded": (504, "timeout_error", None),
    "invalid-request": (400, "invalid_request_error", None),
    "unsupported": (400, "invalid_request_error", None),
}
_ELSE: Final = (500, "server_error", None)


def error_object(error: ErrorInfo, *, in_band: bool = False) -> dict[str, Any]:
    """The `error` object; inside a stream it says its status too, as Groq's does."""
    status, kind, code = _ANSWERS.get(error.code, _ELSE)
    out: dict[str, Any] = {"message": error.message, "type": kind, "param": error.param}
    out["code"] = error.reason or code
    out |= error.details or {}
    if in_band:
        out["status_code"] = error.status or status
    return out


def error_response(error: ErrorInfo) -> HttpResponse:
    """The answer with which OpenAI would refuse or fail."""
    status = error.status or _ANSWERS.get(error.code, _ELSE)[0]
    headers = {"content-type": "application/json"}
    if error.retry_after_s is not None:
        headers["retry-after"] = f"{error.retry_after_s:g}"
    if error.request_id:
        headers["x-request-id"] = error.request_id
    return HttpResponse(status, msgspec.json.encode({"error": error_object(error)}), headers)
