"""A Messages request as ours: the reverse of `request.py`, checked as the vendor checks it.

source: "Errors" and the Messages reference in Anthropic's documents, and responses seen on the wire
"""

from __future__ import annotations

import re
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
from llmstream.errors import BadRequest
from llmstream.exchange import HttpRequest
from llmstream.model_rules.claude import CLAUDE, NO_SAMPLING_SINCE, ClaudeRules
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
from llmstream.server_side.wires import read_function, user_turn
from llmstream.server_side.wires.errors import claude_refusal

__all__ = ["decode_request"]


# Checks.

# source: platform.claude.com, "Prompt caching": up to 4 breakpoints
_MAX_CACHED_BLOCKS: Final = 4
# Patterns of msgspec's messages, which name the place at the end.
_AT: Final = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(.+)`")
# The date in `2023-06-01`, and in the body's `bedrock-2023-05-31` at a cloud.
_VERSION_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")

# Names of msgspec, in the phrases of the vendor's errors.
_PLAIN_TYPES: Final = {
    "str": "valid string",
    "int": "valid integer",
    "float": "valid number",
    "array": "valid list",
    "object": "valid dictionary",
    "bool": "valid boolean",
}


class Turn(msgspec.Struct):
    """One message as the body has it."""

    role: str
    content: str | list[dict[str, Any]]

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """Its blocks; a plain string is one text block."""
        if isinstance(self.content, str):
            return [{"type": "text", "text": self.content}]
        return self.content


def refusal(message: str) -> BadRequest:
    """Returns the error of a request that the vendor rejects."""
    return BadRequest(message, provider="anthropic", status=400, reason="invalid_request_error")


def _no_threads() -> BadRequest:
    """The error after which the tool runners of anthropic 2.12 send the complete conversation."""
    message = "thread: message threads are not served here. Send the complete conversation in messages."
    return BadRequest(message, provider="anthropic", status=400, reason="thread_unsupported_request")


def shape_refusal(error: Exception) -> BadRequest:
    """A decoding error as the vendor's message, such as `max_tokens: Field required`."""
    match = _AT.match(str(error))
    what, path = (match["what"], match["path"] or "") if match else (str(error), "")
    # msgspec has messages[0], or messages[...] for any of them; the vendor messages.0.
    path = re.sub(r"\[(\d+|\.\.\.)\]", r".\1", path).strip(".")
    missing = _MISSING.match(what)
    if missing:
        return refusal(f"{path}.{missing[1]}: Field required".lstrip("."))
    expected = re.match(r"Expected `([a-z]+)", what)
    if expected and path:
        kind = _PLAIN_TYPES.get(expected[1], expected[1])
        return refusal(f"{path}: Input should be a {kind}")
    return refusal(f"{path}: {what}" if path else f"The request body is not valid JSON: {what}")


def check_turns(turns: list[Turn], model: str) -> None:
    """Checks roles, contents, and that every call has its result.

    raises: BadRequest
    """
    rules = CLAUDE.find(model)
    # Newer models appear before their rules are known, so nothing is refused for an unknown one.
    are_allowed = rules is CLAUDE.unknown or rules.system_turns != "refused"
    if not are_allowed and any(turn.role == "system" for turn in turns):
        raise refusal("messages: role 'system' is not supported on this model")
    if not turns:
        raise refusal("messages: at least one message is required")
    for number, turn in enumerate(turns):
        _check_role(number, turn)
        _check_content(number, turn, last=number == len(turns) - 1)
    _check_calls(_merged(turns))


