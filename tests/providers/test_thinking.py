"""How each host is asked to think, by the model that it serves."""

from __future__ import annotations

from typing import Any

import pytest

from llmstream.chats.content import Audio, Document, Image, Reasoning, Text
from llmstream.chats.message import Message
from llmstream.errors import Unsupported
from llmstream.providers.registry import find_provider
from llmstream.request import ReasoningOptions as Thinking
from llmstream.request import Request, Settings, ToolSpec

WORDS = (
    "reasoning",
    "reasoning_effort",
    "reasoning_format",
    "thinking",
    "enable_thinking",
    "thinking_budget",
    "thinking_token_budget",
    "chat_template_kwargs",
    "chat_template_args",
)


def body(name: str, model: str, *parts: Any, **fields: Any) -> dict[str, Any]:
    messages = fields.pop("messages", None) or (Message.user("Hi", *parts),)
    request = Request(model=model, messages=messages, **fields)
    sent: dict[str, Any] = find_provider(name).dialect.encode(request, provider=name).http.json()
    return sent


def asked(name: str, model: str, **thinking: Any) -> dict[str, Any]:
    sent = body(name, model, reasoning=Thinking(**thinking))
    return {word: sent[word] for word in WORDS if word in sent}


def effort(word: str) -> dict[str, Any]:
    return {"reasoning_effort": word}


def template(**variables: Any) -> dict[str, Any]:
    return {"chat_template_kwargs": variables}


