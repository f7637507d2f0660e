"""What the events of a stream can say wrong: rows 22 to 31, apart from floods."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from faultmatrix.asking import ONCE, THRICE, Outcome, answered
from faultmatrix.faults import Fault
from faultmatrix.wires import WIRES, Wire, sse

import llmstream as ls
from llmstream.events import ErrorEvent, Raw
from llmstream.framing.aws_event_stream import encode_message

_AWS = {name: "another framing" for name, wire in WIRES.items() if wire.framing == "aws"}
_NOT_AWS = {name: "another framing" for name, wire in WIRES.items() if wire.framing != "aws"}
_NOT_SSE = {name: "another framing" for name, wire in WIRES.items() if wire.framing != "sse"}
SOON = ls.Retry(max_retries=2, max_wait_s=0.02)
UNKNOWN = b'{"type": "news", "event_type": "news", "object": "news", "x": null, "y": [{}]}'


def between(wire: Wire, *odd: bytes) -> list[list[object]]:
    """The odd bytes in the middle of a good answer."""
    return [answered(wire, wire.half, *odd, wire.rest)]  # type: ignore[list-item]


def keeps_the_beginning(wire: Wire, got: Outcome) -> None:
    assert got.text.startswith("Hel")


def whole_but_told(wire: Wire, got: Outcome) -> None:
    """Reading went on, and yet the call ends in the error."""
    assert got.text == "Hello"


def few_errors(wire: Wire, got: Outcome) -> None:
    assert len(got.of(ErrorEvent)) <= 102


def shows_raw(wire: Wire, got: Outcome) -> None:
    assert any("news" in str(event.raw_value) for event in got.of(Raw))


def one_finish(wire: Wire, got: Outcome) -> None:
    assert len(got.of(ls.Finish)) == 1


def orphan(wire: Wire) -> bytes:
    """A fragment of a block that never began."""
    deltas: Mapping[str, tuple[object, str]] = {
        "openai-chat": (
            {
                "choices": [
                    {"index": 0, "delta": {"tool_calls": [{"index": 7, "function": {"arguments": "1}"}}]}}
                ]
            },
            "",
        ),
        "openai-responses": (
            {
                "type": "response.output_text.delta",
                "item_id": "nobody",
                "output_index": 7,
                "content_index": 0,
                "delta": "?",
            },
            "response.output_text.delta",
        ),
        "anthropic": (
            {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "?"}},
            "content_block_delta",
        ),
        "bedrock-converse": ({"contentBlockIndex": 7, "delta": {"toolUse": {"input": "{}"}}}, ""),
        "cohere": (
            {
                "type": "tool-call-delta",
                "index": 7,
                "delta": {"message": {"tool_calls": {"function": {"arguments": "{}"}}}},
            },
            "tool-call-delta",
        ),
    }
    value, name = deltas[wire.name]
    if wire.framing == "aws":
        return wire.frame(sse(value)[len(b"data: ") : -2])
    return sse(value, name)


NO_BLOCKS = "its events stand for themselves: nothing has to begin before them"


def errors(wire: Wire) -> bytes:
    return wire.broken[len(wire.half) :]


def split_utf8(wire: Wire) -> list[bytes]:
    body = wire.half + wire.text("ö€😀") + wire.rest
    return [body[place : place + 1] for place in range(len(body))]


def said_ö(wire: Wire, got: Outcome) -> None:
    assert "Hel" in got.text
    assert "ö€😀" in got.text


def flipped(wire: Wire) -> bytes:
    """The event "lo" with one bit of its payload turned round."""
    place = wire.lo.rindex(b'"lo"') + 1
    return wire.lo[:place] + bytes([wire.lo[place] ^ 1]) + wire.lo[place + 1 :]


def exception(kind: str) -> Callable[[Wire], bytes]:
    headers = {":message-type": "exception", ":exception-type": kind, ":content-type": "application/json"}
    return lambda wire: encode_message(headers, b'{"message": "no"}')


FAULTS = [
    # row 22
    Fault(
        name="bytes that are not UTF-8, in a text",
        row=22,
        scripts=lambda wire: [
            answered(wire, wire.half, wire.altered(wire.lo, b'"lo"', b'"l\xff\xfe"'), wire.closing)
        ],
        text="Hell\ufffd\ufffd",
    ),
    Fault(
        name="half a character, in a text",
        row=22,
        scripts=lambda wire: [
            answered(wire, wire.half, wire.altered(wire.lo, b'"lo"', b'"l\xf0\x9f\x98"'), wire.closing)
        ],
        also=keeps_the_beginning,
        text="Hell\ufffd",
    ),
    Fault(
        name="an overlong form, in a text",
        row=22,
        scripts=lambda wire: [
            answered(wire, wire.half, wire.altered(wire.lo, b'"lo"', b'"l\xc0\xaf"'), wire.closing)
        ],
        text="Hell\ufffd\ufffd",
    ),
    Fault(
        name="a surrogate as UTF-8, in a text",
        row=22,
        scripts=lambda wire: [
            answered(wire, wire.half, wire.altered(wire.lo, b'"lo"', b'"l\xed\xa0\x80"'), wire.closing)
        ],
        text="Hell\ufffd\ufffd\ufffd",
    ),
    Fault(
        name="bytes that are not UTF-8, in an ignored field",
        row=22,
        scripts=lambda wire: between(wire, b": \xff\xfe\n\n"),
        not_for=_NOT_SSE,
    ),
    Fault(
        name="characters in pieces of a byte",
        row=22,
        scripts=lambda wire: [answered(wire, *split_utf8(wire))],
        text="Helö€😀lo",
        also=said_ö,
    ),
    Fault(
        name="half a character as an escape",
        row=22,
        scripts=lambda wire: [
            answered(wire, wire.half, wire.altered(wire.lo, b'"lo"', b'"l\\ud83d"'), wire.closing)
        ],
        text="Hell\ufffd",
    ),
    # row 23
    *(
        Fault(
            name=f"broken JSON: {payload[:20].decode()}",
            row=23,
            scripts=lambda wire, payload=payload: between(wire, wire.frame(payload)),
            error=ls.DecodeError,
            also=keeps_the_beginning,
        )
        for payload in (
            b'{"choices": [',
            b'{"a": 1}}',
            b"{'a': 1}",
            b"undefined",
            b'{"a": "\\x"}',
            b'{"a": 1',
        )
    ),
    Fault(
        name="broken JSON first",
        row=23,
        scripts=lambda wire: [answered(wire, wire.frame(b'{"a":'), wire.whole)],
        error=(ls.DecodeError, ls.NotAStream),
        options={"retry": ONCE},
    ),
    Fault(
        name="broken JSON without end",
        row=23,
        scripts=lambda wire: between(wire, wire.frame(b'{"a":') * 5000),
        error=(ls.ProtocolError, ls.DecodeError),
        also=few_errors,
    ),
    # row 24
    *(
        Fault(
            name=f"shape: {payload[:30].decode()}",
            row=24,
            scripts=lambda wire, payload=payload: between(wire, wire.frame(payload)),
            error=(type(None), ls.DecodeError, ls.NotAStream, ls.ServerError),  # type: ignore[arg-type]
            also=keeps_the_beginning,
        )
        for payload in (
            b'{"a": NaN}',
            b"[]",
            b"1",
            b'"x"',
            b"null",
            b"true",
            b'{"type": 7, "choices": 7, "candidates": 7, "message": 7, "delta": 7, "event_type": 7}',
            b'{"type": [], "choices": [7], "candidates": [7], "message": [], "delta": [], "error": null}',
            b'{"choices": [{"delta": {"content": 7, "tool_calls": {"x": 1}}}], "message": {"content": 7}}',
        )
    ),
    Fault(
        name="a fragment of what never began",
        row=24,
        scripts=lambda wire: between(wire, orphan(wire)),
        error=ls.DecodeError,
        also=keeps_the_beginning,
        not_for=dict.fromkeys(("gemini", "gemini-interactions", "mistral", "ollama"), NO_BLOCKS)
        | {"openai-responses": "servers leave beginnings out; the text is shown all the same"},
    ),
    # row 25
    Fault(
        name="unknown events",
        row=25,
        scripts=lambda wire: between(wire, wire.frame(UNKNOWN, "news") * 3),
        error=None,
    ),
    Fault(
        name="unknown events, raw",
        row=25,
        scripts=lambda wire: between(wire, wire.frame(UNKNOWN, "news")),
        options={"call": {"include_raw": True}},
        also=shows_raw,
    ),
    Fault(
        name="unknown fields",
        row=25,
        scripts=lambda wire: [
            answered(wire, wire.altered(wire.whole, b'{"', b'{"x_new": [null, 1], "')),
        ],
    ),
    # row 26
    *(
        Fault(
            name=f"the answer, and then {what}",
            row=26,
            scripts=lambda wire, more=more: [answered(wire, wire.whole, *more(wire))],
            also=one_finish,
            not_for=skipped,
        )
        for what, more, skipped in (
            ("its end again", lambda wire: [wire.closing], {}),
            (
                "all of it again",
                lambda wire: [wire.half, wire.rest],
                {"gemini": "the finish reason may be in any chunk, and later chunks continue the answer"},
            ),
            (
                "more text",
                lambda wire: [wire.lo],
                {"gemini": "the finish reason may be in any chunk, and later chunks continue the answer"},
            ),
            ("its beginning again", lambda wire: [wire.opening], {}),
            (
                "broken JSON",
                lambda wire: [wire.frame(b'{"a":')],
                {"gemini": "it may be a part of the answer"},
            ),
            ("bytes that are no frame", lambda wire: [b"\x00\x01garbage\xff\n\n"], {}),
        )
    ),
    Fault(
        name="the beginning twice",
        row=26,
        scripts=lambda wire: [answered(wire, wire.opening, wire.whole)],
        error=(type(None), ls.DecodeError, ls.ProtocolError),  # type: ignore[arg-type]
        also=one_finish,
    ),
    Fault(
        name="the answer in one segment with what follows",
        row=26,
        scripts=lambda wire: [answered(wire, wire.whole + wire.closing + wire.opening)],
        also=one_finish,
    ),
    # row 27
    Fault(
        name="an overload as the first event",
        row=27,
        scripts=lambda wire: [answered(wire, wire.refusal), answered(wire, wire.whole)],
        asked=2,
        options={"retry": SOON},
    ),
    Fault(
        name="an overload as the first event, again and again",
        row=27,
        scripts=lambda wire: [answered(wire, wire.refusal)],
        error=(ls.Overloaded, ls.ServerError),
        text="",
        asked=3,
        options={"retry": SOON},
    ),
    # row 28
    Fault(
        name="an overload in mid-stream",
        row=28,
        scripts=lambda wire: [answered(wire, wire.half, errors(wire)), answered(wire, wire.whole)],
        error=(ls.Overloaded, ls.ServerError),
        text="Hel",
        asked=1,
        options={"retry": THRICE},
    ),
    *(
        Fault(
            name=f"{kind} in mid-stream",
            row=28,
            scripts=lambda wire, kind=kind: [answered(wire, wire.half, exception(kind)(wire))],
            error=error,
            text="Hel",
            asked=1,
            options={"retry": THRICE},
            not_for=_NOT_AWS,
        )
        for kind, error in (
            ("throttlingException", ls.RateLimited),
            ("serviceUnavailableException", ls.Overloaded),
            ("internalServerException", ls.ServerError),
            ("modelStreamErrorException", ls.ServerError),
            ("validationException", ls.BadRequest),
            ("newException", (ls.ServerError, ls.ProviderError)),
        )
    ),
    *(
        Fault(
            name=f"{kind} in mid-stream",
            row=28,
            scripts=lambda wire, kind=kind: [
                answered(
                    wire,
                    wire.half,
                    sse({"type": "error", "error": {"type": kind, "code": kind, "message": "no"}}, "error"),
                )
            ],
            error=error,
            text="Hel",
            asked=1,
            options={"retry": THRICE},
            not_for={name: "other words" for name in WIRES if name not in ("anthropic", "openai-chat")},
        )
        for kind, error in (
            ("rate_limit_error", ls.RateLimited),
            ("api_error", ls.ServerError),
            ("authentication_error", ls.AuthenticationError),
            ("permission_error", ls.PermissionDenied),
            ("invalid_request_error", ls.BadRequest),
            ("not_found_error", ls.NotFound),
            ("timeout_error", ls.ServerError),
            ("server_error", ls.ServerError),
        )
    ),
    # damage that sums find: row 24 of a framing with sums
    Fault(
        name="a bit turned round",
        row=24,
        scripts=lambda wire: [answered(wire, wire.half, flipped(wire), wire.closing)],
        error=ls.ProtocolError,
        text="Hel",
        not_for=_NOT_AWS,
    ),
    Fault(
        name="a frame of four gigabytes",
        row=29,
        scripts=lambda wire: between(wire, b"\xff\xff\xff\xff" + wire.lo[4:]),
        error=(ls.ProtocolError, ls.LimitExceeded),
        text="Hel",
        not_for=_NOT_AWS,
    ),
    # row 29
    Fault(
        name="a line past its limit",
        row=29,
        scripts=lambda wire: [answered(wire, wire.half, wire.frame(b'"' + b"x" * 300_000 + b'"'), wire.rest)],
        error=ls.LimitExceeded,
        text="Hel",
        options={"limits": ls.StreamLimits(max_event_bytes=100_000)},
    ),
    Fault(
        name="a line without an end",
        row=29,
        scripts=lambda wire: [answered(wire, wire.half, b"data: ", *[b"x" * 50_000] * 8, end=False)],
        error=(ls.LimitExceeded, ls.ProtocolError),
        text="Hel",
        options={"limits": ls.StreamLimits(max_event_bytes=100_000)},
        not_for=_AWS,
    ),
    Fault(
        name="an event without an end",
        row=29,
        scripts=lambda wire: [answered(wire, wire.half, *[b"data: " + b"x" * 999 + b"\n"] * 300, end=False)],
        error=ls.LimitExceeded,
        text="Hel",
        options={"limits": ls.StreamLimits(max_event_bytes=100_000)},
        not_for=_NOT_SSE,
    ),
    # row 31
    *(
        Fault(
            name=f"JSON nested {depth} deep, {where}",
            row=31,
            scripts=lambda wire, depth=depth, make=make: between(wire, wire.frame(make(depth))),
            error=ls.DecodeError,
            also=keeps_the_beginning,
        )
        for depth in (2_000, 100_000)
        for where, make in (
            ("in an ignored field", lambda n: b'{"x": ' + b"[" * n + b"]" * n + b"}"),
            ("in objects", lambda n: b'{"x": ' + b'{"a":' * n + b"1" + b"}" * n + b"}"),
            ("without an end", lambda n: b'{"choices": ' + b"[" * n),
        )
        if depth > 2_000 or where == "without an end"
    ),
    Fault(
        name="a number of 100 000 digits",
        row=31,
        scripts=lambda wire: between(wire, wire.frame(b'{"x": ' + b"9" * 100_000 + b"}")),
        error=(type(None), ls.DecodeError),  # type: ignore[arg-type]
        also=keeps_the_beginning,
    ),
    Fault(
        name="a number past every float",
        row=31,
        scripts=lambda wire: between(wire, wire.frame(b'{"x": 1e400}')),
        error=(type(None), ls.DecodeError),  # type: ignore[arg-type]
        also=keeps_the_beginning,
    ),
]
