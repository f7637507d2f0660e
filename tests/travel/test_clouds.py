"""Claude and Gemini, served by a cloud: conversations go there, and on from there."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.accumulate import Accumulator
from llmstream.chats import Audio, Chat, Document, Image, Message, Reasoning, Text, ToolCall, ToolResult
from llmstream.dialects.base import Dialect
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.exchange import HttpRequest
from llmstream.providers.registry import find_provider
from llmstream.request import Request, ToolSpec
from llmstream.server_side.wires import server_side
from llmstream.streams.history import repaired
from tests.signed_turns import SIGNED, THOUGHTS, signed_turn

CLAUDE, GEMINI = THOUGHTS["anthropic"], THOUGHTS["gemini"]
CLOUDS = {
    "vertex": ("gemini-3-pro-preview", GEMINI),
    "vertex-anthropic": ("claude-sonnet-4-5@20250929", CLAUDE),
    "bedrock-invoke": ("anthropic.claude-sonnet-4-5-20250929-v1:0", CLAUDE),
    "bedrock-messages": ("anthropic.claude-sonnet-4-5", CLAUDE),
    "foundry-anthropic": ("claude-sonnet-4-5", CLAUDE),
    "aws-anthropic": ("claude-sonnet-4-5", CLAUDE),
}
"""Each cloud's model, and what it signs its thoughts with."""

AT_HOME = {
    "google": ("gemini-3-pro-preview", GEMINI),
    "anthropic": ("claude-sonnet-4-5", CLAUDE),
    "bedrock": ("anthropic.claude-sonnet-4-5-20250929-v1:0", {"bedrock": {"signature": SIGNED}}),
    "openai-responses": ("gpt-5-mini", {"openai": {"encrypted_content": SIGNED}}),
}
PLACES = CLOUDS | AT_HOME
PAIRS = [(first, second) for first in PLACES for second in PLACES if first in CLOUDS or second in CLOUDS]
TOOLS = (ToolSpec("weather", "Weather of a city", {"type": "object", "properties": {}}),)


def dialect_of(name: str) -> Dialect:
    return find_provider(name).dialect


def of_one_vendor(first: str, second: str) -> bool:
    """Whether the second knows the signatures of the first."""
    signed, known = PLACES[first][1], PLACES[second][1]
    return bool(signed.keys() & known.keys()) or (signed is CLAUDE and second == "bedrock")


def heard(name: str) -> Message:
    """An answer with thoughts, words and two calls, once it has been over the wire in pieces."""
    model, signed = PLACES[name]
    told = GEMINI if signed is GEMINI else None
    said = list(signed_turn(signed, told, ("call_0", "call_1")))
    dialect = dialect_of(name)
    encoder = server_side(dialect).event_encoder(Request(model=model, messages=(Message.user("Hi"),)))
    body = b"".join([encoder.feed(event) for event in said]) + encoder.close()
    sentence = GuardedDecoder(dialect.decoder(provider=name), provider=name)
    fold = Accumulator()
    fold.feed_many(sentence.start())
    for at in range(0, len(body), 7):
        fold.feed_many(sentence.feed(body[at : at + 7]))
    fold.feed_many(sentence.close())
    assert sentence.error is None
    return fold.message


def conversation(name: str) -> list[Message]:
    answer = heard(name)
    first, second = answer.tool_calls
    results = [
        ToolResult(first.id, "12 °C", name="weather"),
        ToolResult(second.id, "no such city", is_error=True, name="weather"),
    ]
    return [
        Message.system("Be brief."),
        Message.user("Hi."),
        answer,
        Message.tool(results),
        Message.user("And?"),
    ]


def sent(messages: list[Message], name: str) -> HttpRequest:
    ready, _ = repaired(messages)
    request = Request(model=PLACES[name][0], messages=tuple(ready), tools=TOOLS)
    return dialect_of(name).encode(request, provider=name).http


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_conversation_goes_on_elsewhere(first: str, second: str) -> None:
    read = server_side(dialect_of(second)).decode_request(sent(conversation(first), second))
    calls = [call for message in read.messages for call in message.tool_calls]
    assert [call.name for call in calls] == ["weather", "weather"]
    assert [r.tool_call_id for m in read.messages for r in m.tool_results] == [call.id for call in calls]
    words = "".join(message.text for message in read.messages)
    assert all(text in words for text in ("Be brief.", "I look it up.", "And?"))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_signature_goes_only_to_its_vendor(first: str, second: str) -> None:
    """Any cloud may serve the vendor."""
    body = sent(conversation(first), second).body
    assert (SIGNED.encode() in body) is of_one_vendor(first, second)


@pytest.mark.parametrize("name", CLOUDS)
def test_saved_chat_is_sent_as_the_original(name: str) -> None:
    chat = Chat(*conversation(name))
    assert sent(Chat.from_json(chat.to_json()).messages(), name) == sent(chat.messages(), name)


@pytest.mark.parametrize("name", CLOUDS)
def test_foreign_thoughts_dropped_and_warned(name: str) -> None:
    stranger = Reasoning("Strange thoughts.", {"elsewhere": {"signature": SIGNED}})
    messages = (Message.user("Hi."), Message.assistant(stranger, Text("Hello.")), Message.user("And?"))
    encoded = dialect_of(name).encode(Request(model=PLACES[name][0], messages=messages), provider=name)
    assert b"Strange thoughts." not in encoded.http.body
    assert len(encoded.warnings) == 1


@pytest.mark.parametrize("name", CLOUDS)
def test_byte_files_pass_or_are_explained(name: str) -> None:
    dialect, model = dialect_of(name), PLACES[name][0]
    for part in (Image(data=b"\x89PNG\r\n\x1a\n" + bytes(9)), Document(data=b"%PDF-1.7\n%%EOF")):
        request = Request(model=model, messages=(Message.user("What is this?", part),))
        read = server_side(dialect).decode_request(dialect.encode(request, provider=name).http)
        assert read.messages[-1].parts[-1].data == part.data
    recording = Request(model=model, messages=(Message.user(Audio(data=b"RIFF", media_type="audio/wav")),))
    if PLACES[name][1] is CLAUDE:
        with pytest.raises(ls.Unsupported):
            dialect.encode(recording, provider=name)
    else:
        dialect.encode(recording, provider=name)


def test_vertex_is_sent_no_ids_of_calls() -> None:
    body = sent(conversation("anthropic"), "vertex").json()
    calls = [p["functionCall"] for c in body["contents"] for p in c["parts"] if "functionCall" in p]
    assert len(calls) == 2
    assert not any("id" in call for call in calls)


def test_open_calls_are_closed_in_the_cloud() -> None:
    broken = [Message.user("Hi."), Message.assistant(ToolCall("a", "weather", "{}")), Message.user("Stop.")]
    for name in CLOUDS:
        read = server_side(dialect_of(name)).decode_request(sent(broken, name))
        assert len([r for m in read.messages for r in m.tool_results]) == 1