def check_settings(body: dict[str, Any], max_tokens: int, forced: bool) -> None:
    """Checks limits of numbers, and settings that thinking excludes.

    forced: the tool choice leaves the model none
    raises: BadRequest
    """
    # With 0 the prompt is cached, and the response is empty.
    if max_tokens < 0:
        raise refusal("max_tokens: Input should be greater than or equal to 0")
    temperature = body.get("temperature")
    if temperature is not None and not 0 <= temperature <= 1:
        raise refusal("temperature: range: 0..1")
    thinking = body.get("thinking") or {}
    kind = thinking.get("type")
    if kind not in (None, "enabled", "adaptive", "disabled", "between_tools"):
        raise refusal(
            f"thinking: Input tag '{kind}' found using 'type' does not match any of the expected tags: "
            "'disabled', 'enabled', 'adaptive', 'between_tools'"
        )
    if kind == "enabled":
        _check_budget(thinking.get("budget_tokens"), max_tokens)
    if kind in ("enabled", "adaptive"):
        # source: platform.claude.com, "Extended thinking", feature compatibility; so for `top_k` and forced
        # tools
        if temperature not in (None, 1):
            raise refusal("`temperature` may only be set to 1 when thinking is enabled.")
        if body.get("top_k") is not None:
            raise refusal("`top_k` must be unset when thinking is enabled.")
        if forced:
            raise refusal("Thinking may not be enabled when tool_choice forces tool use.")


def check_model(body: dict[str, Any], model: str, version: str, *, forced: bool) -> None:
    """Rejects what the model, or the version of the API, does not support.

    raises: BadRequest
    """
    if body.get("thread") is not None:
        raise _no_threads()
    sampling = [name for name in ("temperature", "top_p", "top_k") if body.get(name) is not None]
    date = _VERSION_DATE.search(version)
    if sampling and date is not None and date[0] >= NO_SAMPLING_SINCE:
        raise refusal(f"{sampling[0]}: Extra inputs are not permitted")
    output = body.get("output_config")
    effort = output.get("effort") if isinstance(output, dict) else None
    thinking = body.get("thinking") or {}
    message = claude_refusal(model, thinking=thinking, effort=effort, forced=forced, sampling=sampling)
    if message is not None:
        raise refusal(message)


def check_tools(tools: list[dict[str, Any]], choice: dict[str, Any] | None) -> None:
    """Checks names and schemas of the tools, and that a choice has tools.

    raises: BadRequest
    """
    names = []
    for number, tool in enumerate(tools):
        # Tools of the vendor have names and schemas of their own.
        if tool.get("type") not in (None, "custom"):
            continue
        if not isinstance(tool.get("name"), str):
            raise refusal(f"tools.{number}.custom.name: Field required")
        schema = tool.get("input_schema")
        if not isinstance(schema, dict):
            raise refusal(f"tools.{number}.custom.input_schema: Field required")
        # A call's input is always an object.
        if schema.get("type") != "object":
            message = "Field required" if "type" not in schema else "Input should be 'object'"
            raise refusal(f"tools.{number}.custom.input_schema.type: {message}")
        names.append(tool["name"])
    if len(set(names)) < len(names):
        raise refusal("tools: Tool names must be unique.")
    if choice is None:
        return
    if choice.get("type") not in ("auto", "any", "none", "tool"):
        raise refusal("tool_choice: Input tag does not match any of the expected tags: any, auto, none, tool")
    if not tools:
        raise refusal("tool_choice: may only be specified while providing tools")
    if choice["type"] == "tool" and choice.get("name") not in [tool.get("name") for tool in tools]:
        raise refusal(f"Tool '{choice.get('name')}' not found in provided tools")


def _check_budget(budget: Any, max_tokens: int) -> None:
    path = "thinking.enabled.budget_tokens"
    if budget is None:
        raise refusal(f"{path}: Field required")
    if not isinstance(budget, int):
        raise refusal(f"{path}: Input should be a valid integer")
    # source: platform.claude.com, "Extended thinking": the minimum budget
    if budget < 1024:
        raise refusal(f"{path}: Input should be greater than or equal to 1024")
    if budget >= max_tokens:
        raise refusal("`max_tokens` must be greater than `thinking.budget_tokens`.")


def _check_role(number: int, turn: Turn) -> None:
    if turn.role not in ("user", "assistant", "system"):
        raise refusal(f"messages.{number}.role: Input should be 'user' or 'assistant'")


