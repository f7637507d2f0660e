"""A chat page with `useChat` of the AI SDK, in React: the agent, and the four routes that the page calls.

`vercel.Chats` stores the conversations in a file, and produces each response whether or not a page reads
it. A page that is reloaded, or a second tab, reads the response from its beginning. README.md has how to
build the page and run the server.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.trustedhost import TrustedHostMiddleware

import llmstream as ls
from llmstream.middleware import smooth, wrap
from llmstream.serve.starlette import respond
from llmstream.ui import vercel

HERE = Path(__file__).parent


@ls.tool(needs_approval=True)
async def book_table(city: str, time: str, people: int) -> AsyncGenerator[str]:
    """Book a table at a restaurant.

    Args:
        city: where
        time: such as "19:30"
        people: for how many
    """
    yield "Calling the restaurant"  # what a tool yields before its result is progress, which the page shows
    await asyncio.sleep(1)
    yield f"booked, for {people} in {city} at {time}"


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"{city}: -2 °C, light snow"


def agent(spec: str) -> ls.Agent:
    model = wrap(spec, smooth(0.03))  # word by word, even if a model sends its text in large pieces
    return ls.Agent(model, tools=[book_table, weather], instructions="Be brief.", reasoning="low")


def user_of(request: Request) -> str:
    """Whose conversations: yours, from a cookie or a token. Here, whoever uses the page on this machine."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "Pages of other sites may not use this server.")
    return "me"


def chats_of(request: Request) -> vercel.Chats:
    chats: vercel.Chats = request.app.state.chats
    return chats


User = Annotated[str, Depends(user_of)]
Chats = Annotated[vercel.Chats, Depends(chats_of)]
api = APIRouter(prefix="/api/chat")


@api.post("")
async def send(request: Request, chats: Chats, user: User) -> Response:
    return respond(await chats.answer(await request.body(), user=user, version=7))


@api.get("/{chat_id}/stream")
async def resume(chat_id: str, chats: Chats, user: User) -> Response:
    return respond(await chats.resume(chat_id, user=user, version=7))


@api.post("/{chat_id}/stop")
async def stop(chat_id: str, chats: Chats, user: User) -> bool:
    return await chats.stop(chat_id, user=user)


@api.get("/{chat_id}")
async def load(chat_id: str, chats: Chats, user: User) -> list[dict[str, Any]]:
    return await chats.load(chat_id, user=user, resume=True)


def make_app(spec: str, database: Path) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with vercel.Chats(f"sqlite:{database}", agent(spec)) as app.state.chats:
            yield

    app = FastAPI(lifespan=lifespan)
    # Else a name of another site could be made to point here.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    app.include_router(api)
    app.mount("/dist", StaticFiles(directory=HERE / "dist"))
    app.get("/")(lambda: FileResponse(HERE / "index.html"))
    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--database", type=Path, default=Path("chats.db"), help="file of the conversations")
    arguments = parser.parse_args()
    if not (HERE / "dist" / "page.js").exists():
        parser.error(f"the page is not built. In {HERE}: npm install && npm run build")
    app = make_app(os.environ.get("LLMSTREAM_MODEL", "sim:demo"), arguments.database)
    # Pages that read a response would hold up an exit until its end.
    uvicorn.run(app, host="127.0.0.1", port=arguments.port, timeout_graceful_shutdown=1)
