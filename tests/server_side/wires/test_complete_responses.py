"""Frames of a stream folded into one response: what stands beside text and calls is there too."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from llmstream.dialects.anthropic import Anthropic
from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.dialects.cohere import Cohere
from llmstream.dialects.gemini import Gemini
from llmstream.dialects.gemini_interactions import GeminiInteractions
from llmstream.dialects.mistral import Mistral
from llmstream.dialects.ollama import Ollama
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.events import (
    Event,
    File,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    TextDelta,
    TextEnd,
    TextStart,
    Usage,
)
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from llmstream.server_side.wires.event_writer import GrowingTexts, json_input

REQUEST = Request(model="m")
END = Finish("stop", Usage(1, 2, 3))
CITED: list[Event] = [
    TextStart("0"),
    TextDelta("Oslo ", "0"),
    Source("url", "s1", url="https://a.example/", title="A"),
    Source("url", "s2", url="https://b.example/", title="B"),
    TextDelta("is cold.", "0"),
    TextEnd("0"),
    END,
]


def folded(dialect: Any, events: list[Event]) -> dict[str, Any]:
    encoder = server_side(dialect).event_encoder(REQUEST)
    body = b"".join([*(encoder.feed(event) for event in events), encoder.close()])
    return server_side(dialect).complete_response(body)


def signed(provider: str) -> list[Event]:
    told = {provider: {"signature": "c2ln", "encrypted_content": "c2ln"}}
    return [
        ReasoningStart("0"),
        ReasoningDelta("Hm ", "0"),
        ReasoningDelta("hm.", "0"),
        ReasoningEnd("0", provider_metadata=told),
        END,
    ]


def test_chat_annotations_are_in_the_message() -> None:
    message = folded(OpenAIChat(), CITED)["choices"][0]["message"]
    assert message["content"] == "Oslo is cold."
    assert [one["url_citation"]["url"] for one in message["annotations"]] == [
        "https://a.example/",
        "https://b.example/",
    ]


def test_chat_pictures_are_in_the_message() -> None:
    message = folded(OpenAIChat(), [File("image/png", b"png"), END])["choices"][0]["message"]
    assert message["images"] == [{"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}}]


def test_chat_reasoning_details_are_joined() -> None:
    frames = [
        {"type": "reasoning.text", "text": "Hm ", "index": 0},
        {"type": "reasoning.text", "text": "hm.", "index": 0, "signature": "c2ln"},
        {"type": "reasoning.encrypted", "data": "abc", "index": 1},
    ]
    chunks = [{"choices": [{"index": 0, "delta": {"reasoning_details": [frame]}}]} for frame in frames]
    body = b"".join(b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks)
    message = server_side(OpenAIChat()).complete_response(body)["choices"][0]["message"]
    assert message["reasoning_details"] == [
        {"type": "reasoning.text", "text": "Hm hm.", "index": 0, "signature": "c2ln"},
        {"type": "reasoning.encrypted", "data": "abc", "index": 1},
    ]


def test_responses_is_its_last_event() -> None:
    response = folded(OpenAIResponses(), CITED)
    (item,) = response["output"]
    assert (response["status"], item["content"][0]["text"]) == ("completed", "Oslo is cold.")
    assert len(item["content"][0]["annotations"]) == 2


def test_anthropic_thinking_is_signed() -> None:
    (block,) = folded(Anthropic(), signed("anthropic"))["content"]
    assert block == {"type": "thinking", "thinking": "Hm hm.", "signature": "c2ln"}


def test_anthropic_citations_are_in_text() -> None:
    told: Any = {"anthropic": {"type": "char_location", "cited_text": "cold", "document_index": 0}}
    source = Source("document", "s1", title="A", provider_metadata=told)
    events = [TextStart("0"), TextDelta("Cold.", "0"), source, TextEnd("0"), END]
    (block,) = folded(Anthropic(), events)["content"]
    assert block["citations"] == [told["anthropic"]]


def test_converse_blocks_form_one_message() -> None:
    assert folded(BedrockConverse(), signed("bedrock"))["output"]["message"]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "Hm hm.", "signature": "c2ln"}}}
    ]
    (block,) = folded(BedrockConverse(), CITED)["output"]["message"]["content"]
    assert block["citationsContent"]["content"] == [{"text": "Oslo is cold."}]
    assert len(block["citationsContent"]["citations"]) == 2


def test_converse_pictures_are_blocks() -> None:
    (block,) = folded(BedrockConverse(), [File("image/png", b"png"), END])["output"]["message"]["content"]
    assert block == {"image": {"format": "png", "source": {"bytes": "cG5n"}}}


def test_gemini_signatures_stay_with_text() -> None:
    told = {"google": {"thought_signature": "c2ln"}}
    events = [*signed("google")[:3], ReasoningEnd("0", provider_metadata=told), *CITED]
    (candidate,) = folded(Gemini(), events)["candidates"]
    assert candidate["content"]["parts"] == [
        {"text": "Hm hm.", "thought": True, "thoughtSignature": "c2ln"},
        {"text": "Oslo is cold."},
    ]
    chunks = candidate["groundingMetadata"]["groundingChunks"]
    assert [chunk["web"]["uri"] for chunk in chunks] == ["https://a.example/", "https://b.example/"]
    supports = candidate["groundingMetadata"].get("groundingSupports", [])
    assert all(place < 2 for one in supports for place in one["groundingChunkIndices"])


def test_gemini_blocked_has_no_candidate() -> None:
    told = {"google": {"prompt_feedback": {"blockReason": "SAFETY"}}}
    answer = folded(Gemini(), [Finish("content-filter", Usage(1, 0, 1), "SAFETY", told)])
    assert (answer["promptFeedback"], "candidates" in answer) == ({"blockReason": "SAFETY"}, False)


def test_interactions_have_their_steps() -> None:
    steps = folded(GeminiInteractions(), [*signed("google")[:-1], File("image/png", b"png"), *CITED])["steps"]
    thought, picture, output = steps
    assert thought == {
        "type": "thought",
        "summary": [{"text": "Hm hm.", "type": "text"}],
        "signature": "c2ln",
    }
    assert picture["content"] == [{"type": "image", "mime_type": "image/png", "data": "cG5n"}]
    (text,) = output["content"]
    assert (text["text"], len(text["annotations"])) == ("Oslo is cold.", 2)


def test_cohere_citations_are_in_the_message() -> None:
    message = folded(Cohere(), CITED)["message"]
    assert message["content"] == [{"type": "text", "text": "Oslo is cold."}]
    assert "tool_calls" not in message


def test_mistral_content_is_a_list_if_needed() -> None:
    (choice,) = folded(Mistral(), [TextStart("0"), TextDelta("Cold.", "0"), TextEnd("0"), END])["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Cold.", "stop")
    (choice,) = folded(Mistral(), [*signed("mistral")[:-1], *CITED])["choices"]
    thinking, before, *references, after = choice["message"]["content"]
    assert thinking["thinking"] == [{"type": "text", "text": "Hm hm."}]
    assert thinking["signature"] == "c2ln"
    assert (before["text"], after["text"], len(references)) == ("Oslo ", "is cold.", 2)


def test_ollama_is_one_object() -> None:
    answer = folded(Ollama(), [*signed("ollama")[:-1], *CITED])
    assert answer["message"] == {"role": "assistant", "content": "Oslo is cold.", "thinking": "Hm hm."}
    assert (answer["done"], answer["eval_count"]) == (True, 2)


@pytest.mark.parametrize("text", ["[1", "[1]", "7", '"a"'])
def test_input_that_is_no_object_is_wrapped(text: str) -> None:
    assert json_input(text) == {"INVALID_JSON": text}


def test_no_input_is_an_empty_object() -> None:
    assert json_input("") == {}


def test_growing_texts_are_joined_once() -> None:
    owners: list[dict[str, Any]] = [{"text": "a"}, {}]
    texts = GrowingTexts()
    for owner in owners * 3:
        texts.add(owner, "text", "b")
    assert owners[0] == {"text": ""}  # nothing is joined yet
    texts.join()
    assert owners == [{"text": "abbb"}, {"text": "bbb"}]
