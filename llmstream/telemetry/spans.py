"""Spans of model calls, agent runs and tool calls, with their attributes.

With `content=True` the attributes hold messages in the JSON forms of the conventions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Token
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from llmstream.agent.observing import RunFinished, RunStarted, ToolContent, ToolFinished, ToolStarted
from llmstream.chats.content import Reasoning, Text, ToolCall, ToolResult, part_kind
from llmstream.chats.message import Message, Role
from llmstream.streams.observations import (
    AttemptFailed,
    AttemptStarted,
    CallContent,
    CallFinished,
    FirstContent,
    Observation,
)

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

__all__ = [
    "CallSpans",
    "RunSpans",
    "bounded",
    "content_attributes",
    "cut",
    "known",
    "model_attributes",
    "provider_name",
    "tool_name",
]

# Names and attributes of OpenTelemetry's conventions for generative AI that spans and metrics share.


# Values of gen_ai.provider.name in the conventions; other providers have their own name there, too.
_NAMES: Final = {
    "azure": "azure.ai.openai",
    "azure-responses": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "bedrock-invoke": "aws.bedrock",
    "gemini-openai": "gcp.gemini",
    "google": "gcp.gemini",
    "google-interactions": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai-responses": "openai",
    "vertex": "gcp.vertex_ai",
    "vertex-anthropic": "gcp.vertex_ai",
    "xai": "x_ai",
    "xai-responses": "x_ai",
}

# Each distinct value of an attribute is a time series that a backend keeps.
_MAX_VALUE_CHARS: Final = 256


class _HasModel(Protocol):
    """An observation with a provider and a model."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...


def provider_name(provider: str) -> str:
    """Returns the conventions' name of a provider, else its own name."""
    return _NAMES.get(provider, provider)


def model_attributes(operation: str, source: _HasModel) -> dict[str, Any]:
    """Returns the attributes of operation, provider and model; older backends need `gen_ai.system`."""
    name = provider_name(source.provider)
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": name,
        "gen_ai.system": name,
        "gen_ai.request.model": source.model,
    }


class _ToolCall(Protocol):
    """An observation of a tool call."""

    @property
    def name(self) -> str: ...

    @property
    def is_known(self) -> bool: ...


def tool_name(call: _ToolCall) -> str:
    """Returns the name of a known tool, else "_OTHER": a model may invent any number of names."""
    return call.name if call.is_known else "_OTHER"


def bounded(value: str) -> str:
    """Shortens a value that the vendor or model chose."""
    return value[:_MAX_VALUE_CHARS]


def known(attributes: dict[str, Any]) -> dict[str, Any]:
    """Returns the attributes without those that are None."""
    return {name: value for name, value in attributes.items() if value is not None}


