"""Our errors as Mistral answers them, and its refusals.

Two shapes: what the API's schema forbids is a 422 whose message is a `detail` list with places and
types; what a model cannot take is a 400 with a type and a code.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from llmstream.errors import BadRequest, ErrorInfo
from llmstream.exchange import HttpResponse

__all__ = ["encode_error", "error_object", "misordered", "places", "refused", "unfit"]

_ANSWERS: Final[dict[str, tuple[int, str, str | None]]] = {
    "bad-request": (400, "invalid_request_invalid_args", "3051"),
    "context-too-long": (400, "invalid_request_invalid_args", "3051"),
    "content-filtered": (400, "invalid_request_error", "3000"),
    "invalid-request": (400, "invalid_request_error", "3000"),
    "unsupported": (400, "invalid_request_error", "3000"),
    "authentication": (401, "invalid_request_error", None),
    "permission-denied": (403, "invalid_request_error", None),
    "not-found": (404, "invalid_model", "1500"),
    "rate-limited": (429, "rate_limited", "1300"),
    "overloaded": (503, "service_tier_capacity_exceeded", "3505"),
    "deadline-exceeded": (504, "timeout", None),
}
_ELSE: Final = (500, "internal_server_error", "1000")
_CODES: Final = {"invalid_request_message_order": "3230", "invalid_function_call": "3280"}
"""source: answers quoted in public issues, 2024 to 2026"""

_PLACE: Final = re.compile(r"(body(?:\.\w+)*): (.*)", re.DOTALL)


def unfit(place: str, message: str, kind: str = "missing") -> BadRequest:
    """What the schema forbids.

    place: from the body inwards, with dots: "body.messages.0.content"
    kind:  of the defect, such as "extra_forbidden"
    """
    return BadRequest(f"{place}: {message}", status=422, reason=kind)


def refused(message: str, kind: str = "invalid_request_error") -> BadRequest:
    """What the model cannot take."""
    return BadRequest(message, status=400, reason=kind)


def misordered(message: str) -> BadRequest:
    """Roles in an order that the model cannot take."""
    return refused(message, "invalid_request_message_order")


def error_object(error: ErrorInfo) -> dict[str, Any]:
    """The error as the body of an answer, and inside a stream."""
    status, kind, code = _ANSWERS.get(error.code, _ELSE)
    if error.reason in _CODES:
        kind, code = error.reason, _CODES[error.reason]
    message: Any = error.message
    found = _PLACE.fullmatch(error.message) if error.status == 422 else None
    if found is not None:
        place = [int(step) if step.isdecimal() else step for step in found[1].split(".")]
        message = {"detail": [{"type": error.reason or "value_error", "loc": place, "msg": found[2]}]}
        kind, code = "invalid_request_error", None
    return {
        "object": "error",
        "message": message,
        "type": kind,
        "param": None,
        "code": code,
        "raw_status_code": error.status or status,
    }


def places(body: bytes) -> str | None:
    """What the schema forbids and where, each defect with its place; None for other answers."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if isinstance(value, dict) and isinstance(value.get("message"), dict):
        value = value["message"]
    detail = value.get("detail") if isinstance(value, dict) else None
    found = []
    for defect in detail if isinstance(detail, list) else ():
        if isinstance(defect, dict) and isinstance(defect.get("loc"), list):
            place = ".".join(str(step) for step in defect["loc"])
            found.append(f"{place}: {defect.get('msg') or 'not accepted'}")
    return "; ".join(found) or None


def encode_error(error: ErrorInfo) -> HttpResponse:
    """The answer with which the vendor would refuse or fail."""
    status = error.status if error.status is not None and error.status >= 400 else None
    status = status or _ANSWERS.get(error.code, _ELSE)[0]
    headers = {"content-type": "application/json"}
    if error.retry_after_s is not None:
        headers["retry-after"] = f"{error.retry_after_s:g}"
    if error.request_id:
        headers["mistral-correlation-id"] = error.request_id
    body: dict[str, Any] = {"detail": error.message} if status == 401 else error_object(error)
    return HttpResponse(status, msgspec.json.encode(body), headers)
