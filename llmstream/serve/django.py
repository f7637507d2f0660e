"""Sends a body from an async view of Django, served by ASGI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from django.http import StreamingHttpResponse  # type: ignore[import-untyped]

from llmstream.errors import InvalidRequest
from llmstream.serve.body import Body, Source, body_of

__all__ = ["BodyResponse", "respond"]


class BodyResponse(StreamingHttpResponse):  # type: ignore[misc]  # Django has no types
    """A streaming response of Django's that only ASGI can send."""

    def __init__(self, body: Body) -> None:
        super().__init__(aiter(body), status=body.status, headers=body.headers)
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in super().__aiter__():
                yield part
        finally:
            # Django closes only this iterator; inner ones would be left to the garbage collector.
            await self._body.aclose()

    def __iter__(self) -> Iterator[bytes]:
        raise InvalidRequest(
            "WSGI cannot send the response of serve.django.respond, whose stream runs in the event loop of "
            "an async view. Serve the project by ASGI, or use serve.wsgi.respond in a view that is not async."
        )


async def respond(body: Body | Source) -> BodyResponse:
    """Returns the response for an async view: `return await respond(model.stream(prompt))`.

    The view is cancelled when the client disconnects, which closes the stream.
    """
    sent = body_of(body)
    await sent.open()
    return BodyResponse(sent)
