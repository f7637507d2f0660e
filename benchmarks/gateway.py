"""What a gateway costs: `llmstream.gateway` beside a loop that copies bytes and reads none of them.

All are servers on aiohttp.web, each in a process of its own, before a vendor. The loop is aiohttp's
client and server, with nothing between them. `pass` serves clients of the vendor's own wire, `translate`
clients of Chat Completions on Anthropic's. This process is vendor and clients. Where it writes events, it
writes one once the client has what became of the one before, so that each is one read and one write of the
server, however busy the machine is. What a server used is in /proc, so Linux alone has this section.

With LITELLM=/path/to/bin/litellm (pip install 'litellm[proxy]' in an environment of its own), its proxy does
what `translate` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from aiohttp import ClientSession, ClientTimeout, web

import llmstream as ls
from benchmarks.arguments import arguments
from benchmarks.bodies import BODIES, WORDS
from benchmarks.server import BLOCK_BYTES
from llmstream.dialects.base import dialect_class
from llmstream.gateway import Gateway
from llmstream.request import Request, Settings

LITELLM = os.environ.get("LITELLM", "")
ROLES = ("loop", "pass", "translate", *(("litellm",) if LITELLM else ()))
CLIENTS = {1: 1_000, 20: 200, 200: 200}
"""Clients at a time, and the events of each one's answer."""
VENDOR = "anthropic"


def request_of(role: str, number: int) -> bytes:
    """The request that a client of the role's wire sends, with its head."""
    dialect = dialect_class("openai-chat" if role in ("translate", "litellm") else VENDOR)()
    asked = Request(
        model="sim", messages=(ls.Message.user(f"Hello {number}"),), settings=Settings(max_output_tokens=100)
    )
    http = dialect.encode(asked, provider=dialect.name).http
    path = http.url if http.url.startswith("/v1") else f"/v1{http.url}"
    headers = {**http.headers, "host": "localhost", "content-type": "application/json"}
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"POST {path} HTTP/1.1", *lines, f"content-length: {len(http.body)}", "", ""])
    return head.encode() + http.body


