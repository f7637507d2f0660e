"""Microseconds of CPU an event that is served: `serve.Body` beside bare ASGI loops that write the same bytes.

The floor writes bytes that were ready. `by hand` is what one writes first: each event encoded and sent.
Neither notices that its client has left, nor writes heartbeats. All are routes of one uvicorn in a process of
its own, which reports its CPU time; this process only reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from benchmarks.arguments import arguments
from benchmarks.bodies import WORDS
from llmstream import serve
from llmstream.events import Event, Finish, StreamStart, TextDelta, TextEnd, TextStart, encode
from llmstream.serve import asgi

SENDERS = ("floor", "by hand", "body")
TOGETHER = {"blocks": 64, "events": 1}
"""Events of chat completions in one read of 16 KiB, and in one of their own."""


@cache
def events_of(count: int) -> list[Event]:
    deltas = [TextDelta(f" {WORDS[number % len(WORDS)]}", "0") for number in range(count)]
    return [StreamStart(), TextStart("0"), *deltas, TextEnd("0"), Finish("stop")]


@cache
def chunks_of(count: int, together: int) -> list[bytes]:
    """What the body writes, as far as the events of one read are one write."""
    writer = serve.SSEWriter()
    frames = [writer.feed(event) for event in events_of(count)]
    frames.append(writer.close())
    return [b"".join(frames[i : i + together]) for i in range(0, len(frames), together)]


async def source(count: int, together: int) -> AsyncIterator[Event]:
    for number, event in enumerate(events_of(count), 1):
        yield event
        if number % together == 0:
            await asyncio.sleep(0)


async def floor(count: int, together: int, send: asgi.Send) -> None:
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for chunk in chunks_of(count, together):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b""})


async def by_hand(count: int, together: int, send: asgi.Send) -> None:
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    number = 0
    async for event in source(count, together):
        chunk = b"id: %d\ndata: %s\n\n" % (number, encode(event))
        number += 1
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"event: end\ndata: {}\n\n"})


async def application(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
    """`/SENDER/COUNT/TOGETHER`; `/cpu` is the nanoseconds that this process has used."""
    _, sender, *numbers = scope["path"].split("/")
    if sender == "cpu":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"%d" % time.process_time_ns()})
        return
    count, together = map(int, numbers)
    if sender == "floor":
        await floor(count, together, send)
    elif sender == "by hand":
        await by_hand(count, together, send)
    else:
        await asgi.respond(serve.Body(source(count, together)))(scope, receive, send)


@contextlib.contextmanager
def running() -> Iterator[int]:
    """The port of uvicorn with these routes."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        handle = listening.fileno()
        process = subprocess.Popen([sys.executable, "-m", __name__, str(handle)], pass_fds=[handle])
        port = listening.getsockname()[1]
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


def read(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


def us_per_served(writes: str, count: int, rounds: int) -> dict[str, float]:
    """Median microseconds of the server's CPU an event, by sender; {} without uvicorn."""
    if find_spec("uvicorn") is None:
        return {}
    taken: dict[str, list[float]] = {name: [] for name in SENDERS}
    bodies: dict[str, bytes] = {}
    with running() as port:
        for number in range(rounds + 1):
            for name in SENDERS:
                before = int(read(port, "/cpu"))
                bodies[name] = read(port, f"/{quote(name)}/{count}/{TOGETHER[writes]}")
                if number:  # the first round warms up
                    taken[name].append((int(read(port, "/cpu")) - before) / count / 1000)
    if len(set(bodies.values())) != 1:
        raise SystemExit("the senders did not write the same")
    return {name: statistics.median(times) for name, times in taken.items()}


def main() -> None:
    """Serves the routes on a socket that the parent has opened."""
    (handle,) = arguments("SOCKET", __doc__)
    import uvicorn

    options: dict[str, Any] = {"log_level": "warning", "lifespan": "off", "ws": "none", "access_log": False}
    uvicorn.run(application, fd=int(handle), **options)


if __name__ == "__main__":
    main()
