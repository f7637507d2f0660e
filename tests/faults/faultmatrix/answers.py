"""What answers can be instead of streams, and when they are asked for again: rows 14 to 18."""

from __future__ import annotations

import json
from collections.abc import Mapping

from faultmatrix.asking import THRICE, Outcome, Script, answered
from faultmatrix.faults import Fault
from faultmatrix.wires import Wire

import llmstream as ls
from llmstream.testing import Do, head

JSON = "application/json"
NO_STREAM = (ls.NotAStream, ls.IncompleteStream)
SOON = ls.Retry(max_retries=2, max_wait_s=0.02)
"""Waits of its own are short, so that junk in a header costs no time."""

CLASSES: Mapping[int, type[ls.LLMStreamError]] = {
    400: ls.BadRequest,
    401: ls.AuthenticationError,
    402: ls.PermissionDenied,
    403: ls.PermissionDenied,
    404: ls.NotFound,
    405: ls.BadRequest,
    408: ls.ServerError,
    409: ls.ServerError,
    413: ls.BadRequest,
    415: ls.BadRequest,
    418: ls.BadRequest,
    422: ls.BadRequest,
    424: ls.BadRequest,
    429: ls.RateLimited,
    451: ls.BadRequest,
    500: ls.ServerError,
    501: ls.ServerError,
    502: ls.ServerError,
    503: ls.Overloaded,
    504: ls.ServerError,
    520: ls.ServerError,
    529: ls.Overloaded,
    599: ls.ServerError,
    999: ls.ServerError,
}


def refused(status: int, body: bytes = b"{}", **fields: str) -> Script:
    pairs = {"content-type": JSON, "content-length": str(len(body))}
    return [head(status, pairs | {name.replace("_", "-"): value for name, value in fields.items()}), body]


def no_secret_is_made_up(wire: Wire, got: Outcome) -> None:
    assert got.error is not None
    assert len(got.error.message) < 4000


def quotes(wire: Wire, got: Outcome) -> None:
    """The status, the type and at most 2 KiB of what came."""
    assert isinstance(got.error, ls.NotAStream)
    assert got.error.status == 200
    assert "text/html" in got.error.message
    assert "<html>" in got.error.message
    assert len(got.error.message) < 2500


def no_waste(wire: Wire, got: Outcome) -> None:
    assert got.seconds < 2.0


