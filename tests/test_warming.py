"""Warming up: what a first call finds imported and connected, over a real TLS server."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.testing import Script, ScriptedModel, Simulator, Turn
from llmstream.transport.sessions import close_session
from llmstream.ui import vercel

BODY = b'data: {"choices":[{"delta":{"content":"Hi."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(BODY)


class Server:
    """Counts handshakes and requests; each request gets the same answer."""

    def __init__(self) -> None:
        self.connections = self.requests = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.url = ""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                self.requests += 1
                writer.write(HEAD + BODY)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@contextmanager
def server_in_a_thread(certificate: Path) -> Iterator[tuple[str, list[object]]]:
    """URL and connections of a server that goes on while the loop is busy; a request for each connection."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    accepted: list[object] = []

    def serve() -> None:
        while True:
            try:
                connection, address = listening.accept()
            except OSError:  # it was shut down
                return
            accepted.append(address)
            with context.wrap_socket(connection, server_side=True) as secured:
                if secured.recv(65_536):
                    secured.sendall(HEAD + BODY)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"https://127.0.0.1:{listening.getsockname()[1]}/v1", accepted
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of localhost with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    found = tmp_path_factory.mktemp("tls") / "localhost.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    key = found.with_name("key.pem")
    subprocess.run([*made, *named, "-keyout", key, "-out", found], check=True, capture_output=True)
    found.write_bytes(found.read_bytes() + key.read_bytes())
    return found


@pytest.fixture
async def server(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """A server of TLS that is trusted."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    handler = Server()
    listening = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=context)
    handler.url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    yield handler
    await close_session()
    listening.close()


async def accepted(server: Server, number: int) -> bool:
    """Waits for so many connections: a server has one a little later than its client."""
    async with asyncio.timeout(30):
        while server.connections < number:
            await asyncio.sleep(0.001)
    return server.connections == number


def model(server: Server) -> ls.Model:
    """A model of the server."""
    return ls.Model("openai:m", base_url=server.url, api_key="key")


async def test_first_call_takes_the_connection(server: Server):
    asked = model(server)
    await ls.warm_up(asked, asked)
    assert await accepted(server, 1)
    assert server.requests == 0
    assert (await asked.ask("Hi")).text == "Hi."
    assert (server.connections, server.requests) == (1, 1)


async def test_session_tickets_do_not_close_it(certificate: Path, monkeypatch: pytest.MonkeyPatch):
    """They arrive after the handshake; a loop that was busy since then reads them before the first call."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    with server_in_a_thread(certificate) as (url, accepted):
        asked = ls.Model("openai:m", base_url=url, api_key="key")
        try:
            await asked.warm_up()
            time.sleep(0.3)  # noqa: ASYNC251  # a busy loop, while the server sends them
            assert (await asked.ask("Hi")).text == "Hi."
        finally:
            await close_session()
    assert len(accepted) == 1


async def test_stale_connection_is_replaced(server: Server):
    asked = model(server)
    await asked.warm_up()
    assert await accepted(server, 1)
    server.writers[0].transport.abort()
    assert (await asked.ask("Hi")).text == "Hi."
    assert server.connections == 2


async def test_untrusted_server_is_an_error(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    with pytest.raises(ls.errors.TLSError, match="certificate"):
        await model(server).warm_up()


async def test_nobody_listens_is_an_error():
    with pytest.raises(ls.ConnectionFailed):
        await ls.Model("openai:m", base_url="http://127.0.0.1:9/v1", api_key="k").warm_up()


async def test_no_key_is_needed(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    await ls.Model("openai:m", base_url=server.url).warm_up()
    assert await accepted(server, 1)
    assert server.requests == 0


async def test_unknown_provider_is_an_error():
    with pytest.raises(ls.InvalidRequest, match="nobody"):
        await ls.warm_up("nobody:m")


async def test_scripted_model_has_no_server():
    await ls.warm_up(ScriptedModel("Hi."))


async def test_chats_of_pages_warm_up_by_themselves(server: Server):
    async with vercel.Chats("memory:", ls.Agent(model(server))):
        assert await accepted(server, 1)
    assert server.requests == 0


async def test_chats_start_without_their_vendor(caplog: pytest.LogCaptureFixture):
    unreachable = ls.Model("openai:m", base_url="http://127.0.0.1:9/v1", api_key="the key")
    with caplog.at_level("INFO", "llmstream"):
        async with vercel.Chats("memory:", ls.Agent(unreachable)), asyncio.timeout(30):
            while "Model(openai:m) has no connection yet: " not in caplog.text:
                await asyncio.sleep(0.01)
    assert "the key" not in caplog.text


FIRST_CALL = """
import asyncio, sys, threading
import llmstream as ls

warm_up, found = ls.warm_up, set()

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.startswith({watched}):
            found.add("loop" if threading.current_thread() is threading.main_thread() else "thread")

async def main():
    {inside}

asyncio.run(main())
print(*found)
"""
WARMED = 'sys.meta_path.insert(0, Finder()); await warm_up("openai:m")'
COLD = 'model = ls.Model("openai:m"); sys.meta_path.insert(0, Finder()); await model.ask("Hi")'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inside", "watched"), [(WARMED, ("aiohttp", "yarl", "llmstream.")), (COLD, ("aiohttp", "yarl"))]
)
async def test_imports_are_off_the_loop(inside: str, watched: tuple[str, ...]):
    async with Simulator(Script((Turn(text="Hi."),))) as simulator:
        env = {"OPENAI_BASE_URL": f"{simulator.url}/v1", "OPENAI_API_KEY": "key"}
        command = [sys.executable, "-c", FIRST_CALL.format(inside=inside, watched=watched)]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=env)
        out, _ = await process.communicate()
    assert out.split() == [b"thread"]
