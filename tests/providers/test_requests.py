"""What each vendor's quirks make of a request, and of an answer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from llmstream.chats.content import Image, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.errors import Unsupported
from llmstream.events import Event, Finish, ReasoningDelta, TextDelta, UnsupportedSetting
from llmstream.model_rules import changed
from llmstream.providers.registry import all_providers, find_provider
from llmstream.request import NamedTool, Request, ResponseFormat, Settings, ToolSpec
from llmstream.request import ReasoningOptions as Thinking

SEARCH = ToolSpec("search", "Looks it up", {"type": "object", "properties": {}}, strict=True)
CHAT = [p.name for p in all_providers() if isinstance(p.dialect, OpenAIChat)]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def body(name: str, model: str = "some-model", **fields: Any) -> dict[str, Any]:
    """The body that a provider is sent."""
    fields.setdefault("messages", (Message.user("Hi"),))
    encoded = find_provider(name).dialect.encode(Request(model=model, **fields), provider=name)
    value: dict[str, Any] = encoded.http.json()
    return value


def left_out(name: str, **fields: Any) -> set[str]:
    """The settings that a provider does without, as the warnings say."""
    request = Request(model="some-model", messages=(Message.user("Hi"),), **fields)
    warnings = find_provider(name).dialect.encode(request, provider=name).warnings
    return {w.setting for w in warnings if isinstance(w, UnsupportedSetting)}


def history() -> tuple[Message, ...]:
    """Two turns with thoughts, the first of them with a tool call."""
    call = ToolCall(id="c1", name="search", arguments="{}")
    return (
        Message.user("One"),
        Message.assistant(Reasoning("old"), call),
        Message.tool([ToolResult(tool_call_id="c1", content="found")]),
        Message.assistant(Text("First")),
        Message.user("Two"),
        Message.assistant(Reasoning("new"), Text("Second")),
        Message.user("Three"),
    )


def echoes(name: str, field: str) -> list[Any]:
    messages = body(name, messages=history())["messages"]
    return [m.get(field) for m in messages if m["role"] == "assistant"]


def events(name: str, *deltas: dict[str, Any], usage: dict[str, Any] | None = None) -> list[Event]:
    """What a provider's answer of these deltas is read as."""
    choices = [{"index": 0, "delta": delta} for delta in deltas]
    chunks: list[dict[str, Any]] = [{"id": "r", "model": "m", "choices": [choice]} for choice in choices]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
    data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    sentence = GuardedDecoder(find_provider(name).dialect.decoder(provider=name), provider=name)
    return sentence.start() + sentence.feed(data.encode()) + sentence.close()


def said(found: list[Event], kind: type[TextDelta] | type[ReasoningDelta]) -> str:
    return "".join(event.delta for event in found if isinstance(event, kind))


# The plain request, whole.


