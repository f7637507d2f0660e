"""Log probabilities: on the delta of their tokens, and again on the end of its block."""

from __future__ import annotations

import pytest

from llmstream.accumulate import accumulate
from llmstream.chats.message import Message
from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.dialects.openai_chat.messages import MessageWriter
from llmstream.dialects.requests import RequestWarnings
from llmstream.events import ReasoningDelta, ReasoningEnd, TextDelta, TextEnd, TextStart
from llmstream.request import Request
from llmstream.server_side.wires import server_side


def entry(token, logprob=-0.5):
    return {"token": token, "logprob": logprob, "bytes": list(token.encode()), "top_logprobs": []}


def chunk(wire, delta, *entries, of="content", finish=None):
    value = wire.chunk(delta, finish)
    value["choices"][0]["logprobs"] = {"content": None, "refusal": None, of: list(entries)}
    return value


def told(*entries):
    return {"acme": {"logprobs": list(entries)}}


def test_logprobs_are_on_the_delta_and_end(wire):
    answer = wire.answer(
        chunk(wire, {"content": "a"}, entry("a")), "b", chunk(wire, {"content": "c"}, entry("c"))
    )
    assert [delta.provider_metadata for delta in answer.of(TextDelta)] == [
        told(entry("a")),
        None,
        told(entry("c")),
    ]
    assert answer.of(TextEnd)[0].provider_metadata == told(entry("a"), entry("c"))


def test_a_refusal_has_its_own(wire):
    answer = wire.answer(chunk(wire, {"refusal": "No."}, entry("No"), entry("."), of="refusal"))
    assert answer.of(TextDelta) == [TextDelta("No.", "0", told(entry("No"), entry(".")))]


def test_reasoning_has_them_too(wire):
    answer = wire.answer(chunk(wire, {"reasoning_content": "hm"}, entry("hm")), "a", wire.chunk({}, "stop"))
    assert answer.of(ReasoningDelta)[0].provider_metadata == told(entry("hm"))
    assert answer.of(ReasoningEnd)[0].provider_metadata == told(entry("hm"))
    assert answer.of(TextEnd)[0].provider_metadata is None


def test_half_a_character_waits_for_its_text(wire):
    half = {"token": "\\xf0", "logprob": -1.0, "bytes": [240], "top_logprobs": []}
    answer = wire.answer(chunk(wire, {"content": ""}, half), chunk(wire, {"content": "a"}, entry("a")))
    assert answer.of(TextDelta)[0].provider_metadata == told(half, entry("a"))


def test_those_of_a_call_stand_in_the_finish(wire):
    call = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}
    answer = wire.answer(chunk(wire, {"tool_calls": [call]}, entry("{}")), wire.chunk({}, "tool_calls"))
    assert answer.finish.provider_metadata == told(entry("{}"))


@pytest.mark.parametrize("nothing", [None, {}, {"content": []}, {"content": None, "refusal": None}])
def test_none_of_them_say_nothing(wire, nothing):
    value = wire.chunk({"content": "a"})
    value["choices"][0]["logprobs"] = nothing
    answer = wire.answer(value, wire.chunk({}, "stop"))
    assert answer.of(TextDelta) == [TextDelta("a", "0")]
    assert answer.of(TextEnd) == [TextEnd("0")]


def test_another_form_is_kept_as_it_is(wire):
    value = wire.chunk({"content": "a"})
    value["choices"][0]["logprobs"] = {"tokens": ["a"], "token_logprobs": [-0.5]}
    assert wire.answer(value).of(TextDelta)[0].provider_metadata == told(value["choices"][0]["logprobs"])


def test_half_a_pair_in_a_token_is_writable(wire):
    body = wire.body(chunk(wire, {"content": "a"}, entry("a"))).replace(
        b'"token": "a"', b'"token": "\\ud83d"'
    )
    (delta,) = wire.read(body).of(TextDelta)
    assert delta.provider_metadata["acme"]["logprobs"][0]["token"] == "\ufffd"


def test_logprobs_of_any_vendor_are_written(wire):
    said = {"mistral": {"logprobs": [entry("a")]}}
    events = [TextStart("0"), TextDelta("a", "0", said), TextEnd("0")]
    writer = server_side(OpenAIChat()).event_encoder(Request(model="m"))
    body = b"".join(writer.feed(event) for event in events)
    assert wire.read(body).of(TextDelta) == [TextDelta("a", "0", told(entry("a")))]


def test_unknown_entry_shapes_are_dropped(wire):
    said = {"cohere": {"logprobs": [{"text": "a", "token_ids": [7], "logprobs": [-0.5]}]}}
    writer = server_side(OpenAIChat()).event_encoder(Request(model="m"))
    writer.feed(TextStart("0"))
    assert wire.read(writer.feed(TextDelta("a", "0", said))).of(TextDelta) == [TextDelta("a", "0")]


def test_they_do_not_go_back(wire):
    answer = wire.answer(chunk(wire, {"content": "a"}, entry("a")), wire.chunk({}, "stop"))
    message = accumulate(answer.events).message
    assert message is not None
    writer = MessageWriter(Quirks(), provider="acme", system_role="system", warnings=RequestWarnings())
    assert writer.write([Message.user("q"), message])[1] == {"role": "assistant", "content": "a"}
