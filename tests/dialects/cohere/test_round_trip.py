"""Encoding and decoding undo each other, for requests and for streams."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmstream import events as ev
from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.cohere import Cohere
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.grammar import check
from llmstream.request import ReasoningOptions, Request, ResponseFormat, Settings, ToolSpec
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


@st.composite
def sentences(draw):
    """Any answer that the wire can express, block by block."""
    out: list[ev.Event] = [ev.StreamStart(), ev.ResponseMetadata(id=draw(solid))]
    calls = sources = blocks = 0
    before = ""
    for kind in draw(st.lists(st.sampled_from(["text", "cited", "thinking", "plan", "call", "bare"]))):
        name = str(blocks)
        fragments = draw(st.lists(words, max_size=3))
        if kind == "text":
            out += [ev.TextStart(name), *[ev.TextDelta(f, name) for f in fragments], ev.TextEnd(name)]
        elif kind == "thinking":
            out += [ev.ReasoningStart(name), *[ev.ReasoningDelta(f, name) for f in fragments]]
            out += [ev.ReasoningEnd(name)]
        elif kind == "plan" and fragments and before != "plan":
            out += [ev.ReasoningStart(name, {"cohere": {"tool_plan": True}})]
            out += [*[ev.ReasoningDelta(f, name) for f in fragments], ev.ReasoningEnd(name)]
        elif kind == "cited":
            found = draw(st.lists(solid, min_size=1, max_size=3))
            citation = {"start": 0, "end": 2, "text": "x", "sources": [{"id": one} for one in found]}
            out += [ev.TextStart(name), *[ev.TextDelta(f, name) for f in fragments]]
            for place, title in enumerate(found):
                sources += 1
                told = {"cohere": {"citation": citation, "source": place}}
                out.append(ev.Source("document", f"source-{sources}", title=title, provider_metadata=told))
            out.append(ev.TextEnd(name))
        elif kind in ("call", "bare"):
            calls += 1
            blocks -= 1
            text = msgspec.json.encode(draw(objects)).decode() if kind == "call" else ""
            cut = draw(st.integers(1, 3))
            pieces = [piece for piece in (text[:cut], text[cut:]) if piece]
            out += [ev.ToolInputStart(kind, f"call_{calls}")]
            out += [ev.ToolInputDelta(piece, f"call_{calls}") for piece in pieces]
            out += [ev.ToolInputEnd(f"call_{calls}"), ev.ToolCall(kind, text or "{}", f"call_{calls}")]
        else:
            continue
        blocks += 1
        before = kind
    raw, meant = draw(
        st.sampled_from([("COMPLETE", "stop"), ("MAX_TOKENS", "length"), ("TOOL_CALL", "tool-calls")])
    )
    if meant == "length" and before == "bare":
        raw, meant = "TOOL_CALL", "tool-calls"  # without input, a call at the limit is none
    meant = "tool-calls" if calls and meant == "stop" else meant
    given_, made = draw(st.integers(0, 10**6)), draw(st.integers(0, 10**6))
    told = {"tokens": {"input_tokens": given_, "output_tokens": made}}
    out.append(ev.Finish(meant, ev.Usage(given_, made, given_ + made, raw=told), raw))
    return out


@FAST
@given(sentences(), st.integers(0))
def test_written_stream_survives_any_cut(sentence, place):
    assert check(sentence) == []
    encoder = server_side(Cohere()).event_encoder(Request(model="m"))
    body = b"".join(encoder.feed(event) for event in sentence) + encoder.close()
    cut = place % (len(body) + 1)
    reader = GuardedDecoder(Cohere().decoder(provider="cohere"), provider="cohere")
    read = [*reader.start(), *reader.feed(body[:cut]), *reader.feed(body[cut:]), *reader.close()]
    assert read == sentence


@FAST
@given(sentences(), st.integers(0))
def test_a_stream_cut_short_stays_a_sentence(sentence, place):
    encoder = server_side(Cohere()).event_encoder(Request(model="m"))
    body = b"".join(encoder.feed(event) for event in sentence)
    reader = GuardedDecoder(Cohere().decoder(provider="cohere"), provider="cohere")
    read = [*reader.start(), *reader.feed(body[: place % (len(body) + 1)]), *reader.close()]
    assert check(read) == []
    assert isinstance(read[-1], ev.Finish)


KINDS = ["message-start", "content-start", "content-delta", "content-end", "tool-plan-delta", "message-end"]
KINDS += ["tool-call-start", "tool-call-delta", "tool-call-end", "citation-start", "error"]
contents = st.fixed_dictionaries(
    {},
    optional={
        "type": st.none() | st.sampled_from(["text", "thinking", "odd"]),
        "text": st.none() | words,
        "thinking": st.none() | words,
    },
)
wire_calls = st.fixed_dictionaries(
    {},
    optional={
        "id": values,
        "function": st.fixed_dictionaries({}, optional={"name": st.none() | names, "arguments": values}),
    },
)
wire_events = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)},
    optional={
        "index": st.integers(0, 1) | values,
        "id": values,
        "delta": st.fixed_dictionaries(
            {},
            optional={
                "message": st.fixed_dictionaries(
                    {},
                    optional={
                        "content": contents | values,
                        "tool_plan": st.none() | words,
                        "tool_calls": wire_calls | st.lists(wire_calls, max_size=2),
                        "citations": values,
                    },
                ),
                "finish_reason": values,
                "usage": values,
                "error": values,
            },
        ),
    },
)


@FAST
@given(st.lists(wire_events, max_size=10))
def test_any_shapes_are_a_sentence(wire):
    reader = GuardedDecoder(Cohere().decoder(provider="cohere"), provider="cohere")
    read = reader.start()
    for event in wire:
        read = read + reader.feed(b"data: " + msgspec.json.encode(event) + b"\n\n")
    read = read + reader.close()
    assert check(read) == []
    assert [ev.decode(ev.encode(event)) for event in read] == read


@FAST
@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_a_sentence(bodies):
    reader = GuardedDecoder(Cohere().decoder(provider="cohere"), provider="cohere")
    read = reader.start()
    for body in bodies:
        read = read + reader.feed(b"data: " + body + b"\n\n")
    assert check(read + reader.close()) == []


# requests

texts = st.builds(c.Text, solid)
images = st.builds(c.Image, data=st.binary(min_size=1), media_type=st.just("image/png")) | st.builds(
    lambda name: c.Image(url=f"https://{name}.example/"), names
)
plans = solid.map(lambda s: c.Reasoning(s, {"cohere": {"tool_plan": True}}))
thoughts = solid.map(c.Reasoning)


@st.composite
def conversations(draw):
    out = [Message.system(draw(solid))] if draw(st.booleans()) else []
    out.append(Message.user(*draw(st.lists(texts | images, min_size=1, max_size=3))))
    number = 0
    for _ in range(draw(st.integers(0, 3))):
        calls = []
        for _ in range(draw(st.integers(0, 2))):
            number += 1
            arguments = msgspec.json.encode(draw(objects)).decode()
            calls.append(c.ToolCall(f"call_{number}", draw(names), arguments))
        if calls:
            out.append(Message.assistant(*draw(st.lists(plans, max_size=1)), *calls))
            out.append(Message.tool([c.ToolResult(x.id, draw(solid), name=x.name) for x in calls]))
        out.append(Message.assistant(*draw(st.lists(thoughts, max_size=2)), draw(texts)))
        out.append(Message.user(*draw(st.lists(texts | images, min_size=1, max_size=2))))
    return tuple(out)


schemas = st.builds(lambda name: {"type": "object", "properties": {name: {"type": "string"}}}, names)
tools = st.lists(st.builds(ToolSpec, names, words, schemas), max_size=3, unique_by=lambda tool: tool.name)


@st.composite
def requests(draw):
    offered = tuple(draw(tools))
    return Request(
        model="command-a",
        messages=draw(conversations()),
        tools=offered,
        tool_choice=draw(st.sampled_from([None, "none", "required"])) if offered else None,
        settings=draw(
            st.builds(
                Settings,
                temperature=st.none() | st.floats(0, 1),
                top_k=st.none() | st.integers(0, 500),
                max_output_tokens=st.none() | st.integers(1, 9000),
                stop=st.lists(solid, max_size=2).map(tuple),
            )
        ),
        reasoning=draw(
            st.sampled_from(
                [
                    None,
                    ReasoningOptions(effort="none"),
                    ReasoningOptions(),
                    ReasoningOptions(budget_tokens=99),
                ]
            )
        ),
        response_format=None
        if offered
        else draw(st.sampled_from([None, ResponseFormat({"type": "object"})])),
        provider_options=draw(st.sampled_from([{}, {"cohere": {"safety_mode": "OFF"}}])),
    )


@FAST
@given(requests())
def test_a_request_reads_back_the_same(request):
    encoded = Cohere().encode(request, provider="cohere")
    assert encoded.warnings == []
    assert server_side(Cohere()).decode_request(encoded.http) == request
