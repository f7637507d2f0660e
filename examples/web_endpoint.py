"""An aiohttp server that streams a model's events to a browser, as Server-Sent Events.

`events.encode` is the wire form: one JSON object per event. A browser that disconnects cancels the
handler, which closes the model's socket. `errors="events"`, because the head of the response is sent
by then: the browser learns of a failure from the `error` event.
"""

from __future__ import annotations

import argparse

import aiohttp
from aiohttp import web

import llmstream as ls

PAGE = """<!doctype html><title>llmstream</title><pre id="out"></pre><script>
const source = new EventSource("/events?prompt=Hello")
source.onmessage = ({data}) => {
  const event = JSON.parse(data)
  if (event.type === "text-delta") document.getElementById("out").append(event.delta)
  if (event.type === "finish") source.close()
}
</script>"""

SPEC = web.AppKey("spec", str)


async def page(request: web.Request) -> web.Response:
    return web.Response(text=PAGE, content_type="text/html")


async def events(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
    await response.prepare(request)
    prompt = request.query.get("prompt", "Hello")
    try:
        async with ls.stream(request.app[SPEC], prompt, errors="events") as stream:
            async for event in stream:
                await response.write(b"data: " + ls.events.encode(event) + b"\n\n")
    except aiohttp.ClientConnectionResetError:
        pass  # the browser left
    return response


def app(spec: str) -> web.Application:
    application = web.Application()
    application[SPEC] = spec
    application.add_routes([web.get("/", page), web.get("/events", events)])
    return application


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--live", metavar="PROVIDER:MODEL", default="sim:demo")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    web.run_app(app(arguments.live), host="127.0.0.1", port=arguments.port, handler_cancellation=True)