class CallSpans:
    """One span per model call, from its first attempt to its end; failed attempts are span events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._spans: dict[str, Span] = {}

    def take(self, observation: Observation | CallContent, parent: Span | None = None) -> None:
        """Processes one observation.

        parent: of a new span; by default the current span
        """
        call_id = observation.call_id
        if isinstance(observation, AttemptStarted):
            # Attempts of one call share its span.
            if call_id not in self._spans:
                self._spans[call_id] = self._begun(observation, parent)
            return
        span = self._spans.get(call_id)
        if span is None:
            return
        match observation:
            case FirstContent():
                span.set_attribute("gen_ai.response.time_to_first_chunk", observation.after_s)
            case AttemptFailed():
                span.add_event("llmstream.attempt_failed", known(_failure(observation)))
            case CallContent():
                span.set_attributes(content_attributes(observation))
            case CallFinished():
                del self._spans[call_id]
                _end(span, observation)

    def _begun(self, observation: AttemptStarted, parent: Span | None) -> Span:
        from opentelemetry.trace import SpanKind, set_span_in_context

        return self._tracer.start_span(
            f"chat {observation.model}",
            context=None if parent is None else set_span_in_context(parent),
            kind=SpanKind.CLIENT,
            attributes={**model_attributes("chat", observation), "gen_ai.request.stream": True},
        )


def _end(span: Span, call: CallFinished) -> None:
    from opentelemetry.trace import StatusCode

    usage, reason = call.usage, call.finish_reason
    attributes = {
        "gen_ai.response.id": call.response_id,
        "gen_ai.response.model": call.response_model,
        "gen_ai.response.finish_reasons": None if reason is None else [reason],
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        "error.type": call.error_code,
        "llmstream.request_id": call.request_id,
        "llmstream.retries": call.retries,
        "llmstream.continuations": call.continuations or None,
        "llmstream.left": call.left,
        "llmstream.paced_s": call.paced_s or None,
        "llmstream.inter_token_p50_s": call.inter_p50_s,
        "llmstream.inter_token_p99_s": call.inter_p99_s,
        "llmstream.tokens_per_s": call.tokens_per_s,
    }
    span.set_attributes(known(attributes))
    if call.error_code is not None:
        span.set_status(StatusCode.ERROR, call.error_code)
    span.end()


def _failure(attempt: AttemptFailed) -> dict[str, Any]:
    return {
        "error.type": attempt.error_code,
        "http.response.status_code": attempt.status,
        "llmstream.attempt": attempt.attempt,
        "llmstream.request_id": attempt.request_id,
        "llmstream.wait_s": attempt.wait_s,
    }


class RunSpans:
    """One span per agent run and tool call; stores the spans of runs by id as parents of others.

    The span of a run is never current. The span of a tool call is current in the task of the call until
    its end, so it is the parent of all that the tool does, such as the run of a sub-agent.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._runs: dict[str, Span] = {}
        self._tools: dict[tuple[str, str], tuple[Span, Token[Context]]] = {}

    def of(self, run_id: str) -> Span | None:
        """Returns the span of a run that has not finished."""
        return self._runs.get(run_id)

    def run_started(self, run: RunStarted) -> None:
        """Starts the span of a run as a child of the current span."""
        attributes = model_attributes("invoke_agent", run) | known({"gen_ai.agent.name": run.agent or None})
        self._runs[run.run_id] = self._tracer.start_span(
            f"invoke_agent {run.agent}".rstrip(), attributes=attributes
        )

    def run_finished(self, run: RunFinished) -> None:
        """Ends the span of a run."""
        from opentelemetry.trace import StatusCode

        span = self._runs.pop(run.run_id, None)
        if span is None:
            return
        attributes = {
            "gen_ai.response.finish_reasons": None if run.finish_reason is None else [run.finish_reason],
            "gen_ai.usage.input_tokens": run.usage.input_tokens,
            "gen_ai.usage.output_tokens": run.usage.output_tokens,
            "error.type": run.error_code,
            "llmstream.steps": run.steps,
            "llmstream.left": run.left,
            "llmstream.suspended": run.suspended,
        }
        span.set_attributes(known(attributes))
        if run.error_code is not None:
            span.set_status(StatusCode.ERROR, run.error_code)
        span.end()

    def tool_started(self, tool: ToolStarted) -> None:
        """Starts the span of a tool call and makes it current in this task."""
        from opentelemetry.context import attach
        from opentelemetry.trace import set_span_in_context

        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": bounded(tool.name),
            "gen_ai.tool.call.id": bounded(tool.tool_call_id),
            "gen_ai.tool.type": "function",
            "gen_ai.tool.description": tool.description or None,
            "llmstream.step": tool.step,
        }
        run = self._runs.get(tool.run_id)
        span = self._tracer.start_span(
            f"execute_tool {tool_name(tool)}",
            context=None if run is None else set_span_in_context(run),
            attributes=known(attributes),
        )
        # The task is the call's own and awaits, without a yield, until `tool_finished`.
        self._tools[tool.run_id, tool.tool_call_id] = span, attach(set_span_in_context(span))

    def tool_content(self, tool: ToolContent) -> None:
        """Adds arguments and result to the span of a tool call."""
        found = self._tools.get((tool.run_id, tool.tool_call_id))
        if found is not None:
            result = None if tool.result is None else cut(tool.result)
            content = {"gen_ai.tool.call.arguments": cut(tool.arguments), "gen_ai.tool.call.result": result}
            found[0].set_attributes(known(content))

    def tool_finished(self, tool: ToolFinished) -> None:
        """Ends the span of a tool call, in the task that started it."""
        from opentelemetry.context import detach
        from opentelemetry.trace import StatusCode

        span, token = self._tools.pop((tool.run_id, tool.tool_call_id), (None, None))
        if span is None or token is None:
            return
        # First, so that no later span of this task gets it as its parent, whatever fails.
        detach(token)
        span.set_attributes(known({"error.type": tool.error_type}))
        if tool.error_type is not None:
            span.set_status(StatusCode.ERROR, tool.error_type)
        span.end()


# Maximum length of an attribute. Backends accept less; it bounds the memory of long conversations.
_MAX_TEXT_CHARS: Final = 512 * 1024

_encode = msgspec.json.Encoder().encode


def content_attributes(content: CallContent) -> dict[str, str]:
    """Returns instructions, input and output of a call; files only by kind and media type.

    Of a conversation longer than half a million characters, keeps the newest.

    source: gen_ai.system_instructions, gen_ai.input.messages, gen_ai.output.messages
    """
    messages = content.request.messages
    system = [message for message in messages if message.role == Role.SYSTEM]
    others = [message for message in messages if message.role != Role.SYSTEM]
    found = {"gen_ai.input.messages": _text(_messages(others))}
    if system:
        parts = [part for message in _messages(system) for part in message["parts"]]
        found["gen_ai.system_instructions"] = _text(parts)
    if content.message.parts:
        found["gen_ai.output.messages"] = _text(_messages([content.message]))
    return found


def cut(text: str, limit: int = _MAX_TEXT_CHARS) -> str:
    """Shortens a text that is too long for an attribute, and adds the number of missing characters."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text) - limit} more characters)"


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Encodes messages by the conventions, with as many of the newest characters as fit."""
    left, found = _MAX_TEXT_CHARS, []
    for message in reversed(messages):
        parts = []
        for part in reversed(message.parts):
            name, text, value = _part(part)
            if name:
                text = text if isinstance(text, str) else _text(text)
                value[name] = cut(text, left)
                left = max(0, left - len(text))
            parts.append(value)
        found.append({"role": str(message.role), "parts": parts[::-1]})
    return found[::-1]


def _part(part: object) -> tuple[str, Any, dict[str, Any]]:
    """Returns the name of the field for a part's text ("" for none), the text, and the other fields."""
    match part:
        case Text(text=text):
            return "content", text, {"type": "text"}
        case Reasoning(text=text):
            return "content", text, {"type": "reasoning"}
        case ToolCall(id=call_id, name=name, arguments=arguments):
            return "arguments", arguments, {"type": "tool_call", "id": call_id, "name": name}
        case ToolResult(tool_call_id=call_id, content=content):
            return "response", content, {"type": "tool_call_response", "id": call_id}
        case _:
            media_type = getattr(part, "media_type", None)
            return "", "", {"type": part_kind(part), "mime_type": media_type}


def _text(value: object) -> str:
    return _encode(value).decode()
