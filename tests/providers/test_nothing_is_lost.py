"""Whatever a request asks for is in the body, or a warning names it: every feature by every provider.

A feature is asked for with a value that stands nowhere else, so that the body shows it. What the body
does not show has to be named in a warning that the plain request has not. Files may be refused, in
words that say what to do; nothing else may.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pytest

from llmstream.chats.content import Audio, Custom, Document, File, Image, Part, Text, ToolCall, ToolResult
from llmstream.chats.content import Reasoning as Thought
from llmstream.chats.message import Message
from llmstream.errors import CallerError
from llmstream.events import OtherWarning, UnsupportedSetting, UnsupportedTool, Warning
from llmstream.providers.base import Provider
from llmstream.providers.registry import all_providers, find_provider
from llmstream.request import (
    NamedTool,
    ProviderTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    Settings,
    ToolSpec,
)
from llmstream.server_side.wires import server_side
from tests.each import for_each

MODELS: dict[str, tuple[str, ...]] = {
    "anthropic": (
        "claude-3-5-sonnet-20241022",
        "claude-3-7-sonnet-20250219",
        "claude-sonnet-4-5",
        "claude-opus-4-7",
    ),
    "azure": ("gpt-4.1", "gpt-5", "mistral-large-2411", "deepseek-v3.2"),
    "bedrock": (
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "anthropic.claude-3-5-sonnet-20241022-v2:0",
        "amazon.nova-pro-v1:0",
        "us.amazon.nova-2-lite-v1:0",
        "meta.llama3-3-70b-instruct-v1:0",
        "mistral.mistral-large-2407-v1:0",
        "cohere.command-r-plus-v1:0",
        "openai.gpt-oss-120b-1:0",
    ),
    "baseten": ("moonshotai/Kimi-K2.6", "deepseek-ai/DeepSeek-V4-Pro", "openai/gpt-oss-120b"),
    "bedrock-invoke": ("anthropic.claude-sonnet-4-5-20250929-v1:0",),
    "cerebras": ("gpt-oss-120b", "zai-glm-5.3", "qwen-3.8-27b"),
    "cohere": ("command-a-03-2025", "command-a-reasoning-08-2025"),
    "copilot": ("gpt-4.1", "gpt-5", "claude-sonnet-4.5", "gemini-2.5-pro"),
    "deepseek": ("deepseek-flash", "deepseek-v4-pro"),
    "fireworks": (
        "accounts/fireworks/models/gpt-oss-120b",
        "accounts/fireworks/models/kimi-k3",
        "accounts/fireworks/models/minimax-m2p5",
        "accounts/fireworks/models/deepseek-v4-pro",
    ),
    "google": (
        "gemini-2.0-flash",
        "gemini-2.5-flash",
        "gemini-2.5-pro",
        "gemini-3-pro-preview",
        "gemma-3-27b-it",
    ),
    "gemini-openai": ("gemini-2.5-flash", "gemini-3.5-flash", "gemini-4-argon"),
    "google-interactions": ("gemini-2.5-flash", "gemini-3-pro-preview"),
    "groq": ("openai/gpt-oss-120b", "qwen/qwen3-32b", "qwen/qwen3.8-27b", "llama-3.3-70b-versatile"),
    "minimax": ("MiniMax-M2.5", "MiniMax-M3"),
    "mistral": ("mistral-large-latest", "magistral-medium-latest"),
    "moonshot": ("kimi-k2-0905-preview", "kimi-k2-thinking", "kimi-k2.6", "kimi-k3"),
    "nvidia": ("nvidia/nemotron-3-super-120b-a12b", "deepseek-ai/deepseek-v4-pro", "meta/llama-3.3-70b"),
    "openai": ("gpt-4.1", "gpt-5", "gpt-5.1", "o3"),
    "openai-responses": ("gpt-4.1", "gpt-5", "gpt-5.1"),
    "perplexity": ("perplexity/sonar",),
    "qwen": ("qwen3.8-max", "qwen-plus", "qwq-plus"),
    "sambanova": ("gpt-oss-120b", "DeepSeek-V3.1", "Llama-4-Maverick-17B"),
    "together": (
        "openai/gpt-oss-120b",
        "deepseek-ai/DeepSeek-V4-Pro",
        "moonshotai/Kimi-K2.6",
        "MiniMaxAI/MiniMax-M2.7",
    ),
    "vertex": ("gemini-2.5-flash", "gemini-3-pro-preview"),
    "vertex-anthropic": ("claude-sonnet-4-5@20250929",),
    "bedrock-messages": ("anthropic.claude-sonnet-4-5",),
    "bedrock-openai": ("openai.gpt-oss-120b-1:0", "openai.gpt-5.6-luna", "xai.grok-4.7"),
    "bedrock-responses": ("openai.gpt-5.6-luna",),
    "chutes": ("Qwen/Qwen3-32B", "zai-org/GLM-5.2-TEE"),
    "copilot-anthropic": ("claude-sonnet-4.5",),
    "copilot-responses": ("gpt-5.3-codex", "grok-code-fast-1"),
    "databricks": ("databricks-gpt-oss-120b", "databricks-claude-sonnet-4-5"),
    "foundry-anthropic": ("claude-sonnet-4-5", "my-deployment"),
    "friendli": ("zai-org/GLM-5.2", "zai-org/GLM-5.3", "meta-llama/Llama-3.3-70B-Instruct"),
    "novita": ("deepseek/deepseek-v3.1", "openai/gpt-oss-120b", "zai-org/glm-5.3"),
    "ovhcloud": ("gpt-oss-120b", "Qwen3-32B"),
    "scaleway": ("gpt-oss-120b", "qwen3.5-397b-a17b"),
    "siliconflow": ("Qwen/Qwen3-32B", "deepseek-ai/DeepSeek-R1"),
    "snowflake": ("claude-sonnet-4-6", "openai-gpt-5.6-luna", "llama3.3-70b"),
    "stepfun": ("step-3.7-flash", "step-3.5-flash-2603"),
    "tencent": ("deepseek-v4-pro", "minimax-m3"),
    "volcengine": ("doubao-seed-2-1-pro-260915", "deepseek-v3-2-251201"),
    "wandb": ("zai-org/GLM-5.2", "moonshotai/Kimi-K2.5", "openai/gpt-oss-120b"),
    "vllm": ("my-model", "Qwen/Qwen3-8B", "openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V4-Flash"),
    "xai": (
        "grok-4.3",
        "grok-4.7",
        "grok-3",
        "grok-3-mini",
        "grok-4",
        "grok-4-1-fast-reasoning",
        "grok-4-1-fast-non-reasoning",
    ),
    "xai-responses": ("grok-4.3", "grok-4.7", "grok-4.20-reasoning"),
    "zai": ("glm-4.7", "glm-5.2", "glm-5.3"),
}
"""Models of which a vendor says different things; elsewhere one name stands for all."""

TARGETS = [
    (provider.name, model)
    for provider in all_providers()
    if not provider.name.startswith("sim")
    for model in MODELS.get(provider.name, ("some-model",))
]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(9))
PDF = b"%PDF-1.7\n%needle\n%%EOF"
WAV = b"RIFF\x10\x00\x00\x00WAVEfmt needle"
FILES: dict[str, tuple[type[Image] | type[Document] | type[Audio], str, bytes]] = {
    "image": (Image, "image/png", PNG),
    "pdf": (Document, "application/pdf", PDF),
    "audio": (Audio, "audio/wav", WAV),
    "text-file": (Document, "text/plain", b"needle in a text"),
}
SCHEMA = {
    "type": "object",
    "properties": {"needle": {"type": "string", "description": "of haystacks"}},
    "required": ["needle"],
    "additionalProperties": False,
}
LOOK = ToolSpec("look", "Looks it up.", SCHEMA)
OTHER = ToolSpec("other", "Does nothing.", {"type": "object", "properties": {}})


class Sent(msgspec.Struct, frozen=True):
    """What became of a request."""

    body: dict[str, Any]
    warnings: list[Warning]

    @property
    def text(self) -> str:
        """The body with nothing escaped, and the texts in it that are JSON themselves."""
        return json.dumps(self.body, ensure_ascii=False)

    def leaves(self) -> list[Any]:
        return list(_leaves(self.body))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value


def send(name: str, model: str, *messages: Message, **fields: Any) -> Sent:
    provider = find_provider(name)
    request = Request(model=model, messages=messages or (Message.user("Hi."),), **fields)
    encoded = provider.dialect.encode(request, provider=name)
    server_side(provider.dialect).decode_request(encoded.http)  # raises what the vendor would refuse it with
    return Sent(encoded.http.json(), encoded.warnings)


def named(sent: Sent, plain: Sent, *words: str) -> bool:
    """Whether a warning that the plain request has not says one of the words."""
    new = [warning for warning in sent.warnings if warning not in plain.warnings]
    said = " ".join(_words(warning) for warning in new).lower()
    return any(word.lower() in said for word in words)


def _words(warning: Warning) -> str:
    if isinstance(warning, UnsupportedSetting):
        return f"{warning.setting} {warning.details or ''}"
    if isinstance(warning, UnsupportedTool):
        return f"{warning.tool} {warning.details or ''}"
    return warning.message


def by_every_target(**values: Iterable[str]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Makes one test over each provider's models and the values; failures name their cases in a note.

    A test for each case, 8,600 of them, would cost ten times what is tested here.
    """

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        def of_provider(name: str) -> None:
            models = [model for provider, model in TARGETS if provider == name]
            for model, *chosen in itertools.product(models, *values.values()):
                case = dict(zip(values, chosen, strict=True))
                try:
                    check(name, model, **case)
                except Exception as error:
                    error.add_note(f"model {model}, {case}")
                    raise

        of_provider.__name__, of_provider.__doc__ = check.__name__, check.__doc__
        return for_each(*dict.fromkeys(name for name, _ in TARGETS))(of_provider)

    return decorate


