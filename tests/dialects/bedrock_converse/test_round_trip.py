"""Encoding and decoding undo each other, for requests and for streams."""

from __future__ import annotations

import base64

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from llmstream import events as ev
from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.dialects.bedrock_converse.wire import event_frame
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.grammar import check
from llmstream.request import (
    NamedTool,
    ProviderTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    Settings,
    ToolSpec,
)
from llmstream.server_side.wires import server_side
from tests.examples import examples

FAST = settings(
    max_examples=examples(60), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
DIALECT = BedrockConverse()

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
solid = words.map(lambda text: f"x{text}x")
names = st.text("abcdefgh_", min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(names, values, max_size=3)
encoded = st.binary(min_size=1, max_size=9).map(lambda data: base64.b64encode(data).decode())


def meta(**fields):
    return {"bedrock": fields}


def read(*chunks):
    reader = GuardedDecoder(DIALECT.decoder(provider="bedrock"), provider="bedrock")
    out = reader.start()
    for chunk in chunks:
        out = out + reader.feed(chunk)
    return out + reader.close()


def written(sentence):
    encoder = server_side(DIALECT).event_encoder(Request(model="m"))
    return b"".join(encoder.feed(event) for event in sentence) + encoder.close()


# streams

RAW_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "guardrail_intervened": "content-filter",
    "malformed_model_output": "error",
    "tool_use": "tool-calls",
    "new_reason": "other",
}


@st.composite
def sentences(draw):
    """Any answer that the wire can express, block by block."""
    out: list[ev.Event] = [ev.StreamStart()]
    kinds = st.sampled_from(["text", "cited", "thinking", "redacted", "tool", "server", "file", "source"])
    calls = sources = 0
    number = -1
    for kind in draw(st.lists(kinds)):
        number += 1
        name = str(number)
        fragments = draw(st.lists(words, max_size=4))
        if kind == "text":
            out += [ev.TextStart(name), *[ev.TextDelta(f, name) for f in fragments], ev.TextEnd(name)]
        elif kind in ("cited", "source"):
            sources += 1
            citation = {"title": draw(solid), "sourceContent": [{"text": draw(words)}]}
            told = {"bedrock": citation}
            source = ev.Source(
                "document", f"source-{sources}", title=citation["title"], provider_metadata=told
            )
            text = [ev.TextStart(name), *[ev.TextDelta(f, name) for f in fragments], source]
            out += (
                [*text, ev.TextEnd(name, provider_metadata=meta(citations=[citation]))]
                if kind == "cited"
                else [source]
            )
        elif kind == "thinking":
            signature = draw(st.none() | solid)
            ended = ev.ReasoningEnd(name, provider_metadata=meta(signature=signature) if signature else None)
            out += [ev.ReasoningStart(name), *[ev.ReasoningDelta(f, name) for f in fragments], ended]
        elif kind == "redacted":
            hidden = meta(redacted_data=draw(encoded))
            out += [ev.ReasoningStart(name), ev.ReasoningEnd(name, provider_metadata=hidden)]
        elif kind == "file":
            out.append(ev.File("image/png", draw(st.binary(min_size=1, max_size=9))))
        else:
            client = kind == "tool"
            calls += client
            out += _call(draw, f"tooluse_{number}", client)
            number += not client  # the result is a block of its own
    raw = draw(st.sampled_from(sorted(RAW_REASONS)))
    if calls and raw == "new_reason":
        raw = "tool_use"  # which a client's call would say anyway
    meant = RAW_REASONS[raw]
    if calls and meant == "stop":
        meant = "tool-calls"
    if meant in ("length", "content-filter", "error") and isinstance(out[-1], ev.ToolCall):
        raw, meant = "tool_use", "tool-calls"  # without input, a call at the limit is none
    given_, made = draw(st.integers(0, 10**6)), draw(st.integers(0, 10**6))
    counts = {"inputTokens": given_, "outputTokens": made, "totalTokens": given_ + made}
    last = draw(
        st.none() | st.just(meta(metrics={"latencyMs": 5}, additional_model_response_fields={"a": 1}))
    )
    out.append(ev.Finish(meant, ev.Usage(given_, made, given_ + made, raw=counts), raw, last))
    return out


def _call(draw, call_id, client):
    text = msgspec.json.encode(draw(objects)).decode() if draw(st.booleans()) else ""
    cut = draw(st.integers(0, len(text)))
    pieces = [piece for piece in (text[:cut], text[cut:]) if piece]
    name = draw(names)
    told = None if client else meta(type="server_tool_use")
    out = [
        ev.ToolInputStart(name, call_id, not client, provider_metadata=told),
        *[ev.ToolInputDelta(piece, call_id) for piece in pieces],
        ev.ToolInputEnd(call_id),
        ev.ToolCall(name, text or "{}", call_id, not client, provider_metadata=told),
    ]
    if not client:
        kind = meta(type=f"{name}_result", status="success")
        result = [{"json": value} for value in draw(st.lists(values, max_size=2))]
        out.append(ev.ToolResult(result, call_id, name, provider_executed=True, provider_metadata=kind))
    return out


@FAST
@given(sentences(), st.integers(0))
def test_written_stream_survives_any_cut(sentence, place):
    assert check(sentence) == []
    body = written(sentence)
    cut = place % (len(body) + 1)
    assert read(body[:cut], body[cut:]) == sentence


@FAST
@given(sentences(), st.integers(0))
def test_a_stream_cut_short_stays_a_sentence(sentence, place):
    body = written(sentence)
    events = read(body[: place % (len(body) + 1)])
    assert check(events) == []
    assert isinstance(events[-1], ev.Finish)


@FAST
@given(sentences(), st.integers(0), st.integers(0, 7))
def test_damaged_stream_always_has_an_error(sentence, place, bit):
    body = bytearray(written(sentence))
    body[place % len(body)] ^= 1 << bit
    events = read(bytes(body))
    assert check(events) == []
    assert any(isinstance(event, ev.ErrorEvent) for event in events)


@FAST
@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_a_sentence(chunks):
    assert check(read(*chunks)) == []
    assert (
        check(read(*[event_frame("contentBlockDelta", {"delta": {"text": repr(x)}}) for x in chunks])) == []
    )


deltas = st.one_of(
    st.fixed_dictionaries({"text": words}),
    st.fixed_dictionaries(
        {"reasoningContent": st.dictionaries(st.sampled_from(["text", "signature"]), words)}
    ),
    st.fixed_dictionaries({"toolUse": st.fixed_dictionaries({"input": values})}),
    st.fixed_dictionaries({"toolResult": values}),
    st.fixed_dictionaries({"citation": objects}),
    st.fixed_dictionaries({"image": objects}),
    objects,
)
starts = st.one_of(
    st.fixed_dictionaries(
        {"toolUse": st.fixed_dictionaries({"toolUseId": values, "name": values}, optional={"type": values})}
    ),
    st.fixed_dictionaries({"toolResult": st.fixed_dictionaries({"toolUseId": values, "status": values})}),
    st.fixed_dictionaries({"image": objects}),
    objects,
)
wires = st.one_of(
    st.tuples(
        st.just("contentBlockDelta"),
        st.fixed_dictionaries({"contentBlockIndex": st.integers(0, 3), "delta": deltas}),
    ),
    st.tuples(
        st.just("contentBlockStart"),
        st.fixed_dictionaries({"contentBlockIndex": st.integers(0, 3), "start": starts}),
    ),
    st.tuples(st.just("contentBlockStop"), st.fixed_dictionaries({"contentBlockIndex": st.integers(0, 3)})),
    st.tuples(
        st.sampled_from(["messageStart", "contentBlockStop", "messageStop", "metadata", "other"]), objects
    ),
    st.tuples(
        st.just("messageStop"), st.fixed_dictionaries({"stopReason": st.sampled_from(sorted(RAW_REASONS))})
    ),
)


@pytest.mark.slow
@settings(FAST, max_examples=300)
@given(st.lists(wires, max_size=12))
def test_any_shapes_are_a_sentence(wire):
    events = read(*[event_frame(name, members) for name, members in wire])
    assert check(events) == []
    assert [ev.decode(ev.encode(event)) for event in events] == events


# requests

marked = st.none() | st.just(meta(cache_point={"type": "default"}))
texts = st.builds(c.Text, solid, marked)
images = st.builds(c.Image, data=st.binary(min_size=1), media_type=st.just("image/png"), metadata=marked)
films = st.builds(lambda name: c.Document(url=f"s3://{name}/f", media_type="video/mp4"), names)
thoughts = st.builds(c.Reasoning, words, solid.map(lambda s: meta(signature=s)))
hidden = encoded.map(lambda s: c.Reasoning("", meta(redacted_data=s)))
guarded = st.builds(lambda text: c.Custom("bedrock.guardContent", meta(text={"text": text})), solid)


@st.composite
def results(draw, call):
    shape = draw(st.sampled_from(["text", "json", "picture", "several", "none"]))
    failed = draw(st.booleans())
    if shape == "json":
        content = msgspec.json.encode(draw(objects)).decode()
        return c.ToolResult(call.id, content, failed, call.name, metadata=meta(json=True))
    if shape == "several":
        pieces = [{"text": "a"}, {"json": draw(objects)}]
        content = "a\n" + msgspec.json.encode(pieces[1]["json"]).decode()
        return c.ToolResult(call.id, content, failed, call.name, metadata=meta(content=pieces))
    if shape == "none":
        return c.ToolResult(call.id, "", failed, call.name, metadata=meta(content=[]))
    parts = (c.Image(data=b"p", media_type="image/png"),) if shape == "picture" else ()
    return c.ToolResult(call.id, draw(solid), failed, call.name, parts)


@st.composite
def conversations(draw):
    system = draw(st.lists(texts | guarded, max_size=2))
    out = [Message("", "system", tuple(system))] if system else []
    documents = 0

    def asked():
        nonlocal documents
        parts = draw(st.lists(texts | images | films | guarded, max_size=2))
        if draw(st.booleans()):
            documents += 1
            parts.append(
                c.Document(data=b"%PDF", media_type="application/pdf", filename=f"paper {documents}")
            )
        return Message.user(draw(texts), *parts)

    out.append(asked())
    number = 0
    for _ in range(draw(st.integers(0, 3))):
        calls = []
        for _ in range(draw(st.integers(0, 2))):
            number += 1
            arguments = msgspec.json.encode(draw(objects)).decode()
            calls.append(c.ToolCall(f"tooluse_{number}", draw(names), arguments))
        out.append(
            Message.assistant(*draw(st.lists(texts | thoughts | hidden, min_size=1, max_size=3)), *calls)
        )
        if calls:
            out.append(Message.tool([draw(results(call)) for call in calls]))
        out.append(asked())
    return tuple(out)


schemas = st.builds(lambda name: {"type": "object", "properties": {name: {"type": "string"}}}, names)
tools = st.lists(
    st.builds(ToolSpec, names, solid, schemas), min_size=1, max_size=3, unique_by=lambda tool: tool.name
)
OTHER_TOOLS = [
    ProviderTool("systemTool", "nova_grounding"),
    ProviderTool("cachePoint", options={"type": "default"}),
]
plain_settings = st.builds(
    Settings,
    temperature=st.none() | st.floats(0, 1),
    top_k=st.none() | st.integers(1, 500),
    max_output_tokens=st.none() | st.integers(1, 9000),
    stop=st.lists(solid, max_size=2).map(tuple),
)
options = st.sampled_from(
    [
        {},
        {
            "bedrock": {
                "serviceTier": {"type": "flex"},
                "additionalModelResponseFieldPaths": ["/stop_sequence"],
            }
        },
        {"bedrock": {"additionalModelRequestFields": {"anthropic_beta": ["b-1"]}}},
    ]
)


@st.composite
def requests(draw):
    messages, offered = draw(conversations()), draw(tools)
    if not any(message.tool_calls for message in messages) and draw(st.booleans()):
        offered = []
    choice = draw(st.none() | st.sampled_from(["auto", "required", *[NamedTool(t.name) for t in offered]]))
    closed = {"type": "object", "properties": {}, "additionalProperties": False}
    return Request(
        model="us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        messages=messages,
        tools=(*offered, *draw(st.lists(st.sampled_from(OTHER_TOOLS), max_size=1))) if offered else (),
        tool_choice=choice if offered else None,
        settings=draw(plain_settings),
        response_format=draw(st.none() | st.just(ResponseFormat(closed, "answer"))),
        provider_options=draw(options),
    )


@FAST
@given(requests())
def test_a_request_reads_back_the_same(request):
    sent = DIALECT.encode(request, provider="bedrock")
    assume(not any("cache marks" in str(warning) for warning in sent.warnings))
    assert sent.warnings == []
    assert server_side(DIALECT).decode_request(sent.http) == request


@FAST
@given(conversations(), st.integers(1024, 4000))
def test_reasoning_budget_reads_back(messages, budget):
    if any(message.tool_calls for message in messages):
        messages = messages[:1]
    request = Request(
        model="anthropic.claude-opus-4-1-20250805-v1:0",
        messages=(*messages, Message.user("Hi")) if messages[-1].role != "user" else messages,
        reasoning=ReasoningOptions(budget_tokens=budget),
        settings=Settings(max_output_tokens=5000),
    )
    encoded = DIALECT.encode(request, provider="bedrock")
    assume(not encoded.warnings)  # more cache marks than the API takes
    assert server_side(DIALECT).decode_request(encoded.http) == request