def test_openai_is_sent_its_own_wire() -> None:
    assert body("openai", "gpt-4.1", settings=Settings(max_output_tokens=9)) == {
        "model": "gpt-4.1",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_completion_tokens": 9,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_open_model_server_gets_older_fields() -> None:
    assert body("vllm", settings=Settings(max_output_tokens=9, top_k=3)) == {
        "model": "some-model",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 9,
        "top_k": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


OPENAI = {"openai", "openai-chat", "azure", "azure-chat"}


@pytest.mark.parametrize("name", sorted(set(CHAT) - {"sim"}))
def test_response_length_has_one_field(name: str) -> None:
    newer = {*OPENAI, "groq", "xai", "cerebras", "moonshot", "minimax", "copilot"}
    newer |= {"bedrock-openai", "digitalocean", "meta-chat", "snowflake"}
    sent = body(name, settings=Settings(max_output_tokens=9))
    field, other = "max_completion_tokens", "max_tokens"
    if name not in newer:
        field, other = other, field
    assert sent[field] == 9
    assert other not in sent


@pytest.mark.parametrize("name", sorted(set(CHAT) - {*OPENAI, "sim"}))
def test_only_openais_models_have_developers(name: str) -> None:
    messages = (Message.system("Be brief."), Message.user("Hi"))
    assert body(name, "gpt-5", messages=messages)["messages"][0]["role"] == "system"


def test_openai_reasoning_uses_developer() -> None:
    """And no temperature."""
    messages = (Message.system("Be brief."), Message.user("Hi"))
    sent = body("openai", "gpt-5", messages=messages, settings=Settings(temperature=0.5))
    assert sent["messages"][0]["role"] == "developer"
    assert "temperature" not in sent


@pytest.mark.parametrize("name", CHAT)
def test_usage_is_requested_where_harmless(name: str) -> None:
    assert "stream_options" in body(name)


def test_nvidia_vision_omits_stream_options() -> None:
    assert "stream_options" not in body("nvidia", "microsoft/phi-3-vision-128k-instruct")
    assert "stream_options" in body("nvidia", "deepseek-ai/deepseek-v4-pro")


# Settings.


@pytest.mark.parametrize(
    ("name", "settings", "missing"),
    [
        ("moonshot", Settings(temperature=0.3, top_p=0.5), {"temperature", "top_p"}),
        ("xai", Settings(stop=("x",), presence_penalty=1.0), {"stop", "presence_penalty"}),
        ("zai", Settings(frequency_penalty=1.0, temperature=0.3), {"frequency_penalty"}),
        ("deepseek", Settings(top_k=1, seed=1, temperature=0.3), {"top_k", "seed"}),
        ("perplexity", Settings(top_k=1, stop=("x",)), {"top_k", "stop"}),
        ("cerebras", Settings(presence_penalty=1.0, temperature=1.8), set()),
        ("groq", Settings(presence_penalty=1.0, stop=("x",)), {"presence_penalty"}),
        ("openrouter", Settings(top_k=1, stop=("x",)), set()),
        ("qwen", Settings(top_k=1), set()),
        ("openai", Settings(top_k=1), {"top_k"}),
    ],
)
def test_refused_settings_are_warned_of(name: str, settings: Settings, missing: set[str]) -> None:
    assert left_out(name, settings=settings) == missing
    sent = body(name, settings=settings)
    assert not missing & set(sent)


def test_openrouter_reports_the_cost() -> None:
    assert body("openrouter")["usage"] == {"include": True}


# Tools.


@pytest.mark.parametrize(
    ("name", "choice", "sent"),
    [
        ("openai", "required", "required"),
        ("openai", NamedTool("search"), {"type": "function", "function": {"name": "search"}}),
        ("zai", "auto", "auto"),
        ("zai", "required", None),
        ("zai", NamedTool("search"), None),
        ("qwen", "required", None),
        ("qwen", NamedTool("search"), {"type": "function", "function": {"name": "search"}}),
        ("moonshot", "none", "none"),
        ("moonshot", "required", None),
        ("deepseek", "required", "required"),
        ("ollama-openai", "required", None),
    ],
)
def test_only_known_tool_choices_are_sent(name: str, choice: Any, sent: Any) -> None:
    found = body(name, tools=(SEARCH,), tool_choice=choice)
    assert found.get("tool_choice") == sent
    assert [tool["function"]["name"] for tool in found["tools"]] == ["search"]


@pytest.mark.parametrize("name", ["zai", "ollama-openai"])
def test_no_tools_where_none_is_unsupported(name: str) -> None:
    assert "tools" not in body(name, tools=(SEARCH,), tool_choice="none")


@pytest.mark.parametrize("name", ["deepseek", "qwen", "moonshot"])
def test_no_forced_tool_while_thinking(name: str) -> None:
    choice = NamedTool("search")
    sent = body(name, tools=(SEARCH,), tool_choice=choice, reasoning=Thinking(effort="high"))
    assert "tool_choice" not in sent


@pytest.mark.parametrize("name", ["zai", "moonshot", "deepseek", "minimax"])
def test_strict_is_omitted_where_unknown(name: str) -> None:
    assert "strict" not in body(name, tools=(SEARCH,))["tools"][0]["function"]


def test_zai_streams_tool_arguments() -> None:
    assert body("zai", tools=(SEARCH,))["tool_stream"] is True


# Content.


def test_moonshot_takes_images_as_data_only() -> None:
    picture = Message.user(Image(url="https://a.example/x.png"))
    with pytest.raises(Unsupported, match="as bytes only"):
        body("moonshot", messages=(picture,))


def test_deepseek_takes_text_only() -> None:
    picture = Message.user(Text("What is it?"), Image(data=b"x", media_type="image/png"))
    with pytest.raises(Unsupported, match="deepseek"):
        body("deepseek", messages=(picture,))


@pytest.mark.parametrize("name", ["deepseek", "zai"])
def test_schema_goes_into_the_prompt(name: str) -> None:
    """Where the wire has no field for it."""
    sent = body(name, response_format=ResponseFormat(schema=SCHEMA))
    assert sent["response_format"] == {"type": "json_object"}
    assert '"integer"' in sent["messages"][0]["content"]


def test_minimax_has_no_response_format() -> None:
    sent = body("minimax", response_format=ResponseFormat(schema=SCHEMA))
    assert "response_format" not in sent
    assert '"integer"' in sent["messages"][0]["content"]


# Reasoning.


@pytest.mark.parametrize(
    ("name", "reasoning", "sent"),
    [
        ("openai", Thinking(effort="low"), {"reasoning_effort": "low"}),
        ("openai", Thinking(effort="max"), {"reasoning_effort": "xhigh"}),
        ("groq", Thinking(effort="low"), {"reasoning_effort": "low", "reasoning_format": "parsed"}),
        ("xai", Thinking(effort="minimal"), {"reasoning_effort": "low"}),
        ("fireworks", Thinking(effort="xhigh"), {"reasoning_effort": "high"}),
        ("cerebras", Thinking(effort="medium"), {"reasoning_effort": "medium"}),
        ("openrouter", Thinking(effort="high"), {"reasoning": {"effort": "high"}}),
        ("openrouter", Thinking(budget_tokens=100), {"reasoning": {"max_tokens": 100}}),
        ("vercel-gateway", Thinking(budget_tokens=100), {"reasoning": {"max_tokens": 100}}),
        ("deepseek", Thinking(effort="high"), {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("deepseek", Thinking(effort="xhigh"), {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("deepseek", Thinking(effort="max"), {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
        ("deepseek", Thinking(), {"thinking": {"type": "enabled"}}),
        ("fireworks", Thinking(budget_tokens=9), {"thinking": {"type": "enabled", "budget_tokens": 9}}),
        ("zai", Thinking(effort="none"), {"thinking": {"type": "disabled"}}),
        ("moonshot", Thinking(effort="high"), {"thinking": {"type": "enabled"}}),
        ("qwen", Thinking(budget_tokens=100), {"enable_thinking": True, "thinking_budget": 100}),
        ("minimax", Thinking(effort="high"), {"thinking": {"type": "adaptive"}}),
        ("minimax", Thinking(effort="none"), {"thinking": {"type": "disabled"}}),
    ],
)
def test_thinking_uses_the_vendors_fields(name: str, reasoning: Thinking, sent: dict[str, Any]) -> None:
    words = (
        "reasoning",
        "reasoning_effort",
        "reasoning_format",
        "thinking",
        "enable_thinking",
        "thinking_budget",
    )
    found = body(name, reasoning=reasoning)
    assert {word: found[word] for word in words if word in found} == sent


def test_deepseek_gets_all_reasoning_back() -> None:
    assert echoes("deepseek", "reasoning_content") == ["old", "", "new"]


@pytest.mark.parametrize("name", ["moonshot", "zai", "xiaomi", "docker-model-runner", "llamafile"])
def test_reasoning_goes_back_where_it_was(name: str) -> None:
    assert echoes(name, "reasoning_content") == ["old", None, "new"]


def test_vllm_gets_turn_reasoning_with_calls() -> None:
    assert echoes("vllm", "reasoning") == [None, None, None]
    sent = body("vllm", messages=history()[:3])["messages"]
    assert [message.get("reasoning") for message in sent] == [None, "old", None]
    wire_id = body("vllm", "mistralai/Ministral-3-8B", messages=history()[:3])["messages"][1]["tool_calls"][
        0
    ]["id"]
    assert re.fullmatch("[a-zA-Z0-9]{9}", wire_id)


def test_own_servers_get_all_reasoning_back() -> None:
    assert echoes("llamacpp", "reasoning_content") == ["old", None, "new"]
    assert echoes("sglang", "reasoning_content") == ["old", None, "new"]
    assert echoes("ollama-openai", "reasoning") == ["old", None, "new"]


def test_doubleword_gets_turn_reasoning_back() -> None:
    assert echoes("doubleword", "reasoning_content") == [None, None, None]
    sent = body("doubleword", messages=history()[:3])["messages"]
    assert [message.get("reasoning_content") for message in sent] == [None, "old", None]


def test_groq_openrouter_rename_reasoning() -> None:
    assert echoes("groq", "reasoning") == ["old", None, "new"]
    assert echoes("openrouter", "reasoning") == ["old", None, "new"]


def test_openrouter_details_go_back_verbatim() -> None:
    details = [{"type": "reasoning.text", "text": "old", "signature": "s", "index": 0}]
    thought = Reasoning("old", metadata={"openrouter": {"reasoning_details": details}})
    messages = (Message.user("One"), Message.assistant(thought, Text("First")), Message.user("Two"))
    assert body("openrouter", messages=messages)["messages"][1]["reasoning_details"] == details


@pytest.mark.parametrize("name", ["openai", "azure", "xai", "qwen", "together"])
def test_reasoning_is_omitted_where_unwanted(name: str) -> None:
    for field in ("reasoning", "reasoning_content", "reasoning_details"):
        assert echoes(name, field) == [None, None, None]


def test_gemini_signature_goes_on_its_call() -> None:
    extra = {"google": {"thought_signature": "s"}}
    call = ToolCall(id="c", name="search", metadata={"gemini-openai": {"extra_content": extra}})
    messages = (
        Message.user("One"),
        Message.assistant(call),
        Message.tool([ToolResult(tool_call_id="c", content="found")]),
    )
    sent = body("gemini-openai", messages=messages)["messages"][1]["tool_calls"][0]
    assert sent["extra_content"] == extra


# Reading.


@pytest.mark.parametrize("name", ["fireworks", "sambanova", "minimax"])
def test_thoughts_between_tags_are_split_off(name: str) -> None:
    found = events(name, {"content": "<thi"}, {"content": "nk>Hm."}, {"content": "</think>Yes"})
    assert said(found, ReasoningDelta) == "Hm."
    assert said(found, TextDelta) == "Yes"


@pytest.mark.parametrize("name", ["openai", "huggingface", "vllm"])
def test_elsewhere_tags_are_text(name: str) -> None:
    found = events(name, {"content": "<think>Hm.</think>Yes"})
    assert said(found, TextDelta) == "<think>Hm.</think>Yes"


def test_xai_reasoning_repeats_and_adds_up() -> None:
    usage = {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "total_tokens": 12,
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    deltas = [{"reasoning_content": "Hm"}, {"reasoning_content": "Hm"}, {"content": "Yes"}]
    found = events("xai", *deltas, usage=usage)
    assert said(found, ReasoningDelta) == "Hm"
    finish = found[-1]
    assert isinstance(finish, Finish)
    assert finish.usage.output_tokens == 9
    assert finish.usage.reasoning_tokens == 5


def test_xais_cached_tokens_may_come_on_top() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 10}}
    finish = events("xai", {"content": "Yes"}, usage=usage)[-1]
    assert isinstance(finish, Finish)
    assert (finish.usage.input_tokens, finish.usage.cached_input_tokens) == (13, 10)


# Models of one vendor that differ.


def test_rules_by_model_name_quirks() -> None:
    for name in CHAT:
        dialect = find_provider(name).dialect
        assert isinstance(dialect, OpenAIChat)
        for rule in dialect.quirks.by_model:
            re.compile(rule.pattern)
            assert rule.changes
            assert changed(dialect.quirks, rule.changes).by_model == dialect.quirks.by_model


@pytest.mark.parametrize(
    ("name", "model", "effort", "sent"),
    [
        ("openai", "gpt-4.1", "high", None),
        ("openai", "o3", "minimal", "low"),
        ("openai", "gpt-5", "none", "minimal"),
        ("openai", "gpt-5.1", "none", "none"),
        ("openai", "gpt-5.1", "xhigh", "high"),
        ("openai", "my-own-server", "xhigh", "xhigh"),
        ("xai", "grok-4", "high", None),
        ("xai", "grok-4-0709", "high", "high"),
        ("xai", "grok-4.20-reasoning", "high", None),
        ("xai", "grok-4-1-fast-reasoning", "xhigh", "high"),
        ("xai", "grok-3", "none", "none"),
        ("xai", "grok-3-mini", "medium", "high"),
        ("xai", "grok-4.3", "medium", "medium"),
        ("xai", "grok-4.3", "none", "none"),
        ("xai", "grok-4.5", "none", "low"),
        ("groq", "openai/gpt-oss-120b", "none", "low"),
        ("groq", "qwen/qwen3-32b", "high", "default"),
        ("groq", "qwen/qwen3-32b", "none", "none"),
        ("groq", "llama-3.3-70b-versatile", "high", None),
        ("cerebras", "gpt-oss-120b", "none", "low"),
        ("cerebras", "zai-glm-4.7", "none", "none"),
        ("copilot", "claude-sonnet-4.5", "high", None),
        ("copilot", "claude-sonnet-4.6", "max", "max"),
        ("copilot", "claude-opus-4.8", "xhigh", "xhigh"),
        ("copilot", "claude-sonnet-4.6", "xhigh", "max"),
        ("copilot", "gpt-5", "minimal", "minimal"),
        ("zai", "glm-4.7", "high", None),
        ("zai", "glm-5.2", "xhigh", "max"),
        ("moonshot", "kimi-k2.6", "high", None),
        ("moonshot", "kimi-k3", "medium", "high"),
    ],
)
def test_an_effort_goes_by_the_model(name: str, model: str, effort: Any, sent: str | None) -> None:
    assert body(name, model, reasoning=Thinking(effort=effort)).get("reasoning_effort") == sent


def test_groq_gpt_oss_has_no_format_field() -> None:
    thinking = Thinking(effort="low")
    assert "reasoning_format" not in body("groq", "openai/gpt-oss-20b", reasoning=thinking)
    assert body("groq", "qwen/qwen3-32b", reasoning=thinking)["reasoning_format"] == "parsed"


@pytest.mark.parametrize(
    ("model", "stops"),
    [
        ("grok-2", True),
        ("grok-4.20-non-reasoning", True),
        ("grok-3", False),
        ("grok-3-mini", False),
        ("grok-4", False),
    ],
)
def test_only_non_reasoning_groks_take_stop(model: str, stops: bool) -> None:
    assert ("stop" in body("xai", model, settings=Settings(stop=("x",)))) is stops


@pytest.mark.parametrize(("model", "samples"), [("kimi-k2-0905-preview", True), ("kimi-k2.6", False)])
def test_non_thinking_kimi_takes_sampling(model: str, samples: bool) -> None:
    assert ("temperature" in body("moonshot", model, settings=Settings(temperature=0.3))) is samples


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("kimi-k2.6", "none", {"type": "disabled"}),
        ("kimi-k2.7-code", "none", None),
        ("kimi-k2-thinking", "none", None),
        ("kimi-k2-0905-preview", "high", None),
    ],
)
def test_always_thinking_kimi_gets_no_switch(model: str, effort: Any, sent: Any) -> None:
    assert body("moonshot", model, reasoning=Thinking(effort=effort)).get("thinking") == sent


def test_azure_mistral_models_get_own_fields() -> None:
    call = ToolCall(id="call_0123456789", name="search", arguments="{}")
    messages = (
        Message.system("Be brief."),
        Message.user("Hi"),
        Message.assistant(call),
        Message.tool([ToolResult(tool_call_id=call.id, content="found")]),
    )
    sent = body("azure", "Mistral-Large-3", messages=messages, settings=Settings(max_output_tokens=9))
    assert sent["max_tokens"] == 9
    assert not {"max_completion_tokens", "stream_options"} & set(sent)
    wire_id = sent["messages"][2]["tool_calls"][0]["id"]
    assert re.fullmatch("[a-zA-Z0-9]{9}", wire_id)
    assert sent["messages"][3]["tool_call_id"] == wire_id
    assert "stream_options" in body("azure", "gpt-4.1")


# What else was a refusal, or a silent loss.


def test_forced_tool_stops_deepseek_thinking() -> None:
    """Where thinking was not requested."""
    request = Request(
        model="deepseek-v4-pro", messages=(Message.user("Hi"),), tools=(SEARCH,), tool_choice="required"
    )
    encoded = find_provider("deepseek").dialect.encode(request, provider="deepseek")
    sent = encoded.http.json()
    assert (sent["tool_choice"], sent["thinking"]) == ("required", {"type": "disabled"})
    assert any("thinking was switched off" in getattr(w, "message", "") for w in encoded.warnings)
    assert "thinking" not in body("deepseek", tools=(SEARCH,), tool_choice="auto")


@pytest.mark.parametrize("name", ["openai", "deepseek", "qwen", "groq"])
def test_json_mode_request_mentions_json(name: str) -> None:
    sent = body(name, response_format=ResponseFormat())
    assert sent["response_format"] == {"type": "json_object"}
    assert "JSON" in sent["messages"][0]["content"]
    said = body(name, response_format=ResponseFormat(), messages=(Message.user("Give me json."),))
    assert [message["role"] for message in said["messages"]] == ["user"]


def test_minimax_gets_reasoning_in_tags() -> None:
    messages = (Message.user("Hi"), Message.assistant(Reasoning("Hm."), Text("Yes")), Message.user("And?"))
    assert body("minimax", messages=messages)["messages"][1] == {
        "role": "assistant",
        "content": "<think>\nHm.\n</think>\n\nYes",
    }


def test_foreign_reasoning_is_not_deepseeks() -> None:
    thought = Reasoning("Strange.", metadata={"anthropic": {"signature": "s"}})
    messages = (Message.user("Hi"), Message.assistant(thought, Text("Yes")), Message.user("And?"))
    assert body("deepseek", messages=messages)["messages"][1]["reasoning_content"] == ""


def test_fireworks_effort_wins_over_budget() -> None:
    wish = Thinking(effort="low", budget_tokens=4096)
    sent = body("fireworks", reasoning=wish)
    assert (sent["reasoning_effort"], "thinking" in sent) == ("low", False)
    assert left_out("fireworks", reasoning=wish) == {"reasoning.budget_tokens"}


def test_cache_mark_on_text_is_harmless() -> None:
    marked = Text("Hi", metadata={"deepseek": {"cache_control": {"type": "ephemeral"}}})
    assert body("deepseek", messages=(Message.user(marked),))["messages"][0]["content"] == "Hi"


def test_moonshot_schemas_are_narrowed() -> None:
    tool = ToolSpec("f", "", {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}})
    request = Request(model="kimi-k2.6", messages=(Message.user("Hi"),), tools=(tool,))
    encoded = find_provider("moonshot").dialect.encode(request, provider="moonshot")
    parameters = encoded.http.json()["tools"][0]["function"]["parameters"]
    assert parameters["properties"]["n"] == {"type": "integer", "description": '{"minimum":1}'}
    assert len(encoded.warnings) == 1


@pytest.mark.parametrize(
    ("name", "wanted", "sent"),
    [
        ("minimax", 0, 0.01),
        ("minimax", 1.5, 1),
        ("zai", 1.5, 1),
        ("openai", 1.5, 1.5),
        ("openai", 3, 2),
        ("vllm", 0, 0),
    ],
)
def test_refused_temperature_becomes_nearest(name: str, wanted: float, sent: float) -> None:
    settings = Settings(temperature=wanted)
    request = Request(model="some-model", messages=(Message.user("Hi"),), settings=settings)
    encoded = find_provider(name).dialect.encode(request, provider=name)
    assert encoded.http.json()["temperature"] == sent
    assert bool(encoded.warnings) is (sent != wanted)


@pytest.mark.parametrize(("name", "most"), [("openai", 4), ("zai", 1), ("deepseek", 16), ("together", 20)])
def test_stops_are_cut_to_the_vendors_limit(name: str, most: int) -> None:
    settings = Settings(stop=tuple(f"stop {place}" for place in range(20)))
    request = Request(model="some-model", messages=(Message.user("Hi"),), settings=settings)
    encoded = find_provider(name).dialect.encode(request, provider=name)
    assert len(encoded.http.json()["stop"]) == most
    assert bool(encoded.warnings) is (most < 20)


def test_results_stand_in_call_order() -> None:
    calls = [ToolCall(id=name, name="search", arguments="{}") for name in "abc"]
    messages = (
        Message.user("Hi"),
        Message.assistant(*calls),
        Message.tool([ToolResult(tool_call_id="c", content="3"), ToolResult(tool_call_id="a", content="1")]),
        Message.tool([ToolResult(tool_call_id="b", content="2")]),
        Message.user("And?"),
    )
    sent = body("xai", messages=messages)["messages"]
    assert [message["content"] for message in sent[2:]] == ["1", "2", "3", "And?"]
