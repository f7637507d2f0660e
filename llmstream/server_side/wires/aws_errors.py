"""Writes errors in AWS's form: the reverse of `dialects.aws`."""

from __future__ import annotations

from typing import Final

import msgspec

from llmstream.dialects import aws
from llmstream.dialects.errors import UNKNOWN_PATH
from llmstream.errors import ErrorInfo
from llmstream.exchange import HttpResponse
from llmstream.framing.aws_event_stream import encode_message
from llmstream.server_side.wires.errors import STATUS_OF_CODE, error_response, status_of

__all__ = ["encode_error", "exception_frame", "exception_type"]


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
_STATUS_OF_CODE: Final = {**STATUS_OF_CODE, "authentication": 403, "missing-key": 403}


def exception_type(info: ErrorInfo) -> str:
    """Returns AWS's name of an error, such as "ThrottlingException"; the original if it came from AWS."""
    reason = info.reason or ""
    if reason == UNKNOWN_PATH:
        return "UnknownOperationException"
    if aws.is_exception_type(reason):
        return reason[:1].upper() + reason[1:]
    return _TYPE_OF_STATUS.get(status_of(info, _STATUS_OF_CODE), "InternalServerException")


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


def encode_error(info: ErrorInfo) -> HttpResponse:
    """Builds an error response."""
    kind = exception_type(info)
    status = aws.status_of(kind) if (info.status or 0) < 400 else info.status
    headers = {"x-amzn-errortype": kind}
    return error_response(
        info, {"message": info.message}, status=status or 500, request_id="x-amzn-requestid", headers=headers
    )
