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


FLOORS = {"openai-chat": openai_chat, "anthropic": anthropic, "ollama": ollama}
