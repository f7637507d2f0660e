"""Sends a body from Starlette and FastAPI."""

from __future__ import annotations

from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from llmstream.serve import asgi
from llmstream.serve.body import Body, Source, body_of

__all__ = ["BodyResponse", "respond"]

# Headers of the empty response that a BodyResponse would be by itself.
_NOT_OURS = frozenset({b"content-length", b"content-type"})


class BodyResponse(Response):
    """A Starlette response that sends a `Body`, and closes its stream as soon as the client disconnects.

    Headers and cookies that the application sets on it are sent too.
    """

    def __init__(self, body: Body, *, background: BackgroundTask | None = None) -> None:
        super().__init__(background=background)
        self.source = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the body, then runs the background task."""
        set_here = [header for header in self.raw_headers if header[0] not in _NOT_OURS]
        await asgi.respond(self.source, headers=set_here)(scope, receive, send)
        if self.background is not None:
            await self.background()


def respond(body: Body | Source) -> BodyResponse:
    """Returns a response for a route of Starlette or FastAPI."""
    return BodyResponse(body_of(body))