FAULTS = [
    # row 14
    Fault(
        name="200 with HTML",
        row=14,
        scripts=lambda wire: [
            answered(wire, b"<html>" + b"<p>busy</p>" * 900, content_type="text/html; charset=utf-8")
        ],
        error=ls.NotAStream,
        status=200,
        text="",
        also=quotes,
    ),
    *(
        Fault(
            name=f"200 with {what} as {kind or 'the right type'}",
            row=14,
            scripts=lambda wire, body=body, kind=kind: [
                answered(wire, body, content_type=kind or wire.content_type)
            ],
            error=(*NO_STREAM, ls.DecodeError, ls.ProtocolError, ls.LimitExceeded),
            text="",
        )
        for what, body in (
            ("nothing", b""),
            ("a page", b"<!doctype html><p>Hi</p>"),
            ("a list", b"[1, 2]"),
            ("an object", b'{"hello": "you"}'),
            ("plain words", b"upstream connect error or disconnect/reset before headers"),
            ("zeros", b"\0" * 300),
        )
        for kind in ("", "text/html", JSON, "text/plain")
    ),
    Fault(
        name="200 without a type, with the answer",
        row=14,
        scripts=lambda wire: [
            [head(200, {"content-length": str(len(wire.whole))}), wire.whole],
        ],
    ),
    Fault(
        name="200 with the answer as text/plain",
        row=14,
        scripts=lambda wire: [answered(wire, wire.whole, content_type="text/plain")],
    ),
    *(
        Fault(
            name=f"200 with the answer as {kind}",
            row=14,
            scripts=lambda wire, kind=kind: [answered(wire, wire.whole, content_type=kind)],
            not_for=dict.fromkeys(
                ("bedrock-converse", "ollama"), "its framing does not show where a stream begins"
            ),
        )
        for kind in (JSON, "text/html")
    ),
    Fault(
        name="200 with half an answer as application/json",
        row=14,
        scripts=lambda wire: [answered(wire, wire.half, content_type=JSON)],
        error=(ls.IncompleteStream, ls.NotAStream),
    ),
    *(
        Fault(
            name=f"{status} without a body",
            row=14,
            scripts=lambda wire, status=status: [[head(status, {"content-length": "0"})]],
            error=(*NO_STREAM, ls.ProtocolError),
            text="",
        )
        for status in (200, 202, 204, 206)
    ),
    Fault(
        name="200 with an overload as JSON",
        row=14,
        scripts=lambda wire: [answered(wire, wire.error_body(529), content_type=JSON)],
        error=(ls.Overloaded, ls.ServerError, ls.RateLimited),
        text="",
        not_for=dict.fromkeys(
            ("bedrock-converse", "cohere"),
            "a refusal is identified by its status; its JSON looks like any other",
        ),
    ),
    Fault(
        name="200 with an error as JSON under the stream's type",
        row=14,
        scripts=lambda wire: [
            answered(wire, b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n')
        ],
        error=ls.Overloaded,
        text="",
        not_for={"bedrock-converse": "its frames carry sums: anything but a frame is reported as that"},
    ),
    # row 15
    *(
        Fault(
            name=f"{status}",
            row=15,
            scripts=lambda wire, status=status: [refused(status, b'{"error":{"message":"no"}}')],
            error=kind,
            status=status,
            text="",
        )
        for status, kind in CLASSES.items()
    ),
    *(
        Fault(
            name=f"503 with {what}",
            row=15,
            scripts=lambda wire, body=body: [refused(503, body)],
            error=ls.Overloaded,
            status=503,
            text="",
            also=no_secret_is_made_up,
        )
        for what, body in (
            ("nothing", b""),
            ("a page", b"<html><title>503 Busy</title>" + b"x" * 100_000 + b"</html>"),
            ("bytes that are no text", b"\xff\xfe\x00" * 999),
            ("a list", b"[]"),
            ("a number", b"1"),
            ("errors of wrong types", b'{"error": 7, "message": [], "code": {}, "details": 3}'),
            ("an object within objects", b'{"error":' * 90 + b"1" + b"}" * 90),
            ("a bomb", b"[" * 60_000),
        )
    ),
    Fault(
        name="429 in an unknown coding",
        row=15,
        scripts=lambda wire: [refused(429, b"\x00\x01", content_encoding="rot13")],
        error=ls.RateLimited,
        status=429,
        text="",
    ),
    Fault(
        name="500 in gzip that is none",
        row=15,
        scripts=lambda wire: [refused(500, b'{"error": "no"}', content_encoding="gzip")],
        error=ls.ServerError,
        status=500,
        text="",
    ),
    Fault(
        name="500 whose body is cut",
        row=15,
        scripts=lambda wire: [[head(500, {"content-length": "500"}), b'{"error":']],
        error=ls.ServerError,
        status=500,
        text="",
    ),
    Fault(
        name="500 whose body is reset",
        row=15,
        scripts=lambda wire: [[head(500, {"content-length": "500"}), b'{"error":', Do.RESET]],
        error=(ls.ServerError, ls.ConnectionLost),
        text="",
    ),
    # row 16
    *(
        Fault(
            name=f"429, {field}: {value}",
            row=16,
            scripts=lambda wire, field=field, value=value: [
                refused(429, **{field: value}),
                answered(wire, wire.whole),
            ],
            asked=2,
            options={"retry": THRICE},
            also=no_waste,
        )
        for field, value in (
            ("retry_after", "0"),
            ("retry_after", "0.01"),
            ("retry_after", "Wed, 21 Oct 2015 07:28:00 GMT"),
            ("retry_after_ms", "10"),
            ("retry_after_ms", "0.5"),
        )
    ),
    *(
        Fault(
            name=f"429, {field}: {value[:30]}",
            row=16,
            scripts=lambda wire, field=field, value=value: [
                refused(429, **{field: value}),
                answered(wire, wire.whole),
            ],
            asked=2,
            options={"retry": SOON},
            also=no_waste,
        )
        for field, value in (
            ("retry_after", "nan"),
            ("retry_after", "inf"),
            ("retry_after", "-inf"),
            ("retry_after", "-1"),
            ("retry_after", "1e400"),
            ("retry_after", "1_000"),
            ("retry_after", "soon"),
            ("retry_after", ""),
            ("retry_after", "Wed, 21 Oct 99999999999999999999 07:28:00 GMT"),
            ("retry_after", "Wed, 99 Foo 2015 07:28:00 GMT"),
            ("retry_after_ms", "nan"),
            ("retry_after_ms", "-5"),
            ("retry_after_ms", "1e999"),
        )
    ),
    *(
        Fault(
            name=f"{status}, {field}: {value}",
            row=16,
            scripts=lambda wire, status=status, field=field, value=value: [refused(status, **{field: value})],
            error=ls.RateLimited if status == 429 else ls.Overloaded,
            retry_after_s=wait,
            asked=1,
            options={"retry": THRICE},
            also=no_waste,
        )
        for status, field, value, wait in (
            (429, "retry_after", "86400", 86400.0),
            (503, "retry_after", "4294967", 4294967.0),
            (429, "retry_after", "61", 61.0),
            (429, "retry_after", "9" * 30, 1e30),
            (429, "retry_after_ms", "86400000", 86400.0),
            (529, "retry_after", "Fri, 31 Dec 9999 23:59:59 GMT", None),
        )
    ),
    Fault(
        name="429, a wait in milliseconds that is junk beside one in seconds",
        row=16,
        scripts=lambda wire: [refused(429, retry_after_ms="nan", retry_after="3600")],
        error=ls.RateLimited,
        retry_after_s=3600.0,
        asked=1,
        options={"retry": THRICE},
    ),
    # row 17
    *(
        Fault(
            name=f"{status}, then the answer",
            row=17,
            scripts=lambda wire, status=status: [
                refused(status, retry_after_ms="1"),
                answered(wire, wire.whole),
            ],
            asked=2,
            options={"retry": THRICE},
        )
        for status in (408, 409, 429, 500, 502, 503, 504, 529)
    ),
    *(
        Fault(
            name=f"{status} three times",
            row=17,
            scripts=lambda wire, status=status: [refused(status, retry_after_ms="1")],
            error=(ls.ServerError, ls.Overloaded, ls.RateLimited),
            asked=3,
            options={"retry": THRICE},
        )
        for status in (500, 503, 429)
    ),
    *(
        Fault(
            name=f"{status} is not requested again",
            row=17,
            scripts=lambda wire, status=status: [refused(status), answered(wire, wire.whole)],
            error=kind,
            asked=1,
            options={"retry": THRICE},
        )
        for status, kind in CLASSES.items()
        if status in (400, 401, 403, 404, 413, 422)
    ),
    *(
        Fault(
            name=f"{status}, x-should-retry: {wish}",
            row=17,
            scripts=lambda wire, status=status, wish=wish: [
                refused(status, x_should_retry=wish, retry_after_ms="1"),
                answered(wire, wire.whole),
            ],
            error=None if asked == 2 else (ls.ServerError, ls.RateLimited),
            text="Hello" if asked == 2 else "",
            asked=asked,
            options={"retry": THRICE},
        )
        for status, wish, asked in ((500, "false", 1), (429, "false", 1), (400, "true", 2), (403, "true", 2))
    ),
    Fault(
        name="429 for a quota that is used up",
        row=17,
        scripts=lambda wire: [
            refused(429, json.dumps({"error": {"message": "no", "code": "insufficient_quota"}}).encode())
        ],
        error=ls.RateLimited,
        asked=1,
        options={"retry": THRICE},
        not_for={
            "bedrock-converse": "no such word on this wire",
            "gemini": "no such word on this wire",
            "gemini-interactions": "no such word on this wire",
            "cohere": "no such word on this wire",
            "ollama": "no such word on this wire",
        },
    ),
    Fault(
        name="a connection that is refused once",
        row=17,
        scripts=lambda wire: [[Do.RESET], answered(wire, wire.whole)],
        asked=2,
        options={"retry": SOON},
    ),
    # row 18
    Fault(
        name="waits that are longer than the deadline",
        row=18,
        scripts=lambda wire: [refused(503, retry_after="30")],
        error=(ls.Overloaded, ls.DeadlineExceeded),
        asked=1,
        options={"retry": ls.Retry(max_retries=99), "deadlines": ls.Deadlines(total_s=0.5)},
        within_s=2.0,
    ),
    Fault(
        name="many waits within a deadline",
        row=18,
        scripts=lambda wire: [refused(503, retry_after_ms="50")],
        error=(ls.Overloaded, ls.DeadlineExceeded),
        options={"retry": ls.Retry(max_retries=99), "deadlines": ls.Deadlines(total_s=0.2)},
        within_s=2.0,
    ),
    Fault(
        name="attempts that all hang",
        row=18,
        scripts=lambda wire: [[Do.HANG]],
        error=ls.DeadlineExceeded,
        options={
            "retry": ls.Retry(max_retries=99, max_wait_s=0.01),
            "deadlines": ls.Deadlines(first_event_s=0.05, total_s=0.2),
        },
        within_s=2.0,
    ),
]
