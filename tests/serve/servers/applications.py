"""The same routes in every framework, for a server in a process of its own.

`GET /FRAMEWORK/CASE?prompt=...` is a response, `GET /state` what the sources noticed.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import llmstream as ls
from llmstream import serve
from llmstream.events import Event, Finish, StreamStart, TextDelta, TextStart
from llmstream.serve import asgi, wsgi

MODEL = ls.Model(
    "openai:sim",
    base_url=os.environ.get("SIMULATOR_URL", "http://127.0.0.1:9") + "/v1",
    api_key="key",
    retry=ls.Retry(max_retries=0),
)
TAKEN: Counter[str] = Counter()  # bytes of text that each prompt's source has given
LEFT: Counter[str] = Counter()  # sources that were closed, by prompt


async def flood(prompt: str) -> AsyncIterator[Event]:
    """Text without an end, as fast as it is taken."""
    try:
        yield StreamStart()
        yield TextStart("0")
        while True:
            TAKEN[prompt] += 10_000
            yield TextDelta("x" * 10_000, "0")
            await asyncio.sleep(0)
    finally:
        LEFT[prompt] += 1


async def failing(prompt: str) -> AsyncIterator[Event]:
    """Text, then a defect of the application; at once if the prompt is "early"."""
    yield StreamStart()
    if prompt != "early":
        yield TextStart("0")
        yield TextDelta("Half an", "0")
        await asyncio.sleep(0.05)
    raise ZeroDivisionError("a defect of the application")
    yield Finish("stop")


def body(case: str, prompt: str) -> serve.Body:
    """The response of a route."""
    match case:
        case "ask":
            return serve.Body(MODEL.stream(prompt), heartbeat_s=60)
        case "text":
            return serve.Body(MODEL.stream(prompt), serve.TextWriter())
        case "failing":
            return serve.Body(failing(prompt))
        case "flood":
            return serve.Body(flood(prompt), send_timeout_s=60)
        case "lost":
            return serve.Body(flood(prompt), send_timeout_s=0.3)
        case "beating":
            return serve.Body(MODEL.stream(prompt), heartbeat_s=0.5)
        case "plain":
            return serve.Body.plain(204) if prompt == "empty" else serve.Body.plain(409, "Reload the page.")
    raise ValueError(f"no case {case!r}")


def asked(path: str, query: bytes) -> tuple[str, str]:
    """Case and prompt of a request."""
    return path.rsplit("/", 1)[1], parse_qs(query.decode())["prompt"][0]


def state() -> bytes:
    """What the sources of this process noticed, as JSON."""
    return json.dumps({"taken": TAKEN, "left": LEFT, "process": os.getpid()}).encode()


def tasks() -> list[str]:
    """What the loop's tasks run."""
    return sorted(getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks())


# ASGI


async def plain(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
    await asgi.respond(body(*asked(scope["path"], scope["query_string"])))(scope, receive, send)


def starlette() -> asgi.ASGIApp:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from llmstream.serve.starlette import respond

    async def answer(request: Request) -> Response:
        response = respond(body(request.path_params["case"], request.query_params["prompt"]))
        response.set_cookie("first", "1")
        response.set_cookie("second", "2")
        return response

    return Starlette(routes=[Route("/starlette/{case}", answer), Route("/middleware/{case}", answer)])


def middleware() -> asgi.ASGIApp:
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.requests import Request
    from starlette.responses import Response

    async def dispatch(request: Request, call_next: Any) -> Response:
        response: Response = await call_next(request)
        response.headers["x-middleware"] = "yes"
        return response

    return BaseHTTPMiddleware(starlette(), dispatch)


def fastapi() -> asgi.ASGIApp:
    from fastapi import FastAPI
    from starlette.responses import Response

    from llmstream.serve.starlette import respond

    app = FastAPI()

    async def answer(case: str, prompt: str) -> Response:
        return respond(body(case, prompt))

    answer.__annotations__["return"] = Response  # names of this function cannot be found by their text
    app.get("/fastapi/{case}")(answer)
    return app


def litestar() -> asgi.ASGIApp:
    from litestar import Litestar, get
    from litestar.types import ASGIApp

    async def answer(case: str, prompt: str) -> Any:
        return asgi.respond(body(case, prompt))

    answer.__annotations__.update({"case": str, "prompt": str, "return": ASGIApp})
    return Litestar([get("/litestar/{case:str}")(answer)])


async def django_view(request: Any, case: str) -> Any:
    from llmstream.serve.django import respond

    return await respond(body(case, request.GET["prompt"]))


def django_sync_view(request: Any, case: str) -> Any:
    from django.http import StreamingHttpResponse

    sent = wsgi.respond(lambda: body(case, request.GET["prompt"]), request.META)
    return StreamingHttpResponse(sent, status=sent.status, headers=sent.headers)


def configure_django() -> None:
    import django
    from django.conf import settings
    from django.urls import path

    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="for tests", ROOT_URLCONF=__name__)
        django.setup(set_prefix=False)
    globals()["urlpatterns"] = [
        path("django/<case>", django_view),
        path("django-wsgi/<case>", django_sync_view),
    ]