@pytest.mark.parametrize(
    ("name", "model", "thinking", "sent"),
    [
        # Z.ai: 5.3 always thinks.
        ("zai", "glm-5.3", "none", {"thinking": {"type": "enabled"}, **effort("low")}),
        ("zai", "glm-5.3-flash", "medium", {"thinking": {"type": "enabled"}, **effort("high")}),
        ("zai", "glm-5.3", "minimal", {"thinking": {"type": "enabled"}, **effort("low")}),
        ("zai", "glm-5.2", "low", {"thinking": {"type": "enabled"}, **effort("high")}),
        ("zai", "glm-5.2", "none", {"thinking": {"type": "disabled"}}),
        ("zai", "glm-4.7", "high", {"thinking": {"type": "enabled"}}),
        ("bigmodel", "glm-5.3", "xhigh", {"thinking": {"type": "enabled"}, **effort("max")}),
        # DeepSeek's own table.
        ("deepseek", "deepseek-v4-pro", "minimal", {"thinking": {"type": "enabled"}, **effort("low")}),
        ("deepseek", "deepseek-flash", "xhigh", {"thinking": {"type": "enabled"}, **effort("high")}),
        ("deepseek", "deepseek-flash", "max", {"thinking": {"type": "enabled"}, **effort("max")}),
        # xAI.
        ("xai", "grok-4.6", "xhigh", effort("xhigh")),
        ("xai", "grok-4.7", "max", effort("xhigh")),
        ("xai", "grok-4.7", "none", effort("low")),
        ("xai", "grok-4.5", "xhigh", effort("high")),
        ("xai", "grok-3-mini", "none", effort("none")),
        ("xai", "grok-4.20-reasoning", "high", {}),
        ("xai", "grok-latest", "none", effort("none")),
        # Together.
        ("together", "moonshotai/Kimi-K2.6", "none", {"reasoning": {"enabled": False}}),
        ("together", "moonshotai/Kimi-K2.6", "high", {"reasoning": {"enabled": True}}),
        ("together", "openai/gpt-oss-120b", "none", effort("low")),
        (
            "together",
            "deepseek-ai/DeepSeek-V4-Pro",
            "low",
            {"reasoning": {"enabled": True}, **effort("high")},
        ),
        ("together", "deepseek-ai/DeepSeek-V4-Pro", "none", {"reasoning": {"enabled": False}}),
        ("together", "zai-org/GLM-5.3", "medium", effort("medium")),
        ("together", "zai-org/GLM-5.3", "none", effort("low")),
        ("together", "MiniMaxAI/MiniMax-M2.7", "high", {}),
        # Fireworks.
        ("fireworks", "accounts/fireworks/models/gpt-oss-120b", "none", effort("low")),
        ("fireworks", "accounts/fireworks/models/minimax-m2p5", "none", effort("low")),
        ("fireworks", "accounts/fireworks/models/minimax-m2p5", "max", effort("high")),
        ("fireworks", "accounts/fireworks/models/deepseek-v4-pro", "max", effort("max")),
        ("fireworks", "accounts/fireworks/models/glm-5p2", "none", effort("none")),
        ("fireworks", "accounts/fireworks/models/glm-5p3", "none", effort("low")),
        ("fireworks", "accounts/fireworks/models/kimi-k3", "none", effort("none")),
        ("fireworks", "accounts/fireworks/models/kimi-k3", "medium", effort("medium")),
        ("fireworks", "accounts/fireworks/models/qwen3-8b", "low", effort("low")),
        # Groq.
        (
            "groq",
            "qwen/qwen3.8-27b",
            "low",
            {**effort("low"), "reasoning_format": "parsed"},
        ),
        (
            "groq",
            "qwen/qwen3.8-27b",
            "max",
            {**effort("high"), "reasoning_format": "parsed"},
        ),
        ("groq", "openai/gpt-oss-20b", "max", effort("high")),
        # Cerebras.
        ("cerebras", "zai-glm-5.3", "none", effort("low")),
        ("cerebras", "zai-glm-5.3", "medium", effort("high")),
        ("cerebras", "kimi-k3", "max", effort("max")),
        ("cerebras", "qwen-3.8-27b", "none", effort("none")),
        ("cerebras", "qwen-3.8-27b", "xhigh", effort("high")),
        # MiniMax, Inception, Moonshot.
        ("minimax", "MiniMax-M3", "none", {"thinking": {"type": "disabled"}}),
        ("minimax", "MiniMax-M3", "high", {"thinking": {"type": "adaptive"}}),
        ("minimax", "MiniMax-M2.5", "high", {}),
        ("inception", "mercury-2", "none", effort("instant")),
        ("inception", "mercury-2", "minimal", effort("instant")),
        ("inception", "mercury-2", "max", effort("high")),
        ("moonshot", "kimi-k3", "none", effort("low")),
        ("moonshot", "kimi-k2.7-code", "high", {"thinking": {"type": "enabled"}}),
        # Alibaba.
        ("qwen", "qwen3.8-max", "medium", {"enable_thinking": True, **effort("medium")}),
        ("qwen", "qwen3.8-max", "high", {"enable_thinking": True, **effort("xhigh")}),
        ("qwen", "qwen3.8-max", "none", {"enable_thinking": False}),
        ("qwen", "qwen-plus", "high", {"enable_thinking": True}),
        ("qwen", "qwq-plus", "none", {}),
        # Servers that pass variables to the model's template.
        ("vllm", "Qwen/Qwen3-8B", "none", template(enable_thinking=False)),
        ("vllm", "openai/gpt-oss-20b", "low", effort("low")),
        ("vllm", "deepseek-ai/DeepSeek-V4-Flash", "max", {**template(thinking=True), **effort("max")}),
        ("sglang", "zai-org/GLM-4.6", "none", template(enable_thinking=False)),
        ("llamacpp", "gpt-oss-20b", "high", effort("high")),
        ("nvidia", "nvidia/nemotron-3-super-120b-a12b", "none", template(enable_thinking=False)),
        ("nvidia", "deepseek-ai/deepseek-v3.1", "high", template(thinking=True)),
        ("sambanova", "DeepSeek-V3.1", "high", template(enable_thinking=True)),
        ("sambanova", "gpt-oss-120b", "max", effort("high")),
        ("baseten", "moonshotai/Kimi-K2.6", "high", {"chat_template_args": {"enable_thinking": True}}),
        ("baseten", "deepseek-ai/DeepSeek-V4-Pro", "max", effort("xhigh")),
        # `max` passes where the server knows it.
        ("openrouter", "x/y", "max", {"reasoning": {"effort": "max"}}),
        ("deepinfra", "some-model", "max", effort("max")),
        ("litellm", "some-model", "max", effort("max")),
        ("ollama-openai", "my-model", "max", effort("max")),
        ("openai", "my-model", "max", effort("xhigh")),
    ],
)
def test_thinking_is_asked_for_by_the_model(name: str, model: str, thinking: Any, sent: Any) -> None:
    assert asked(name, model, effort=thinking) == sent


def test_a_budget_goes_to_vllm() -> None:
    sent = asked("vllm", "Qwen/Qwen3-8B", budget_tokens=100)
    assert sent == {**template(enable_thinking=True), "thinking_token_budget": 100}


