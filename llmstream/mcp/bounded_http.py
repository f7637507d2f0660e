"""The HTTP client of MCP sessions, which limits the size of responses.

The mcp package buffers a response that is not an event stream, without a limit. For event streams it
limits the length of lines and buffers nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx2

__all__ = ["MAX_BODY_BYTES", "bounded_client"]

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
"""Several times the limit for files in a result, in base64."""


def bounded_client(
    headers: dict[str, str], timeout: httpx2.Timeout, max_bytes: int = MAX_BODY_BYTES
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
