"""A conversation begun with one vendor goes on with any other, and with the first after a reload."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Iterator

import pytest

from llmstream.chats import Chat, Custom, File, Image, Message, Reasoning, Source, Text, ToolCall, ToolResult
from llmstream.cli.config import Wire, wire_of
from llmstream.dialects.base import DIALECTS
from llmstream.dialects.history_parts import FOREIGN_REASONING
from llmstream.events import (
    Event,
    OtherWarning,
    ResponseMetadata,
)
from llmstream.exchange import HttpRequest
from llmstream.request import Request, ToolSpec
from llmstream.server_side.wires import server_side
from llmstream.streams.history import repaired
from tests.signed_answers import SIGNED, heard, signed_answer

THOUGHT = {
    "anthropic": {"anthropic": {"signature": SIGNED}},
    "bedrock-converse": {"bedrock": {"signature": SIGNED}},
    "gemini": {"google": {"thought_signature": SIGNED}},
    "gemini-interactions": {"google": {"signature": SIGNED}},
    "mistral": {"mistral": {"signature": SIGNED}},
    "openai-responses": {"openai": {"encrypted_content": SIGNED}},
}
"""What each vendor sends with its reasoning and wants back; the others sign nothing."""

CALLED = {
    "gemini": {"google": {"thought_signature": SIGNED}},
    "gemini-interactions": {"google": {"signature": SIGNED}},
}
"""What it sends with the first call of a turn."""

SAME_MODELS = {("anthropic", "bedrock-converse"), ("gemini", "gemini-interactions")}
"""Wires that lead to the same models, so that a signature may go along."""

MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "bedrock-converse": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "cohere": "command-a-03-2025",
    "gemini": "gemini-3-pro-preview",
    "gemini-interactions": "gemini-3-pro-preview",
    "mistral": "mistral-large-latest",
    "ollama": "qwen3",
    "openai-chat": "gpt-5-mini",
    "openai-responses": "gpt-5-mini",
}
TOOLS = (
    ToolSpec("weather", "Weather of a city", {"type": "object", "properties": {"city": {"type": "string"}}}),
)
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


def _is_there(name: str) -> bool:
    module, kind = DIALECTS[name]
    try:
        return hasattr(importlib.import_module(module), kind)
    except ModuleNotFoundError:
        return False


NAMES = [name for name in DIALECTS if _is_there(name)]


def test_every_dialect_has_a_model_here() -> None:
    assert set(NAMES) <= MODELS.keys()


def answer(name: str, turn: int) -> Iterator[Event]:
    """What a model thinks, says and calls for, as events."""
    yield ResponseMetadata(MODELS[name], f"r{turn}")
    cities = {f"call_{turn}.{place}:{name}": city for place, city in enumerate(("Oslo", "Rome"))}
    yield from signed_answer(THOUGHT.get(name), CALLED.get(name), cities)


def answered(wire: Wire, turn: int) -> Message:
    """The same, once it has been over the vendor's wire."""
    name = wire.dialect.name
    encoder = server_side(wire.dialect).event_encoder(
        Request(model=MODELS[name], messages=(Message.user("Hi"),))
    )
    body = b"".join(encoder.feed(event) for event in answer(name, turn)) + encoder.close()
    return heard(wire.dialect, body, provider=wire.provider)


def conversation(wire: Wire) -> list[Message]:
    """Two turns with calls, one of them with files beside it; a result each, one of them an error."""
    messages = [
        Message.system("Be brief."),
        Message.user("What is this, and how warm is it there?", Image(data=PNG, media_type="image/png")),
    ]
    for turn in range(2):
        said = answered(wire, turn)
        if turn:
            said.parts += (
                Source("url", "source-1", "https://example.com/", "A page"),
                File("image/png", data=PNG),
            )
        calls = said.tool_calls
        assert len(calls) == 2
        results = [
            ToolResult(calls[0].id, "12 °C", name="weather"),
            ToolResult(calls[1].id, "no such city", is_error=True, name="weather"),
        ]
        messages += [said, Message.tool(results)]
    messages += [Message.assistant("12 °C in Oslo."), Message.user("Thanks. And tomorrow?")]
    return messages


def sent(messages: list[Message], wire: Wire) -> HttpRequest:
    ready, _ = repaired(messages)
    request = Request(model=MODELS[wire.dialect.name], messages=tuple(ready), tools=TOOLS)
    return wire.dialect.encode(request, provider=wire.provider).http


def calls_and_results(messages: tuple[Message, ...]) -> tuple[list[str], list[str]]:
    parts = [part for message in messages for part in message.parts]
    return (
        [part.id for part in parts if isinstance(part, ToolCall)],
        [part.tool_call_id for part in parts if isinstance(part, ToolResult)],
    )


