"""Error responses: the status of an error, and the headers that every vendor sends with one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from llmstream.errors import ErrorInfo
from llmstream.exchange import HttpResponse

__all__ = ["STATUS_OF_CODE", "error_response", "status_of"]


# By code of `llmstream.errors`; codes without one are faults of the server. What a vendor does differently
# is in its own module.
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
