"""An answer as it is read, piece by piece."""

from __future__ import annotations

import asyncio
import importlib.util
from itertools import groupby
from pathlib import Path

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.testing import FaultServer, answered
from llmstream.transport.http import Response

_spec = importlib.util.spec_from_file_location("sse_server", Path(__file__).parent / "sse_server.py")
assert _spec is not None
assert _spec.loader is not None
sse = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sse)

WORDS = 20_000


async def test_tasks_run_while_a_big_body_is_read(serve, monkeypatch) -> None:
    """The body came in one piece."""

    async def long(request: web.Request) -> web.StreamResponse:
        return await sse.answer(request, [sse.chunk("word") * WORDS, sse.chunk(reason="stop"), sse.DONE])

    read, size = Response.read, 0

    async def read_at_once(self: Response) -> bytes:
        nonlocal size
        pieces = []
        while piece := await read(self):
            pieces.append(piece)
        size = max(size, sum(map(len, pieces)))
        return b"".join(pieces)

    monkeypatch.setattr(Response, "read", read_at_once)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    model = ls.Model("openai:m1", base_url=await serve(long), api_key="key")
    async with model.stream("Hi") as stream:
        turn_of_each = [turns async for event in stream if isinstance(event, ls.TextDelta)]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(turn_of_each) == WORDS
    longest = max(len(list(events)) for _, events in groupby(turn_of_each))
    assert longest * (size / WORDS) <= 64 * 1024


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"the service is down", ls.NotAStream),
        (b"database: gone\nretrying: no", ls.NotAStream),
        (b"\x89PNG\r\n\x1a\n" + bytes(300), ls.NotAStream),
        (b"dat", ls.IncompleteStream),
        (b'data: {"choices": []', ls.IncompleteStream),
        (b": nothing yet\n\n", ls.IncompleteStream),
        (b"\xef\xbb\xbfid: 7\n", ls.IncompleteStream),
    ],
)
async def test_body_missing_framing_is_no_stream(body: bytes, expected: type) -> None:
    """One field of the framing is missing."""
    async with FaultServer(answered(body, content_type="text/plain")) as server:
        model = ls.Model("openai:m", base_url=server.url, api_key="key")
        with pytest.raises(expected):
            await model.stream("Hi", retry=ls.Retry(max_retries=0)).collect()
