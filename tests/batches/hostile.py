"""A server between a client and the simulator, that spoils the answers of batch APIs."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
from aiohttp import web

from llmstream.testing import Simulator

# What concerns the connection and not the answer.
_HOP = {"host", "content-length", "transfer-encoding", "connection", "content-encoding", "date", "server"}


@dataclass
class Reply:
    """An answer on its way to the client.

    kind: what was asked for: "upload", "create", "list", "state", "results" or "cancel"
    cut:  whether the connection ends before the body does
    """

    kind: str
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False

    def zipped(self) -> Reply:
        return replace(
            self, body=gzip.compress(self.body), headers={**self.headers, "content-encoding": "gzip"}
        )

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Spoil = Callable[[Reply], Reply]


def kind_of(method: str, path: str) -> str:
    """Which part of a batch API a request belongs to."""
    if path.endswith(("/content", "/results")) or "/download/" in path:
        return "results"
    if path.endswith(("/cancel", ":cancel")):
        return "cancel"
    if method == "POST":
        return "upload" if path.endswith("/files") else "create"
    last = path.rstrip("/").rpartition("/")[2]
    return "list" if last in ("files", "batches", "jobs") else "state"


class Between:
    """Forwards requests to a simulator.

    kinds: of the requests that have come, in their order
    spoil: changes the answers
    fail:  number of the one request that is answered with `status`; 0 for none
    after: whether that request is forwarded all the same
    """

    def __init__(self, simulator: Simulator, session: aiohttp.ClientSession) -> None:
        self.simulator = simulator
        self.url = ""
        self.kinds: list[str] = []
        self.spoil: Spoil = lambda reply: reply
        self.fail, self.status, self.after = 0, 500, False
        self._session = session

    async def handle(self, request: web.Request) -> web.StreamResponse:
        kind = kind_of(request.method, request.path)
        self.kinds.append(kind)
        fails = len(self.kinds) == self.fail
        if fails and not self.after:
            return self._failure()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        async with self._session.request(
            request.method, self.simulator.url + request.path_qs, data=await request.read(), headers=headers
        ) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
            reply = Reply(kind, answer.status, await answer.read(), kept)
        return self._failure() if fails else await self._sent(request, self.spoil(reply))

    def _failure(self) -> web.Response:
        body = {"error": {"message": "failed, as scripted", "type": "server_error"}}
        return web.json_response(body, status=self.status, headers={"retry-after": "0"})

    async def _sent(self, request: web.Request, reply: Reply) -> web.StreamResponse:
        if not reply.cut:
            return web.Response(body=reply.body, status=reply.status, headers=reply.headers)
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        response.content_length = len(reply.body) + 10
        await response.prepare(request)
        await response.write(reply.body)
        assert request.transport is not None
        request.transport.close()
        await asyncio.sleep(0)
        return response


@asynccontextmanager
async def between(simulator: Simulator) -> AsyncIterator[Between]:
    """The server, on a port of its own."""
    async with aiohttp.ClientSession() as session:
        found = Between(simulator, session)
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", found.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        found.url = f"http://{host}:{port}"
        try:
            yield found
        finally:
            await runner.cleanup()
