"""Limits on what an MCP server may send: the size of its responses, and the length of lists in messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import ReadStream, TransportStreams

__all__ = ["MAX_ITEMS", "MAX_MESSAGE_BYTES", "bounded", "bounded_client", "within_cap"]

MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""Longest body over HTTP, and line over stdio: several times the limit for files in a result, in base64."""

# The HTTP client of MCP sessions, which limits the size of responses.
#
# The mcp package buffers a response that is not an event stream, without a limit. For event streams it
# limits the length of lines and buffers nothing else.


def bounded_client(
    headers: dict[str, str], timeout: httpx2.Timeout, max_bytes: int = MAX_MESSAGE_BYTES
) -> httpx2.AsyncClient:
    """Creates a client that refuses compressed responses and those longer than max_bytes.

    raises: ReadError of httpx2, in a request
    """
    import httpx2

    class Counted(httpx2.AsyncByteStream):
        """The body of a response."""

        def __init__(self, inner: httpx2.AsyncByteStream) -> None:
            self._inner = inner

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = max_bytes
            async for piece in self._inner:
                left -= len(piece)
                if left < 0:
                    raise httpx2.ReadError(f"the response is longer than {max_bytes} bytes")
                yield piece

        async def aclose(self) -> None:
            await self._inner.aclose()

    async def check(response: httpx2.Response) -> None:
        # The request accepts no compression; decompressed, a small body could exhaust the memory.
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            await response.aclose()
            raise httpx2.ReadError("the response is compressed although the request forbids it")
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "text/event-stream" and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = Counted(response.stream)

    return httpx2.AsyncClient(
        headers={**headers, "accept-encoding": "identity"},
        timeout=timeout,
        event_hooks={"response": [check]},
    )


# Shortens the lists in messages of an MCP server before the mcp package validates each item.
#
# The package creates an object for every part of a result, and tries all kinds for an invalid part: some
# hundred thousand parts in one message blocked the event loop for seconds (mcp 2.3, seen 2026-11).

MAX_ITEMS: Final = 2000
"""Maximum length of a list in a message, such as tools or parts; validating that many takes 10 ms."""

# All lists in results of MCP 2025-11-25 except `content`, whose texts are joined first.
_LISTS: Final = ("tools", "resources", "resourceTemplates", "prompts", "contents", "messages")
# Only texts without annotations and _meta are joined, which would lose them.
_TEXT_KEYS: Final = {"type", "text"}
# Parts processed before yielding to the event loop, in about a millisecond.
_BATCH: Final = 5000

_log = logging.getLogger("llmstream.mcp")


@asynccontextmanager
async def bounded(transport: AbstractAsyncContextManager[TransportStreams]) -> AsyncGenerator[Any]:
    """Wraps a transport to limit lists in its messages to `MAX_ITEMS`."""
    async with transport as (reading, writing):
        yield _Bounded(reading), writing


class _Bounded:
    """A stream of messages with limited lists."""

    def __init__(self, inner: ReadStream[Any]) -> None:
        self._inner = inner

    async def receive(self) -> Any:
        return await _cut(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> _Bounded:
        return self

    async def __anext__(self) -> Any:
        return await _cut(await self._inner.__anext__())

    async def __aenter__(self) -> _Bounded:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *details: Any) -> Any:
        return await self._inner.__aexit__(*details)

    # The package reads the context of a message from the stream.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def _cut(item: Any) -> Any:
    """Limits the lists of a message; passes on an error instead of one."""
    result = getattr(getattr(item, "message", None), "result", None)
    if isinstance(result, dict):
        await within_cap(result)
    return item


async def within_cap(result: dict[str, Any]) -> None:
    """Shortens the lists of a result in place, after joining neighbouring texts, which loses nothing."""
    content = result.get("content")
    if isinstance(content, list) and len(content) > MAX_ITEMS:
        result["content"] = await _shortened(content)
    for name in _LISTS:
        found = result.get(name)
        if isinstance(found, list) and len(found) > MAX_ITEMS:
            _log.warning("the MCP server sent %d %s; the first %d are used", len(found), name, MAX_ITEMS)
            result[name] = found[:MAX_ITEMS]


async def _shortened(content: list[Any]) -> list[Any]:
    found: list[Any] = []
    texts: list[str] = []
    for start in range(0, len(content), _BATCH):
        for block in content[start : start + _BATCH]:
            if _is_plain_text(block):
                texts.append(block["text"])
                continue
            found += _joined(texts)
            texts = []
            found.append(block)
        # What follows would be cut off below.
        if len(found) > MAX_ITEMS:
            break
        await asyncio.sleep(0)
    found += _joined(texts)
    if len(found) <= MAX_ITEMS:
        return found
    return [*found[:MAX_ITEMS], {"type": "text", "text": f"[cut: the first parts of {len(content)}]"}]


def _is_plain_text(block: Any) -> bool:
    return (
        isinstance(block, dict)
        and block.keys() == _TEXT_KEYS
        and block["type"] == "text"
        and isinstance(block["text"], str)
    )


def _joined(texts: list[str]) -> list[Any]:
    """Joins texts as the result of a tool does."""
    return [{"type": "text", "text": "\n".join(texts)}] if texts else []