# Settings

SETTINGS: dict[str, Any] = {
    "temperature": 0.375,
    "top_p": 0.96875,
    "top_k": 37,
    "max_output_tokens": 34567,
    "stop": ("STOPHERE",),
    "seed": 424243,
    "presence_penalty": 0.4375,
    "frequency_penalty": 0.3125,
}


@by_every_target(setting=SETTINGS)
def test_a_setting_is_sent_or_named(name: str, model: str, setting: str) -> None:
    value = SETTINGS[setting]
    plain, sent = send(name, model), send(name, model, settings=Settings(**{setting: value}))
    leaf = value[0] if isinstance(value, tuple) else value
    assert leaf in sent.leaves() or named(sent, plain, setting), sent


@by_every_target()
def test_parallel_calls_sent_or_warned_of(name: str, model: str) -> None:
    plain = send(name, model, tools=(LOOK,))
    if named(plain, send(name, model), "look"):
        return  # no tools at all
    for wanted in (True, False):
        sent = send(name, model, tools=(LOOK,), settings=Settings(parallel_tool_calls=wanted))
        default = wanted and sent.body == plain.body  # several calls are what every vendor does unasked
        assert sent.body != plain.body or default or named(sent, plain, "parallel_tool_calls"), sent


# Reasoning

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


