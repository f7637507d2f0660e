"""A chat in the browser, served by FastAPI: copy this folder, and change the agent.

    python examples/web_chat/app.py        # then open http://127.0.0.1:8000

The page and the conversations are those of `llmstream web`. An answer goes on when the page is reloaded or
closed; other tabs show it too; calls that need approval wait for a click, for days if need be. There is no
login here: add yours as a dependency of the router, and a ConversationStore for each user.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import uvicorn
from fastapi import APIRouter, Body, Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles

import llmstream as ls
from llmstream import web
from llmstream.serve.starlette import respond


@ls.tool(needs_approval=True)
async def send_mail(to: str, text: str, context: ls.ToolContext) -> str:
    """Send a mail."""
    await context.report({"status": "connecting", "done": 1, "of": 2})
    await asyncio.sleep(0.3)  # as if there were a mail server
    return f"sent to {to}"


def agent(spec: str) -> ls.Agent:
    return ls.Agent(spec, tools=[send_mail], instructions="Be brief.")


def same_origin(request: Request) -> None:
    """Other sites may not send requests by the browsers of this one's visitors."""
    refused = web.refusal(request.headers, token=None, local=False)
    if refused is not None:
        raise HTTPException(*refused)


api = APIRouter(prefix="/api", dependencies=[Depends(same_origin)])


def conversations_of(request: Request) -> web.Conversations:
    found: web.Conversations = request.app.state.conversations
    return found


Conversations = Annotated[web.Conversations, Depends(conversations_of)]
Prompt = Annotated[str, Body(embed=True)]
Decisions = Annotated[dict[str, dict[str, Any]], Body(embed=True)]


def as_json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


@api.get("/settings")
async def settings(request: Request) -> dict[str, Any]:
    tools = {send_mail.name: "Sends a mail, once you approve it."}
    return {"model": request.app.state.spec, "tools": tools, "suggestions": ["Write to Ada, please."]}


@api.get("/conversations")
async def summaries(conversations: Conversations) -> Response:
    return as_json(conversations.summaries())


@api.post("/conversations")
async def begin(conversations: Conversations, prompt: Prompt) -> Response:
    return as_json(await conversations.begin(prompt))


@api.get("/conversations/{name}")
async def view(conversations: Conversations, name: str) -> Response:
    return as_json(await conversations.view(name))


@api.delete("/conversations/{name}")
async def delete(conversations: Conversations, name: str) -> Response:
    await conversations.delete(name)
    return as_json({})


@api.post("/conversations/{name}/messages")
async def send(conversations: Conversations, name: str, prompt: Prompt) -> Response:
    return as_json(await conversations.send(name, prompt))


@api.post("/conversations/{name}/decisions")
async def decide(conversations: Conversations, name: str, decisions: Decisions) -> Response:
    return as_json(await conversations.decide(name, msgspec.convert(decisions, dict[str, web.Decision])))


@api.post("/conversations/{name}/retry")
async def retry(conversations: Conversations, name: str) -> Response:
    return as_json(await conversations.retry(name))


@api.post("/conversations/{name}/stop")
async def stop(conversations: Conversations, name: str) -> Response:
    await conversations.stop(name)
    return as_json({})


@api.get("/runs/{run}/events")
async def events(
    conversations: Conversations, run: str, last_event_id: Annotated[str | None, Header()] = None
) -> Response:
    """The events of a run, from the one after the last that the page has; leaving does not stop the run."""
    return respond(await conversations.body(run, last_event_id))


class Page(StaticFiles):
    """The files of the page, with the policy that admits no script but theirs."""

    def file_response(self, *args: Any, **options: Any) -> Response:  # noqa: D102
        response = super().file_response(*args, **options)
        response.headers.update(web.PAGE_HEADERS)
        return response


async def refused(request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, ls.LLMStreamError) else None
    return JSONResponse({"error": {"message": str(error)}}, status or 400)


def make_app(spec: str = "sim:demo", folder: Path = Path()) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        store = web.ConversationStore(folder / "conversations.db")
        async with ls.open_logs(f"sqlite:{folder / 'runs.db'}") as logs:
            app.state.spec = spec
            app.state.conversations = web.Conversations(agent(spec), logs, store)
            yield
        await app.state.conversations.aclose()
        store.close()

    app = FastAPI(lifespan=lifespan, exception_handlers={ls.InvalidRequest: refused})
    app.include_router(api)
    app.mount("/", Page(directory=web.PAGE, html=True))
    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--live", metavar="PROVIDER:MODEL", default="sim:demo")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--folder", type=Path, default=Path(), help="where conversations are stored")
    arguments = parser.parse_args()
    app = make_app(arguments.live, arguments.folder)
    # Pages that follow a run would hold an exit up until it ends.
    uvicorn.run(app, host="127.0.0.1", port=arguments.port, timeout_graceful_shutdown=1)
