"""The floor: what a good engineer writes by hand for one vendor: read, split, typed decode.

It has no grammar, no events, no errors, no limits, and trusts every byte.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

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


FLOORS = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
}