@by_every_target()
def test_every_effort_is_sent_or_warned_of(name: str, model: str) -> None:
    plain = send(name, model)
    seen: list[tuple[str, Sent]] = []
    for effort in EFFORTS:
        sent = send(name, model, reasoning=ReasoningOptions(effort=effort))  # type: ignore[arg-type]
        told = named(sent, plain, "reasoning", "effort", "thinking")
        off = effort == "none" and sent.body == plain.body  # a model that does not think
        assert sent.body != plain.body or told or off, (effort, sent)
        for other, before in seen:
            most = (other, effort) == ("high", "max") and "gemini-2.5-flash" in model  # the largest budget
            same = before.body == sent.body and not (told or named(before, plain, "reasoning", "effort"))
            assert not same or most, (other, effort)
        seen.append((effort, sent))


@by_every_target()
def test_a_budget_is_sent_or_named(name: str, model: str) -> None:
    plain = send(name, model)
    for effort in (None, "high"):
        sent = send(name, model, reasoning=ReasoningOptions(effort=effort, budget_tokens=4321))
        assert 4321 in sent.leaves() or named(sent, plain, "budget", "reasoning"), sent
        if effort is not None:
            other = send(name, model, reasoning=ReasoningOptions(budget_tokens=4321))
            assert other.body != sent.body or named(sent, plain, "effort", "reasoning"), sent


