"""Our errors as Cohere answers them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.errors import BadRequest, ErrorInfo
from llmstream.exchange import HttpResponse

__all__ = ["answer_id", "encode_error", "refused", "unknown_field"]

_STATUS: Final = {
    "bad-request": 400,
    "context-too-long": 400,
    "content-filtered": 400,
    "invalid-request": 400,
    "unsupported": 400,
    "authentication": 401,
    "permission-denied": 403,
    "not-found": 404,
    "rate-limited": 429,
    "overloaded": 503,
    "deadline-exceeded": 504,
}


def refused(message: str, status: int = 400) -> BadRequest:
    """The vendor's answer to a request that is wrong."""
    return BadRequest(message, status=status)


def unknown_field(name: str) -> BadRequest:
    """The vendor's answer to a field it does not know, wherever it stands."""
    return refused(
        f"unknown field: parameter '{name}' is not a valid field. "
        "For proper usage, please refer to https://docs.cohere.com/reference/chat",
        422,
    )


class _Refusal(msgspec.Struct):
    """What identifies a refusal, whose `id` is the only name a request has."""

    id: str | None = None


_decode = msgspec.json.Decoder(_Refusal).decode


def answer_id(body: bytes) -> str | None:
    """The id that a refusal gives itself."""
    try:
        return _decode(body).id or None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def encode_error(error: ErrorInfo) -> HttpResponse:
    """The answer with which the vendor would refuse or fail: `{id, message}`."""
    status = error.status if error.status is not None and error.status >= 400 else None
    headers = {"content-type": "application/json"}
    if error.retry_after_s is not None:
        headers["retry-after"] = f"{error.retry_after_s:g}"
    body: dict[str, Any] = {"message": error.message}
    if error.request_id:
        body["id"] = error.request_id
    if error.code == "context-too-long":
        body["error_type"] = "TOO_MANY_TOKENS"
    return HttpResponse(status or _STATUS.get(error.code, 500), msgspec.json.encode(body), headers)
