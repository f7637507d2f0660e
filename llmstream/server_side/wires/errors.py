"""Error responses: the status of an error, its form in the APIs of OpenAI, Google and AWS, Claude's refusals.

A form here is one that several wires share. That of a vendor with one wire is in the writer of that wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from llmstream.dialects import aws
from llmstream.dialects.errors import UNKNOWN_PATH
from llmstream.dialects.google import STATUS_OF_WORD, STATUS_WORDS
from llmstream.dialects.requests import Field
from llmstream.errors import BadRequest, ErrorInfo
from llmstream.exchange import HttpResponse
from llmstream.framing.aws_event_stream import encode_message
from llmstream.model_rules.claude import CLAUDE

__all__ = [
    "STATUS_OF_CODE",
    "check_effort",
    "claude_refusal",
    "encode_aws_error",
    "encode_google_error",
    "encode_openai_error",
    "error_in_stream",
    "error_response",
    "exception_frame",
    "exception_type",
    "google_error_object",
    "google_refusal",
    "google_status",
    "openai_error_object",
    "openai_refusal",
    "out_of_range",
    "status_of",
    "wrong_type",
]

# By code of `llmstream.errors`; codes without one are faults of the server.
STATUS_OF_CODE: Final[Mapping[str, int]] = MappingProxyType(
    {
        "bad-request": 400,
        "context-too-long": 400,
        "content-filtered": 400,
        "invalid-request": 400,
        "unsupported": 400,
        "authentication": 401,
        "missing-key": 401,
        "permission-denied": 403,
        "not-found": 404,
        "rate-limited": 429,
        "overloaded": 503,
        "deadline-exceeded": 504,
    }
)


def status_of(error: ErrorInfo, statuses: Mapping[str, int] = STATUS_OF_CODE) -> int:
    """Returns the HTTP status of an error: its own, else by its code."""
    if error.status is not None and error.status >= 400:
        return error.status
    return statuses.get(error.code, 500)


def error_response(
    error: ErrorInfo,
    body: object,
    *,
    status: int | None = None,
    request_id: str | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> HttpResponse:
    """Builds an error response with a JSON body.

    status:     by default that of the error
    request_id: name of the header for it; None if the vendor has none
    """
    out: dict[str, Any] = {"content-type": "application/json", **headers}
    if request_id is not None and error.request_id:
        out[request_id] = error.request_id
    if error.retry_after_s is not None:
        out["retry-after"] = f"{error.retry_after_s:g}"
    return HttpResponse(status or status_of(error), msgspec.json.encode(body), out)


# Errors of OpenAI: type and code by our code. It reports a wrong key as an invalid request.
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


def openai_refusal(message: str, code: str | None = None, param: str | None = None) -> BadRequest:
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
    return openai_refusal(message, "invalid_type")


def out_of_range(field: Field, value: float, bound: float) -> BadRequest:
    """Returns the error of a number beyond its bound."""
    if field.kind == "integer":
        message = f"Invalid '{field.wire_name}': integer below minimum value {bound}."
        return openai_refusal(message, "integer_below_min_value")
    word, code = ("minimum", "below_min") if value < bound else ("maximum", "above_max")
    return openai_refusal(
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
        raise openai_refusal(
            f"Unsupported parameter: '{param}' is not supported with this model.",
            "unsupported_parameter",
            param,
        )
    if known is not None and effort not in known:
        names = ", ".join(f"'{name}'" for name in known)
        raise openai_refusal(
            f"Unsupported value: '{effort}' is not supported with the model. Supported values are: {names}.",
            "unsupported_value",
            param,
        )


def openai_error_object(error: ErrorInfo) -> dict[str, Any]:
    """Builds the `error` object of a response."""
    kind, code = _TYPES.get(error.code, _SERVER_ERROR)
    # OpenAI has a type and a message for a wrong path, but no code.
    code = None if error.reason == UNKNOWN_PATH else error.reason or code
    named = {"message": error.message, "type": kind, "param": error.param, "code": code}
    return named | (error.details or {})


def error_in_stream(error: ErrorInfo) -> dict[str, Any]:
    """Builds the `error` object inside a stream. It includes the status, as Groq's does."""
    return {**openai_error_object(error), "status_code": status_of(error)}


def encode_openai_error(error: ErrorInfo) -> HttpResponse:
    """Builds an error response."""
    return error_response(error, {"error": openai_error_object(error)}, request_id="x-request-id")


