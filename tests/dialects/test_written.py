"""Conversations that grow, change and shrink between their requests: the same bytes as from a new encoder."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    File,
    Image,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    UIPart,
)
from llmstream.chats.message import Message
from llmstream.dialects.base import Dialect
from llmstream.dialects.written import Written
from llmstream.errors import LLMStreamError
from llmstream.providers.registry import find_provider
from llmstream.request import Request, ResponseFormat, ToolSpec
from llmstream.streams.history import Growing, Repairs, repaired

# Of each wire one, and those whose quirks change how a conversation is written.
MODELS = {
    "openai": ("gpt-4o", "gpt-5"),
    "openai-responses": ("gpt-4o", "gpt-5"),
    "perplexity": ("sonar", "sonar-pro"),
    "anthropic": ("claude-sonnet-4-5", "claude-opus-5-1"),
    "google": ("gemini-2.5-flash", "gemini-3-pro", "gemma-3-27b-it"),
    "google-interactions": ("gemini-2.5-flash", "gemini-3-pro"),
    "bedrock": ("anthropic.claude-sonnet-4-5", "mistral.mistral-large", "amazon.nova-pro-v1:0"),
    "cohere": ("command-a",),
    "mistral": ("mistral-large", "magistral-medium"),
    "ollama": ("llama3.2",),
    "deepseek": ("deepseek-chat", "deepseek-reasoner"),
    "openrouter": ("a/b",),
    "fireworks": ("mistral-x",),
    "xai": ("grok-4",),
    "github-copilot": ("claude-sonnet-4.5",),
}
KEYS = ("openai", "anthropic", "google", "bedrock", "cohere", "mistral", "ollama", "deepseek", "openrouter")
IDS = ("c1", "c2", "a.b", "a_b", "D681PevKs", "call_" + "x" * 70, "minted-1", "日本")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
ROUNDS = int(os.environ.get("LLMSTREAM_WRITTEN_ROUNDS", "12"))
"""Conversations of each provider; some thousands take minutes and find what is rare."""


class Talk:
    """A random conversation, and what its owner may do to it between two requests."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.messages: list[Message] = [Message.system("Be brief.")] if self.random.random() < 0.5 else []
        self.messages.append(Message.user("Go"))
        self.number = 0

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def metadata(self) -> dict[str, dict[str, Any]] | None:
        if self.random.random() < 0.6:
            return None
        own = self.one(
            {"signature": f"s{self.random.random()}"},
            {"signature": "s", "thought_signature": "t", "item_id": f"i{self.one(1, 2, 3)}"},
            {"cache_control": {"type": "ephemeral"}, "cache_point": True},
            {"encrypted_content": "e", "item_id": f"r{self.random.random()}"},
            {"reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]},
            {"citations": {"enabled": True}},
            {},
        )
        # Each has its own: callers change them in place.
        keys = self.random.sample(KEYS, self.one(1, 2, len(KEYS)))
        return {key: msgspec.json.decode(msgspec.json.encode(own)) for key in keys}

    def file(self) -> Part:
        made = self.metadata()
        return self.one(
            Image(data=self.one(PNG, bytearray(PNG)), media_type="image/png", metadata=made),
            Image(url="https://example.com/a.png", metadata=made),
            Document(data=b"%PDF-1", media_type="application/pdf", filename="a.pdf", metadata=made),
            Document(data=b"text", media_type="text/plain", filename="a.txt", metadata=made),
            *([Audio(data=b"RIFF", media_type="audio/wav")] if self.random.random() < 0.1 else []),
        )

    def user(self) -> Message:
        parts = [Text(self.one("Hi", "And JSON?", " ", "Once more."), self.metadata())]
        if self.random.random() < 0.3:
            parts.insert(self.one(0, 1), self.file())
        if self.random.random() < 0.1:
            parts.append(UIPart({"type": "data-x"}))
        return Message.user(*parts)

    def answer(self, *calls: ToolCall) -> Message:
        parts: list[Part] = []
        if self.random.random() < 0.5:
            parts.append(Reasoning(self.one("Hm.", ""), self.metadata()))
        if self.random.random() < 0.7:
            parts.append(Text(self.one("Well. ", "Done", " "), self.metadata()))
        if self.random.random() < 0.1:
            parts.append(self.one(Source("url", url="https://a"), Custom("google.x", {"google": {"a": 1}})))
        if self.random.random() < 0.05:
            parts.append(File("image/png", data=PNG))
        return Message("", "assistant", (*parts, *calls), self.one(None, None, {"llmstream": {"a": 1}}))

    def call(self) -> ToolCall:
        self.number += 1
        fresh = f"call_{self.number}"
        return ToolCall(
            self.one(fresh, fresh, fresh, *IDS),
            "look",
            self.one('{"x":1}', "", "not JSON", '{"x": "é"}'),
            provider_executed=self.random.random() < 0.05,
            metadata=self.metadata(),
        )

    def result(self, call: ToolCall) -> ToolResult:
        files = (self.file(),) if self.random.random() < 0.2 else ()
        return ToolResult(
            call.id,
            self.one("found", "", '{"a": 1}'),
            self.random.random() < 0.1,
            self.one("", "look"),
            tuple(file for file in files if isinstance(file, (Image, Document))),
            self.one(None, None, {"deep": [1]}),
            call.provider_executed,
            metadata=self.metadata(),
        )

    def step(self) -> list[Message]:
        calls = [self.call() for _ in range(self.one(1, 1, 2))]
        results = [self.result(call) for call in calls if self.random.random() < 0.97]
        self.random.shuffle(results)
        done = [Message.tool(tuple(results))] if results else []
        return [self.answer(*calls), *done]

    def turn(self) -> list[Message]:
        return [self.answer(), self.user()]

    def marked(self) -> None:
        """Moves a cache mark to the last message, as callers do at each step."""
        mark = {"anthropic": {"cache_control": {"type": "ephemeral"}}, "bedrock": {"cache_point": True}}
        for message in self.messages:
            message.parts = tuple(
                msgspec.structs.replace(part, metadata=None) if getattr(part, "metadata", 0) == mark else part
                for part in message.parts
            )
        last = self.messages[-1]
        if last.parts and not isinstance(last.parts[-1], UIPart):
            last.parts = (*last.parts[:-1], msgspec.structs.replace(last.parts[-1], metadata=mark))

    def changed_in_place(self) -> None:
        found = [
            own
            for message in self.messages
            for part in message.parts
            for own in (getattr(part, "metadata", None) or {}).values()
        ]
        if found:
            self.random.choice(found)["signature"] = f"new{self.random.random()}"
        for message in self.messages:
            for part in message.parts:
                if isinstance(part, Image) and isinstance(part.data, bytearray):
                    part.data[-1] = self.random.randrange(256)

    def change(self) -> None:
        """One of the things that happen between two requests; mostly the conversation grows."""
        place = self.random.randrange(len(self.messages))
        match self.random.random():
            case chance if chance < 0.6:
                self.messages += self.step() if self.random.random() < 0.8 else self.turn()
            case chance if chance < 0.68:
                self.marked()
            case chance if chance < 0.74:
                self.messages[place] = self.one(self.user, self.answer)()
            case chance if chance < 0.78:
                self.changed_in_place()
            case chance if chance < 0.82:
                del self.messages[place or 1 :]
            case chance if chance < 0.86 and len(self.messages) > 4:
                del self.messages[1:3]
            case chance if chance < 0.9:
                self.messages.append(Message.system("Remember."))
            case chance if chance < 0.94:
                self.messages.append(self.answer())
            case chance if chance < 0.97:
                self.messages[place].parts = self.messages[place].parts[1:]
            case _:
                self.messages.append(Message.tool((ToolResult(self.one("call_1", "c1", "none"), "late"),)))


def outcome(encode: Callable[[], Any]) -> object:
    """The bytes and the warnings of a request, or how it fails. Warnings come segment by segment."""
    try:
        made = encode()
    except LLMStreamError as error:
        return type(error), str(error)
    return made.http.body, made.http.headers, sorted(map(repr, made.warnings))


def requests(talk: Talk, models: tuple[str, ...]) -> Request:
    """Mostly the same settings."""
    formats = (None, None, None, ResponseFormat({"type": "object", "properties": {}}), ResponseFormat())
    return Request(
        model=models[0] if talk.random.random() < 0.9 else talk.one(*models),
        messages=(),
        response_format=talk.one(*formats) if talk.random.random() < 0.2 else None,
        tools=(ToolSpec("look", "Looks.", {"type": "object", "properties": {}}),),
    )


def compare(dialect: Dialect, provider: str, talk: Talk, repairs: Repairs, request: Request) -> None:
    given = tuple(repaired(talk.messages)[0]) if talk.number % 2 else tuple(talk.messages)
    repairs.begin()
    fresh = msgspec.structs.replace(request, messages=given)
    again = msgspec.structs.replace(request, messages=Growing.of(given, repairs))
    expected = outcome(lambda: dialect.encode(fresh, provider=provider))
    for _ in range(2):  # an attempt is repeated with the same messages
        assert outcome(lambda: dialect.encode(again, provider=provider)) == expected


@pytest.mark.parametrize("provider", MODELS)
def test_random_conversations_are_equal(provider: str):
    dialect = find_provider(provider).dialect
    for seed in range(ROUNDS):
        talk, repairs = Talk(f"{provider}/{seed}"), Repairs()
        for _ in range(14):
            compare(dialect, provider, talk, repairs, requests(talk, MODELS[provider]))
            talk.change()


WIRES = [name for name in MODELS if name != "perplexity"]  # whose items are rewritten after all


def encoded(provider: str, messages: list[Message], repairs: Repairs | None = None) -> bytes:
    given = tuple(messages) if repairs is None else Growing.of(messages, repairs)
    if repairs is not None:
        repairs.begin()
    request = Request(model=MODELS[provider][0], messages=given)
    return find_provider(provider).dialect.encode(request, provider=provider).http.body


def step(number: int, *files: Image) -> list[Message]:
    call = ToolCall(f"call_{number}", "look", '{"x": 1}')
    return [Message.assistant("Well.", call), Message.tool((ToolResult(call.id, "found", parts=files),))]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the segments that are encoded."""
    found: list[int] = []
    write = Written.write

    def spied(self: Written, messages: Any, carry: Any, encode: Any, *others: Any) -> Any:
        def counted(segment: Any, carry: Any) -> Any:
            found.append(len(segment))
            return encode(segment, carry)

        return write(self, messages, carry, counted, *others)

    monkeypatch.setattr(Written, "write", spied)
    return found


@pytest.mark.parametrize("provider", WIRES)
def test_a_step_encodes_its_messages(provider: str, read: list[int]):
    """Also where each has metadata of its vendor, such as signatures and ids of items."""
    own = {key: {"signature": "s", "item_id": "i", "thought_signature": "t"} for key in KEYS}
    messages, repairs = [Message.system("Be brief."), Message.user("Go")], Repairs()
    for number in range(8):
        read.clear()
        assert encoded(provider, messages, repairs) == encoded(provider, messages)
        assert sum(read) == (0 if number == 0 else len(messages) if number == 1 else 2)
        call = ToolCall(f"call_{number}", "look", '{"x": 1}', metadata=own)
        answer = Message.assistant(Reasoning("Hm.", own), Text("Well.", own), call)
        messages += [answer, Message.tool((ToolResult(call.id, "found"),))]


@pytest.mark.parametrize("provider", ["anthropic", "bedrock"])
def test_moved_mark_costs_two_steps(provider: str, read: list[int]):
    """Callers mark the last message, and take the mark from the one before."""
    mark = {"anthropic": {"cache_control": {"type": "ephemeral"}}}
    messages, repairs = [Message.system("Be brief."), Message.user("Go")], Repairs()
    for number in range(8):
        sent = [*messages[:-1], Message("", messages[-1].role, (*messages[-1].parts, Text("!", mark)))]
        read.clear()
        body = encoded(provider, sent, repairs)
        assert body == encoded(provider, sent)
        assert body.count(b"ephemeral") + body.count(b"cachePoint") == 1
        assert number < 2 or sum(read) == 4
        messages += step(number)


@pytest.mark.parametrize("provider", ["anthropic", "bedrock"])
def test_old_marks_are_taken_out_again(provider: str):
    """At most four are sent, so a mark that a request took out of an old message is in the message still."""
    mark = {"anthropic": {"cache_control": {"type": "ephemeral"}}}
    messages, repairs = [Message.user(Text("Go", mark))], Repairs()
    for number in range(8):
        assert encoded(provider, messages, repairs) == encoded(provider, messages)
        messages += [Message.assistant("Well."), Message.user(Text(f"On, {number}.", mark))]
    del messages[3:]
    assert encoded(provider, messages, repairs) == encoded(provider, messages)


def test_window_keeps_the_beginning(read: list[int]):
    """A picture in front of a part that changes at each step is encoded once."""
    head = [Message.system("Be brief."), Message.user("Go", Image(data=PNG, media_type="image/png"))]
    repairs = Repairs()
    for number in range(8):
        sent = head + [message for n in range(number, number + 3) for message in step(n)]
        read.clear()
        assert encoded("openai", sent, repairs) == encoded("openai", sent)
        assert number < 2 or sum(read) == 6


@pytest.mark.parametrize("provider", WIRES)
def test_memory_of_it_is_bounded(provider: str, monkeypatch: pytest.MonkeyPatch):
    """What is remembered of a conversation has a limit; what follows is encoded for each request."""
    monkeypatch.setattr("llmstream.dialects.written._MAX_BYTES", 5_000)
    long = "word " * 600
    messages, repairs = [Message.user(long)], Repairs()
    for number in range(5):
        assert encoded(provider, messages, repairs) == encoded(provider, messages)
        messages += [Message.assistant(f"Well, {number}."), Message.user(long)]
    written = repairs.written
    assert written is not None
    assert sum(len(bytes(item)) for item in written._items) <= 5_000
    del messages[1:]
    messages += step(1)
    assert encoded(provider, messages, repairs) == encoded(provider, messages)
    assert len(written._places) == 2, "it remembers again what fits"


def test_parts_in_a_list_are_read_again():
    """A list is no tuple: it may get another part."""
    messages, repairs = [Message.user("Go"), *step(1)], Repairs()
    parts = [Text("Go")]
    messages[0].parts = parts  # type: ignore[assignment]  # what callers do
    for word in ("on", "and", "on"):
        assert encoded("openai", messages, repairs) == encoded("openai", messages)
        parts.append(Text(word))
