"""Probes of tools: calls, their arguments, several at once, forced ones, and results in the next turn."""

from __future__ import annotations

import json
import re
from typing import Final

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.endpoint_check.endpoint import Endpoint, Exchange
from llmstream.endpoint_check.probe import (
    WEATHER,
    Probe,
    asked,
    called,
    excerpt,
    failure,
    found,
    inconclusive,
    left_out,
    silent,
)
from llmstream.endpoint_check.report import Finding, choice_without, quirks_of
from llmstream.events import ToolInputDelta
from llmstream.request import ToolSpec

__all__ = ["TOOL_PROBES"]

_TIME: Final = ToolSpec(
    "get_time",
    "Tells the local time of one city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
_NOTE: Final = ToolSpec(
    "save_note",
    "Saves a note.",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
)
_SENTENCES: Final = (
    "The quick brown fox jumps over the lazy dog. Pack my box with five dozen liquor jugs. "
    "How vexingly quick daft zebras jump."
)
# Shorter arguments may be one piece on any server.
_MIN_STREAMED_CHARS: Final = 60
# Dialects whose wire has no pieces of arguments, or whose vendor sends none.
_COMPLETE_CALLS: Final = frozenset({"gemini", "gemini-interactions", "ollama", "mistral"})

# How models write calls; a server's parser should have read them.
_CALL_AS_TEXT: Final = re.compile(r"<tool_call>|<\|tool|\[TOOL_CALLS\]|<function=|\"name\"\s*:\s*\"get_")


async def _tools(endpoint: Endpoint) -> Finding:
    finding = _judge_call(await called(endpoint))
    if finding.status != "inconclusive" or endpoint.attempts < 2:
        return finding
    return _judge_call(await endpoint.ask("Use get_weather for Reykjavik.", tools=[WEATHER]))


def _judge_call(exchange: Exchange) -> Finding:
    if problem := failure(exchange, "a tool"):
        return problem
    if problem := _no_call(exchange):
        return problem
    call = exchange.calls[0]
    if problem := _wrong_arguments(exchange):
        return problem
    if call.tool_name != "get_weather":
        return inconclusive(f"the model called {call.tool_name!r}, which is not a tool", exchange)
    reason = exchange.finish.finish_reason
    if reason != "tool-calls":
        return found(
            "broken",
            f"wrong finish reason: a response with a tool call ends in {reason}",
            meaning="Loops that look at the finish reason do not run the tool.",
        )
    return found("ok", f"{call.tool_name}({excerpt(call.input, 40)})")


def _no_call(exchange: Exchange) -> Finding | None:
    """The finding for a response without a call."""
    if exchange.calls:
        return None
    if _CALL_AS_TEXT.search(exchange.text):
        return found(
            "broken",
            "the tool call arrives as text",
            meaning="No tool ever runs; people see the call.",
            remedy="Turn the server's parser on (vLLM: --enable-auto-tool-choice --tool-call-parser; "
            "llama.cpp: --jinja).",
            evidence=excerpt(exchange.text),
        )
    return silent(exchange) or inconclusive("the model answered without a tool call", exchange)


def _wrong_arguments(exchange: Exchange) -> Finding | None:
    """The finding for calls whose arguments are no JSON object."""
    for call in exchange.calls:
        # Servers that send all calls at index 0 have the arguments joined by their clients.
        if re.search(r"\}\s*\{", call.input):
            return found(
                "broken",
                "parallel calls are merged into one: two JSON objects stand in one call",
                meaning="The call is invalid, and one of the tools never runs.",
                remedy="The server has to give each call an index and an id of its own.",
                evidence=excerpt(call.input),
            )
        try:
            valid = isinstance(json.loads(call.input), dict) and not call.invalid
        except (ValueError, RecursionError):
            valid = False
        if not valid:
            return found(
                "broken",
                "the arguments of a call are not a JSON object",
                meaning="The model reads an error instead of the tool's result.",
                evidence=excerpt(call.input),
            )
    return None


async def _arguments(endpoint: Endpoint) -> Finding:
    prompt = f"Call the tool save_note with this text, unchanged: {_SENTENCES}"

    def judge(exchange: Exchange) -> Finding:
        problem = failure(exchange, "a tool") or _no_call(exchange) or _wrong_arguments(exchange)
        if problem:
            return problem
        call = exchange.calls[0]
        pieces = sum(delta.id == call.tool_call_id for delta in exchange.all(ToolInputDelta))
        if pieces > 1:
            return found("ok", f"{len(call.input)} characters in {pieces} pieces")
        if len(call.input) < _MIN_STREAMED_CHARS or endpoint.model.provider.dialect.name in _COMPLETE_CALLS:
            return found("ok", "complete, as usual for this API")
        return found(
            "degraded",
            f"arguments come in one piece of {len(call.input)} characters",
            meaning="Input that grows cannot be shown; long calls pause the stream.",
        )

    return await asked(endpoint, judge, prompt, tools=[_NOTE])


async def _parallel(endpoint: Endpoint) -> Finding:
    prompt = (
        "Call get_weather for Oslo and get_weather for Lima, both calls in the same answer. "
        "Do not answer yourself."
    )

    def judge(exchange: Exchange) -> Finding:
        problem = failure(exchange, "several tools") or _no_call(exchange) or _wrong_arguments(exchange)
        if problem:
            return problem
        count = len(exchange.calls)
        if count < 2:
            return inconclusive("the model made a single call", exchange)
        if len({(call.tool_name, call.input) for call in exchange.calls}) < 2:
            return found(
                "degraded",
                "parallel calls have the same arguments",
                meaning="The model repeats itself, or the server mixes the pieces of calls.",
                evidence=excerpt(" ".join(call.input for call in exchange.calls)),
            )
        return found("ok", f"{count} calls in one response")

    return await asked(endpoint, judge, prompt, tools=[WEATHER, _TIME])


async def _required(endpoint: Endpoint) -> Finding:
    return await _forced(endpoint, "required", "required", [_TIME])


async def _named(endpoint: Endpoint) -> Finding:
    return await _forced(endpoint, "get_time", "named", [WEATHER, _TIME])


async def _forced(endpoint: Endpoint, choice: str, kind: str, tools: list[ToolSpec]) -> Finding:
    """A prompt that needs no tool, and a choice that demands one."""
    quirk = choice_without(quirks_of(endpoint.model), kind)

    def judge(exchange: Exchange) -> Finding:
        if why := left_out(exchange, "tool_choice"):
            return found("unsupported", why)
        if problem := failure(exchange, f"tool_choice ({kind})", quirk=quirk):
            return problem
        names = [call.tool_name for call in exchange.calls]
        if names and (kind == "required" or set(names) == {choice}):
            return _wrong_arguments(exchange) or found("ok", f"called {names[0]}")
        # Models that reason first may need more room.
        if not names and exchange.finish.finish_reason == "length":
            return inconclusive("the response was cut before a call", exchange)
        return found(
            "broken",
            f"tool_choice ({kind}) is ignored" + (f": the model called {names[0]}" if names else ""),
            meaning="A program that relies on the call gets text instead.",
            quirk=quirk,
            evidence=excerpt(exchange.text),
        )

    return await asked(endpoint, judge, "Say hello to Oslo.", tools=tools, tool_choice=choice)


async def _results(endpoint: Endpoint) -> Finding:
    exchange = await called(endpoint)
    message = exchange.message if exchange.calls else _example_message()
    results = [
        ToolResult(call.id, "minus 13 degrees, ice fog", name=call.name) for call in message.tool_calls
    ]
    talk = [Message.user("How is the weather in Reykjavik?"), message, Message.tool(results)]

    def judge(after: Exchange) -> Finding:
        if problem := failure(after, "the result of a tool") or silent(after):
            return problem
        if "13" in after.text:
            return found("ok", "the model answers from it")
        return inconclusive("the model did not use the result", after)

    return await asked(endpoint, judge, talk, tools=[WEATHER])


def _example_message() -> Message:
    """A call for models that made none, so that the history is tried all the same."""
    return Message.assistant(ToolCall("call_1", "get_weather", '{"city": "Reykjavik"}'))


TOOL_PROBES: Final = (
    Probe(name="tools", title="a tool call", run=_tools),
    Probe(name="tool-arguments", title="arguments in pieces", run=_arguments),
    Probe(name="tool-parallel", title="several calls at once", run=_parallel),
    Probe(name="tool-required", title="a call that is required", run=_required),
    Probe(name="tool-named", title="a call of a named tool", run=_named),
    Probe(name="tool-results", title="results go back", run=_results),
)
