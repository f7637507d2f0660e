"""The floor of tool calls: what a good engineer writes by hand for one vendor, up to the parsed arguments.

Fragments are gathered, and calls parsed when the wire ends them: who runs them needs no more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from struct import Struct
from typing import Any
from zlib import crc32

import aiohttp
import msgspec

Call = tuple[str, str, dict[str, Any]]
"""Id, name and arguments."""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Fragment(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    tool_calls: list[_Fragment] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta


class _Chunk(msgspec.Struct):
    choices: list[_Choice]


class _Use(msgspec.Struct):
    type: str
    id: str | None = None
    name: str | None = None


class _Input(msgspec.Struct):
    partial_json: str | None = None


class _Event(msgspec.Struct):
    type: str
    delta: _Input | None = None
    content_block: _Use | None = None


class _Item(msgspec.Struct):
    type: str
    call_id: str = ""
    name: str = ""
    arguments: str = ""


class _ResponsesEvent(msgspec.Struct):
    type: str
    item: _Item | None = None


class _GeminiCall(msgspec.Struct):
    name: str
    args: dict[str, Any]
    id: str = ""


class _Part(msgspec.Struct):
    functionCall: _GeminiCall | None = None


class _Content(msgspec.Struct):
    parts: list[_Part]


class _Candidate(msgspec.Struct):
    content: _Content


class _Generated(msgspec.Struct):
    candidates: list[_Candidate]


class _Arguments(msgspec.Struct):
    arguments: str | None = None


class _InteractionEvent(msgspec.Struct):
    event_type: str | None = None
    step: _Use | None = None
    delta: _Arguments | None = None


class _CohereCall(msgspec.Struct):
    function: _Function
    id: str | None = None


class _CohereMessage(msgspec.Struct):
    tool_calls: _CohereCall | list[object] | None = None


class _CohereDelta(msgspec.Struct):
    message: _CohereMessage | None = None


class _CohereEvent(msgspec.Struct):
    type: str
    delta: _CohereDelta | None = None


class _ToolInput(msgspec.Struct):
    input: str


class _InputDelta(msgspec.Struct):
    toolUse: _ToolInput | None = None


class _BlockDelta(msgspec.Struct):
    delta: _InputDelta


class _ToolUse(msgspec.Struct):
    toolUseId: str
    name: str


class _Begun(msgspec.Struct):
    toolUse: _ToolUse | None = None


class _BlockStart(msgspec.Struct):
    start: _Begun


class _OllamaFunction(msgspec.Struct):
    name: str
    arguments: dict[str, Any]


class _OllamaCall(msgspec.Struct):
    function: _OllamaFunction
    id: str = ""


class _Message(msgspec.Struct):
    tool_calls: list[_OllamaCall] | None = None


class _Line(msgspec.Struct):
    message: _Message


def _arguments(pieces: list[str]) -> dict[str, Any]:
    parsed: dict[str, Any] = msgspec.json.decode("".join(pieces) or "{}")
    return parsed


async def openai_chat(response: aiohttp.ClientResponse) -> AsyncIterator[Call]:
    """Calls of chat completions: by index, complete at the end."""
    decode = msgspec.json.Decoder(_Chunk).decode
    calls: dict[int, tuple[str, str, list[str]]] = {}
    tail = b""
    async for block in response.content.iter_any():
        *events, tail = (tail + block).split(b"\n\n")
        for event in events:
            data = event[6:]
            if data == b"[DONE]":
                for id, name, pieces in calls.values():
                    yield id, name, _arguments(pieces)
                return
            for choice in decode(data).choices:
                for one in choice.delta.tool_calls or ():
                    function = one.function
                    if function is None:
                        continue
                    if one.index not in calls:
                        calls[one.index] = (one.id or "", function.name or "", [])
                    if function.arguments:
                        calls[one.index][2].append(function.arguments)


async def anthropic(response: aiohttp.ClientResponse) -> AsyncIterator[Call]:
    """Calls of messages: one block at a time."""
    decode = msgspec.json.Decoder(_Event).decode
    use: _Use | None = None
    pieces: list[str] = []
    tail = b""
    async for block in response.content.iter_any():
        *events, tail = (tail + block).split(b"\n\n")
        for event in events:
            wire = decode(event[event.index(b"\ndata: ") + 7 :])
            if wire.type == "content_block_delta":
                if wire.delta is not None and wire.delta.partial_json:
                    pieces.append(wire.delta.partial_json)
            elif wire.type == "content_block_start":
                use, pieces = wire.content_block, []
            elif wire.type == "content_block_stop" and use is not None and use.type == "tool_use":
                yield use.id or "", use.name or "", _arguments(pieces)


async def openai_responses(response: aiohttp.ClientResponse) -> AsyncIterator[Call]:
    """Calls of responses: the finished item has all of it."""
    decode = msgspec.json.Decoder(_ResponsesEvent).decode
    tail = b""
    async for block in response.content.iter_any():
        *events, tail = (tail + block).split(b"\n\n")
        for event in events:
            wire = decode(event[event.index(b"\ndata: ") + 7 :])
            item = wire.item
            if wire.type == "response.output_item.done" and item is not None and item.type == "function_call":
                yield item.call_id, item.name, _arguments([item.arguments])


async def gemini(response: aiohttp.ClientResponse) -> AsyncIterator[Call]:
    """Calls of generated chunks, each complete."""
    decode = msgspec.json.Decoder(_Generated).decode
    tail = b""
    async for block in response.content.iter_any():
        *events, tail = (tail + block).split(b"\r\n\r\n")
        for event in events:
            for candidate in decode(event[6:]).candidates:
                for part in candidate.content.parts:
                    if part.functionCall:
                        yield part.functionCall.id, part.functionCall.name, part.functionCall.args


async def gemini_interactions(response: aiohttp.ClientResponse) -> AsyncIterator[Call]:
    """Calls of interactions: one step at a time."""
    decode = msgspec.json.Decoder(_InteractionEvent).decode
    use: _Use | None = None
    pieces: list[str] = []
    tail = b""
    async for block in response.content.iter_any():
        *events, tail = (tail + block).split(b"\n\n")
        for event in events:
            data = event[event.index(b"\ndata: ") + 7 :]
            if data == b"[DONE]":
                return
            wire = decode(data)
            if wire.event_type == "step.delta":
                if wire.delta is not None and wire.delta.arguments:
                    pieces.append(wire.delta.arguments)
            elif wire.event_type == "step.start":
                use, pieces = wire.step, []
            elif wire.event_type == "step.stop" and use is not None and use.type == "function_call":
                yield use.id or "", use.name or "", _arguments(pieces)


async def cohere(response: aiohttp.ClientResponse) -> AsyncIterator[Call]:
    """Calls of the chat API: one at a time."""
    decode = msgspec.json.Decoder(_CohereEvent).decode
    id, name = "", ""
    pieces: list[str] = []
    tail = b""
    async for block in response.content.iter_any():
        *events, tail = (tail + block).split(b"\n\n")
        for event in events:
            data = event[event.index(b"data: ") + 6 :]
            if data == b"[DONE]":
                return
            wire = decode(data)
            call = wire.delta.message.tool_calls if wire.delta and wire.delta.message else None
            if isinstance(call, _CohereCall):
                if wire.type == "tool-call-start":
                    id, name, pieces = call.id or "", call.function.name or "", []
                if call.function.arguments:
                    pieces.append(call.function.arguments)
            elif wire.type == "tool-call-end":
                yield id, name, _arguments(pieces)


async def bedrock_converse(response: aiohttp.ClientResponse) -> AsyncIterator[Call]:
    """Calls of ConverseStream: one block at a time."""
    fragment = msgspec.json.Decoder(_BlockDelta).decode
    head = msgspec.json.Decoder(_BlockStart).decode
    prelude, last = Struct(">III").unpack_from, Struct(">I").unpack_from
    use: _ToolUse | None = None
    pieces: list[str] = []
    tail = b""
    async for block in response.content.iter_any():
        data, at = tail + block, 0
        while at + 12 <= len(data):
            total, headers, checksum = prelude(data, at)
            if crc32(data[at : at + 8]) != checksum:
                raise ValueError("a damaged prelude")
            if at + total > len(data):
                break
            if crc32(data[at : at + total - 4]) != last(data, at + total - 4)[0]:
                raise ValueError("a damaged message")
            begin, end = at + 12 + headers, at + total - 4
            if data.startswith(b"contentBlockDelta", at + 27):
                delta = fragment(data[begin:end]).delta.toolUse
                if delta is not None:
                    pieces.append(delta.input)
            elif data.startswith(b"contentBlockStart", at + 27):
                use, pieces = head(data[begin:end]).start.toolUse, []
            elif data.startswith(b"contentBlockStop", at + 27) and use is not None:
                yield use.toolUseId, use.name, _arguments(pieces)
            at += total
        tail = data[at:]


async def ollama(response: aiohttp.ClientResponse) -> AsyncIterator[Call]:
    """Calls of the chat API, each complete."""
    decode = msgspec.json.Decoder(_Line).decode
    tail = b""
    async for block in response.content.iter_any():
        *lines, tail = (tail + block).split(b"\n")
        for line in lines:
            for call in decode(line).message.tool_calls or ():
                yield call.id, call.function.name, call.function.arguments


CALL_FLOORS = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "gemini-interactions": gemini_interactions,
    "bedrock-converse": bedrock_converse,
    "cohere": cohere,
    "mistral": openai_chat,
    "ollama": ollama,
}
