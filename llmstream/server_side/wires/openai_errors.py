"""Writes errors in the form of OpenAI's APIs: the reverse of reading them."""

from __future__ import annotations

from typing import Any, Final

from llmstream.dialects.errors import UNKNOWN_PATH
from llmstream.dialects.requests import Field
from llmstream.errors import BadRequest, ErrorInfo
from llmstream.exchange import HttpResponse
from llmstream.server_side.wires.errors import error_response, status_of

__all__ = [
    "check_effort",
    "encode_error",
    "error_in_stream",
    "error_object",
    "out_of_range",
    "refused",
    "wrong_type",
]


# Type and code by our code. OpenAI reports a wrong key as an invalid request.
_TYPES: Final[dict[str, tuple[str, str | None]]] = {
    "bad-request": ("invalid_request_error", None),
    "context-too-long": ("invalid_request_error", "context_length_exceeded"),
    "content-filtered": ("invalid_request_error", "content_filter"),
    "authentication": ("invalid_request_error", "invalid_api_key"),
    "missing-key": ("invalid_request_error", None),
    "permission-denied": ("permission_error", None),
    "not-found": ("invalid_request_error", "model_not_found"),
    "rate-limited": ("rate_limit_error", "rate_limit_exceeded"),
    "overloaded": ("service_unavailable_error", "service_unavailable"),
    "deadline-exceeded": ("timeout_error", "timeout"),
    "invalid-request": ("invalid_request_error", None),
    "unsupported": ("invalid_request_error", None),
}
_SERVER_ERROR: Final = ("server_error", None)


def refused(message: str, code: str | None = None, param: str | None = None) -> BadRequest:
    """Returns the error of an invalid request. `param` names the field."""
    return BadRequest(message, status=400, reason=code, param=param)


_TYPE_NAMES: Final = {
    "number": "a number",
    "integer": "an integer",
    "strings": "a string or an array of strings",
}


def wrong_type(field: Field, value: object) -> BadRequest:
    """Returns the error of a setting with a wrong type."""
    message = f"Invalid type for '{field.wire_name}': expected {_TYPE_NAMES[field.kind]}."
    return refused(message, "invalid_type")


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
    kind, code = _TYPES.get(error.code, _SERVER_ERROR)
    code = None if error.reason == UNKNOWN_PATH else error.reason or code
    named = {"message": error.message, "type": kind, "param": error.param, "code": code}
    return named | (error.details or {})


def error_in_stream(error: ErrorInfo) -> dict[str, Any]:
    """Builds the `error` object inside a stream. It includes the status, as Groq's does."""
    return {**error_object(error), "status_code": status_of(error)}


def encode_error(error: ErrorInfo) -> HttpResponse:
    """Builds an error response."""
    return error_response(error, {"error": error_object(error)}, request_id="x-request-id")