def test_cerebras_glm_gets_reasoning_in_tags() -> None:
    messages = (Message.user("Hi"), Message.assistant(Reasoning("Hm."), Text("Yes")), Message.user("And?"))
    sent = body("cerebras", "zai-glm-5.3", messages=messages)["messages"][1]
    assert sent["content"] == "<think>\nHm.\n</think>\n\nYes"


@pytest.mark.parametrize(
    ("model", "streamed"),
    [("glm-4.6", True), ("glm-5.3", True), ("glm-4.5-air", False), ("glm-4-plus", False)],
)
def test_only_later_glms_stream_tool_input(model: str, streamed: bool) -> None:
    assert ("tool_stream" in body("zai", model)) is streamed


PICTURE = Image(data=b"x", media_type="image/png")
PAPER = Document(data=b"%PDF-1.7", media_type="application/pdf")


@pytest.mark.parametrize("model", ["deepseek-flash", "deepseek-v4-flash", "deepseek-v4-flash-vision-exp"])
def test_deepseeks_flash_models_see_images(model: str) -> None:
    part = body("deepseek", model, PICTURE)["messages"][0]["content"][1]
    assert part["type"] == "image_url"


def test_deepseeks_other_models_do_not() -> None:
    with pytest.raises(Unsupported):
        body("deepseek", "deepseek-v4-pro", PICTURE)


@pytest.mark.parametrize(
    "name",
    [
        "baseten",
        "deepinfra",
        "deepseek",
        "doubleword",
        "fireworks",
        "gemini-openai",
        "huggingface",
        "nebius",
        "nvidia",
        "qwen",
        "sambanova",
        "sglang",
        "together",
        "venice",
    ],
)
def test_document_is_refused_before_sending(name: str) -> None:
    """To a host that takes none."""
    with pytest.raises(Unsupported, match="pages as images"):
        body(name, "deepseek-v4-flash" if name == "deepseek" else "some-model", PAPER)


def test_sglang_takes_no_recordings() -> None:
    with pytest.raises(Unsupported, match="Send a transcript"):
        body("sglang", "m", Audio(data=b"x", media_type="audio/wav"))


def test_qwen_takes_recordings_as_urls() -> None:
    def sent(recording: Audio) -> dict[str, Any]:
        part: dict[str, Any] = body("qwen", "qwen3-omni-flash", recording)["messages"][0]["content"][1]
        return part["input_audio"]  # type: ignore[no-any-return]  # JSON

    assert sent(Audio(data=b"abc", media_type="audio/wav")) == {"data": "data:;base64,YWJj", "format": "wav"}
    linked = Audio(url="https://a.example/x.mp3", media_type="audio/mpeg")
    assert sent(linked) == {"data": "https://a.example/x.mp3", "format": "mp3"}


@pytest.mark.parametrize(
    ("model", "wanted", "sent"),
    [
        ("grok-4.20-reasoning", "high", None),
        ("grok-4", "none", None),
        ("grok-4.5", "none", "low"),
        ("grok-4.5", "xhigh", "high"),
        ("grok-4.7", "max", "xhigh"),
        ("grok-4.3", "none", "none"),
        ("grok-4-0709", "minimal", "low"),
        ("some-model", "max", "high"),
    ],
)
def test_xai_responses_applies_model_rules(model: str, wanted: Any, sent: str | None) -> None:
    request = Request(
        model=model, messages=(Message.user("Hi"),), reasoning=Thinking(effort=wanted), settings=Settings()
    )
    encoded = find_provider("xai-responses").dialect.encode(request, provider="xai-responses")
    assert encoded.http.json().get("reasoning") == (sent and {"effort": sent})
    assert bool(encoded.warnings) is (sent != wanted and not (sent is None and wanted == "none"))


def test_sambanova_text_models_get_a_string() -> None:
    sent = body("sambanova", "gpt-oss-120b", Text("and more"))["messages"][0]["content"]
    assert sent == "Hi\nand more"
    with pytest.raises(Unsupported):
        body("sambanova", "gpt-oss-120b", PICTURE)
    assert (
        body("sambanova", "Llama-4-Maverick-17B", PICTURE)["messages"][0]["content"][1]["type"] == "image_url"
    )


def test_copilot_has_own_openai_model_rules() -> None:
    tool = ToolSpec("look", "Looks it up.", {"type": "object", "properties": {}})
    sent = body("copilot", "gpt-5.6", tools=(tool,), reasoning=Thinking(effort="high"))
    assert sent["reasoning_effort"] == "high"
    assert [one["function"]["name"] for one in sent["tools"]] == ["look"]
