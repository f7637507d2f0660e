"""React's `useChat` in a real browser, over `Chats`: an approval, and a reload inside of the response."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.chats.message import Role
from llmstream.serve.aiohttp import respond
from llmstream.simulator import Call, Pace, Simulator, Turn
from llmstream.ui import vercel
from tests.browser import CHROMIUM

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CHROMIUM, reason="no Chromium")]

LONG = "It was a dark and stormy night, and the rain fell in torrents. " * 10
VISIT_S = 60.0


@ls.tool(needs_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def script(request: Any, number: int) -> Turn:
    if request.messages[-1].role == Role.TOOL:
        return Turn(text=LONG, pace=Pace(tokens_per_s=60))
    return Turn(text="May I?", calls=(Call("delete", {"path": "notes.txt"}),))


@pytest.fixture
def bundle(node: Path) -> bytes:
    """The page's program with React in it."""
    esbuild = node / "node_modules" / ".bin" / "esbuild"
    if not esbuild.exists() or not (node / "node_modules" / "@ai-sdk" / "react").is_dir():
        pytest.skip("esbuild or @ai-sdk/react of npm is not installed; see tests/peers/README.md")
    made = node / "react_page.js"
    subprocess.run(
        [esbuild, "react_page.mjs", "--bundle", "--format=esm", f"--outfile={made}", "--log-level=error"],
        cwd=node,
        check=True,
    )
    return made.read_bytes()


@asynccontextmanager
async def site(bundle: bytes) -> AsyncIterator[tuple[str, asyncio.Future[Any]]]:
    """The address of the page, and what it will report."""
    reported: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with Simulator(script) as simulator:
        model = ls.Model("openai:m", base_url=f"{simulator.url}/v1", api_key="k")
        async with vercel.Chats("memory:", ls.Agent(model, tools=[delete]), version=7) as chats:
            routes = web.RouteTableDef()

            @routes.get("/")
            async def page(request: web.Request) -> web.Response:
                return web.Response(
                    text='<!doctype html><script type="module" src="/page.js"></script>',
                    content_type="text/html",
                )

            @routes.get("/page.js")
            async def program(request: web.Request) -> web.Response:
                return web.Response(body=bundle, content_type="text/javascript")

            @routes.post("/report")
            async def report(request: web.Request) -> web.Response:
                if not reported.done():
                    reported.set_result(await request.json())
                return web.Response()

            @routes.post("/api/chat")
            async def answer(request: web.Request) -> web.StreamResponse:
                return await respond(request, await chats.answer(await request.read(), user="ada"))

            @routes.get("/api/chat/{id}/stream")
            async def again(request: web.Request) -> web.StreamResponse:
                return await respond(request, await chats.resume(request.match_info["id"], user="ada"))

            @routes.get("/api/chat/{id}")
            async def load(request: web.Request) -> web.Response:
                return web.json_response(await chats.load(request.match_info["id"], user="ada", resume=True))

            application = web.Application()
            application.add_routes(routes)
            runner = web.AppRunner(application)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            try:
                yield "http://{}:{}/".format(*runner.addresses[0][:2]), reported
            finally:
                await runner.cleanup()


async def test_reloaded_page_shows_all_of_it(bundle: bytes, tmp_path: Path) -> None:
    async with site(bundle) as (address, reported):
        options = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}")
        browser = await asyncio.create_subprocess_exec(
            # A page is left alone as long as its browser can be spoken to.
            *(CHROMIUM, *options, "--remote-debugging-port=0", address),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            found = await asyncio.wait_for(reported, VISIT_S)
        finally:
            browser.terminate()
            await browser.wait()
    assert found.get("error") is None
    assert found["shown"] == [
        "notes.txt",
        "May I?",
        'tool-delete output-available "notes.txt is gone"',
        LONG.strip(),
    ]
    assert [message["role"] for message in found["messages"]] == ["user", "assistant"]
