"""Writes errors in the form of OpenAI's APIs: the reverse of reading them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.errors import UNKNOWN_PATH
from llmstream.dialects.requests import Field
from llmstream.errors import BadRequest, ErrorInfo
from llmstream.exchange import HttpResponse

__all__ = [
    "check_effort",
    "error_answer",
    "error_object",
    "error_response",
    "out_of_range",
    "refused",
    "wrong_type",
]


_ANSWERS: Final[dict[str, tuple[int, str, str | None]]] = {
    "bad-request": (400, "invalid_request_error", None),
    "context-too-long": (400, "invalid_request_error", "context_length_exceeded"),
    "content-filtered": (400, "invalid_request_error", "content_filter"),
    "authentication": (401, "invalid_request_error", "invalid_api_key"),
    "permission-denied": (403, "permission_error", None),
    "not-found": (404, "invalid_request_error", "model_not_found"),
    "rate-limited": (429, "rate_limit_error", "rate_limit_exceeded"),
    "overloaded": (503, "service_unavailable_error", "service_unavailable"),
    "deadline-exceeded": (504, "timeout_error", "timeout"),
    "invalid-request": (400, "invalid_request_error", None),
    "unsupported": (400, "invalid_request_error", None),
}
_ELSE: Final = (500, "server_error", "server_error")


def refused(message: str, code: str | None = None, param: str | None = None) -> BadRequest:
    """Returns the error of an invalid request. `param` names the field."""
    return BadRequest(message, status=400, reason=code, param=param)


_TYPES: Final = {
    "number": "a number",
    "integer": "an integer",
    "strings": "a string or an array of strings",
}


def wrong_type(field: Field, value: object) -> BadRequest:
    """Returns the error of a setting with a wrong type."""
    return refused(f"Invalid type for '{field.wire_name}': expected {_TYPES[field.kind]}.", "invalid_type")


def out_of_range(field: Field, value: float, bound: float) -> BadRequest:
    """Returns the error of a number beyond its bound."""
    if field.kind == "integer":
        message = f"Invalid '{field.wire_name}': integer below minimum value {bound}."
        return refused(message, "integer_below_min_value")
    word, code = ("minimum", "below_min") if value < bound else ("maximum", "above_max")
    return refused(
        f"Invalid '{field.wire_name}': decimal value out of range. Expected a value with {word} {bound}, "
        f"but got {value} instead.",
        f"decimal_{code}_value",
    )


def check_effort(param: str, effort: str, known: tuple[str, ...] | None) -> None:
    """Rejects an effort that the model does not support.

    known:  those of the model, () if it has none; None for an unknown model
    raises: BadRequest with the vendor's message
    """
    if known == ():
        raise refused(
            f"Unsupported parameter: '{param}' is not supported with this model.",
            "unsupported_parameter",
            param,
        )
    if known is not None and effort not in known:
        names = ", ".join(f"'{name}'" for name in known)
        raise refused(
            f"Unsupported value: '{effort}' is not supported with the model. Supported values are: {names}.",
            "unsupported_value",
            param,
        )


def error_object(error: ErrorInfo) -> dict[str, Any]:
    """Builds the `error` object of a response."""
    _, kind, code = _ANSWERS.get(error.code, _ELSE)
    code = None if error.reason == UNKNOWN_PATH else error.reason or code
    named = {"message": error.message, "type": kind, "param": error.param, "code": code}
    return named | (error.details or {})


def error_response(error: ErrorInfo) -> HttpResponse:
    """Builds OpenAI's error response."""
    status = error.status or _ANSWERS.get(error.code, _ELSE)[0]
    return error_answer(error, status, error_object(error))


def error_answer(error: ErrorInfo, status: int, named: dict[str, Any]) -> HttpResponse:
    """Builds a response with an `error` object, and the headers of the error."""
    headers = {"content-type": "application/json"}
    if error.retry_after_s is not None:
        headers["retry-after"] = f"{error.retry_after_s:g}"
    if error.request_id:
        headers["x-request-id"] = error.request_id
    return HttpResponse(status, msgspec.json.encode({"error": named}), headers)
