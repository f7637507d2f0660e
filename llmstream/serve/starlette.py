"""Sends a body from Starlette and FastAPI."""

from __future__ import annotations

from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from llmstream.serve import asgi
from llmstream.serve.body import Body, Source, body_of

__all__ = ["BodyResponse", "respond"]


class BodyResponse(Response):
    """A Starlette response that sends a `Body`, and leaves its stream as soon as the client leaves."""

    def __init__(self, body: Body, *, background: BackgroundTask | None = None) -> None:
        super().__init__(background=background)
        self.source = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the body. Headers that the application set on the response are sent too."""
        own = {
            name: value
            for name, value in self.headers.items()
            if name not in ("content-length", "content-type")
        }
        self.source.headers = {**self.source.headers, **own}
        await asgi.respond(self.source)(scope, receive, send)
        if self.background is not None:
            await self.background()


def respond(body: Body | Source) -> BodyResponse:
    """Returns a response for a route of Starlette or FastAPI."""
    return BodyResponse(body_of(body))
