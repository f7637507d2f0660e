"""An aiohttp server that streams a model's events to a browser, as Server-Sent Events.

`respond` sends one JSON object for each event, and closes the model's socket when the browser leaves. A
refused request becomes a status; after the head of the response, the browser learns of a failure from the
`error` event.
"""

from __future__ import annotations

import argparse

from aiohttp import web

import llmstream as ls
from llmstream.serve.aiohttp import respond

PAGE = """<!doctype html><title>llmstream</title><pre id="out"></pre><script>
const source = new EventSource("/events?prompt=Hello")
source.onmessage = ({data}) => {
  const event = JSON.parse(data)
  if (event.type === "text-delta") document.getElementById("out").append(event.delta)
}
source.addEventListener("end", () => source.close())
</script>"""

SPEC = web.AppKey("spec", str)


async def page(request: web.Request) -> web.Response:
    return web.Response(text=PAGE, content_type="text/html")


async def events(request: web.Request) -> web.StreamResponse:
    return await respond(request, ls.stream(request.app[SPEC], request.query.get("prompt", "Hello")))


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
    web.run_app(app(arguments.live), host="127.0.0.1", port=arguments.port)
