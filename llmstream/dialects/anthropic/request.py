"""Writes a request as an HTTP request of the Messages API."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec

from llmstream.dialects.anthropic.messages import Conversation, blocks_of
from llmstream.dialects.anthropic.quirks import Quirks
from llmstream.dialects.anthropic.wire import KEY
from llmstream.dialects.base import Encoded
from llmstream.dialects.history_parts import keep_last_marks
from llmstream.dialects.requests import (
    Field,
    FieldTable,
    RequestWarnings,
    RequestWriter,
    described_schema,
    merged,
    name_and_description,
    object_schema,
)
from llmstream.dialects.schemas import claude_strict_schema
from llmstream.errors import BadRequest, LLMStreamError
from llmstream.exchange import HttpRequest
from llmstream.model_rules.claude import (
    CLAUDE,
    NO_BARE_JSON,
    NO_SAMPLING_SINCE,
    ClaudeRules,
    encode_thinking,
    fitting_cap,
    sampling_refusal,
)
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec

__all__ = ["FIELDS", "betas_of_tools", "dropping_bound_thinking", "encode_request"]


# Tools and tool choice.

FIELDS: Final = FieldTable(
    Field("max_output_tokens", "max_tokens"),
    Field("temperature", "temperature", low=0.0, high=1.0),
    Field("top_p", "top_p"),
    Field("top_k", "top_k"),
    Field("stop", "stop_sequences"),
)

# source: platform.claude.com, "Structured outputs", schema complexity limits: 20 strict tools a request
_MAX_STRICT_TOOLS: Final = 20
_DATE: Final = re.compile(r"_20\d{6}$")
_FIXED_NAMES: Final = {
    "text_editor_20241022": "str_replace_editor",
    "text_editor_20250124": "str_replace_editor",
    "text_editor_20250429": "str_replace_based_edit_tool",
    "text_editor_20250728": "str_replace_based_edit_tool",
}

# Beta features of the vendor's tools; generally available tools need none.
_BETAS: Final = {
    "code_execution_20250522": "code-execution-2025-05-22",
    "code_execution_20250825": "code-execution-2025-08-25",
    "computer_20241022": "computer-use-2024-10-22",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
    "text_editor_20241022": "computer-use-2024-10-22",
    "bash_20241022": "computer-use-2024-10-22",
    "web_fetch_20250910": "web-fetch-2025-09-10",
    "memory_20250818": "context-management-2025-06-27",
    "mcp_toolset": "mcp-client-2025-11-20",
    "advisor_20260301": "advisor-tool-2026-03-01",
}


def encode_tools(
    request: Request, warnings: RequestWarnings, *, strict_known: bool = True
) -> list[dict[str, Any]]:
    """Returns the field `tools`.

    strict_known: the model supports strict tools
    """
    strict = 0
    out = []
    for tool in request.tools:
        if isinstance(tool, ProviderTool):
            out.append(_provider_tool(tool))
            continue
        wanted = tool.strict is True and strict_known
        if tool.strict and not wanted:
            warnings.note(
                f"the tool {tool.name!r} was sent without strict: the model does not support it here"
            )
        strict += wanted
        if wanted and strict > _MAX_STRICT_TOOLS:
            warnings.note(
                f"the tool {tool.name!r} was sent without strict: the API takes {_MAX_STRICT_TOOLS} of them"
            )
        out.append(_tool(tool, strict=wanted and strict <= _MAX_STRICT_TOOLS))
    return out


def encode_tool_choice(
    request: Request, *, refusal: str | None, warnings: RequestWarnings
) -> dict[str, Any] | None:
    """Returns the field `tool_choice`, which the API accepts only together with tools.

    refusal: why this request cannot force a tool, or None
    """
    choice, parallel = request.tool_choice, request.settings.parallel_tool_calls
    if choice is None and parallel is None:
        return None
    if not request.tools:
        if choice not in (None, "none", "auto"):
            warnings.note("tool_choice was left out: the request has no tools")
        return None
    if refusal is not None and (choice == "required" or isinstance(choice, NamedTool)):
        warnings.note(f"tool_choice became auto: {refusal}")
        choice = "auto"
    out: dict[str, Any]
    if isinstance(choice, NamedTool):
        out = {"type": "tool", "name": choice.name}
    else:
        out = {"type": {"none": "none", "required": "any"}.get(choice or "auto", "auto")}
    if parallel is not None and choice != "none":
        out["disable_parallel_tool_use"] = not parallel
    return out


def betas_of_tools(request: Request) -> list[str]:
    """Returns the beta features that the vendor's tools of a request need."""
    types = [tool.type for tool in request.tools if isinstance(tool, ProviderTool)]
    return [_BETAS[kind] for kind in types if kind in _BETAS]


