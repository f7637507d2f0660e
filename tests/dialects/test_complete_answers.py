"""Complete answers become the same events as streamed ones, on every wire."""

from __future__ import annotations

import importlib.util
import json

import pytest

from llmstream import events as ev
from llmstream.accumulate import Accumulator
from llmstream.dialects.anthropic import BEDROCK_INVOKE
from llmstream.dialects.base import DIALECTS, dialect_class
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.events import (
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    Usage,
)
from llmstream.grammar import check
from llmstream.request import Request
from llmstream.server_side.wires import server_side

WIRES = {name: dialect_class(name)() for name in DIALECTS} | {"bedrock-invoke": BEDROCK_INVOKE}

CUT_SHORT = {"cut-off", "error", "bad-json"}
"""Features of recordings that have no complete form."""

UNLIKE = {
    # The last event of these servers has no output.
    *(f"rig-chatgpt-codex-{rest}" for rest in (
        "behaviors-default-instructions-merge-with-explicit-preamble",
        "behaviors-strict-tools-opt-in-roundtrip",
        "sessions-long-history-replay-nonstreaming-t1",
        "sessions-parallel-tool-calls-single-turn-nonstreaming-t1",
        "sessions-reasoning-session-two-tool-calls-streaming-t1",
        "sessions-reasoning-session-two-tool-calls-streaming-t2",
        "tool-choice-specific-multiple-functions-use-allowed-tools",
        "tool-choice-specific-single-function-targets-named-tool",
    )),
    # Shortened by their recorder, which left the last event as it was; or in another order there.
    "vercel-openai-responses-openai-phase-1",
    "vercel-openai-responses-openai-shell-container-1",
    "vercel-xai-responses-xai-x-search-tool",
    # Folding a stream into one answer repeats a name, joins two choices, or drops what it does not know.
    "llm-tools-streaming-tools-streaming-variant-a-t1",
    "pydantic-openai-moderation-stream",
    "vercel-alibaba-tool-call",
    "rig-mistral-terminal-metadata-matrix-streaming-ministral-3b-roomy-plain-two",
    "rig-mistral-terminal-metadata-matrix-streaming-ministral-3b-tiny-plain-two",
    "rig-mistral-terminal-metadata-matrix-streaming-mistral-small-roomy-plain-two",
}  # fmt: skip
"""Recordings whose complete form is not the answer that was streamed."""


def folded(events):
    accumulator = Accumulator()
    for event in events:
        accumulator.feed(event)
    message = accumulator.message
    finish = events[-1]
    return (
        [(type(p).__name__, getattr(p, "text", None), getattr(p, "name", None)) for p in message.parts],
        [json.loads(part.arguments) for part in message.parts if type(part).__name__ == "ToolCall"],
        finish.finish_reason,
        (finish.usage.input_tokens, finish.usage.output_tokens),
    )  # fmt: skip


def text(*deltas):
    return [TextStart("0"), *(TextDelta(delta, "0") for delta in deltas), TextEnd("0")]


def call(number, arguments):
    call_id = f"call_{number}abcdefgh"[:9]
    pieces = [ToolInputDelta(arguments, call_id)] if arguments else []
    return [
        ToolInputStart("look_up", call_id),
        *pieces,
        ToolInputEnd(call_id),
        ToolCall("look_up", arguments or "{}", call_id),
    ]


ANSWERS = {
    "text": ([*text("Hel", "lo ", "wörld\n\r\n\u2028🙂")], "stop"),
    "two calls": ([*call(1, '{"place":"Oslo"}'), *call(2, '{"place":"Rome"}')], "tool-calls"),
    "call without input": ([*call(1, "")], "tool-calls"),
    "text and call": ([*text("Let me see."), *call(1, '{"a":[1,{"b":null}]}')], "tool-calls"),
    "cut by the limit": ([*text("It goes on and")], "length"),
}
REASONED = [ReasoningStart("r"), ReasoningDelta("Hm, ", "r"), ReasoningDelta("yes.", "r"), ReasoningEnd("r")]


def streamed(wire, blocks, reason):
    """The bytes that a server of this wire streams."""
    events = [StreamStart(), ResponseMetadata("m", "answer_1"), *blocks, Finish(reason, Usage(7, 3, 10))]
    assert check(events) == []
    encoder = server_side(WIRES[wire]).event_encoder(Request(model="m"))
    return b"".join(encoder.feed(event) for event in events) + encoder.close()


def read(dialect, body, provider="p"):
    decoder = GuardedDecoder(dialect.decoder(provider=provider), provider=provider)
    return decoder.start() + decoder.feed(body) + decoder.close()


def complete(wire, body):
    return json.dumps(server_side(WIRES[wire]).complete_response(body)).encode()


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("wire", WIRES)
def test_complete_answer_as_streamed(wire, answer):
    blocks, reason = ANSWERS[answer]
    body = streamed(wire, blocks, reason)
    events = WIRES[wire].decode_complete(complete(wire, body), provider="p")
    assert check(events) == []
    assert folded(events) == folded(read(WIRES[wire], body))
    assert folded(events)[3] == (7, 3)
    assert events[0] == StreamStart()


