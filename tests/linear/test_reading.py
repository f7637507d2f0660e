"""What reads an answer: framings, the guard, the accumulator, chunks; and the names of MCP tools."""

from __future__ import annotations

import json

import pytest
from stepcount.steps import assert_linear

from llmstream.accumulate import Accumulator
from llmstream.dialects.decoder import SurrogateJoiner
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import encodable_value, is_json, object_text
from llmstream.events import (
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)
from llmstream.framing.aws_event_stream import EventStreamDecoder, encode_message
from llmstream.framing.ndjson import NDJSONDecoder
from llmstream.framing.sse import SSEDecoder
from llmstream.grammar import Guard, check
from llmstream.mcp.server_tools import valid_names
from llmstream.partial_json import PartialJSON

N = 150


def _text(i, block_id):
    return [TextStart(block_id), TextDelta("x", block_id), TextEnd(block_id)]


def _input(i, call_id):
    return [
        ToolInputStart("f", call_id),
        ToolInputDelta("{}", call_id),
        ToolInputEnd(call_id),
        ToolCall("f", "{}", call_id),
    ]


EVENTS = {
    "texts": lambda i: _text(i, str(i)),
    "texts of one id": lambda i: _text(i, "0"),
    "open texts": lambda i: [TextStart(str(i))],
    "deltas of no block": lambda i: [TextDelta("x", str(i))],
    "thoughts": lambda i: [ReasoningStart(str(i)), ReasoningDelta("x", str(i)), ReasoningEnd(str(i))],
    "calls": lambda i: _input(i, f"c{i}"),
    "calls of one id": lambda i: _input(i, "c"),
    "open calls": lambda i: [ToolInputStart("f", f"c{i}")],
    "open calls of one id": lambda i: [ToolInputStart("f", "c")],
    "calls between texts": lambda i: [TextStart(str(i)), *_input(i, f"c{i}")],
    "pieces of a text": lambda i: [TextStart("0") if not i else TextDelta("x" * 20, "0")],
    "pieces of an input": lambda i: [ToolInputStart("f", "c") if not i else ToolInputDelta("1" * 20, "c")],
    "sources": lambda i: [Source("url", f"s{i}", f"http://x/{i}")],
    "results": lambda i: [ToolResult("x", f"c{i}", "f", provider_executed=True)],
}


def events_of(name, n):
    return [StreamStart(), *(event for i in range(n) for event in EVENTS[name](i))]


@pytest.mark.parametrize("name", EVENTS)
def test_the_guard(name):
    def of(n):
        events = events_of(name, n)[1:]

        def work():
            guard = Guard()
            out = guard.start()
            for event in events:
                out.extend(guard.feed([event]))
            return out + guard.feed([Finish("stop")])

        return work

    assert check(of(N)()) == []
    assert_linear(of, N)


@pytest.mark.parametrize("name", EVENTS)
def test_the_accumulator(name):
    def of(n):
        guard = Guard()
        events = [*guard.start(), *guard.feed(events_of(name, n)[1:]), *guard.feed([Finish("stop")])]

        def work():
            accumulator = Accumulator()
            for event in events:
                accumulator.feed(event)
            return accumulator.message

        return work

    assert_linear(of, N)


def in_pieces(decoder, body, size=3):
    for at in range(0, len(body), size):
        decoder(body[at : at + size])


BODIES = {
    "one long event": lambda n: b"data: " + b"x" * (20 * n) + b"\n\n",
    "an event of many lines": lambda n: b"data: x\n" * n + b"\n",
    "comments": lambda n: b": x\n" * n,
    "empty lines": lambda n: b"\n" * n,
    "carriage returns": lambda n: b"data: x\r\r" * n,
    "ids": lambda n: b"".join(b"id: %d\n" % i for i in range(n)) + b"\n",
    "a line without an end": lambda n: b"data: " + b"x" * (20 * n),
}


@pytest.mark.parametrize("name", BODIES)
def test_sse_in_small_pieces(name):
    assert_linear(lambda n: lambda: in_pieces(SSEDecoder(10**9).feed_data, BODIES[name](n)), N)


@pytest.mark.parametrize("line", [b'{"a":1}\n', b"\n", b'{"a":"xxxxxxxxxxx'])
def test_ndjson_in_small_pieces(line):
    assert_linear(lambda n: lambda: in_pieces(NDJSONDecoder(max_bytes=10**9).feed_data, line * n), N)


@pytest.mark.parametrize("count", [lambda n: (n, b"x"), lambda n: (1, b"x" * 20 * n)])
def test_aws_messages_in_small_pieces(count):
    def of(n):
        times, payload = count(n)
        body = encode_message({":event-type": "x"}, payload) * times

        def work():
            decoder = EventStreamDecoder(max_bytes=10**9)
            in_pieces(lambda piece: list(decoder.feed(piece)), body)

        return work

    assert_linear(of, N)


JSON = {
    "list": lambda n: json.dumps(list(range(n))),
    "objects": lambda n: json.dumps([{"a": i} for i in range(n)]),
    "keys": lambda n: json.dumps({f"k{i}": i for i in range(n)}),
    "text": lambda n: json.dumps("x" * 20 * n),
    "escapes": lambda n: '"' + "\\u0041" * n + '"',
    "number": lambda n: "1" * min(n, 300),
    "halves": lambda n: json.dumps(["\ud83d"] * n),
    "broken": lambda n: "{" * min(n, 300),
}


@pytest.mark.parametrize("name", JSON)
def test_json_while_it_comes(name):
    def of(n):
        text = JSON[name](n)

        def work():
            parser = PartialJSON()
            for at in range(0, len(text), 4):
                parser.feed(text[at : at + 4])

        return work

    assert_linear(of, N)


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("use", [is_json, lambda text: object_text(text, key="input"), json.loads])
def test_json_as_a_whole(use, name):
    def of(n):
        text = JSON[name](n)

        def work():
            try:
                value = use(text)
            except ValueError:
                return
            encodable_value(value)

        return work

    assert_linear(of, N)


def test_halves_of_characters():
    def of(n):
        halves = ["\ud83d", "\ude00", "x"]
        events = [[TextDelta(halves[i % 3], str(i % 2))] for i in range(n)]
        joiner = SurrogateJoiner()
        return lambda: [joiner.feed(batch) for batch in events]

    assert_linear(of, N)


def test_bodies_of_errors():
    def of(n):
        body = {
            "error": {"message": "x", "details": [{f"k{i}": "x" * 20, "type": f"t{i}"} for i in range(n)]}
        }
        return lambda: error_from_value(body, provider="p", status=400)

    assert_linear(of, N)


@pytest.mark.parametrize(
    "name", [lambda i: f"f{i}", lambda i: "f", lambda i: chr(0x4E00 + i), lambda i: "l" * 99]
)
def test_names_of_tools(name):
    assert_linear(lambda n: lambda: valid_names([name(i) for i in range(n)], "p_"), N)