def _tool(tool: ToolSpec, *, strict: bool) -> dict[str, Any]:
    schema = object_schema(tool.input_schema)
    out = name_and_description(tool)
    out["input_schema"] = claude_strict_schema(schema) if strict else schema
    if strict:
        out["strict"] = True
    return out


def _provider_tool(tool: ProviderTool) -> dict[str, Any]:
    out: dict[str, Any] = {"type": tool.type}
    stem = _DATE.sub("", tool.type)
    name = tool.name or _FIXED_NAMES.get(tool.type) or (stem if stem != tool.type else "")
    # Toolsets (computer_toolset_20260801, mcp_toolset) have no name; their calls have it (anthropic 2.12).
    if name and not stem.endswith("_toolset"):
        out["name"] = name
    return {**out, **tool.options}


def encode_request(request: Request, *, provider: str, quirks: Quirks) -> Encoded:
    """Encodes the HTTP request, with warnings about what was left out or changed.

    `provider_options["anthropic"]` is merged into the body last, objects field by field; its
    `betas`, a list of names, become the header `anthropic-beta`.

    raises: InvalidRequest, Unsupported
    """
    writer = RequestWriter(request, provider=provider, key=KEY)
    options = writer.options
    betas = [*betas_of_tools(request), *options.pop("betas", ())]
    body = _body(writer, quirks)
    headers: dict[str, str] = {}
    if quirks.body_version is None:
        headers["anthropic-version"] = quirks.version
    else:
        body["anthropic_version"] = quirks.body_version
    betas = list(dict.fromkeys(str(beta) for beta in betas))
    if betas and quirks.betas_in_body:
        body["anthropic_beta"] = betas
    elif betas:
        headers["anthropic-beta"] = ",".join(betas)
    body = merged(body, options)
    keep_last_marks(_blocks(body), writer.warnings)
    return writer.encoded(quirks.path_for(request.model), body, headers)


def _body(writer: RequestWriter, quirks: Quirks) -> dict[str, Any]:
    request, options, warnings = writer.request, writer.options, writer.warnings
    rules = CLAUDE.find(request.model)
    inline = quirks.system_turns and rules.system_turns == "honoured"
    conversation = Conversation(
        provider=writer.provider,
        quirks=quirks,
        system_turns=inline,
        citations=request.response_format is None,
        warnings=warnings,
    )
    conversation.read(request.messages)
    if conversation.cited:
        warnings.note("citations were switched off: the API does not cite in structured output")
    default = quirks.default_max_tokens or rules.default_tokens
    cap = fitting_cap(request.settings.max_output_tokens, rules, warnings)
    plan = encode_thinking(request.reasoning, cap, default, rules, warnings)
    asked = options.get("thinking")
    # Our `display` and budget do not fit every type.
    if isinstance(asked, dict) and "type" in asked:
        plan = msgspec.structs.replace(plan, thinking=None)
    thinking = merged({"thinking": plan.thinking or {}}, options)["thinking"]
    thinks = isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive")
    body: dict[str, Any] = {} if quirks.model_in_path else {"model": request.model}
    body["max_tokens"] = plan.max_tokens
    if conversation.system:
        body["system"] = _system(conversation.system)
    body["messages"] = conversation.messages
    if quirks.stream_field:
        body["stream"] = True
    if request.tools:
        strict_known = quirks.holds_to_schemas(rules)
        body["tools"] = encode_tools(request, warnings, strict_known=strict_known)
    refusal = None if rules.forced_tools else "this model does not support forced tools"
    if thinks:
        refusal = "the API does not support forced tools with reasoning"
    choice = encode_tool_choice(request, refusal=refusal, warnings=warnings)
    if choice is not None:
        body["tool_choice"] = choice
    if plan.thinking is not None:
        body["thinking"] = plan.thinking
    output = _output_config(request, plan.effort, warnings)
    if output:
        body["output_config"] = output
    container = _container(request)
    if container is not None:
        body["container"] = container
    version = _header(request, "anthropic-version") or quirks.version
    if quirks.body_version is None and version >= NO_SAMPLING_SINCE:
        rules = msgspec.structs.replace(rules, sampling=False)
    body.update(_sampling(writer, rules, thinks))
    return body


