"""What answers can say wrong: rows 14 to 18, 22 to 28 and 31 to 36."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.dialects.anthropic import Anthropic
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.testing import FaultServer, answered, chaos, head, no_leaks

JSON = "application/json"
RETRY = ls.Retry(max_retries=2, max_wait_s=1.0)


# Row 14
@pytest.mark.parametrize("body", [b"<html><p>Hi</html>", b"", b"[1, 2]", b"Hello there"])
@pytest.mark.parametrize("kind", ["text/event-stream", "text/html", JSON])
async def test_a_200_that_is_no_stream_is_never_a_success(wire, ask, body, kind) -> None:
    got = await ask(wire, answered(body, content_type=kind))
    assert isinstance(got.error, ls.NotAStream | ls.IncompleteStream)
    assert body[:5].decode() in got.error.message or isinstance(got.error, ls.IncompleteStream)


# Row 14
async def test_an_error_as_json_inside_a_200_is_that_error(wire, ask) -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    got = await ask(wire, answered(body, content_type=JSON))
    assert type(got.error) is ls.Overloaded


# Row 15
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ls.BadRequest),
        (401, ls.AuthenticationError),
        (403, ls.PermissionDenied),
        (404, ls.NotFound),
        (422, ls.BadRequest),
        (429, ls.RateLimited),
        (500, ls.ServerError),
        (503, ls.Overloaded),
        (529, ls.Overloaded),
    ],
)
async def test_the_class_of_a_refusal_is_that_of_its_status(wire, ask, status, kind) -> None:
    got = await ask(wire, answered(b'{"error":{"message":"no"}}', status=status, content_type=JSON))
    assert type(got.error) is kind
    assert got.error.status == status


# Row 16
@pytest.mark.parametrize(
    "wait", ["86400", "inf", "nan", "-1", "soon", "1e400", "Wed, 21 Oct 2015 07:28:00 GMT"]
)
async def test_a_retry_after_is_obeyed_only_where_it_makes_sense(wire, ask, wait) -> None:
    refused = answered(b"{}", status=429, content_type=JSON, headers={"retry-after": wait})
    got = await ask(wire, refused, answered(wire.whole), retry=RETRY)
    if wait == "86400":
        assert type(got.error) is ls.RateLimited
        assert got.error.retry_after_s == 86400
        assert got.server.connections == 1
    else:
        assert got.text == "Hello"
    assert got.seconds < 2.0


# Row 17
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_a_passing_failure_is_tried_again(wire, ask, status) -> None:
    refused = answered(b"{}", status=status, content_type=JSON, headers={"retry-after-ms": "1"})
    got = await ask(wire, refused, answered(wire.whole), retry=RETRY)
    assert (got.text, got.server.connections) == ("Hello", 2)


# Row 17
@pytest.mark.parametrize(("status", "wish", "asked"), [(500, "false", 1), (400, "true", 2)])
async def test_x_should_retry_is_obeyed(wire, ask, status, wish, asked) -> None:
    fields = {"x-should-retry": wish, "retry-after-ms": "1"}
    refused = answered(b"{}", status=status, content_type=JSON, headers=fields)
    got = await ask(wire, refused, answered(wire.whole), retry=RETRY)
    assert got.server.connections == asked


# Row 18
async def test_the_total_deadline_covers_retries_and_their_waits(wire, ask) -> None:
    refused = answered(b"{}", status=503, content_type=JSON, headers={"retry-after-ms": "300"})
    retry = ls.Retry(max_retries=99)
    got = await ask(wire, refused, retry=retry, deadlines=ls.Deadlines(total_s=0.7))
    assert got.error is not None
    assert got.seconds < 1.2


# Row 22
async def test_bytes_that_are_no_utf_8_are_replaced(wire, ask) -> None:
    got = await ask(wire, answered(wire.whole.replace(b'"lo"', b'"l\xff\xfe"')))
    assert got.error is None
    assert got.text == "Hell\ufffd\ufffd"


# Row 23
async def test_broken_json_in_the_middle_ends_in_a_decode_error(wire, ask) -> None:
    got = await ask(wire, answered(wire.half, b'data: {"choices": [\n\n', wire.rest))
    assert type(got.error) is ls.DecodeError
    assert got.text.startswith("Hel")


# Row 24
@pytest.mark.parametrize("payload", [b"[]", b"1", b'{"type":7,"choices":7}', b'{"type":[],"choices":[7]}'])
async def test_wrong_shapes_are_typed(wire, ask, payload) -> None:
    got = await ask(wire, answered(wire.half, b"data: " + payload + b"\n\n", wire.rest))
    assert got.error is None or type(got.error) is ls.DecodeError
    assert got.text.startswith("Hel")


# Row 24: each defect is an event, but not without end
async def test_defects_without_end_end_in_a_protocol_error(wire, ask) -> None:
    got = await ask(wire, answered(wire.half, b"data: {\n\n" * 5000, wire.rest))
    assert type(got.error) is ls.ProtocolError
    assert sum(isinstance(event, ls.events.Error) for event in got.events) <= 102


# Row 25
async def test_unknown_events_are_skipped(wire, ask) -> None:
    odd = b'event: news\ndata: {"type":"news","object":"news","x":null}\n\n'
    got = await ask(wire, answered(wire.half, odd * 3, wire.rest))
    assert (got.error, got.text) == (None, "Hello")


# Row 26
async def test_what_follows_the_finish_is_ignored(wire, ask) -> None:
    got = await ask(wire, answered(wire.whole, wire.half, wire.rest))
    assert (got.error, got.text) == (None, "Hello")
    assert sum(isinstance(event, ls.Finish) for event in got.events) == 1


# Row 27
async def test_an_error_as_the_first_event_counts_as_a_refusal(wire, ask) -> None:
    got = await ask(wire, answered(wire.error), answered(wire.whole), retry=RETRY)
    assert (got.error, got.text, got.server.connections) == (None, "Hello", 2)


# Row 28
async def test_an_error_in_the_middle_is_typed_and_not_tried_again(wire, ask) -> None:
    got = await ask(wire, answered(wire.half, wire.error), retry=RETRY)
    assert type(got.error) is ls.Overloaded
    assert (got.text, got.server.connections) == ("Hel", 1)


# Row 31
async def test_json_nested_without_end_is_a_decode_error(wire, ask) -> None:
    bomb = b'data: {"choices":' + b"[" * 100_000 + b"]" * 100_000 + b',"type":' + b"[" * 100_000 + b"\n\n"
    got = await ask(wire, answered(wire.half, bomb, wire.rest))
    assert type(got.error) is ls.DecodeError


# Row 33
@pytest.mark.parametrize("how", ["length", "cut"])
async def test_a_tool_does_not_run_on_arguments_that_were_cut(wire, ask, how) -> None:
    ran = []

    @ls.tool
    def look(a: int = 0) -> str:
        """Looks."""
        ran.append(a)
        return "seen"

    call = wire.tool('{"a": 1}' if how == "cut" else '{"a": 1', stop=False)
    tail = b"" if how == "cut" else wire.ending("length")
    script = answered(wire.opening + call, tail)
    async with FaultServer(script) as server, no_leaks():
        stream = ask.model(wire, server).stream("Hi", tools=[look], errors="events")
        await stream.call_tools()
        await stream.aclose()
    assert ran == []


# Rows 34 and 36
@pytest.mark.parametrize("arguments", ["[1]", '{"a": "x"}', '{"a":1}{"a":1}', "{" * 9, "[" * 50_000])
async def test_bad_arguments_run_nothing_and_the_model_is_told(wire, ask, arguments) -> None:
    ran = []

    @ls.tool
    def look(a: int) -> str:
        """Looks."""
        ran.append(a)
        return "seen"

    body = wire.opening + wire.tool(arguments) + wire.ending("stop")
    async with FaultServer(answered(body)) as server, no_leaks():
        stream = ask.model(wire, server).stream("Hi", tools=[look], errors="events")
        await stream.call_tools()
        await stream.aclose()
    assert ran == []


# Row 35
async def test_a_duplicate_id_makes_no_duplicate_in_the_message(wire, ask) -> None:
    calls = wire.tool('{"a":1}', index=1) + wire.tool('{"a":2}', index=2)
    got = await ask(wire, answered(wire.opening + calls + wire.ending("tool_calls")))
    found = [event.tool_call_id for event in got.events if isinstance(event, ls.ToolCall)]
    assert len(set(found)) == len(found) >= 1


@pytest.mark.parametrize("kind", ["cut", "reset", "stall", "overloaded", "doubled", "split"])
async def test_chaos_is_typed_or_harmless(wire, ask, kind) -> None:
    dialect = OpenAIChat() if wire.provider == "openai" else Anthropic()
    body = wire.half + wire.text("ö") + wire.rest
    got = await ask(
        wire, answered(*chaos(body, kind, dialect=dialect, at=len(wire.half)), end=kind != "reset")
    )
    expected = {
        "cut": ls.IncompleteStream,
        "reset": ls.ConnectionLost,
        "stall": ls.DeadlineExceeded,
        "overloaded": ls.Overloaded,
    }.get(kind, type(None))
    assert type(got.error) is expected
    assert got.text.startswith("Hel")


async def test_a_head_without_a_body_is_no_stream(wire, ask) -> None:
    got = await ask(wire, [head(200, {"content-type": "text/event-stream", "content-length": "0"})])
    assert type(got.error) is ls.NotAStream