# Tools


@by_every_target()
def test_a_tool_is_sent_whole_or_named(name: str, model: str) -> None:
    plain, sent = send(name, model), send(name, model, tools=(LOOK,))
    if not named(sent, plain, "look"):
        assert "look" in sent.leaves()
        assert "Looks it up." in sent.leaves()
        assert "haystacks" in sent.text


@by_every_target()
def test_strict_tool_is_sent_or_warned_of(name: str, model: str) -> None:
    plain = send(name, model, tools=(LOOK,))
    if named(plain, send(name, model), "look"):
        return  # no tools at all
    strict = msgspec.structs.replace(LOOK, strict=True)
    sent = send(name, model, tools=(strict,))
    assert sent.body != plain.body or named(sent, plain, "strict"), sent


@by_every_target()
def test_a_tool_of_another_vendor_is_named(name: str, model: str) -> None:
    plain = send(name, model)
    sent = send(name, model, tools=(ProviderTool("hosted_needle", "hosted_needle", {"value": 424243}),))
    assert "needle" in sent.text.lower() or named(sent, plain, "hosted_needle"), sent


CHOICES: dict[str, Any] = {"auto": "auto", "none": "none", "required": "required", "named": NamedTool("look")}


@by_every_target()
def test_tool_choices_differ_or_are_warned(name: str, model: str) -> None:
    tools = (LOOK, OTHER)
    plain = send(name, model, tools=tools)
    if named(plain, send(name, model), "look"):
        return  # no tools at all
    sent = {choice: send(name, model, tools=tools, tool_choice=value) for choice, value in CHOICES.items()}
    assert sent["auto"].body == plain.body or "auto" in json.dumps(sent["auto"].body).lower()
    for choice in ("none", "required", "named"):
        told = named(sent[choice], plain, "tool_choice")
        for other in {*CHOICES} - {choice}:
            assert sent[choice].body != sent[other].body or told or named(sent[other], plain, "tool_choice")
        assert sent[choice].body != plain.body or told


@by_every_target()
def test_forced_tool_in_thinking_is_sent(name: str, model: str) -> None:
    """Or it is named in a warning."""
    fields: dict[str, Any] = {"tools": (LOOK, OTHER), "reasoning": ReasoningOptions(effort="high")}
    plain = send(name, model, **fields)
    if named(plain, send(name, model), "look"):
        return
    sent = send(name, model, tool_choice="required", **fields)
    assert sent.body != plain.body or named(sent, plain, "tool_choice"), sent


# Answers in JSON


@by_every_target()
def test_schema_is_sent_or_warned_of(name: str, model: str) -> None:
    plain, sent = send(name, model), send(name, model, response_format=ResponseFormat(SCHEMA))
    assert "needle" in sent.text or named(sent, plain, "output"), sent
    described = ResponseFormat(SCHEMA, description="What was found.")
    sent = send(name, model, response_format=described)
    assert "What was found." in sent.text or named(sent, plain, "output"), sent