def _header(request: Request, name: str) -> str | None:
    return next((value for key, value in request.headers.items() if key.lower() == name), None)


def _blocks(body: dict[str, Any]) -> Iterator[Any]:
    """Yields the blocks that can have a cache mark, in the order of the prompt."""
    for name in ("tools", "system"):
        if isinstance(body.get(name), list):
            yield from body[name]
    turns = body["messages"] if isinstance(body.get("messages"), list) else ()
    # Those that are JSON are as in the last request, and without marks.
    for turn in [turn for turn in turns if type(turn) is not msgspec.Raw]:
        if isinstance(turn, dict):
            yield from blocks_of(turn)


def _container(request: Request) -> str | None:
    # Code of the next step runs in the container of the last one, which has its files.
    if not any(isinstance(t, ProviderTool) and t.type.startswith("code_execution") for t in request.tools):
        return None
    for message in reversed(request.messages):
        match message.metadata:
            case {"llmstream": {"anthropic": {"container": {"id": str(container)}}}}:
                return container
    return None


def _output_config(request: Request, effort: str | None, warnings: RequestWarnings) -> dict[str, Any]:
    out: dict[str, Any] = {} if effort is None else {"effort": effort}
    wanted = request.response_format
    if wanted is not None and wanted.schema is not None:
        out["format"] = {"type": "json_schema", "schema": claude_strict_schema(described_schema(wanted))}
    elif wanted is not None:
        warnings.unsupported("output", NO_BARE_JSON)
    return out


def _sampling(writer: RequestWriter, rules: ClaudeRules, thinks: bool) -> dict[str, Any]:
    """Returns sampling settings and stop sequences that the model supports, with or without thinking."""
    out = writer.settings(FIELDS, refusal=partial(sampling_refusal, rules=rules, thinks=thinks))
    # The body has it, with room for the reasoning.
    out.pop("max_tokens", None)
    stops = out.get("stop_sequences")
    if stops is not None and any(not stop.strip() for stop in stops):
        writer.warnings.note("stop sequences of only white space were left out: the API rejects them")
        out["stop_sequences"] = [stop for stop in stops if stop.strip()]
        if not out["stop_sequences"]:
            del out["stop_sequences"]
    return out


def _system(blocks: list[dict[str, Any]]) -> Any:
    return blocks[0]["text"] if len(blocks) == 1 and len(blocks[0]) == 2 else blocks


# Thinking blocks are bound to their conversation.
#
# From 5.1 and 5.5 on the API rejects them once the system prompt, tools or earlier messages have changed;
# an option makes it drop them instead.
# source: platform.claude.com "Thinking troubleshooting";
# pydantic-ai-slim 2.68 `_thinking_binding.py` (2026-11)

_BOUND_ELSEWHERE: Final = "bound to a different conversation"
_BETA: Final = "thinking-binding-controls-2026-08-01"


def dropping_bound_thinking(
    http: HttpRequest, error: LLMStreamError, *, betas_in_body: bool
) -> HttpRequest | None:
    """Returns the request with that option; None if the error is about something else."""
    if not isinstance(error, BadRequest) or _BOUND_ELSEWHERE not in error.message:
        return None
    body = http.json()
    thinking: dict[str, Any] = {"type": "adaptive", **(body.get("thinking") or {})}
    if thinking["type"] != "adaptive" or "block_binding" in thinking:
        return None
    body["thinking"] = {**thinking, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    headers = dict(http.headers)
    if betas_in_body:
        body["anthropic_beta"] = [*body.get("anthropic_beta", ()), _BETA]
    else:
        headers["anthropic-beta"] = ",".join(filter(None, (headers.get("anthropic-beta"), _BETA)))
    return msgspec.structs.replace(http, body=msgspec.json.encode(body), headers=headers)