class Vendor:
    """Answers with `count` events: in blocks of 16 KiB, or each once the client has something new."""

    def __init__(self, count: int, writes: str) -> None:
        begin, start, *content = BODIES[VENDOR](count)
        self._deltas = [begin + start + content[0], *content[1:count]]
        self._end = b"".join(content[count:])
        if writes == "blocks":
            body = b"".join(self._deltas)
            self._deltas = [body[i : i + BLOCK_BYTES] for i in range(0, len(body), BLOCK_BYTES)]
        self._waits = writes == "events"
        self._progress: dict[int, asyncio.Event] = {}
        self.port = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Cancelled at the end, while connections are kept open.
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1]) if length else 0)
                client = re.search(rb"Hello (\d+)", body)
                await self._answer(writer, self._progress[int(client[1]) if client else 0])
        writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, progress: asyncio.Event) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for event in self._deltas:
            progress.clear()
            writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            await writer.drain()
            if self._waits:
                with contextlib.suppress(TimeoutError):  # LiteLLM's first pieces are without content
                    await asyncio.wait_for(progress.wait(), 1.0)
        writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(self._end), self._end))

    async def ask(self, port: int, role: str, number: int) -> float:
        """Asks as client `number`; returns the seconds to the first content."""
        progress = self._progress[number] = asyncio.Event()
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024 * 1024)
        begun = time.perf_counter()
        writer.write(request_of(role, number))
        tail, first = b"", 0.0
        while not tail.endswith(b"\r\n0\r\n\r\n"):
            piece = await reader.read(64 * 1024)
            if not piece:
                raise SystemExit(f"the answer of {role} broke off: {tail!r}")
            if WORDS[0].encode() in piece:
                first = first or time.perf_counter() - begun
            if b"HTTP/1.1 200" not in piece or WORDS[0].encode() in piece:
                progress.set()
            tail = (tail + piece)[-100:]
        writer.close()
        return first

    async def ask_all(self, port: int, role: str, clients: int) -> list[float]:
        """So many clients at once."""
        return await asyncio.gather(*(self.ask(port, role, number) for number in range(clients)))

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Its address."""
        server = await asyncio.start_server(self, "127.0.0.1", 0, limit=1024 * 1024, backlog=2048)
        async with server:
            self.port = server.sockets[0].getsockname()[1]
            yield f"http://127.0.0.1:{self.port}"


def cpu_ns(pid: int) -> int:
    """What all threads of a process have used."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def peak_mb(pid: int) -> float:
    """The peak of its resident memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


@contextlib.contextmanager
def running(role: str, base: str) -> Iterator[tuple[int, int]]:
    """Process id and port of a server."""
    if role == "litellm":
        with _litellm(base) as found:
            yield found
        return
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.gateway", role, base], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextlib.contextmanager
def _litellm(base: str) -> Iterator[tuple[int, int]]:
    params = {"model": "anthropic/sim", "api_base": base, "api_key": "k"}
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        config = Path(folder) / "config.yaml"  # JSON is YAML
        config.write_text(json.dumps({"model_list": [{"model_name": "sim", "litellm_params": params}]}))
        free.close()
        command = [LITELLM, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
        environment = {
            **os.environ,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        }
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        try:
            while not _listens(port):
                if process.poll() is not None:
                    raise SystemExit("LiteLLM's proxy does not start")
                time.sleep(0.2)
            yield process.pid, port
        finally:
            process.terminate()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


async def figures(clients: int, writes: str, rounds: int) -> dict[str, dict[str, float]]:
    """By role: microseconds of CPU an event, and the peak of memory in MB."""
    count = CLIENTS[clients]
    us: dict[str, list[float]] = {role: [] for role in ROLES}
    vendor = Vendor(count, writes)
    async with vendor.listening() as base:
        with contextlib.ExitStack() as stack:
            servers = {role: stack.enter_context(running(role, base)) for role in ROLES}
            for number in range(rounds + 1):
                for role, (pid, port) in servers.items():
                    if role == "litellm" and number > 1:
                        continue  # a hundred times slower, so that one round says enough
                    before = cpu_ns(pid)
                    await vendor.ask_all(port, role, clients)
                    if number:  # the first round warms up
                        us[role].append((cpu_ns(pid) - before) / count / clients / 1000)
            return {
                "us_per_event": {role: statistics.median(times) for role, times in us.items()},
                "peak_mb": {role: peak_mb(pid) for role, (pid, _) in servers.items()},
            }


async def per_call(calls: int) -> dict[str, dict[str, float]]:
    """By role: microseconds of CPU a call of one event, and milliseconds to its first content."""
    us, first = dict[str, float](), dict[str, float]()
    vendor = Vendor(1, "events")
    async with vendor.listening() as base:
        with contextlib.ExitStack() as stack:
            servers = {role: stack.enter_context(running(role, base)) for role in ROLES}
            direct = [await vendor.ask(vendor.port, "pass", 0) for _ in range(calls)]
            first["direct"] = statistics.median(direct) * 1000
            for role, (pid, port) in servers.items():
                for _ in range(10):
                    await vendor.ask(port, role, 0)
                before = cpu_ns(pid)
                found = [await vendor.ask(port, role, 0) for _ in range(calls)]
                us[role] = (cpu_ns(pid) - before) / calls / 1000
                first[role] = statistics.median(found) * 1000
    return {"us_per_call": us, "first_ms": first}


# The servers.


def _copying(base: str) -> web.Application:
    """The loop."""
    application = web.Application(client_max_size=0)

    async def client(app: web.Application):  # type: ignore[no-untyped-def]
        async with ClientSession(auto_decompress=False, timeout=ClientTimeout()) as session:
            app["session"] = session
            yield

    async def copy(incoming: web.Request) -> web.StreamResponse:
        body = await incoming.read()
        session: ClientSession = incoming.app["session"]
        async with session.post(f"{base}/v1/messages", data=body) as upstream:
            response = web.StreamResponse(headers={"content-type": upstream.headers["content-type"]})
            await response.prepare(incoming)
            async for piece in upstream.content.iter_any():
                await response.write(piece)
        await response.write_eof()
        return response

    application.cleanup_ctx.append(client)
    application.router.add_route("*", "/{path:.*}", copy)
    return application


async def _serve(role: str, base: str) -> None:
    if role == "loop":
        application = _copying(base)
    else:
        application = Gateway({"*": ls.Model(f"{VENDOR}:sim", base_url=base, api_key="k")}).aiohttp()
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(*arguments("ROLE BASE", __doc__)))
