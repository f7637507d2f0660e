"""The status of an error response, on every wire."""

from __future__ import annotations

import pytest

from llmstream import errors
from llmstream.dialects.base import Dialect
from llmstream.errors import ErrorInfo
from llmstream.server_side.routing import default_dialects
from llmstream.server_side.wires import server_side
from llmstream.server_side.wires.errors import STATUS_OF_CODE, error_response, status_of

every_dialect = pytest.mark.parametrize(
    "dialect", default_dialects(), ids=lambda d: f"{d.name}-{d.content_type}"
)


@every_dialect
def test_fault_of_the_caller_is_4xx(dialect: Dialect) -> None:
    side = server_side(dialect)
    faults = [code for code, status in STATUS_OF_CODE.items() if status < 500]
    written = {code: side.encode_error(ErrorInfo(code, "m", retryable=False)).status for code in faults}
    assert {code: status for code, status in written.items() if not 400 <= status < 500} == {}


@every_dialect
def test_status_of_success_is_replaced(dialect: Dialect) -> None:
    """An error inside a stream comes with the status of the response that it broke."""
    info = ErrorInfo("rate-limited", "m", retryable=True, status=200)
    assert server_side(dialect).encode_error(info).status == 429


def test_own_status_comes_first() -> None:
    assert status_of(ErrorInfo("rate-limited", "m", retryable=True, status=418)) == 418
    assert status_of(errors.ConnectionLost("gone").info) == 500


def test_headers_have_wait_and_request_id() -> None:
    info = errors.RateLimited("m", retry_after_s=2.5, request_id="r1").info
    assert error_response(info, {}, request_id="x-id").headers == {
        "content-type": "application/json",
        "retry-after": "2.5",
        "x-id": "r1",
    }
    assert "x-id" not in error_response(info, {}).headers
