"""Writes errors in AWS's form: the reverse of `dialects.aws`."""

from __future__ import annotations

from typing import Final

import msgspec

from llmstream.dialects.aws import is_exception_type, status_of
from llmstream.dialects.errors import UNKNOWN_PATH
from llmstream.errors import ErrorInfo
from llmstream.exchange import HttpResponse
from llmstream.framing.aws_event_stream import encode_message

__all__ = ["encode_answer", "exception_frame", "exception_type"]


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


_STATUS_OF_CODE: Final = {
    "bad-request": 400,
    "context-too-long": 400,
    "content-filtered": 400,
    "invalid-request": 400,
    "unsupported": 400,
    "authentication": 403,
    "missing-key": 403,
    "permission-denied": 403,
    "not-found": 404,
    "rate-limited": 429,
    "overloaded": 503,
    "deadline-exceeded": 408,
}


def exception_type(info: ErrorInfo) -> str:
    """Returns AWS's name of an error, such as "ThrottlingException"; the original if it came from AWS."""
    reason = info.reason or ""
    if reason == UNKNOWN_PATH:
        return "UnknownOperationException"
    if is_exception_type(reason):
        return reason[:1].upper() + reason[1:]
    status = info.status or _STATUS_OF_CODE.get(info.code, 500)
    return _TYPE_OF_STATUS.get(status, "InternalServerException")


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


def encode_answer(info: ErrorInfo) -> HttpResponse:
    """Builds the response to a rejected request: the reverse of `answer_error`."""
    kind = exception_type(info)
    status = info.status if info.status is not None and info.status >= 400 else status_of(kind)
    headers = {"content-type": "application/json", "x-amzn-errortype": kind}
    if info.request_id is not None:
        headers["x-amzn-requestid"] = info.request_id
    if info.retry_after_s is not None:
        headers["retry-after"] = f"{info.retry_after_s:g}"
    return HttpResponse(status or 500, msgspec.json.encode({"message": info.message}), headers)