PAIRS = [(first, second) for first in NAMES for second in NAMES]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_conversation_changes_its_vendor(first: str, second: str) -> None:
    there, here = wire_of(first, None), wire_of(second, None)
    http = sent(conversation(there), here)
    assert server_side(here.dialect).accepts(http)
    read = server_side(here.dialect).decode_request(http)  # raises what the vendor would refuse it with
    calls, results = calls_and_results(read.messages)
    assert len(calls) == len(set(calls)) == 4
    assert results == calls
    assert [p.name for m in read.messages for p in m.tool_calls] == ["weather"] * 4
    texts = "".join(message.text for message in read.messages)
    for words in ("Be brief.", "I look it up.", "12 °C in Oslo.", "And tomorrow?"):
        assert words in texts
    assert [p.content for m in read.messages for p in m.tool_results if "12 °C" in p.content]


@pytest.mark.parametrize(("first", "second"), [pair for pair in PAIRS if pair[0] != pair[1]])
def test_signature_goes_only_to_its_vendor(first: str, second: str) -> None:
    body = sent(conversation(wire_of(first, None)), wire_of(second, None)).body
    assert SIGNED.encode() not in body or (first, second) in SAME_MODELS


@pytest.mark.parametrize("name", [name for name in NAMES if name in THOUGHT])
def test_a_signature_goes_back_to_its_vendor(name: str) -> None:
    wire = wire_of(name, None)
    assert SIGNED.encode() in sent(conversation(wire), wire).body


OPEN_TO_UNSIGNED = ("cohere", "gemini", "gemini-interactions", "mistral", "ollama")
"""Wires that take reasoning without a signature, and so might take another vendor's for their own."""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (first, second)
        for first in THOUGHT
        for second in OPEN_TO_UNSIGNED
        if first != second and not {(first, second), (second, first)} & SAME_MODELS
    ],
)
def test_known_foreign_reasoning_is_dropped(first: str, second: str) -> None:
    ready, _ = repaired(conversation(wire_of(first, None)))
    here = wire_of(second, None)
    request = Request(model=MODELS[second], messages=tuple(ready), tools=TOOLS)
    encoded = here.dialect.encode(request, provider=here.provider)
    assert b"They want the weather." not in encoded.http.body
    assert OtherWarning(FOREIGN_REASONING) in encoded.warnings


@pytest.mark.parametrize("second", OPEN_TO_UNSIGNED)
@pytest.mark.parametrize("origin", ["deepseek", "own"])
def test_unsigned_reasoning_only_to_owner(origin: str, second: str) -> None:
    here = wire_of(second, None)
    mark = {"llmstream": {"origin": here.provider if origin == "own" else origin}}
    said = Message.assistant(Reasoning("They want the weather.", mark), Text("Where?"))
    chat = Chat.from_json(Chat(Message.user("Hi"), said, Message.user("In Oslo.")).to_json())
    request = Request(model=MODELS[second], messages=tuple(chat.messages()))
    encoded = here.dialect.encode(request, provider=here.provider)
    left_out = OtherWarning(FOREIGN_REASONING) in encoded.warnings
    assert (b"They want the weather." in encoded.http.body) == (origin == "own")
    assert left_out == (origin != "own")


@pytest.mark.parametrize("second", OPEN_TO_UNSIGNED)
def test_unsigned_reasoning_to_same_name(second: str) -> None:
    """It goes back to the server whose name it carries, to no other."""
    here = wire_of(second, None)
    said = Message.assistant(
        Reasoning("They want it.", {"llmstream": {"origin": "in-house"}}), Text("Where?")
    )
    request = Request(model=MODELS[second], messages=(Message.user("Hi"), said, Message.user("In Oslo.")))
    assert b"They want it." in here.dialect.encode(request, provider="in-house").http.body
    assert b"They want it." not in here.dialect.encode(request, provider=here.provider).http.body


