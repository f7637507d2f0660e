"""Answers in the style of Chat Completions, written by hand, and a server that gives them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

from aiohttp import web


def chunk(content: str | None = None, *, reason: str | None = None, **delta: object) -> bytes:
    """One chunk of an answer."""
    if content is not None:
        delta["content"] = content
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return b"data: " + json.dumps({"id": "r1", "model": "m1", "choices": [choice]}).encode() + b"\n\n"


def call(name: str, arguments: str, call_id: str, index: int = 0) -> bytes:
    """A chunk that holds a whole tool call."""
    function = {"name": name, "arguments": arguments}
    return chunk(tool_calls=[{"index": index, "id": call_id, "type": "function", "function": function}])


USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}\n\n'
DONE = b"data: [DONE]\n\n"
HELLO = [chunk("Hel"), chunk("lo"), chunk(reason="stop"), USAGE, DONE]


async def answer(request: web.Request, pieces: Iterable[bytes | float]) -> web.StreamResponse:
    """Streams pieces, each its own write; a number waits that many seconds."""
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for piece in pieces:
        if isinstance(piece, bytes):
            await response.write(piece)
        else:
            await asyncio.sleep(piece)
    await response.write_eof()
    return response
