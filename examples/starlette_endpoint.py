"""A Starlette app that streams a model's events to a browser, as Server-Sent Events.

The same as `web_endpoint.py` for ASGI. Needs `starlette` and `uvicorn`.
"""

from __future__ import annotations

import argparse

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import llmstream as ls
from llmstream.serve.starlette import respond


def app(spec: str) -> Starlette:
    async def events(request: Request) -> Response:
        return respond(ls.stream(spec, request.query_params.get("prompt", "Hello")))

    return Starlette(routes=[Route("/events", events)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--live", metavar="PROVIDER:MODEL", default="sim:demo")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    uvicorn.run(app(arguments.live), host="127.0.0.1", port=arguments.port)
