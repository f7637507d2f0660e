"""Encoding and decoding undo each other, for requests and for streams."""

from __future__ import annotations

import datetime

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmstream import events as ev
from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.mistral import Mistral
from llmstream.grammar import check
from llmstream.request import NamedTool, ReasoningOptions, Request, ResponseFormat, Settings, ToolSpec
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
WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


@st.composite
def sentences(draw):
    """Any answer that the wire can express; neighbours of one kind are one block there."""
    out: list[ev.Event] = [ev.StreamStart(), ev.ResponseMetadata(draw(solid), draw(solid), WHEN)]
    blocks = calls = sources = 0
    before = ""
    for kind in draw(st.lists(st.sampled_from(["text", "thinking", "signed", "call", "reference", "file"]))):
        fragments = draw(st.lists(words, min_size=1, max_size=3))
        if kind == before == "text" or (kind in ("thinking", "signed") and before == "thinking"):
            continue
        if kind == "text":
            out += [ev.TextStart(str(blocks)), *[ev.TextDelta(f, str(blocks)) for f in fragments]]
            out += [ev.TextEnd(str(blocks))]
            blocks += 1
        elif kind in ("thinking", "signed"):
            kept = {"mistral": {"signature": draw(solid)}} if kind == "signed" else None
            out += [ev.ReasoningStart(str(blocks)), *[ev.ReasoningDelta(f, str(blocks)) for f in fragments]]
            out += [ev.ReasoningEnd(str(blocks), provider_metadata=kept)]
            blocks += 1
        elif kind == "call":
            calls += 1
            call_id, name = f"call{calls:05}", draw(names)
            text = msgspec.json.encode(draw(objects)).decode()
            out += [ev.ToolInputStart(name, call_id), ev.ToolInputDelta(text, call_id)]
            out += [ev.ToolInputEnd(call_id), ev.ToolCall(name, text, call_id)]
        elif before not in ("text", "thinking", "signed"):  # inside a block these do not close it
            numbers = draw(st.lists(st.integers(0, 99), min_size=1, max_size=2))
            for place, number in enumerate(numbers if kind == "reference" else ()):
                sources += 1
                told = {"mistral": {"reference_ids": numbers, "reference": place}}
                out.append(
                    ev.Source("document", f"source-{sources}", title=str(number), provider_metadata=told)
                )
            if kind == "file":
                out.append(ev.File("image/png", draw(st.binary(min_size=1))))
        else:
            continue
        before = kind
    raw, meant = draw(st.sampled_from([("stop", "stop"), ("length", "length"), ("model_length", "length")]))
    meant = "tool-calls" if calls and meant == "stop" else meant
    given_, made = draw(st.integers(0, 10**6)), draw(st.integers(0, 10**6))
    told = {"prompt_tokens": given_, "completion_tokens": made}
    out.append(ev.Finish(meant, ev.Usage(given_, made, given_ + made, raw=told), raw))
    return out


def unordered(events):
    """A call ends where the wire says that the answer does, unless another begins before."""
    late = (ev.ToolInputEnd, ev.ToolCall)
    return [e for e in events if not isinstance(e, late)], [e for e in events if isinstance(e, late)]


@FAST
@given(sentences(), st.integers(0))
def test_written_stream_survives_any_cut(sentence, place):
    assert check(sentence) == []
    encoder = server_side(Mistral()).event_encoder(Request(model="m"))
    body = b"".join(encoder.feed(event) for event in sentence) + encoder.close()
    cut = place % (len(body) + 1)
    reader = GuardedDecoder(Mistral().decoder(provider="mistral"), provider="mistral")
    read = [*reader.start(), *reader.feed(body[:cut]), *reader.feed(body[cut:]), *reader.close()]
    assert check(read) == []
    assert unordered(read) == unordered(sentence)


@FAST
@given(sentences(), st.integers(0))
def test_a_stream_cut_short_stays_a_sentence(sentence, place):
    encoder = server_side(Mistral()).event_encoder(Request(model="m"))
    body = b"".join(encoder.feed(event) for event in sentence)
    reader = GuardedDecoder(Mistral().decoder(provider="mistral"), provider="mistral")
    read = [*reader.start(), *reader.feed(body[: place % (len(body) + 1)]), *reader.close()]
    assert check(read) == []
    assert isinstance(read[-1], ev.Finish)