@by_every_target()
def test_json_mode_request_mentions_json(name: str, model: str) -> None:
    plain, sent = send(name, model), send(name, model, response_format=ResponseFormat())
    assert sent.body != plain.body or named(sent, plain, "output"), sent
    if "json_object" in sent.leaves():
        said = json.dumps(sent.body.get("messages", sent.body.get("input"))).lower()
        assert "json" in said or name in {"cohere", "mistral", "ollama"}, sent


@by_every_target()
def test_schema_beside_tools_sent_or_named(name: str, model: str) -> None:
    plain = send(name, model, tools=(OTHER,))
    sent = send(name, model, tools=(OTHER,), response_format=ResponseFormat(SCHEMA))
    assert "needle" in sent.text or named(sent, plain, "output"), sent


# Content


@by_every_target(place=["user", "result"], kind=FILES, way=["bytes", "url"])
def test_a_file_is_sent_or_refused_in_words(name: str, model: str, kind: str, way: str, place: str) -> None:
    make, media_type, data = FILES[kind]
    whole = make(data=data, media_type=media_type)
    part = whole if way == "bytes" else make(url="https://example.com/needle.bin", media_type=media_type)
    if way == "url" and not find_provider(name).dialect.accepts_url(part):
        part = whole  # it is downloaded on the way
    try:
        sent = _with_file(name, model, part, place)
    except CallerError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert re.search(r"takes|take |Pass|Send|Extract|Transcribe|Download|Fetch", refusal), refusal
        return
    plain = _with_file(name, model, None, place)
    marks = ["needle"] if part.url else [base64.b64encode(data).decode(), data.decode("latin-1")]
    shown = any(mark in leaf for mark in marks for leaf in sent.leaves() if isinstance(leaf, str))
    assert shown or named(sent, plain, "audio", "document", "image", "file"), sent


def _with_file(name: str, model: str, part: Any, place: str) -> Sent:
    files: tuple[Any, ...] = () if part is None else (part,)
    if place == "user":
        return send(name, model, Message.user("Hi.", *files))
    call, result = (
        ToolCall("call00001", "look", "{}"),
        ToolResult("call00001", "found", name="look", parts=files),
    )
    messages = (Message.user("Hi."), Message.assistant(call), Message.tool([result]))
    return send(name, model, *messages, tools=(LOOK,))


HISTORY: dict[str, tuple[Part, str, tuple[str, ...]]] = {
    "text": (Text("I said needle."), "I said needle.", ()),
    "reasoning": (Thought("I thought needle."), "I thought needle.", ("reasoning", "thought")),
    "call": (ToolCall("call00001", "look", '{"needle":424243}'), "424243", ()),
    "image": (Image(data=PNG, media_type="image/png"), base64.b64encode(PNG).decode(), ("image", "file")),
    "file": (File("image/png", data=PNG), base64.b64encode(PNG).decode(), ("image", "file")),
    "vendors-call": (
        ToolCall("call00009", "search", '{"q":"needle"}', provider_executed=True),
        "{needle}",
        ("search", "call00009", "vendor"),
    ),
    "vendors-part": (
        Custom("elsewhere.note", {"elsewhere": {"a": "needle"}}),
        "{needle}",
        ("elsewhere", "custom"),
    ),
}


@by_every_target(part=HISTORY)
def test_an_answer_goes_back_or_it_is_said(name: str, model: str, part: str) -> None:
    said, mark, words = HISTORY[part]
    parts = [said] if isinstance(said, Text) else [Text("Well."), said]
    messages = [Message.user("Hi."), Message.assistant(*parts)]
    if isinstance(said, ToolCall) and not said.provider_executed:
        messages.append(Message.tool([ToolResult(said.id, "found needles", name="look")]))
    try:
        sent = send(name, model, *messages, Message.user("And?"), tools=(LOOK,))
    except CallerError as refused:
        sent = Sent({}, [OtherWarning(str(refused))])
    plain = send(name, model, tools=(LOOK,))
    assert mark in sent.text or (words and named(sent, plain, *words)), sent
    if part == "call":
        assert "found needles" in sent.text


