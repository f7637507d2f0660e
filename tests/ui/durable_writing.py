"""The writing half of Durable Streams over an event log, as much as tests of the reading half need.

PUT creates a run, POST appends messages to it and closes it, DELETE deletes it; GET and HEAD are responses of
`llmstream.ui.durable_streams`. The writing has a store of its own, as in another process.

A run is JSON. A stream of another type is a run of JSON strings, one for each append; complete responses and
the content type are turned back for its readers, Server-Sent Events are not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aiohttp import web

import llmstream as ls
from llmstream.exchange import HttpResponse
from llmstream.log import Append, Claim, Logs, RunStatus, SQLiteStore
from llmstream.serve import Body
from llmstream.serve.aiohttp import respond
from llmstream.ui import durable_streams

HOUR_S: Final = 3600.0
JSON: Final = "application/json"


class Streams:
    """The routes of a server. `options` are those of `durable_streams.body`."""

    def __init__(self, logs: Logs, store: SQLiteStore, **options: Any) -> None:
        self._logs, self._store, self._options = logs, store, options
        self._types: dict[str, str] = {}
        self._appending = asyncio.Lock()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=2**25)
        for method, handler in {"PUT": self._create, "POST": self._append, "DELETE": self._delete}.items():
            app.router.add_route(method, "/{stream:.+}", handler)
        app.router.add_get("/{stream:.+}", self._read)  # HEAD too
        return app

    async def _create(self, request: web.Request) -> web.Response:
        stream = request.match_info["stream"]
        if stream in self._types:
            return web.Response(status=200)
        self._types[stream] = request.headers.get("content-type", "application/octet-stream")
        claim = Claim(stream, "test", "new", HOUR_S, takeover_s=0.0, keep_s=HOUR_S, left_s=None)
        granted, status = await self._store.acquire(claim)
        assert granted
        return await self._write(request, status, 201)

    async def _append(self, request: web.Request) -> web.Response:
        async with self._appending:
            status = await self._logs.status(request.match_info["stream"])
            if status is None:
                return web.Response(status=404)
            return await self._write(request, status, 204)

    async def _write(self, request: web.Request, status: RunStatus, code: int) -> web.Response:
        lines = _lines(self._types[status.run], await request.read())
        closes = request.headers.get("stream-closed") == "true"
        if lines or closes:
            append = Append(
                run=status.run,
                epoch=status.epoch,
                first=status.tail + 1,
                count=len(lines),
                data=b"\n".join(lines),
                state="closed" if closes else "open",
                lease_s=HOUR_S,
            )
            (written,) = await self._store.append([append])
            assert written is not None
            status = written
        headers = {"stream-next-offset": f"{status.tail + 1:016}", "content-type": self._types[status.run]}
        return web.Response(status=code, headers=headers)

    async def _delete(self, request: web.Request) -> web.Response:
        stream = request.match_info["stream"]
        await self._logs.delete(stream)
        del self._types[stream]
        return web.Response(status=204)

    async def _read(self, request: web.Request) -> web.StreamResponse:
        stream = request.match_info["stream"]
        body = await durable_streams.body(
            self._logs,
            stream,
            request.query_string,
            method=request.method,
            if_none_match=request.headers.get("if-none-match"),
            **self._options,
        )
        kind = self._types.get(stream, JSON)
        if not kind.startswith(JSON):
            body = await _turned_back(body, kind)
        return await respond(request, body)


def _lines(kind: str, content: bytes) -> list[bytes]:
    """The messages of a request, each as a line of JSON."""
    if not content:
        return []
    if not kind.startswith(JSON):
        return [json.dumps(content.decode("latin-1")).encode()]
    value = json.loads(content)
    messages = value if isinstance(value, list) else [value]
    return [json.dumps(message, separators=(",", ":")).encode() for message in messages]


async def _turned_back(body: Body, kind: str) -> Body:
    """A response with the bytes that were appended, instead of the array of strings that is in the log."""
    await body.open()
    if body.headers.get("content-type") != JSON or body.status >= 400:
        return body
    content = b"".join([chunk async for chunk in body])
    appended = "".join(json.loads(content)).encode("latin-1") if content else b""
    return Body.complete(HttpResponse(body.status, appended, {**body.headers, "content-type": kind}))


@asynccontextmanager
async def serving(folder: Path, **options: Any) -> AsyncIterator[str]:
    """The address of a server over a log in a folder, until the end of the block."""
    store = SQLiteStore(folder / "log.db")
    await store.open()
    try:
        async with ls.open_logs(f"sqlite:{folder / 'log.db'}") as logs:
            runner = web.AppRunner(Streams(logs, store, **options).app(), shutdown_timeout=0.1)
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", 0).start()
                yield f"http://127.0.0.1:{runner.addresses[0][1]}"
            finally:
                await runner.cleanup()
    finally:
        await store.aclose()
