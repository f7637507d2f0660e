"""A Starlette app that streams a model's events to a browser, as Server-Sent Events.

The same as `web_endpoint.py` for ASGI: an async generator in a `StreamingResponse`. When the browser
disconnects, Starlette cancels the response, and leaving the generator closes the model's socket. Needs
`starlette` and `uvicorn`.
"""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

import llmstream as ls


async def sse(spec: str, prompt: str) -> AsyncIterator[bytes]:
    """The events of a response as SSE frames."""
    async with ls.stream(spec, prompt, errors="events") as stream:
        async for event in stream:
            yield b"data: " + ls.events.encode(event) + b"\n\n"


def app(spec: str) -> Starlette:
    async def events(request: Request) -> StreamingResponse:
        prompt = request.query_params.get("prompt", "Hello")
        return StreamingResponse(sse(spec, prompt), media_type="text/event-stream")

    return Starlette(routes=[Route("/events", events)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--live", metavar="PROVIDER:MODEL", default="sim:demo")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    uvicorn.run(app(arguments.live), host="127.0.0.1", port=arguments.port)
