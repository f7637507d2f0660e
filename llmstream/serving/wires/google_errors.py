"""Writes errors in the form of Google's APIs: the reverse of reading them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.errors import UNKNOWN_PATH
from llmstream.dialects.google import STATUS_OF_WORD, STATUS_WORDS
from llmstream.errors import BadRequest, ErrorInfo
from llmstream.exchange import HttpResponse

__all__ = ["encode_error", "error_object", "refusal", "status_of"]


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
    """Returns the vendor's HTTP status of an error."""
    if info.status is not None and info.status >= 400:
        return info.status
    return STATUS_OF_WORD.get(info.reason or "", _STATUS_OF_CODE.get(info.code, 500))


def error_object(info: ErrorInfo) -> dict[str, Any]:
    """Builds `{"error": ...}`, as in an error response and inside a stream."""
    code = status_of(info)
    word = info.reason if info.reason in STATUS_OF_WORD else STATUS_WORDS.get(code)
    details: list[dict[str, Any]] = []
    if info.reason not in (None, word, UNKNOWN_PATH):
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
    """Builds an error response. The wire has no field for a request id."""
    body = msgspec.json.encode(error_object(info))
    return HttpResponse(status_of(info), body, {"content-type": "application/json; charset=UTF-8"})


def refusal(message: str) -> BadRequest:
    """Returns the error of a request that the vendor rejects."""
    return BadRequest(message, provider="google", status=400, reason="INVALID_ARGUMENT")