@by_every_target()
def test_what_a_tool_gave_as_a_value_is_sent(name: str, model: str) -> None:
    result = ToolResult("call00001", name="look", result={"found": "needles"})
    messages = (Message.user("Hi."), Message.assistant(ToolCall("call00001", "look", "{}")))
    assert "needles" in send(name, model, *messages, Message.tool([result]), tools=(LOOK,)).text


@by_every_target()
def test_a_tool_that_failed_did_not_succeed(name: str, model: str) -> None:
    def told(failed: bool) -> Sent:
        result = ToolResult("call00001", "no such city", is_error=failed, name="look")
        messages = (Message.user("Hi."), Message.assistant(ToolCall("call00001", "look", "{}")))
        return send(name, model, *messages, Message.tool([result]), tools=(LOOK,))

    failed, fine = told(True), told(False)
    assert "no such city" in failed.text
    assert failed.body != fine.body or named(failed, fine, "error", "failed"), failed


@by_every_target(at=["first", "later"])
def test_a_system_message_is_sent(name: str, model: str, at: str) -> None:
    system, rest = Message.system("Say needle."), [Message.user("Hi."), Message.assistant("Yes?")]
    messages = [system, *rest] if at == "first" else [*rest, system]
    assert "Say needle." in send(name, model, *messages, Message.user("Go on.")).text


@by_every_target()
def test_a_developers_message_is_sent(name: str, model: str) -> None:
    developer = Message.new_text("", "developer", "Say needle.")
    assert "Say needle." in send(name, model, developer, Message.user("Hi.")).text


CACHED = {
    "anthropic": "anthropic", "vertex-anthropic": "anthropic", "bedrock-invoke": "anthropic",
    "openrouter": "openrouter", "qwen": "qwen", "deepseek": "deepseek",
}  # fmt: skip


@pytest.mark.parametrize("name", CACHED)
def test_cache_mark_is_sent_or_warned_of(name: str) -> None:
    model, own = (
        MODELS.get(name, ("some-model",))[-1],
        {CACHED[name]: {"cache_control": {"type": "ephemeral"}}},
    )
    marked = [
        Message.new("", "system", Text("Be brief.", metadata=own)),
        Message.user(Text("Hi.", metadata=own)),
    ]
    plain = [Message.system("Be brief."), Message.user("Hi.")]
    sent = send(name, model, *marked)
    assert sent.text.count("ephemeral") == 2 or named(sent, send(name, model, *plain), "cache"), sent


@pytest.mark.parametrize("name", [*CACHED, "bedrock"])
def test_excess_cache_marks_are_warned_of(name: str) -> None:
    model = MODELS.get(name, ("some-model",))[0 if name == "bedrock" else -1]
    own = {CACHED.get(name, "anthropic"): {"cache_control": {"type": "ephemeral"}}}
    turns = [
        Message.new_text("", "user" if place % 2 == 0 else "assistant", f"Text {place}.")
        for place in range(9)
    ]
    for turn in turns[:6]:
        turn.parts = (Text(turn.text, metadata=own),)
    plain, sent = send(name, model, *turns[6:]), send(name, model, *turns)
    marks = sent.text.count('"ephemeral"') + sent.text.count('"cachePoint"')
    assert (marks == 4 and named(sent, plain, "cache")) or (marks == 0 and named(sent, plain, "cache")), sent
    if marks:
        body = json.dumps(sent.body.get("messages"))
        assert body.index("Text 1.") < min(body.find("ephemeral") % 10**9, body.find("cachePoint") % 10**9)


def test_every_provider_is_asked() -> None:
    assert {provider.name for provider in all_providers()} >= MODELS.keys()
    assert all(isinstance(find_provider(name), Provider) for name, _ in TARGETS)