def test_repeated_item_is_sent_without_id() -> None:
    wire = wire_of("openai-responses", None)
    told = {"openai": {"item_id": "msg_1"}}
    call = ToolCall("c1", "weather", "{}", metadata={"openai": {"item_id": "fc_1"}})
    turn = [
        Message.user("Hi"),
        Message.assistant(
            Reasoning("Hm.", {"openai": {"item_id": "rs_1", "encrypted_content": SIGNED}}),
            Text("Hello.", told),
            call,
        ),
        Message.tool([ToolResult("c1", "12 °C")]),
    ]
    http = sent([*turn, *turn, Message.user("And?")], wire)
    ids = [item["id"] for item in http.json()["input"] if "id" in item]
    assert ids == ["rs_1", "msg_1", "fc_1"]
    read = server_side(wire.dialect).decode_request(http)
    assert [m.text for m in read.messages if m.role == "assistant"] == ["Hello.", "Hello."]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_reloaded_chat_is_sent_as_original(first: str, second: str) -> None:
    there, here = wire_of(first, None), wire_of(second, None)
    chat = Chat(*conversation(there))
    reloaded = Chat.from_json(chat.to_json())
    assert sent(reloaded.messages(), here) == sent(chat.messages(), here)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_open_calls_closed_for_every_vendor(first: str, second: str) -> None:
    there, here = wire_of(first, None), wire_of(second, None)
    messages = conversation(there)
    broken = [
        messages[1],
        messages[2],
        Message.tool(messages[3].tool_results[1:]),  # the second result alone
        Message.tool([ToolResult("of nobody", "x")]),
        messages[4],  # calls without any
    ]
    read = server_side(here.dialect).decode_request(sent(broken, here))
    calls, results = calls_and_results(read.messages)
    assert len(calls) == 4
    assert results == calls


@pytest.mark.parametrize("name", NAMES)
def test_ids_repeated_each_turn_are_distinct(name: str) -> None:
    wire = wire_of(name, None)
    turn = [
        Message.assistant(ToolCall("call_0", "weather", "{}"), ToolCall("call_0", "weather", "{}")),
        Message.tool([ToolResult("call_0", "1"), ToolResult("call_0", "2")]),
    ]
    read = server_side(wire.dialect).decode_request(
        sent([Message.user("Hi"), *turn, *turn, Message.user("And?")], wire)
    )
    calls, results = calls_and_results(read.messages)
    assert len(set(calls)) == 4
    assert results == calls


ELSEWHERE = {"elsewhere": {"signature": SIGNED, "type": "search_call"}}


def odd_histories() -> Iterator[tuple[str, list[Message]]]:
    """Conversations of a vendor that nobody here knows, with what others refuse."""
    yield (
        "tools that the vendor ran",
        [
            Message.user("Search."),
            Message.assistant(
                ToolCall("s1", "search", '{"q":"x"}', provider_executed=True, metadata=ELSEWHERE),
                ToolResult(
                    "s1", result=[{"url": "https://example.com"}], provider_executed=True, metadata=ELSEWHERE
                ),
                Custom("elsewhere.note", {"elsewhere": {"a": 1}}),
                Reasoning("Hm.", ELSEWHERE),
                "Found.",
                Source("url", "1", "https://example.com"),
                File("audio/wav", data=b"RIFF0000WAVE"),
            ),
            Message.user("Thanks."),
        ],
    )
    yield (
        "ids and inputs of every kind",
        [
            Message.user("Go."),
            Message.assistant(
                ToolCall("call|with:odd/letters?" * 8, "weather", ""),
                ToolCall("call|with:odd/letters!" * 8, "weather", "[1]"),
                ToolCall("ж", "weather", '{"city": "Осло"}'),
                ToolCall("1", "weather", "{broken"),
            ),
            Message.tool(
                [
                    ToolResult("ж", ""),
                    ToolResult("1", "x" * 1000),
                    ToolResult("call|with:odd/letters!" * 8, "b"),
                    ToolResult("call|with:odd/letters?" * 8, "a", is_error=True),
                ]
            ),
            Message.user("And?"),
        ],
    )
    yield (
        "an order that vendors refuse",
        [
            Message.assistant("Welcome!"),
            Message.user("Hi."),
            Message.user("Are you there?"),
            Message.assistant(Reasoning("Hm.")),
            Message.assistant("Yes."),
            Message.assistant("What is it?"),
            Message.user("Look.", ToolResult("nobody's", "x")),
            Message.assistant(ToolCall("a", "weather", "{}")),
            Message.user("Never mind."),
            Message.assistant(ToolCall("b", "weather", "{}")),
            Message.user(ToolResult("b", "12"), "Here you are."),
        ],
    )
    yield (
        "an answer that broke off",
        [Message.user("Hi."), Message.assistant(Reasoning("Hm."), "I was about to \n")],
    )
    yield (
        "calls at the end",
        [Message.user("Hi."), Message.assistant(ToolCall("a", "weather", "{}"), "and text behind it")],
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("what", "messages"), [pytest.param(w, m, id=w) for w, m in odd_histories()])
def test_foreign_history_is_never_refused(name: str, what: str, messages: list[Message]) -> None:
    wire = wire_of(name, None)
    http = sent(messages, wire)
    assert SIGNED.encode() not in http.body
    read = server_side(wire.dialect).decode_request(http)
    calls, results = calls_and_results(read.messages)
    assert results == calls
