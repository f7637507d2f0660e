from __future__ import annotations

from llmstream.chats.content import Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.chats.saved import dump_messages, load_messages
from llmstream.chats.ui_form import Card, cards_of, with_cards
from llmstream.providers.registry import find_provider
from llmstream.request import Request, ToolSpec
from llmstream.ui import vercel

ASKED = Message.assistant(Text("Look."), ToolCall("c", "cleaner", '{"prompt":"Clean."}'))
WAITS = Card("c/d", "delete", '{"path":"a"}')
CARDS = (
    WAITS.ended("It is gone.", False, None),
    Card("c/e", "delete", '{"path":"b"}').ended("The call was denied.", True, "denied"),
    Card("c/f", "delete", '{"path":"c"}').ended({"code": 3}, True, None),
    Card("c/g", "delete", '{"path":"d"}'),
)
WIRES = {
    "openai": "gpt-4o",
    "openai-responses": "gpt-4o",
    "anthropic": "claude-sonnet-4-5",
    "google": "gemini-2.5-flash",
    "google-interactions": "gemini-2.5-flash",
    "bedrock": "amazon.nova-pro-v1:0",
    "cohere": "command-a",
    "mistral": "mistral-large",
    "ollama": "llama3.2",
}


def history(*cards: Card) -> list[Message]:
    result = Message.tool([ToolResult("c", "Cleaned.", name="cleaner")])
    return [Message.user("Clean up."), with_cards(ASKED, cards), result]


def test_no_vendor_is_sent_cards() -> None:
    tools = [ToolSpec("cleaner", "Clean.", {"type": "object", "properties": {"prompt": {"type": "string"}}})]
    for name, model in WIRES.items():
        dialect = find_provider(name).dialect
        plain, shown = (
            dialect.encode(Request(model=model, messages=made, tools=tools), provider=name).http.body
            for made in (history(), history(*CARDS))
        )
        assert b"Clean." in bytes(plain), name
        assert shown == plain, name


def test_cards_are_saved() -> None:
    loaded = load_messages(dump_messages(history(*CARDS)))
    assert cards_of(loaded[1]) == list(CARDS)


def test_a_card_is_replaced_in_its_place() -> None:
    message = with_cards(with_cards(ASKED, [WAITS, CARDS[1]]), [CARDS[0]])
    assert cards_of(message) == [*CARDS[:2]]


def test_a_long_result_is_cut() -> None:
    card = WAITS.ended(["x" * 60_000], False, None)
    assert len(card.result) < 51_000
    assert card.result.endswith("characters]")


def test_cards_of_a_page_are_not_trusted() -> None:
    """A page of `read(history="client")` sends metadata of its own."""
    call = ToolCall("c", "cleaner", "{}", metadata={"llmstream": {"calls": [{"id": 3}]}})
    assert cards_of(Message.assistant(call)) == []


def test_foreign_metadata_is_replaced() -> None:
    call = ToolCall("c", "cleaner", "{}", metadata={"llmstream": [1]})  # type: ignore[dict-item]
    assert cards_of(with_cards(Message.assistant(call), [WAITS])) == [WAITS]


def test_cards_are_dumped() -> None:
    """Behind the calls of their message; those that nobody has decided about are cancelled."""
    for version, denied in ((6, "output-denied"), (5, "output-error")):
        (_, message) = vercel.dump(history(*CARDS), version=version)  # type: ignore[arg-type]
        parts = message["parts"]
        assert [part["type"] for part in parts[:4]] == ["step-start", "text", "tool-cleaner", "step-start"]
        assert "callProviderMetadata" not in parts[2]
        cards = parts[4:]
        assert [part["toolCallId"] for part in cards] == ["c/d", "c/e", "c/f", "c/g"]
        states = ["output-available", denied, "output-error", "output-error"]
        assert [part["state"] for part in cards] == states
        assert cards[2]["errorText"] == '{"code":3}'