parts = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "reference", "image_url", "document_url", "file", "odd"])},
    optional={
        "text": values,
        "thinking": values,
        "signature": values,
        "reference_ids": values,
        "image_url": values,
        "document_url": values,
        "document_name": values,
    },
)
fragments = st.fixed_dictionaries(
    {},
    optional={
        "index": values,
        "id": values,
        "function": st.fixed_dictionaries({}, optional={"name": st.none() | names, "arguments": values}),
    },
)
chunks = st.fixed_dictionaries(
    {},
    optional={
        "id": values,
        "model": values,
        "created": values,
        "usage": values,
        "error": values,
        "choices": st.lists(
            st.fixed_dictionaries(
                {
                    "delta": st.fixed_dictionaries(
                        {},
                        optional={
                            "content": values | st.lists(parts, max_size=3),
                            "tool_calls": st.lists(fragments, max_size=2),
                            "reasoning_content": values,
                        },
                    )
                },
                optional={"index": values, "finish_reason": st.none() | names},
            ),
            max_size=2,
        ),
    },
)


@FAST
@given(st.lists(chunks, max_size=6))
def test_any_shapes_are_a_sentence(wire):
    reader = GuardedDecoder(Mistral().decoder(provider="mistral"), provider="mistral")
    read = reader.start()
    for chunk in wire:
        read = read + reader.feed(b"data: " + msgspec.json.encode(chunk) + b"\n\n")
    read = read + reader.close()
    assert check(read) == []
    assert [ev.decode(ev.encode(event)) for event in read] == read


@FAST
@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_a_sentence(bodies):
    reader = GuardedDecoder(Mistral().decoder(provider="mistral"), provider="mistral")
    read = reader.start()
    for body in bodies:
        read = read + reader.feed(b"data: " + body + b"\n\n")
    assert check(read + reader.close()) == []


# requests

texts = st.builds(c.Text, solid)
media = (
    st.builds(c.Image, data=st.binary(min_size=1), media_type=st.just("image/png"))
    | st.builds(lambda name: c.Image(url=f"https://{name}.example/"), names)
    | st.builds(c.Document, data=st.binary(min_size=1), media_type=st.just("application/pdf"), filename=solid)
)
thoughts = st.builds(c.Reasoning, words, st.none() | solid.map(lambda s: {"mistral": {"signature": s}}))


@st.composite
def conversations(draw):
    out = [Message.system(draw(solid))] if draw(st.booleans()) else []
    out.append(Message.user(*draw(st.lists(texts | media, min_size=1, max_size=3))))
    number = 0
    for _ in range(draw(st.integers(0, 3))):
        before = draw(st.lists(thoughts, max_size=2))
        out.append(Message.assistant(*before, draw(texts)))
        for _ in range(draw(st.integers(0, 2))):
            number += 1
            call = c.ToolCall(f"call{number:05}", draw(names), msgspec.json.encode(draw(objects)).decode())
            result = c.ToolResult(call.id, draw(solid), name=call.name)
            out += [Message.assistant(call), Message.tool([result]), Message.assistant(draw(texts))]
        out.append(Message.user(*draw(st.lists(texts | media, min_size=1, max_size=2))))
    return tuple(out)


schemas = st.builds(lambda name: {"type": "object", "properties": {name: {"type": "string"}}}, names)
tools = st.lists(st.builds(ToolSpec, names, words, schemas), max_size=3, unique_by=lambda tool: tool.name)


@st.composite
def requests(draw):
    offered = tuple(draw(tools))
    choices = st.none() | st.sampled_from(["auto", "required", *[NamedTool(tool.name) for tool in offered]])
    return Request(
        model="mistral-medium-latest",
        messages=draw(conversations()),
        tools=offered,
        tool_choice=draw(choices) if offered else None,
        settings=draw(
            st.builds(
                Settings,
                temperature=st.none() | st.floats(0, 1.5),
                max_output_tokens=st.none() | st.integers(1, 9000),
                seed=st.none() | st.integers(0, 99),
                stop=st.lists(solid, max_size=2).map(tuple),
            )
        ),
        reasoning=draw(
            st.sampled_from([None, ReasoningOptions(effort="none"), ReasoningOptions(effort="high")])
        ),
        response_format=draw(
            st.sampled_from([None, ResponseFormat(), ResponseFormat({"type": "object"}, "n")])
        ),
        provider_options=draw(st.sampled_from([{}, {"mistral": {"safe_prompt": True}}])),
    )


@FAST
@given(requests())
def test_a_request_reads_back_the_same(request):
    encoded = Mistral().encode(request, provider="mistral")
    assert encoded.warnings == []
    assert server_side(Mistral()).decode_request(encoded.http) == request
