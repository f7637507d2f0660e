"""Encoding and decoding undo each other, for requests and for streams."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from llmstream import events as ev
from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.anthropic import BEDROCK_INVOKE, VERTEX, Anthropic
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

words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
solid = words.map(lambda text: f"x{text}x")
names = st.text("abcdefgh_", min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(names, values, max_size=3)


def meta(**fields):
    return {"anthropic": fields}


# streams


@st.composite
def sentences(draw):
    """Any answer that the wire can express, block by block."""
    out: list[ev.Event] = [ev.StreamStart(), ev.ResponseMetadata(draw(solid), draw(solid))]
    kinds = draw(
        st.lists(st.sampled_from(["text", "cited", "thinking", "redacted", "tool", "server", "custom"]))
    )
    calls, sources = 0, 0
    number = -1
    for kind in kinds:
        number += 1
        name = str(number)
        fragments = draw(st.lists(words, min_size=0, max_size=4))
        if kind == "text":
            out += [ev.TextStart(name), *[ev.TextDelta(f, name) for f in fragments], ev.TextEnd(name)]
        elif kind == "cited":
            sources += 1
            citation = {"type": "page_location", "document_title": draw(solid), "cited_text": draw(words)}
            source = ev.Source(
                "document",
                f"source-{sources}",
                title=citation["document_title"],
                media_type="application/pdf",
                provider_metadata={"anthropic": citation},
            )
            ended = ev.TextEnd(name, provider_metadata=meta(citations=[citation]))
            out += [ev.TextStart(name), *[ev.TextDelta(f, name) for f in fragments], source, ended]
        elif kind == "thinking":
            signature = draw(st.none() | solid)
            ended = ev.ReasoningEnd(name, provider_metadata=meta(signature=signature) if signature else None)
            out += [ev.ReasoningStart(name), *[ev.ReasoningDelta(f, name) for f in fragments], ended]
        elif kind == "redacted":
            out += [ev.ReasoningStart(name, meta(redacted_data=draw(solid))), ev.ReasoningEnd(name)]
        elif kind == "custom":
            block = {"type": "compaction", "content": draw(words)}
            out.append(ev.Custom("anthropic.compaction", {"anthropic": block}))
        else:
            client = kind == "tool"
            calls += client
            out += _call(draw, f"toolu_{number}", client)
            number += not client  # the result is a block of its own
    raw = draw(
        st.sampled_from(["end_turn", "max_tokens", "refusal", "pause_turn", "stop_sequence", "tool_use"])
    )
    reason = {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "refusal": "content-filter",
    }
    meant = reason.get(raw, "other" if raw == "pause_turn" else "tool-calls")
    if calls and meant in ("stop", "other"):
        meant = "tool-calls"
    if meant in ("length", "content-filter") and isinstance(out[-1], ev.ToolCall) and out[-1].input == "{}":
        raw, meant = "tool_use", "tool-calls"  # without input, a call at the limit is none
    given_, made = draw(st.integers(0, 10**6)), draw(st.integers(0, 10**6))
    usage = ev.Usage(given_, made, given_ + made, raw={"input_tokens": given_, "output_tokens": made})
    last = meta(stop_sequence=draw(solid)) if raw == "stop_sequence" else None
    out.append(ev.Finish(meant, usage, raw, last))
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
        kind = meta(type=f"{name}_tool_result")
        out.append(ev.ToolResult(draw(values), call_id, name, provider_executed=True, provider_metadata=kind))
    return out


@FAST
@given(sentences(), st.integers(0), st.sampled_from([Anthropic(), BEDROCK_INVOKE]))
def test_written_stream_survives_any_cut(sentence, place, dialect):
    assert check(sentence) == []
    encoder = server_side(dialect).event_encoder(Request(model="m"))
    body = b"".join(encoder.feed(event) for event in sentence) + encoder.close()
    cut = place % (len(body) + 1)
    reader = GuardedDecoder(dialect.decoder(provider="anthropic"), provider="anthropic")
    read = [*reader.start(), *reader.feed(body[:cut]), *reader.feed(body[cut:]), *reader.close()]
    assert read == sentence


@FAST
@given(sentences(), st.integers(0))
def test_a_stream_cut_short_stays_a_sentence(sentence, place):
    dialect = Anthropic()
    encoder = server_side(dialect).event_encoder(Request(model="m"))
    body = b"".join(encoder.feed(event) for event in sentence)
    reader = GuardedDecoder(dialect.decoder(provider="anthropic"), provider="anthropic")
    read = [*reader.start(), *reader.feed(body[: place % (len(body) + 1)]), *reader.close()]
    assert check(read) == []
    assert isinstance(read[-1], ev.Finish)


@FAST
@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_a_sentence(chunks):
    for dialect in (Anthropic(), BEDROCK_INVOKE):
        reader = GuardedDecoder(dialect.decoder(provider="anthropic"), provider="anthropic")
        read = reader.start()
        for chunk in chunks:
            read = read + reader.feed(b"data: " + chunk + b"\n\n")
        assert check(read + reader.close()) == []


@FAST
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(
                    ["message_start", "content_block_start", "content_block_stop", "message_delta"]
                )
            },
            optional={
                "index": values,
                "delta": objects,
                "message": objects,
                "usage": values,
                "content_block": st.fixed_dictionaries(
                    {
                        "type": st.sampled_from(
                            ["text", "tool_use", "thinking", "x_tool_result", "compaction"]
                        )
                    },
                    optional={
                        "id": values,
                        "name": values,
                        "input": values,
                        "text": values,
                        "content": values,
                    },
                ),
            },
        ),
        max_size=8,
    )
)
def test_any_shapes_are_a_sentence(wire):
    reader = GuardedDecoder(Anthropic().decoder(provider="anthropic"), provider="anthropic")
    read = reader.start()
    for event in wire:
        read = read + reader.feed(b"data: " + msgspec.json.encode(event) + b"\n\n")
    read = read + reader.close()
    assert check(read) == []
    assert [ev.decode(ev.encode(event)) for event in read] == read


# requests

told = st.none() | st.just(meta(cache_control={"type": "ephemeral"}))
texts = st.builds(c.Text, solid)
images = st.builds(c.Image, data=st.binary(min_size=1), media_type=st.just("image/png"))
documents = st.builds(
    c.Document, data=st.binary(min_size=1), media_type=st.just("application/pdf"), filename=solid
)
links = st.builds(lambda name: c.Image(url=f"https://{name}.example/"), names)
thoughts = st.builds(c.Reasoning, words, solid.map(lambda s: meta(signature=s)))
hidden = solid.map(lambda s: c.Reasoning("", meta(redacted_data=s)))


@st.composite
def conversations(draw, urls=True):
    system = draw(st.lists(st.builds(c.Text, solid, told), max_size=2))
    out = [Message("", "system", tuple(system))] if system else []
    media = images | documents | (links if urls else images)
    out.append(Message.user(*draw(st.lists(texts | media, min_size=1, max_size=3))))
    number = 0
    for _ in range(draw(st.integers(0, 3))):
        parts = draw(st.lists(texts | thoughts | hidden, min_size=1, max_size=3))
        calls = []
        for _ in range(draw(st.integers(0, 2))):
            number += 1
            arguments = msgspec.json.encode(draw(objects)).decode()
            calls.append(c.ToolCall(f"toolu_{number}", draw(names), arguments))
        out.append(Message.assistant(*parts, *calls))
        if calls:
            out.append(
                Message.tool(
                    [
                        c.ToolResult(x.id, draw(solid), draw(st.booleans()), x.name, draw(_pictures))
                        for x in calls
                    ]
                )
            )
        out.append(Message.user(*draw(st.lists(texts | media, min_size=1, max_size=2))))
    return tuple(out)


_pictures = st.lists(images, max_size=1).map(tuple)
schemas = st.builds(lambda name: {"type": "object", "properties": {name: {"type": "string"}}}, names)
tools = st.lists(st.builds(ToolSpec, names, words, schemas), max_size=3, unique_by=lambda tool: tool.name)
plain_settings = st.builds(
    Settings,
    temperature=st.none() | st.floats(0, 1),
    top_k=st.none() | st.integers(1, 500),
    max_output_tokens=st.integers(1, 9000),
    stop=st.lists(solid, max_size=2).map(tuple),
)


@st.composite
def requests(draw, urls=True):
    offered = draw(tools)
    choice = draw(
        st.none() | st.sampled_from(["auto", "none", "required", *[NamedTool(t.name) for t in offered]])
    )
    search = draw(
        st.lists(st.just(ProviderTool("web_search_20250305", "web_search", {"max_uses": 1})), max_size=1)
    )
    closed = {"type": "object", "properties": {}, "additionalProperties": False}
    return Request(
        model="claude-sonnet-4-5",
        messages=draw(conversations(urls)),
        tools=(*offered, *search),
        tool_choice=choice if offered else None,
        settings=draw(plain_settings),
        response_format=draw(st.none() | st.just(ResponseFormat(closed))),
        provider_options=draw(
            st.sampled_from([{}, {"anthropic": {"betas": ["b-1"], "service_tier": "auto"}}])
        ),
    )


@FAST
@given(requests())
def test_a_request_reads_back_the_same(request):
    encoded = Anthropic().encode(request, provider="anthropic")
    assume(not any("cache marks" in str(warning) for warning in encoded.warnings))
    assert encoded.warnings == []
    assert server_side(Anthropic()).decode_request(encoded.http) == request


@FAST
@given(requests(urls=False), st.sampled_from([VERTEX, BEDROCK_INVOKE]))
def test_requests_to_other_hosts_read_back(request, dialect):
    assert server_side(dialect).decode_request(dialect.encode(request, provider="x").http) == request


@FAST
@given(conversations(), st.integers(1024, 4000))
def test_reasoning_budget_reads_back(messages, budget):
    request = Request(
        model="claude-opus-4-1",
        messages=messages,
        reasoning=ReasoningOptions(budget_tokens=budget),
        settings=Settings(max_output_tokens=5000),
    )
    assert (
        server_side(Anthropic()).decode_request(Anthropic().encode(request, provider="anthropic").http)
        == request
    )