@pytest.mark.parametrize("wire", WIRES)
def test_reasoning_comes_before_text(wire):
    body = streamed(wire, [*REASONED, *text("Done.")], "stop")
    found = folded(WIRES[wire].decode_complete(complete(wire, body), provider="p"))
    assert found == folded(read(WIRES[wire], body))
    assert ("Text", "Done.", None) in found[0]


@pytest.mark.parametrize("wire", WIRES)
def test_indented_answer_reads_the_same(wire):
    whole = json.loads(complete(wire, streamed(wire, *ANSWERS["text and call"])))
    flat, indented = (json.dumps(whole, indent=indent).encode() for indent in (None, 2))
    dialect = WIRES[wire]
    assert folded(dialect.decode_complete(indented)) == folded(dialect.decode_complete(flat))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"null", b"[]", b"<html>busy</html>", b'{"error":{"message":"no"}}', b'{"a":', b"\xff\xfe"),
        *(b'"x"', b'{"output":7}', b'{"message":3,"content":"x"}', b'{"object":"response","output":[7,{}]}'),
    ],
)
def test_no_answer_ends_in_an_error(wire, body):
    events = WIRES[wire].decode_complete(body, provider="p")
    assert check(events) == []
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert finish.finish_reason in ("error", "interrupted", "unknown", "stop")
    if body.startswith(b'{"error"') and wire != "bedrock-converse":
        assert any(isinstance(event, ev.ErrorEvent) for event in events)


def test_provider_defaults_to_the_wire():
    events = WIRES["anthropic"].decode_complete(b'{"type":"error","error":{"message":"no"}}')
    assert events[-2].error.provider == "anthropic"


def test_answer_may_exceed_an_event():
    """The limit of one event is for streams; a body in memory has been limited by its reader."""
    limits = dialect_limits(max_event_bytes=64)
    body = complete("openai-chat", streamed("openai-chat", text("x" * 5000), "stop"))
    events = WIRES["openai-chat"].decode_complete(body, limits=limits)
    assert folded(events)[0] == [("Text", "x" * 5000, None)]


def dialect_limits(**given):
    from llmstream.dialects.base import StreamLimits

    return StreamLimits(**given)


@pytest.fixture(scope="module")
def compare_case(shared_dir):
    path = shared_dir / "corpus_compare.py"
    if not path.is_file():
        pytest.skip("the corpus comparison is not here")
    spec = importlib.util.spec_from_file_location("corpus_compare", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compare_case


def recordings(shared_dir, wire):
    for path in sorted((shared_dir / "corpus" / wire).glob("*/meta.json")):
        meta = json.loads(path.read_text())
        if not CUT_SHORT & set(meta["features"]):
            yield path.parent, meta


def dialect_of(wire, provider):
    from llmstream.errors import LLMStreamError
    from llmstream.providers.registry import find_provider

    if provider == "bedrock-invoke":
        return BEDROCK_INVOKE
    try:
        dialect = find_provider(provider, "m").dialect
    except LLMStreamError:
        return WIRES[wire]
    return dialect if dialect.name == wire else WIRES[wire]


@pytest.mark.slow
@pytest.mark.parametrize("wire", DIALECTS)
def test_recordings_in_one_piece(shared_dir, compare_case, wire):
    """Each recorded stream, folded into one answer as the vendor's SDK does, says the same."""
    different, unfolded, count = {}, 0, 0
    for folder, meta in recordings(shared_dir, wire):
        dialect, body = dialect_of(wire, meta["dialect"]), (folder / "response.bin").read_bytes()
        try:
            whole = json.dumps(server_side(dialect).complete_response(body)).encode()
        except (KeyError, TypeError):  # a server unlike the vendor
            unfolded += 1
            continue
        events = dialect.decode_complete(whole, provider=meta["dialect"])
        assert check(events) == [], folder.name
        found = compare_case([json.loads(ev.encode(event)) for event in events], folder)
        streamed = read(dialect, body, meta["dialect"])
        if found and found != compare_case([json.loads(ev.encode(event)) for event in streamed], folder):
            different[folder.name] = found
        count += 1
    if not count:
        pytest.skip("the corpus is not here")
    assert set(different) <= UNLIKE, different
    assert unfolded <= 5


def test_last_event_reads_as_the_stream(shared_dir):
    """`response.completed` holds the complete answer; read alone, it gives the same text and calls."""
    compared = 0
    for folder, meta in recordings(shared_dir, "openai-responses"):
        body = (folder / "response.bin").read_bytes()
        last = [
            line[5:] for line in body.split(b"\n") if line.startswith(b"data:") and b'"output":[{' in line
        ]
        final = json.loads(last[-1]).get("response") if last else None
        if not final or folder.name in UNLIKE or meta["features"].count("audio"):
            continue
        dialect = dialect_of("openai-responses", meta["dialect"])
        alone = dialect.decode_complete(json.dumps(final).encode(), provider=meta["dialect"])
        streamed = read(dialect, body, meta["dialect"])
        assert texts(alone) == texts(streamed), folder.name
        assert alone[-1].usage == streamed[-1].usage
        compared += 1
    if not compared:
        pytest.skip("the corpus is not here")
    assert compared > 50


def texts(events):
    return "".join(event.delta for event in events if isinstance(event, TextDelta))
