"""Writes errors in the form of Google's APIs: the reverse of reading them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.errors import UNKNOWN_PATH
from llmstream.dialects.google import STATUS_OF_WORD, STATUS_WORDS
from llmstream.errors import BadRequest, ErrorInfo
from llmstream.exchange import HttpResponse
from llmstream.server_side.wires.errors import STATUS_OF_CODE, status_of

__all__ = ["encode_error", "error_object", "google_status", "refusal"]


# Google reports a missing key as a missing permission.
_STATUS_OF_CODE: Final = {**STATUS_OF_CODE, "missing-key": 403}


def google_status(info: ErrorInfo) -> int:
    """Returns the HTTP status of an error: its own, else by Google's name of it, else by its code."""
    by_name = STATUS_OF_WORD.get(info.reason or "")
    if by_name is not None and (info.status or 0) < 400:
        return by_name
    return status_of(info, _STATUS_OF_CODE)


def error_object(info: ErrorInfo) -> dict[str, Any]:
    """Builds `{"error": ...}`, as in an error response and inside a stream."""
    code = google_status(info)
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
    """Builds an error response. The time to wait is in its details; there is no field for a request id."""
    headers = {"content-type": "application/json; charset=UTF-8"}
    return HttpResponse(google_status(info), msgspec.json.encode(error_object(info)), headers)


def refusal(message: str) -> BadRequest:
    """Returns the error of a request that the vendor rejects."""
    return BadRequest(message, provider="google", status=400, reason="INVALID_ARGUMENT")