def _check_content(number: int, turn: Turn, *, last: bool) -> None:
    blocks = turn.blocks
    # An unfinished answer, which the model completes.
    prefill = last and turn.role == "assistant"
    if not (turn.content or prefill):
        raise refusal(
            f"messages.{number}: all messages must have non-empty content except for the optional final "
            "assistant message"
        )
    for index, block in enumerate(blocks):
        path = f"messages.{number}.content.{index}"
        kind = block.get("type")
        if not isinstance(kind, str):
            raise refusal(f"{path}.type: Field required")
        if kind == "text" and not (prefill and turn.content == ""):
            _check_text(path, block)
        elif kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            _need(path, kind, block, "id", "name")
            if not isinstance(block.get("input"), dict):
                raise refusal(f"{path}.{kind}.input: Input should be a valid dictionary")
        elif kind.endswith("tool_result"):
            _need(path, kind, block, "tool_use_id")
        elif kind == "thinking":
            _need(path, kind, block, "thinking", "signature")
        elif kind in ("image", "document") and not isinstance(block.get("source"), dict):
            raise refusal(f"{path}.{kind}.source: Field required")
    if prefill and blocks and blocks[-1].get("type") == "text":
        text = blocks[-1]["text"]
        if text != text.rstrip():
            raise refusal("messages: final assistant content cannot end with trailing whitespace")


def _check_text(path: str, block: dict[str, Any]) -> None:
    _need(path, "text", block, "text")
    if not block["text"]:
        raise refusal("messages: text content blocks must be non-empty")
    if not block["text"].strip():
        raise refusal("messages: text content blocks must contain non-whitespace text")


def _need(path: str, kind: str, block: dict[str, Any], *names: str) -> None:
    for name in names:
        if name not in block:
            raise refusal(f"{path}.{kind}.{name}: Field required")
        if not isinstance(block[name], str):
            raise refusal(f"{path}.{kind}.{name}: Input should be a valid string")


def _merged(turns: list[Turn]) -> list[tuple[int, str, list[dict[str, Any]]]]:
    """Merges consecutive turns of one role. Number of the first, role, blocks."""
    out: list[tuple[int, str, list[dict[str, Any]]]] = []
    for number, turn in enumerate(turns):
        if turn.role == "system":
            # Instructions to the model, between the turns.
            continue
        # The vendor joins them as well, so a call's result may come in the second of two user turns.
        if out and out[-1][1] == turn.role:
            out[-1][2].extend(turn.blocks)
        else:
            out.append((number, turn.role, list(turn.blocks)))
    return out


def _check_calls(turns: list[tuple[int, str, list[dict[str, Any]]]]) -> None:
    """Checks that each call has one result in the next turn, and each result a call."""
    open_calls: list[str] = []
    caller, cached = 0, 0
    known: set[str] = set()
    for number, _, blocks in turns:
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        cached += sum("cache_control" in block for block in blocks)
        for call_id in results:
            if call_id not in open_calls:
                raise refusal(
                    f"messages.{number}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{call_id}. Each `tool_result` block must have a corresponding `tool_use` block in the "
                    "previous message."
                )
        if len(set(results)) < len(results):
            raise refusal(
                f"messages.{number}.content: each tool_use must have a single result. "
                "Found multiple `tool_result` blocks with one id"
            )
        _reject_missing(caller, [call_id for call_id in open_calls if call_id not in results])
        if len(set(calls)) < len(calls) or known & set(calls):
            raise refusal(f"messages.{number}.content: `tool_use` ids must be unique")
        known |= set(calls)
        open_calls, caller = calls, number
    _reject_missing(caller, open_calls)
    if cached > _MAX_CACHED_BLOCKS:
        raise refusal(f"A maximum of 4 blocks with cache_control may be provided. Found {cached}.")


def _reject_missing(number: int, lacking: list[str]) -> None:
    if lacking:
        raise refusal(
            f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(lacking)}. Each `tool_use` block must have a corresponding `tool_result` block in "
            "the next message."
        )


# Reading.

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
