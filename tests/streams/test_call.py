"""A call until its content comes: what is asked again, what of a failed attempt is given, how it is left."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Sequence

import aiohttp
import pytest

import llmstream as ls
from llmstream.events import Raw, ResponseMetadata, TextStart
from llmstream.testing import Do, FaultServer, answered, gzipped, head
from llmstream.testing.faults import Step


def said(kind: str, **fields: object) -> bytes:
    """One event of Anthropic's wire."""
    return b"data: " + json.dumps({"type": kind, **fields}).encode() + b"\n\n"


START = said("message_start", message={"id": "m1", "model": "m", "usage": {"input_tokens": 7}})
OPENED = START + said("content_block_start", index=0, content_block={"type": "text", "text": ""})
HELLO = said("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hello"})
END = said("message_delta", delta={"stop_reason": "end_turn"}) + said("message_stop")
WAIT = [head(503, {"retry-after": "30", "content-length": "0"})]


def model(server: FaultServer) -> ls.Model:
    """A model that asks the server, and again at once."""
    return ls.Model("anthropic:m", base_url=server.url, api_key="key", retry=ls.Retry(max_retries=2))


async def test_text_start_alone_is_retried() -> None:
    async with FaultServer(answered(OPENED, Do.RESET), answered(OPENED, HELLO, END)) as server:
        stream = model(server).stream("Hi")
        events = [event async for event in stream]
    assert ls.grammar.check(events) == []
    assert [event for event in events if isinstance(event, TextStart)] == [TextStart("0")]
    assert (stream.text, server.connections) == ("Hello", 2)


async def test_events_before_failure_are_given() -> None:
    """The failure has no content."""
    async with FaultServer(answered(OPENED, Do.RESET)) as server:
        stream = model(server).stream("Hi", retry=ls.Retry(max_retries=1), include_raw=True)
        events = []
        with pytest.raises(ls.ConnectionLost) as caught:
            async for event in stream:
                events.append(event)
    assert ls.grammar.check(events) == []
    assert [event.id for event in events if isinstance(event, ResponseMetadata)] == ["m1"]
    assert len([event for event in events if isinstance(event, Raw)]) == 2  # of the last attempt alone
    assert caught.value.usage is not None
    assert (stream.usage.input_tokens, caught.value.usage.input_tokens, caught.value.attempts) == (7, 7, 2)


@pytest.mark.parametrize(
    "script",
    [[Do.HANG], answered(Do.HANG), answered(OPENED, Do.HANG), answered(OPENED, HELLO, Do.HANG), WAIT],
)
async def test_stream_left_elsewhere_not_retried(
    script: Sequence[Step],
) -> None:
    """Another task leaves it; its reader's iteration ends."""
    async with FaultServer(script) as server:
        stream = model(server).stream("Hi", retry=ls.Retry(max_retries=2, max_wait_s=60))
        reader = asyncio.create_task(stream.collect())
        while not server.requests:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        await stream.aclose()
        async with asyncio.timeout(1):
            with pytest.raises(ls.ConnectionLost):
                await reader
        await server.left()
        assert server.connections == 1
    said_so_far = [message.text for message in stream.messages()[1:]]
    assert said_so_far == (["Hello"] if HELLO in b"".join(s for s in script if isinstance(s, bytes)) else [])


async def test_own_session_settings_are_overridden() -> None:
    """Its raise_for_status and auto_decompress do not apply."""
    refused = [head(429, {"retry-after": "120", "content-length": "0"})]
    packed = gzipped(OPENED, HELLO, END)
    whole = answered(*packed, headers={"content-encoding": "gzip"})
    async with (
        FaultServer(refused, whole) as server,
        aiohttp.ClientSession(raise_for_status=True, auto_decompress=False) as session,
    ):
        asked = ls.Model("anthropic:m", base_url=server.url, api_key="key", session=session)
        with pytest.raises(ls.RateLimited) as caught:
            await asked.stream("Hi").collect()
        assert caught.value.retry_after_s == 120
        assert (await asked.stream("Hi").collect()).text == "Hello"


async def test_cut_deflate_is_an_unreadable_body() -> None:
    packer = zlib.compressobj()
    packed = packer.compress(OPENED + HELLO) + packer.flush(zlib.Z_SYNC_FLUSH)
    async with FaultServer(answered(packed, headers={"content-encoding": "deflate"})) as server:
        with pytest.raises(ls.DecodeError) as caught:
            await model(server).stream("Hi").collect()
    assert caught.value.partial is not None
    assert caught.value.partial.text == "Hello"
