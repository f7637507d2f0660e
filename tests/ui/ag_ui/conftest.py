"""The real client of AG-UI in Node.js, and a real server for it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from llmstream import serve
from llmstream.errors import InvalidRequest
from llmstream.serve import asgi
from llmstream.ui import ag_ui

HERE = Path(__file__).parent
PEERS = HERE.parents[1] / "peers"
PACKAGE = "@ag-ui/client"
OLDER = ("ag-ui-client-0.0.45", "ag-ui-client-0.0.54", "ag-ui-client-0.0.59")
"""Releases before 1.0, by their names in `tests/peers/package.json`: the first that knows reasoning, the
first that knows interrupts, and the last. Which one asks is in no request."""

Respond = Callable[[ag_ui.RunInput], serve.Body]


class Client:
    """A process that runs the client: a line of JSON in, a line out.

    folder: where other programs find the package too
    """

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.folder = folder
        self._process = process

    def ask(self, task: dict[str, Any]) -> Any:
        """Blocks until the client has answered."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def check(self, events: list[dict[str, Any]], messages: list[dict[str, Any]]) -> dict[str, Any]:
        """What the client makes of events that are played to it, with the messages that it has before."""
        (answer,) = self.ask({"check": [events], "messages": messages})
        seen: dict[str, Any] = answer
        return seen

    async def talk(self, respond: Respond, *runs: dict[str, Any], **task: Any) -> dict[str, Any]:
        """The runs of one agent against a server that responds so."""
        return await self.visit(responding(respond), "/", *runs, **task)

    async def visit(self, app: Any, path: str, *runs: dict[str, Any], **task: Any) -> dict[str, Any]:
        """The runs of one agent against an ASGI application."""
        async with serving(app) as url:
            task = {"url": url + path, "thread": "t1", "runs": list(runs), **task}
            answer: dict[str, Any] = await asyncio.to_thread(self.ask, task)
        return answer


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running(PACKAGE, tmp_path_factory.mktemp("ag_ui")) as started:
        yield started


@pytest.fixture(scope="session", params=OLDER)
def older_client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    with running(request.param, tmp_path_factory.mktemp("ag_ui")) as started:
        yield started


@contextmanager
def running(package: str, place: Path) -> Iterator[Client]:
    """Runs a release of the client in a folder."""
    modules = Path(os.environ.get("LLMSTREAM_NODE_MODULES") or PEERS / "node_modules")
    if shutil.which("node") is None:
        pytest.skip("node is not installed; see tests/peers/README.md")
    if not (modules / package).is_dir():
        pytest.skip(f"{package} is not installed; see tests/peers/README.md")
    shutil.copy(HERE / "client.mjs", place)
    (place / "node_modules").symlink_to(modules.resolve(), target_is_directory=True)
    process = subprocess.Popen(
        ["node", "client.mjs", package], cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        yield Client(process, place)
        process.kill()


def responding(respond: Respond) -> Any:
    """An ASGI application that responds to requests of AG-UI; what is none is a 400."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        try:
            response = respond(ag_ui.read(body))
        except InvalidRequest as error:
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": error.message.encode()})
        else:
            await asgi.respond(response)(scope, receive, send)

    return application


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """Yields the address of a uvicorn with the application."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        options = uvicorn.Config(app, log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=5)
        server = uvicorn.Server(options)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running
