"""Errors as Google's APIs say them, and refusals of requests in their words.

source: google.rpc.Code and google.rpc.RetryInfo; "Troubleshooting" in the documents of the Gemini API
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.vendor_errors import error_from_value
from llmstream.errors import BadRequest, ErrorInfo, ProviderError
from llmstream.exchange import HttpResponse

__all__ = ["encode_error", "error_object", "failure", "refusal", "status_of"]

_STATUS_WORDS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_STATUS_OF_WORD: Final = {word: status for status, word in _STATUS_WORDS.items()} | {
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "ALREADY_EXISTS": 409,
    "UNKNOWN": 500,
    "DATA_LOSS": 500,
}
_WORD_OF_NUMBER: Final = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""By the number of google.rpc.Code."""

_STATUS_OF_KIND: Final = {
    "invalid_request": 400,
    "parameter_unknown": 400,
    "authentication": 401,
    "payment_required": 402,
    "model_not_found": 404,
    "rate_limit_exceeded": 429,
    "quota_exceeded": 429,
}
"""Codes of the Interactions API that are no word of google.rpc; source: ai.google.dev api-errors, 2026-11."""

_NOT_AGAIN: Final = frozenset({"UNIMPLEMENTED", "quota_exceeded"})
"""What stays so however often one asks, though its status may mean otherwise: the quota is a day's."""
_STATUS_OF_CODE: Final = {
    "bad-request": 400,
    "context-too-long": 400,
    "content-filtered": 400,
    "invalid-request": 400,
    "unsupported": 400,
    "authentication": 401,
    "missing-key": 403,
    "permission-denied": 403,
    "not-found": 404,
    "rate-limited": 429,
    "overloaded": 503,
    "deadline-exceeded": 504,
}


def status_of(info: ErrorInfo) -> int:
    """The HTTP status that the vendor would give an error."""
    if info.status is not None and info.status >= 400:
        return info.status
    return _STATUS_OF_WORD.get(info.reason or "", _STATUS_OF_CODE.get(info.code, 500))


def failure(told: object, *, provider: str) -> ProviderError:
    """The error that an interaction or a step of it ended in.

    told: `{code, message, details}`; the code is a number of google.rpc or of HTTP, a word, or a
          URI that ends in one
    """
    code = told.get("code") if isinstance(told, dict) else None
    word = code.rstrip("/").rpartition("/")[2] if isinstance(code, str) else ""
    if isinstance(told, dict) and isinstance(code, int) and 0 < code < len(_WORD_OF_NUMBER):
        word = _WORD_OF_NUMBER[code]
        told = {**told, "code": word}
    status = _STATUS_OF_WORD.get(word.upper()) or _STATUS_OF_KIND.get(word.lower())
    error = error_from_value({"error": told}, provider=provider, status=status)
    if word in _NOT_AGAIN:
        error.retryable = False
    return error


def error_object(info: ErrorInfo) -> dict[str, Any]:
    """`{"error": ...}`, the same in a whole answer and inside a stream."""
    code = status_of(info)
    word = info.reason if info.reason in _STATUS_OF_WORD else _STATUS_WORDS.get(code)
    details: list[dict[str, Any]] = []
    if info.reason is not None and info.reason != word:
        kind = "type.googleapis.com/google.rpc.ErrorInfo"
        details.append({"@type": kind, "reason": info.reason, "domain": "googleapis.com"})
    if info.retry_after_s is not None:
        kind = "type.googleapis.com/google.rpc.RetryInfo"
        details.append({"@type": kind, "retryDelay": f"{info.retry_after_s:g}s"})
    error: dict[str, Any] = {
        "code": code,
        "message": info.message,
        "status": word or ("INVALID_ARGUMENT" if code < 500 else "INTERNAL"),
    }
    if details:
        error["details"] = details
    return {"error": error}


def encode_error(info: ErrorInfo) -> HttpResponse:
    """The answer that a refused request gets. The wire has no field for a request id."""
    body = msgspec.json.encode(error_object(info))
    return HttpResponse(status_of(info), body, {"content-type": "application/json; charset=UTF-8"})


def refusal(message: str) -> BadRequest:
    """The error of a request that the vendor does not take."""
    return BadRequest(message, provider="google", status=400, reason="INVALID_ARGUMENT")
