"""AWS's errors, in messages of a stream and in whole answers, in both directions."""

from __future__ import annotations

import json

import pytest

from llmstream.dialects.aws import answer_error, exception_of
from llmstream.errors import BadRequest, ErrorInfo, RateLimited, ServerError, error_from_info
from llmstream.framing.aws_event_stream import EventStreamDecoder, Message
from llmstream.server_side.wires.errors import encode_aws_error, exception_frame, exception_type


def exception(kind, body=b"", **headers):
    headers = {f":{name.replace('_', '-')}": value for name, value in headers.items()}
    return exception_of(
        Message({":message-type": "exception", ":exception-type": kind, **headers}, body), provider="p"
    )


def answer(status, body, kind="", **headers):
    named = {"x-amzn-errortype": kind, "x-amzn-requestid": "r-1", **headers}
    return answer_error(status, named, body, provider="p")


def test_an_event_is_no_exception():
    assert (
        exception_of(Message({":message-type": "event", ":event-type": "chunk"}, b"{}"), provider="p") is None
    )
    assert exception_of(Message({}, b"{}"), provider="p") is None


@pytest.mark.parametrize(
    ("said", "status", "retryable", "message"),
    [
        ({"message": "m"}, 424, True, "m"),
        ({"message": "m", "originalStatusCode": 500, "originalMessage": "inner"}, 424, True, "m (inner)"),
        ({"message": "m", "originalStatusCode": 429}, 424, True, "m"),
        ({"message": "m", "originalStatusCode": 400}, 424, False, "m"),
        ({"originalMessage": "inner"}, 424, True, "inner"),
    ],
)
def test_model_failure_reports_its_cause(said, status, retryable, message):
    error = exception("modelStreamErrorException", json.dumps(said).encode())
    assert isinstance(error, ServerError)
    assert (error.status, error.retryable, error.message) == (status, retryable, message)


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"null", b"\xff", b'{"message": 5}'])
def test_any_exception_body_has_a_message(body):
    error = exception("throttlingException", body)
    assert isinstance(error, RateLimited)
    assert error.message


def test_error_code_may_be_number_or_unknown():
    for code, status in (("500", 500), ("999", 500), ("Whatever", 500), ("InternalFailure", 500)):
        message = Message({":message-type": "error", ":error-code": code, ":error-message": "gone"}, b"")
        error = exception_of(message, provider="p")
        assert error is not None
        assert (error.status, error.message, error.reason) == (status, "gone", code)


@pytest.mark.parametrize(
    ("status", "kind", "code", "retryable"),
    [
        (400, "ValidationException:http://internal.amazon.com/", "bad-request", False),
        (403, "AccessDeniedException", "permission-denied", False),
        (403, "ExpiredTokenException:http://internal.amazon.com/", "authentication", False),
        (403, "com.amazon.coral.service#UnrecognizedClientException", "authentication", False),
        (403, "InvalidSignatureException", "authentication", False),
        (404, "ResourceNotFoundException", "not-found", False),
        (408, "ModelTimeoutException", "server-error", True),
        (424, "ModelErrorException", "server-error", False),
        (429, "ThrottlingException", "rate-limited", True),
        (429, "ModelNotReadyException", "rate-limited", True),
        (500, "InternalServerException", "server-error", True),
        (503, "ServiceUnavailableException", "overloaded", True),
    ],
)
def test_whole_answers_by_their_header(status, kind, code, retryable):
    error = answer(status, b'{"message":"words of the vendor"}', kind)
    assert (error.code, error.status, error.retryable) == (code, status, retryable)
    assert (error.message, error.request_id) == ("words of the vendor", "r-1")
    assert error.reason == kind.partition(":")[0].rpartition("#")[2]


def test_too_long_prompt_is_found_by_message():
    error = answer(400, b'{"message":"Input is too long for requested model."}', "ValidationException")
    assert error.code == "context-too-long"


def test_exception_type_may_be_in_the_body():
    """And the message under `Message`."""
    error = answer_error(403, {}, b'{"__type":"x#AccessDeniedException","Message":"no"}', provider="p")
    assert (error.code, error.message, error.reason) == ("permission-denied", "no", "AccessDeniedException")


def test_answers_of_others_are_read_as_usual():
    assert answer_error(502, {}, b"<html><title>Bad Gateway</title>", provider="p").message == "Bad Gateway"
    assert answer_error(200, {"content-type": "text/html"}, b"<html>", provider="p").code == "not-a-stream"
    assert isinstance(answer_error(400, {}, b'{"message":"x"}', provider="p"), BadRequest)


def test_the_wait_that_is_asked_for_is_kept():
    assert answer(429, b'{"message":"x"}', "ThrottlingException", **{"retry-after": "3"}).retry_after_s == 3


@pytest.mark.parametrize(
    ("info", "kind"),
    [
        (ErrorInfo("rate-limited", "m", True), "ThrottlingException"),
        (ErrorInfo("overloaded", "m", True, status=529), "ServiceUnavailableException"),
        (ErrorInfo("bad-request", "m", False, status=400), "ValidationException"),
        (ErrorInfo("permission-denied", "m", False, status=402), "AccessDeniedException"),
        (ErrorInfo("incomplete-stream", "m", True), "InternalServerException"),
        (ErrorInfo("server-error", "m", True, reason="modelTimeoutException"), "ModelTimeoutException"),
        (ErrorInfo("authentication", "m", False, reason="ExpiredTokenException"), "ExpiredTokenException"),
    ],
)
def test_our_errors_have_a_name_there(info, kind):
    assert exception_type(info) == kind
    (message,) = EventStreamDecoder().feed(exception_frame(exception_type(info), info.message))
    assert message.headers[":exception-type"] == kind[0].lower() + kind[1:]


@pytest.mark.parametrize(
    "info",
    [
        ErrorInfo("rate-limited", "m", True, status=429, reason="ThrottlingException", retry_after_s=2.5),
        ErrorInfo("bad-request", "m", False, status=400, reason="ValidationException", request_id="r"),
        ErrorInfo("authentication", "m", False, status=403, reason="ExpiredTokenException"),
        ErrorInfo("server-error", "m", False, status=424, reason="ModelErrorException"),
    ],
)
def test_an_answer_written_reads_the_same(info):
    written = encode_aws_error(info)
    error = answer_error(written.status, written.headers, written.body, provider="p")
    assert error.info == error_from_info(info).info.__class__(
        **{name: getattr(info, name) for name in info.__struct_fields__ if name != "provider"}, provider="p"
    )


def test_an_error_without_a_status_gets_one():
    assert encode_aws_error(ErrorInfo("rate-limited", "m", True)).status == 429
    assert encode_aws_error(ErrorInfo("incomplete-stream", "m", True)).status == 500


def test_a_message_of_megabytes_is_cut() -> None:
    frame = exception_frame("ThrottlingException", "slow down " * 300_000)
    (message,) = EventStreamDecoder(max_bytes=1 << 24).feed(frame)
    error = exception_of(message, provider="bedrock")
    assert error is not None
    assert len(str(error)) < 5_000
