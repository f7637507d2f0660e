"""Requests of every kind, and their bodies in one form for all wires."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from llmstream.chats.message import Message
from llmstream.errors import LLMStreamError
from llmstream.providers.registry import find_provider
from llmstream.request import (
    NamedTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    Settings,
    ToolChoice,
    ToolSpec,
)
from llmstream.structured import in_mode

__all__ = ["EFFORTS", "Sent", "Wanted", "combinations", "sent"]

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_SCHEMA = {
    "type": "object",
    "properties": {"q": {"type": "string"}},
    "required": ["q"],
    "additionalProperties": False,
}
_TOOL = ToolSpec("look", "Looks it up.", _SCHEMA)
_SAMPLING = Settings(temperature=0.5, top_p=0.96, top_k=7, stop=("END",), presence_penalty=0.5)
_MESSAGES = (Message.user("Hi."),)


class Wanted(NamedTuple):
    """What is asked of one model of one provider.

    effort: None leaves it to the vendor
    tools:  "" for none, "free", "required" or "named"
    """

    provider: str
    model: str
    effort: str | None = None
    tools: str = ""
    schema: bool = False
    sampling: bool = False

    @property
    def forced(self) -> bool:
        """Whether a tool has to be called."""
        return self.tools in ("required", "named")

    def __str__(self) -> str:
        what = {"effort": self.effort, "tools": self.tools, "schema": self.schema, "sampling": self.sampling}
        return " ".join(f"{key}={value}" for key, value in what.items() if value) or "plain"


class Sent(NamedTuple):
    """What was encoded.

    effort:   the vendor's word for how much to think, in lower case
    thinking: the object that switches thinking on and off, or caps it
    tools:    whether functions are sent
    forced:   whether one has to be called
    schema:   whether the answer is held to a schema by the wire's own mode
    settings: names of the settings that are in the body, as llmstream calls them
    warned:   all warnings as one text
    refusal:  why nothing was encoded, or None
    """

    body: Mapping[str, Any] = {}
    effort: str | None = None
    thinking: Mapping[str, Any] = {}
    tools: bool = False
    forced: bool = False
    schema: bool = False
    settings: frozenset[str] = frozenset()
    warned: str = ""
    refusal: str | None = None


def combinations(provider: str, model: str, *, every: bool = True) -> Iterator[Wanted]:
    """Every combination; or without `every` those of effort and tools only, and each of the rest alone."""
    tools = ("", "free", "required", "named")
    for effort, choice in itertools.product((None, *EFFORTS), tools):
        yield Wanted(provider, model, effort, choice)
        if every:
            yield Wanted(provider, model, effort, choice, schema=True)
            yield Wanted(provider, model, effort, choice, sampling=True)
            yield Wanted(provider, model, effort, choice, schema=True, sampling=True)
    if not every:
        yield Wanted(provider, model, schema=True)
        for effort_asked in (None, "none", "high"):
            yield Wanted(provider, model, effort_asked, sampling=True)


def sent(wanted: Wanted) -> Sent:
    """Encodes a request as a call would."""
    dialect = find_provider(wanted.provider).dialect
    choice: ToolChoice | None = {"required": "required", "named": NamedTool("look")}.get(wanted.tools)  # type: ignore[assignment]
    request = Request(
        model=wanted.model,
        messages=_MESSAGES,
        tools=(_TOOL,) if wanted.tools else (),
        tool_choice=choice,
        settings=_SAMPLING if wanted.sampling else Settings(),
        response_format=ResponseFormat(_SCHEMA) if wanted.schema else None,
        reasoning=ReasoningOptions(effort=wanted.effort) if wanted.effort else None,  # type: ignore[arg-type]
    )
    try:
        encoded = dialect.encode(
            in_mode(request, dialect.output_abilities(request)).request, provider=wanted.provider
        )
    except LLMStreamError as error:
        return Sent(refusal=f"{type(error).__name__}: {error}")
    warned = " ".join(map(repr, encoded.warnings))
    return _READERS[dialect.name](encoded.http.json())._replace(warned=warned)


def _settings(where: Mapping[str, Any], names: Mapping[str, str]) -> frozenset[str]:
    return frozenset(ours for theirs, ours in names.items() if theirs in where)


_SNAKE = {name: name for name in ("temperature", "top_p", "top_k", "stop", "presence_penalty")}
_GEMINI = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "stopSequences": "stop",
    "presencePenalty": "presence_penalty",
}


def _chat(body: Mapping[str, Any]) -> Sent:
    choice = body.get("tool_choice")
    return Sent(
        body,
        effort=body.get("reasoning_effort"),
        thinking=body.get("thinking") or {},
        tools=bool(body.get("tools")),
        forced=choice in ("required", "any") or isinstance(choice, dict),
        schema=(body.get("response_format") or {}).get("type") == "json_schema",
        settings=_settings(body, _SNAKE),
    )


def _responses(body: Mapping[str, Any]) -> Sent:
    choice = body.get("tool_choice")
    reasoning = body.get("reasoning") or {}
    return Sent(
        body,
        effort=reasoning.get("effort"),
        thinking=reasoning,
        tools=bool(body.get("tools")),
        forced=choice == "required" or isinstance(choice, dict),
        schema=((body.get("text") or {}).get("format") or {}).get("type") == "json_schema",
        settings=_settings(body, _SNAKE),
    )


def _anthropic(body: Mapping[str, Any]) -> Sent:
    output = body.get("output_config") or {}
    return Sent(
        body,
        effort=output.get("effort"),
        thinking=body.get("thinking") or {},
        tools=bool(body.get("tools")),
        forced=(body.get("tool_choice") or {}).get("type") in ("any", "tool"),
        schema="format" in output,
        settings=_settings(body, _SNAKE | {"stop_sequences": "stop"}),
    )


def _converse(body: Mapping[str, Any]) -> Sent:
    more, output = body.get("additionalModelRequestFields") or {}, body.get("outputConfig") or {}
    tools = body.get("toolConfig") or {}
    inference = body.get("inferenceConfig") or {}
    return Sent(
        body,
        effort=output.get("effort") or (more.get("output_config") or {}).get("effort"),
        thinking=more.get("thinking") or {},
        tools=bool(tools.get("tools")),
        forced=bool({"any", "tool"} & set(tools.get("toolChoice") or {})),
        schema="textFormat" in output,
        settings=_settings(inference, _GEMINI) | _settings(more, _SNAKE),
    )


def _gemini(body: Mapping[str, Any]) -> Sent:
    config = body.get("generationConfig") or {}
    thinking = config.get("thinkingConfig") or {}
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    level = thinking.get("thinkingLevel")
    return Sent(
        body,
        effort=level and level.lower(),
        thinking=thinking,
        tools=bool(body.get("tools")),
        forced=calling.get("mode") == "ANY",
        schema="responseJsonSchema" in config or "responseSchema" in config,
        settings=_settings(config, _GEMINI),
    )


def _interactions(body: Mapping[str, Any]) -> Sent:
    config = body.get("generation_config") or {}
    return Sent(
        body,
        effort=config.get("thinking_level"),
        thinking={key: value for key, value in config.items() if key.startswith("thinking")},
        tools=bool(body.get("tools")),
        forced=bool(config.get("tool_choice")) and config.get("tool_choice") != "auto",
        schema="response_format" in body,
        settings=_settings(config, _SNAKE | {"stop_sequences": "stop"}),
    )


_READERS = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "bedrock-converse": _converse,
    "gemini": _gemini,
    "gemini-interactions": _interactions,
    "mistral": _chat,
}