# Google reports a missing key as a missing permission.
_GOOGLE_STATUSES: Final = {**STATUS_OF_CODE, "missing-key": 403}


def google_status(info: ErrorInfo) -> int:
    """Returns the HTTP status of an error: its own, else by Google's name of it, else by its code."""
    by_name = STATUS_OF_WORD.get(info.reason or "")
    if by_name is not None and (info.status or 0) < 400:
        return by_name
    return status_of(info, _GOOGLE_STATUSES)


def google_error_object(info: ErrorInfo) -> dict[str, Any]:
    """Builds `{"error": ...}`, as in an error response and inside a stream."""
    code = google_status(info)
    # The reason of another vendor is no status of Google's; it goes to the details.
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


def encode_google_error(info: ErrorInfo) -> HttpResponse:
    """Builds an error response. The time to wait is in its details; there is no field for a request id."""
    headers = {"content-type": "application/json; charset=UTF-8"}
    return HttpResponse(google_status(info), msgspec.json.encode(google_error_object(info)), headers)


def google_refusal(message: str) -> BadRequest:
    """Returns the error of a request that the vendor rejects."""
    return BadRequest(message, provider="google", status=400, reason="INVALID_ARGUMENT")


_TYPE_OF_STATUS: Final = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    402: "AccessDeniedException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
    504: "ModelTimeoutException",
    529: "ServiceUnavailableException",
}


# AWS signs requests, so a wrong key is a missing permission.
_AWS_STATUSES: Final = {**STATUS_OF_CODE, "authentication": 403, "missing-key": 403}


def exception_type(info: ErrorInfo) -> str:
    """Returns AWS's name of an error, such as "ThrottlingException"; the original if it came from AWS."""
    reason = info.reason or ""
    if reason == UNKNOWN_PATH:
        return "UnknownOperationException"
    if aws.is_exception_type(reason):
        return reason[:1].upper() + reason[1:]
    return _TYPE_OF_STATUS.get(status_of(info, _AWS_STATUSES), "InternalServerException")


def exception_frame(kind: str, message: str) -> bytes:
    """Encodes an exception as a message of the stream, where its name starts in lower case."""
    return encode_message(
        {
            ":exception-type": kind[:1].lower() + kind[1:],
            ":content-type": "application/json",
            ":message-type": "exception",
        },
        msgspec.json.encode({"message": message}),
    )


def encode_aws_error(info: ErrorInfo) -> HttpResponse:
    """Builds an error response."""
    kind = exception_type(info)
    status = aws.status_of(kind) if (info.status or 0) < 400 else info.status
    headers = {"x-amzn-errortype": kind}
    return error_response(
        info, {"message": info.message}, status=status or 500, request_id="x-amzn-requestid", headers=headers
    )


# Checks requests by the rules of Claude models, with the vendor's messages.


def claude_refusal(
    model: str, *, thinking: Mapping[str, Any], effort: object, forced: bool, sampling: Iterable[str]
) -> str | None:
    """Returns why the model would reject a request; None if it would not, or for an unknown model.

    thinking: the field of that name, {} if missing
    effort:   `output_config.effort`, or None
    forced:   the tool choice forces a call
    sampling: names of the sampling settings that are set
    """
    rules = CLAUDE.find(model)
    # Newer models come before their rules.
    if rules is CLAUDE.unknown:
        return None
    kind = thinking.get("type")
    taken = {rules.off, "enabled" if rules.thinking != "adaptive" else None}
    taken |= {"adaptive"} if rules.thinking in ("either", "adaptive") else set()
    if rules.thinking == "none":
        taken = {"disabled"}
    if kind is not None and kind not in taken:
        instead = f'Use "thinking.type.{"adaptive" if "adaptive" in taken else "enabled"}"'
        if rules.efforts:
            instead += ' and "output_config.effort" to control thinking behavior'
        return f'"thinking.type.{kind}" is not supported for this model. {instead}.'
    if effort is not None and effort not in rules.efforts:
        if not rules.efforts:
            return "This model does not support the effort parameter."
        known = ", ".join(f"'{name}'" for name in rules.efforts)
        return f"output_config.effort: Input should be {known} for this model."
    if forced and not rules.forced_tools:
        return "tool_choice: this model does not support forced tool use. Use 'auto' or 'none'."
    for name in sampling:
        if not rules.sampling:
            return f"`{name}` is deprecated for this model."
    return None
