"""The floor: what a good engineer writes by hand for one vendor: read, split, typed decode.

It has no grammar, no events, no errors, no limits, and trusts every byte.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from zlib import crc32

import aiohttp
import msgspec


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice]


class _Inner(msgspec.Struct):
    text: str | None = None


class _Event(msgspec.Struct):
    type: str
    delta: _Inner | None = None


class _Message(msgspec.Struct):
    content: str


class _Line(msgspec.Struct):
    message: _Message
    done: bool


class _ResponsesEvent(msgspec.Struct):
    type: str
    delta: str | None = None


class _Part(msgspec.Struct):
    text: str | None = None


class _Content(msgspec.Struct):
    parts: list[_Part]


class _Candidate(msgspec.Struct):
    content: _Content


class _Generated(msgspec.Struct):
    candidates: list[_Candidate]


class _Inside(msgspec.Struct):
    content: _Inner | list[object] | None = None


class _Outside(msgspec.Struct):
    message: _Inside | None = None


class _CohereEvent(msgspec.Struct):
    type: str
    delta: _Outside | None = None


class _InteractionEvent(msgspec.Struct):
    event_type: str | None = None
    delta: _Inner | None = None


class _BlockDelta(msgspec.Struct):
    delta: _Inner


async def openai_chat(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """Text deltas of chat completions."""
    decode = msgspec.json.Decoder(_Chunk).decode
    tail = b""
    async for block in response.content.iter_any():
        *events, tail = (tail + block).split(b"\n\n")
        for event in events:
            data = event[6:]
            if data == b"[DONE]":
                return
            for choice in decode(data).choices:
                if choice.delta.content:
                    yield choice.delta.content


async def anthropic(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """Text deltas of messages."""
    decode = msgspec.json.Decoder(_Event).decode
    tail = b""
    async for block in response.content.iter_any():
        *events, tail = (tail + block).split(b"\n\n")
        for event in events:
            wire = decode(event[event.index(b"\ndata: ") + 7 :])
            if wire.type == "content_block_delta" and wire.delta is not None and wire.delta.text:
                yield wire.delta.text


async def ollama(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """Text deltas of the chat API."""
    decode = msgspec.json.Decoder(_Line).decode
    tail = b""
    async for block in response.content.iter_any():
        *lines, tail = (tail + block).split(b"\n")
        for line in lines:
            wire = decode(line)
            if wire.message.content:
                yield wire.message.content


async def openai_responses(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """Text deltas of responses."""
    decode = msgspec.json.Decoder(_ResponsesEvent).decode
    tail = b""
    async for block in response.content.iter_any():
        *events, tail = (tail + block).split(b"\n\n")
        for event in events:
            wire = decode(event[event.index(b"\ndata: ") + 7 :])
            if wire.type == "response.output_text.delta" and wire.delta:
                yield wire.delta


async def gemini(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """Text of generated chunks."""
    decode = msgspec.json.Decoder(_Generated).decode
    tail = b""
    async for block in response.content.iter_any():
        *events, tail = (tail + block).split(b"\r\n\r\n")
        for event in events:
            for candidate in decode(event[6:]).candidates:
                for part in candidate.content.parts:
                    if part.text:
                        yield part.text


async def gemini_interactions(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """Text deltas of interactions."""
    decode = msgspec.json.Decoder(_InteractionEvent).decode
    tail = b""
    async for block in response.content.iter_any():
        *events, tail = (tail + block).split(b"\n\n")
        for event in events:
            data = event[event.index(b"\ndata: ") + 7 :]
            if data == b"[DONE]":
                return
            wire = decode(data)
            if wire.event_type == "step.delta" and wire.delta is not None and wire.delta.text:
                yield wire.delta.text


async def cohere(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """Text deltas of the chat API."""
    decode = msgspec.json.Decoder(_CohereEvent).decode
    tail = b""
    async for block in response.content.iter_any():
        *events, tail = (tail + block).split(b"\n\n")
        for event in events:
            wire = decode(event[event.index(b"\ndata: ") + 7 :])
            if wire.type == "content-delta" and wire.delta is not None and wire.delta.message is not None:
                content = wire.delta.message.content
                if isinstance(content, _Inner) and content.text:
                    yield content.text


async def bedrock_converse(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """Text deltas of ConverseStream, with both checksums of each message."""
    decode = msgspec.json.Decoder(_BlockDelta).decode
    prelude, last = struct.Struct(">III").unpack_from, struct.Struct(">I").unpack_from
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
            begin = at + 12 + headers
            if data.startswith(b"contentBlockDelta", at + 27):
                text = decode(data[begin : at + total - 4]).delta.text
                if text:
                    yield text
            at += total
        tail = data[at:]


FLOORS = {
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
