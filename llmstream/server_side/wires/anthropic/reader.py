"""A Messages request as ours: the reverse of `request.py`, checked as the vendor checks it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Custom,
    Document,
    Image,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from llmstream.chats.message import Message
from llmstream.dialects.anthropic.messages import read_media
from llmstream.dialects.anthropic.quirks import Quirks
from llmstream.dialects.anthropic.request import betas_of_tools
from llmstream.dialects.anthropic.wire import KEY, TOOL_USES
from llmstream.exchange import HttpRequest
from llmstream.model_rules.claude import CLAUDE, ClaudeRules
from llmstream.request import (
    NamedTool,
    ProviderTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    Settings,
    ToolChoice,
    ToolSpec,
)
from llmstream.server_side.wires.anthropic.checks import (
    Turn,
    check_model,
    check_settings,
    check_tools,
    check_turns,
    refusal,
    shape_refusal,
)
from llmstream.server_side.wires.request_reader import read_function, user_turn

__all__ = ["decode_request"]


# The turns of a Messages request as our messages: the reverse of the dialect's `messages.py`.


def read_system(system: str | list[dict[str, Any]] | None) -> list[Message]:
    """Reads the system prompt as one message, with a part for each block."""
    if not system:
        return []
    if isinstance(system, str):
        return [Message.system(system)]
    parts = []
    for number, block in enumerate(system):
        if not isinstance(block.get("text"), str):
            raise refusal(f"system.{number}.text: Field required")
        parts.append(Text(block["text"], _rest(block, "type", "text")))
    return [Message("", Message.system("").role, tuple(parts))]


class TurnReader:
    """Reads turns that have been checked; results get the names of their calls."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def read(self, turns: list[Turn]) -> list[Message]:
        """Returns our messages; a user's turn with tool results becomes a tool message and the rest."""
        out: list[Message] = []
        for turn in turns:
            # The checks accept an empty text only as an empty prefill.
            parts = [self._part(block) for block in turn.blocks if block.get("text") != ""]
            if turn.role == "assistant":
                out.append(Message.assistant(*parts))
                continue
            if turn.role == "system":
                out.append(Message("", Message.system("").role, tuple(parts)))
                continue
            out += user_turn(parts)
        return out

    def _part(self, block: dict[str, Any]) -> Part:
        kind = block["type"]
        if kind == "text":
            return Text(block["text"], _rest(block, "type", "text"))
        if kind == "thinking":
            return Reasoning(block["thinking"], {KEY: {"signature": block["signature"]}})
        if kind == "redacted_thinking":
            return Reasoning("", {KEY: {"redacted_data": block.get("data")}})
        if kind in TOOL_USES:
            return self._call(kind, block)
        if kind == "tool_result":
            return self._result(block)
        if kind.endswith("_tool_result"):
            return self._vendor_result(kind, block)
        part = read_media(block) if kind in ("image", "document") else None
        return part or Custom(f"{KEY}.{kind}", {KEY: block})

    def _call(self, kind: str, block: dict[str, Any]) -> ToolCall:
        self._names[block["id"]] = block["name"]
        # The type of the vendor's own call is sent back with it, because there are two types.
        own = ("type", "id", "name", "input") if kind == "tool_use" else ("id", "name", "input")
        arguments = msgspec.json.encode(block["input"]).decode()
        by_vendor = kind != "tool_use"
        return ToolCall(block["id"], block["name"], arguments, by_vendor, _rest(block, *own))

    def _result(self, block: dict[str, Any]) -> ToolResult:
        call_id = block["tool_use_id"]
        content = block.get("content")
        texts: list[str] = []
        parts: list[Image | Document] = []
        for piece in content if isinstance(content, list) else ():
            media = read_media(piece) if isinstance(piece, dict) else None
            if media is not None:
                parts.append(media)
            elif isinstance(piece, dict) and isinstance(piece.get("text"), str):
                texts.append(piece["text"])
            else:
                texts.append(msgspec.json.encode(piece).decode())
        return ToolResult(
            call_id,
            content if isinstance(content, str) else "\n".join(texts),
            block.get("is_error") is True,
            self._names.get(call_id, ""),
            tuple(parts),
            metadata=_rest(block, "type", "tool_use_id", "content", "is_error"),
        )

    def _vendor_result(self, kind: str, block: dict[str, Any]) -> ToolResult:
        call_id, content = block["tool_use_id"], block.get("content")
        # The vendor's tools fail with a type, such as `web_search_tool_result_error`, and no `is_error`.
        failed = isinstance(content, dict) and str(content.get("type")).endswith("_error")
        return ToolResult(
            call_id,
            content if isinstance(content, str) else msgspec.json.encode(content).decode(),
            block.get("is_error") is True or failed,
            self._names.get(call_id) or kind.removesuffix("_tool_result"),
            result=content,
            provider_executed=True,
            metadata=_rest(block, "tool_use_id", "content", "is_error"),
        )


def _rest(block: dict[str, Any], *own: str) -> Metadata | None:
    """Returns fields of the vendor's block without a place in our part."""
    rest = {key: value for key, value in block.items() if key not in own}
    return {KEY: rest} if rest else None


_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
# All fields that our ToolSpec has.
_TOOL_FIELDS: Final = frozenset({"type", "name", "description", "input_schema", "strict"})


