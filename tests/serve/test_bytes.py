"""Bodies of bytes that are written elsewhere, read by a task of their own or by the one that sends."""

from __future__ import annotations

import asyncio

import pytest

import llmstream as ls
from llmstream import serve


class Chunks:
    """Three chunks, then a failure or the end; notes that it was left."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.left = 0
        self._failure = failure
        self._rest = [b"a", b"b", b"c"]
        self.task: asyncio.Task[object] | None = None

    def __aiter__(self) -> Chunks:
        return self

    async def __anext__(self) -> bytes:
        self.task = asyncio.current_task()
        if self._rest:
            return self._rest.pop(0)
        if self._failure is not None:
            raise self._failure
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.left += 1


@pytest.mark.parametrize("direct", [True, False])
async def test_bytes_read_by_their_sender(direct: bool) -> None:
    """With and without a task of their own, a body gives the same, and is watched."""
    source, seen = Chunks(), list[bytes]()
    body = serve.Body.of_bytes(source, {}, direct=direct)
    body.watch = seen.append
    assert b"".join([chunk async for chunk in body]) == b"abc"
    assert (b"".join(seen), seen[-1], seen.count(b"")) == (b"abc", b"", 1)
    assert source.left >= 1
    assert (source.task is asyncio.current_task()) is direct


@pytest.mark.parametrize("direct", [True, False])
async def test_failures_come_behind_the_bytes(direct: bool) -> None:
    source, got = Chunks(ls.IncompleteStream("broken")), b""
    body = serve.Body.of_bytes(source, {}, direct=direct)
    with pytest.raises(ls.IncompleteStream, match="broken"):
        async for chunk in body:
            got += chunk
    assert (got, source.left >= 1) == (b"abc", True)


class Silent(Chunks):
    """Waits for its first chunk longer than a client may take for one."""

    async def __anext__(self) -> bytes:
        if len(self._rest) == 3:
            until = asyncio.get_running_loop().time() + 0.2
            while asyncio.get_running_loop().time() < until:
                await asyncio.sleep(0.05)
        return await super().__anext__()


@pytest.mark.parametrize("direct", [True, False])
async def test_silent_sources_lose_no_client(direct: bool) -> None:
    """While there is nothing to take, nobody is gone for taking nothing."""
    lost = list[str]()
    body = serve.Body.of_bytes(Silent(), {}, direct=direct, send_timeout_s=0.05)
    body.on_lost = lambda: lost.append(body.lost)
    assert b"".join([chunk async for chunk in body]) == b"abc"
    assert lost == []