def django() -> asgi.ASGIApp:
    from django.core.asgi import get_asgi_application

    configure_django()
    return get_asgi_application()


ASGI_FRAMEWORKS: dict[str, Callable[[], asgi.ASGIApp]] = {
    "plain": lambda: plain,
    "starlette": starlette,
    "middleware": middleware,
    "fastapi": fastapi,
    "litestar": litestar,
    "django": django,
}


PAGE = """<!doctype html><title>frames</title><link rel=icon href="data:,"><script type=module>
const asked = new URLSearchParams(location.search)
const address = `/plain/${asked.get('case')}?prompt=${asked.get('prompt')}`
// Later, so that a page that asks again would have done so.
const report = read => setTimeout(() => fetch('/report', { method: 'POST', body: JSON.stringify(read) }), 200)
"""
BY_EVENT_SOURCE = """
const source = new EventSource(address)
const frames = []
source.onmessage = ({ data, lastEventId }) => frames.push({ data, id: lastEventId })
source.addEventListener('end', () => { source.close(); report(frames) })
"""
BY_FETCH = """
const events = []
try {
  for await (const event of read(await fetch(address))) events.push(event)
} catch (error) {
  events.push(error.message)
}
report(events)
"""


def script(by: str) -> str:
    """The page's program; `read` is the one of the guide."""
    if by != "fetch":
        return BY_EVENT_SOURCE
    guide = (Path(__file__).parents[3] / "docs" / "guides" / "serving.md").read_text(encoding="utf-8")
    return guide.partition('```js title="fetch.js"\n')[2].partition("```")[0] + BY_FETCH


REPORTS: list[Any] = []  # the frames that a page has read


async def page(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
    """The page that reads a response, and where it reports."""
    if scope["method"] == "POST":
        data, more = b"", True
        while more:
            message = await receive()
            data, more = data + message["body"], message.get("more_body", False)
        REPORTS.append(json.loads(data))
    by = parse_qs(scope["query_string"].decode()).get("by", [""])[0]
    html = f"{PAGE}{script(by)}</script>".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
    await send({"type": "http.response.body", "body": html})


def asgi_application() -> asgi.ASGIApp:
    """All frameworks, each below its name, and imported by its first request: it takes seconds."""

    @functools.cache
    def app(name: str) -> asgi.ASGIApp:
        return ASGI_FRAMEWORKS[name]()

    async def application(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        if scope["type"] == "lifespan":
            await lifespan(receive, send)
        elif scope["path"] in ("/page", "/report"):
            await page(scope, receive, send)
        elif scope["path"] == "/state":
            found = json.loads(state()) | {"tasks": tasks(), "reports": REPORTS}
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": json.dumps(found).encode()})
        else:
            await app(scope["path"].split("/")[1])(scope, receive, send)

    return application


async def lifespan(receive: asgi.Receive, send: asgi.Send) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


# aiohttp


def aiohttp_application() -> Any:
    from aiohttp import web

    from llmstream.serve.aiohttp import respond

    async def answer(request: web.Request) -> web.StreamResponse:
        return await respond(request, body(request.match_info["case"], request.query["prompt"]))

    async def show(request: web.Request) -> web.Response:
        return web.json_response(json.loads(state()) | {"tasks": tasks()})

    app = web.Application()
    app.add_routes([web.get("/aiohttp/{case}", answer), web.get("/state", show)])
    return app


# WSGI


def plain_wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
    case, prompt = asked(environ["PATH_INFO"], environ["QUERY_STRING"].encode())
    sent = wsgi.respond(lambda: body(case, prompt), environ)
    start_response(sent.status_line, list(sent.headers.items()))
    return sent


def flask() -> Any:
    from flask import Flask, Response, request

    app = Flask(__name__)

    @app.get("/flask/<case>")
    def answer(case: str) -> Response:
        prompt = request.args["prompt"]
        sent = wsgi.respond(lambda: body(case, prompt), request.environ)
        return Response(sent, status=sent.status, headers=sent.headers)

    return app


def django_wsgi() -> Any:
    from django.core.wsgi import get_wsgi_application

    configure_django()
    return get_wsgi_application()


WSGI_FRAMEWORKS: dict[str, tuple[str, Callable[[], Any]]] = {
    "plain-wsgi": ("llmstream", lambda: plain_wsgi),
    "flask": ("flask", flask),
    "django-wsgi": ("django", django_wsgi),
}


def wsgi_application() -> Any:
    """All frameworks that are installed, each below its name; imported before gunicorn forks."""
    apps = {name: make() for name, (package, make) in WSGI_FRAMEWORKS.items() if find_spec(package)}

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
        if environ["PATH_INFO"] == "/state":
            start_response("200 OK", [("content-type", "application/json")])
            return iter([state()])
        chunks: Iterator[bytes] = apps[environ["PATH_INFO"].split("/")[1]](environ, start_response)
        return chunks

    return application