class _Body(msgspec.Struct):
    messages: list[Turn]
    max_tokens: int
    model: str | None = None
    system: str | list[dict[str, Any]] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    output_format: dict[str, Any] | None = None
    stream: bool | None = None
    anthropic_version: str | None = None
    anthropic_beta: list[str] | None = None


_decode = msgspec.json.Decoder(_Body).decode
_decode_any = msgspec.json.Decoder(dict[str, Any]).decode
# The others go to `provider_options`.
_OWN: Final = frozenset(_Body.__struct_fields__)


def decode_request(http: HttpRequest, *, quirks: Quirks) -> Request:
    """Reads a client's request; other fields go to `provider_options`.

    raises: BadRequest with the vendor's message
    """
    try:
        # Decoded twice: known fields are checked by type, the rest is passed on unchanged.
        rest = _decode_any(http.body)
        body = _decode(http.body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise shape_refusal(error) from None
    model = (quirks.model_of(http.url) if quirks.model_in_path else body.model) or ""
    if not model:
        raise refusal("model: Field required")
    tools, choice = body.tools or [], body.tool_choice
    check_turns(body.messages, model)
    check_tools(tools, choice)
    forced = choice is not None and choice.get("type") in ("any", "tool")
    check_settings(rest, body.max_tokens, forced)
    version = next((v for k, v in http.headers.items() if k.lower() == "anthropic-version"), quirks.version)
    check_model(rest, model, body.anthropic_version or version, forced=forced)
    options = {name: value for name, value in rest.items() if name not in _OWN and value is not None}
    request = Request(
        model=model,
        messages=(*read_system(body.system), *TurnReader().read(body.messages)),
        tools=tuple(_tool(tool) for tool in tools),
        tool_choice=_choice(choice),
        settings=_settings(body),
        response_format=_format(body.output_config) or _format({"format": body.output_format}),
        reasoning=_reasoning(body),
    )
    options |= _leftovers(body, CLAUDE.find(model))
    # Encoding adds those again.
    betas = [beta for beta in _betas(http, body) if beta not in betas_of_tools(request)]
    if betas:
        options["betas"] = betas
    return msgspec.structs.replace(request, provider_options={KEY: options} if options else {})


def _settings(body: _Body) -> Settings:
    barred = (body.tool_choice or {}).get("disable_parallel_tool_use")
    return Settings(
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k,
        max_output_tokens=body.max_tokens,
        stop=tuple(body.stop_sequences or ()),
        parallel_tool_calls=None if barred is None else not barred,
    )


def _tool(tool: dict[str, Any]) -> ToolSpec | ProviderTool:
    kind = tool.get("type")
    if kind in (None, "custom"):
        description = tool.get("description")
        strict = tool.get("strict")
        return read_function(tool["name"], description, tool["input_schema"], strict)
    name = tool.get("name")
    options = {key: value for key, value in tool.items() if key not in ("type", "name")}
    return ProviderTool(str(kind), name if isinstance(name, str) else "", options)


def _choice(choice: dict[str, Any] | None) -> ToolChoice | None:
    match choice:
        case {"type": "any"}:
            return "required"
        case {"type": "none"}:
            return "none"
        case {"type": "tool", "name": str(name)}:
            return NamedTool(name)
        case None:
            return None
    return "auto"


def _format(output: dict[str, Any] | None) -> ResponseFormat | None:
    """Reads the schema; `output_format` at the top is the beta of 2025, which litellm 1.106 still sends."""
    match output:
        case {"format": {"type": "json_schema", "schema": dict(schema)}}:
            return ResponseFormat(schema)
    return None


def _reasoning(body: _Body) -> ReasoningOptions | None:
    thinking = body.thinking or {}
    effort = (body.output_config or {}).get("effort")
    known = effort if effort in _EFFORTS else None
    match thinking.get("type"):
        case "enabled":
            return ReasoningOptions(effort=known, budget_tokens=thinking["budget_tokens"])
        case "adaptive" if known:
            return ReasoningOptions(effort=known)
        case "disabled" | "between_tools":
            return ReasoningOptions(effort="none")
    return None


def _leftovers(body: _Body, rules: ClaudeRules) -> dict[str, Any]:
    """Returns fields that our settings do not restore when the request is sent on."""
    out: dict[str, Any] = {}
    reasoning = _reasoning(body)
    thinking = dict(body.thinking or {})
    # Encoding would request a summary where the client left thinking without text.
    hidden = rules.display and "display" not in thinking
    kind = thinking.get("type")
    other = (hidden and kind in ("enabled", "adaptive")) or (kind == "between_tools" != rules.off)
    if reasoning is not None and not other:
        thinking = {k: v for k, v in thinking.items() if k not in ("type", "budget_tokens")}
    if thinking:
        out["thinking"] = thinking
    output = dict(body.output_config or {})
    if reasoning is not None and reasoning.effort == output.get("effort"):
        output.pop("effort", None)
    if _format(body.output_config) is not None:
        del output["format"]
    if output:
        out["output_config"] = output
    # Fields such as `cache_control`, which our ToolSpec does not have.
    if any(t.get("type") in (None, "custom") and not _TOOL_FIELDS.issuperset(t) for t in body.tools or ()):
        out["tools"] = body.tools
    return out


def _betas(http: HttpRequest, body: _Body) -> list[str]:
    header = next((v for k, v in http.headers.items() if k.lower() == "anthropic-beta"), "")
    return [beta.strip() for beta in header.split(",") if beta.strip()] + (body.anthropic_beta or [])
