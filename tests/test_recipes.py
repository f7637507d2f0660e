"""docs/recipes: the web applications of the pages answer over a real server."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import json
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.testing import in_thread

ROOT = Path(__file__).resolve().parents[1]
QUESTION = "ask?prompt=Hello"
ANSWER = "You said: Hello"


def program(page: str, title: str) -> str:
    text = (ROOT / "docs" / "recipes" / page).read_text(encoding="utf-8")
    found = re.search(rf'^```python title="{re.escape(title)}"\n(.*?)^```', text, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{page} has no {title}"
    return found[1]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`load(page, title)`: the module that a page shows."""

    def loaded(page: str, title: str) -> ModuleType:
        module = ModuleType(title.removesuffix(".py"))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(program(page, title), title, "exec", dont_inherit=True), vars(module))
        return module

    return loaded


@contextmanager
def served(app: Any, lifespan: str = "off") -> Iterator[str]:
    """The address of an ASGI application behind uvicorn, in a thread."""
    uvicorn = pytest.importorskip("uvicorn")
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan=lifespan, ws="none"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def read(address: str) -> str:
    with urlopen(f"{address}/{QUESTION}", timeout=30) as response:
        body: bytes = response.read()
    return body.decode()


def test_fastapi_route_streams(load: Any) -> None:
    pytest.importorskip("fastapi")
    with served(load("web-servers.md", "fastapi_app.py").app) as address:
        assert read(address).startswith(ANSWER)


def test_starlette_route_sends_events(load: Any) -> None:
    pytest.importorskip("starlette")
    with served(load("web-servers.md", "starlette_app.py").app) as address:
        frames = read(address).split("\n\n")
    assert frames[0].startswith('id: 0\ndata: {"type":"stream-start"')
    assert 'data: {"type":"finish"' in frames[-3]
    assert frames[-2] == "event: end\ndata: {}"


def test_litestar_route_streams(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("litestar")
    # An application of Litestar configures the logging of its process.
    monkeypatch.setattr("litestar.logging.config.LoggingConfig.configure", lambda config: logging.getLogger)
    with served(load("web-servers.md", "litestar_app.py").app) as address:
        assert read(address).startswith(ANSWER)


def test_aiohttp_route_streams(load: Any) -> None:
    @asynccontextmanager
    async def site() -> AsyncIterator[int]:
        runner = web.AppRunner(load("web-servers.md", "aiohttp_app.py").app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
        await runner.cleanup()

    with in_thread(site()) as port:
        assert read(f"http://127.0.0.1:{port}").startswith(ANSWER)


def test_django_view_streams(load: Any) -> None:
    pytest.importorskip("django")
    from django.conf import settings
    from django.core.asgi import get_asgi_application

    load("web-servers.md", "views.py")
    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="for this test", ROOT_URLCONF="views")
    with served(get_asgi_application()) as address:
        assert read(address).startswith(ANSWER)


def test_chat_page_has_four_routes(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call waits, the page is loaded again, and the visitor's decision continues the run."""
    pytest.importorskip("fastapi")
    monkeypatch.chdir(tmp_path)
    module = load("use-chat.md", "chat_app.py")

    def fetched(path: str, **fields: Any) -> tuple[int, str]:
        body = json.dumps({"id": "c", "trigger": "submit-message", **fields}).encode() if fields else None
        with urlopen(Request(f"{address}/api/chat{path}", body), timeout=30) as response:
            return response.status, response.read().decode()

    with served(module.app, lifespan="on") as address:
        said = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Delete a."}]}
        first = fetched("", messages=[said])[1]
        (approval,) = re.findall('"approvalId":"(.+?)"', first)
        assert approval in fetched("/c/stream")[1]  # what the page reads again is not loaded, too
        assert [message["id"] for message in json.loads(fetched("/c")[1])] == ["u1"]
        answered = {"id": "a1", "role": "assistant", "parts": []}
        decided = {"messages": [said, answered], "approvals": {approval: {"approved": True}}}
        answer = fetched("", **decided)[1]
        assert '"type":"tool-output-available"' in answer
        assert "is gone" in answer
        with pytest.raises(HTTPError, match="409") as refused:
            fetched("", **decided)
        refused.value.close()
        assert fetched("/c/stop", stop=True) == (200, "false")
        assert fetched("/another/stream") == (204, "")
    with pytest.raises(ls.InvalidRequest, match="closed"):
        asyncio.run(module.chats.load("c", user="ada"))


def test_django_sync_view_streams(load: Any) -> None:
    pytest.importorskip("django")
    from django.conf import settings
    from django.test import RequestFactory

    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="for this test")
    view = load("web-servers.md", "wsgi_views.py").ask
    response = view(RequestFactory().get(f"/{QUESTION}"))
    assert b"".join(response.streaming_content).decode().startswith(ANSWER)
    response.close()


def test_quart_route_streams(load: Any) -> None:
    pytest.importorskip("quart")
    with served(load("web-servers.md", "quart_app.py").app) as address:
        assert read(address).startswith(ANSWER)


def test_flask_route_streams(load: Any) -> None:
    pytest.importorskip("flask")
    module = load("sync-code.md", "flask_app.py")
    client = module.app.test_client()
    response = client.get(f"/{QUESTION}", buffered=False)
    pieces = list(response.response)
    assert "".join(piece if isinstance(piece, str) else piece.decode() for piece in pieces).startswith(ANSWER)


def test_flask_response_closes_stream(load: Any) -> None:
    """A server closes the response when the browser leaves."""
    pytest.importorskip("flask")
    module = load("sync-code.md", "flask_app.py")
    for _ in range(2):
        response = module.app.test_client().get(f"/{QUESTION}", buffered=False)
        assert next(iter(response.response)).startswith(b"You")
        response.close()


async def test_the_cells_of_a_notebook_run() -> None:
    """One after the other in one namespace, with `await` at the top level; what they print is on the page."""
    page = (ROOT / "docs" / "recipes" / "jupyter.md").read_text(encoding="utf-8")
    cells = re.findall(r'^```python title="(In[^"]*)"\n(.*?)^```(?:\n\n```output\n(.*?)^```)?', page, _WHOLE)
    assert len(cells) == page.count("```python")
    names: dict[str, Any] = {}
    for title, code, output in cells:
        printed = io.StringIO()
        compiled = compile(code, title, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        with contextlib.redirect_stdout(printed):
            found = eval(compiled, names)
            if inspect.isawaitable(found):
                await found
        if output:
            expected = ".*".join(map(re.escape, output.rstrip("\n").split("...")))
            assert re.fullmatch(expected, printed.getvalue().rstrip("\n")), printed.getvalue()
    assert names["message"].text.startswith("You said: Why is the sky blue?")


_WHOLE = re.DOTALL | re.MULTILINE
