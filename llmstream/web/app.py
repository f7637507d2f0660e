"""The chat as an application of aiohttp: the files of the page, and the API that it calls.

    GET    api/settings                        model, tools, suggestions
    GET    api/conversations                   summaries
    POST   api/conversations                   {"prompt": ...}       begins one
    GET    api/conversations/ID                the view
    DELETE api/conversations/ID
    POST   api/conversations/ID/messages       {"prompt": ...}
    POST   api/conversations/ID/decisions      {"decisions": {...}}
    POST   api/conversations/ID/retry
    POST   api/conversations/ID/stop
    GET    api/runs/RUN/events                 Server-Sent Events; `Last-Event-ID` continues

Responses are JSON, a view where none is named; a refusal is `{"error": {"message": ...}}`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from aiohttp import web

from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.first_use import prepared
from llmstream.serve import status_of
from llmstream.serve.aiohttp import respond
from llmstream.web.admission import PAGE, PAGE_HEADERS, refusal
from llmstream.web.conversations import Conversations
from llmstream.web.store import Decision

__all__ = ["Settings", "error_response", "json_response", "make_app", "page_routes"]

_T = TypeVar("_T")
_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

# A prompt is typed or pasted; files are not uploaded.
_MAX_BODY_BYTES: Final = 4 * 1024 * 1024


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    """What the page shows of its server.

    tools:       name to description
    suggestions: prompts to click
    """

    model: str
    tools: dict[str, str] = {}
    suggestions: list[str] = []


class _Prompt(msgspec.Struct):
    prompt: str


class _Decisions(msgspec.Struct):
    decisions: dict[str, Decision]


def make_app(
    conversations: Conversations, settings: Settings, *, token: str, local: bool = True
) -> web.Application:
    """Returns the application.

    token: each API request has to bring it, as `authorization: Bearer TOKEN`
    local: whether the server listens on this machine alone, which is then the only Host it answers to
    """
    api = _API(conversations, settings)

    @web.middleware
    async def admit(request: web.Request, handler: _Handler) -> web.StreamResponse:
        # The files of the page hold no secret, and a browser requests them without the token.
        wanted = token if request.path.startswith("/api/") else None
        refused = refusal(request.headers, token=wanted, local=local)
        if refused is not None:
            return error_response(*refused)
        try:
            return await handler(request)
        except InvalidRequest as error:
            return error_response(error.status or 400, error.message)
        except LLMStreamError as error:
            return error_response(
                status_of(error.info), error.message if conversations.details else error.public_message
            )

    app = web.Application(middlewares=[admit], client_max_size=_MAX_BODY_BYTES)
    app.add_routes(
        [
            *page_routes(PAGE),
            web.get("/api/settings", api.settings),
            web.get("/api/conversations", api.conversations),
            web.post("/api/conversations", api.begin),
            web.get("/api/conversations/{id}", api.view),
            web.delete("/api/conversations/{id}", api.delete),
            web.post("/api/conversations/{id}/messages", api.send),
            web.post("/api/conversations/{id}/decisions", api.decide),
            web.post("/api/conversations/{id}/retry", api.retry),
            web.post("/api/conversations/{id}/stop", api.stop),
            web.get("/api/runs/{run}/events", api.events),
        ]
    )
    return app


class _API:
    """The handlers below `api/`."""

    def __init__(self, conversations: Conversations, settings: Settings) -> None:
        self._conversations, self._settings = conversations, settings

    async def settings(self, request: web.Request) -> web.Response:
        return json_response(self._settings)

    async def conversations(self, request: web.Request) -> web.Response:
        return json_response(self._conversations.summaries())

    async def begin(self, request: web.Request) -> web.Response:
        return json_response(await self._conversations.begin((await _body(request, _Prompt)).prompt))

    async def view(self, request: web.Request) -> web.Response:
        return json_response(await self._conversations.view(_id(request)))

    async def delete(self, request: web.Request) -> web.Response:
        await self._conversations.delete(_id(request))
        return json_response({})

    async def send(self, request: web.Request) -> web.Response:
        return json_response(
            await self._conversations.send(_id(request), (await _body(request, _Prompt)).prompt)
        )

    async def decide(self, request: web.Request) -> web.Response:
        decisions = (await _body(request, _Decisions)).decisions
        return json_response(await self._conversations.decide(_id(request), decisions))

    async def retry(self, request: web.Request) -> web.Response:
        return json_response(await self._conversations.retry(_id(request)))

    async def stop(self, request: web.Request) -> web.Response:
        await self._conversations.stop(_id(request))
        return json_response({})

    async def events(self, request: web.Request) -> web.StreamResponse:
        after = request.headers.get("last-event-id")
        return await respond(request, await self._conversations.body(request.match_info["run"], after))


def _id(request: web.Request) -> str:
    return request.match_info["id"]


async def _body(request: web.Request, form: type[_T]) -> _T:
    # A form of another site can send text/plain without asking; JSON needs its permission (CORS).
    if request.content_type != "application/json":
        raise web.HTTPUnsupportedMediaType(text="Send application/json.")
    try:
        return msgspec.json.decode(await request.read(), type=prepared(form))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise web.HTTPBadRequest(text=f"the request is not as expected: {error}") from None


def json_response(value: Any) -> web.Response:
    """A value as JSON, only for the page."""
    return web.Response(
        body=msgspec.json.encode(value),
        content_type="application/json",
        headers={"cache-control": "no-store", "x-content-type-options": "nosniff"},
    )


def error_response(status: int, message: str) -> web.Response:
    """A refusal."""
    response = json_response({"error": {"message": message}})
    response.set_status(status)
    return response


def page_routes(folder: Path) -> list[web.RouteDef]:
    """The files of a page, by their names; the API of its server is below `api/`."""

    async def file(request: web.Request) -> web.StreamResponse:
        # Resolved before it is compared: `..` and links lead out of the folder.
        path = (folder / (request.match_info.get("path") or "index.html")).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            raise web.HTTPNotFound
        return web.FileResponse(path, headers=PAGE_HEADERS)

    return [web.get("/", file), web.get("/{path:(?!api/).+}", file)]
