"""`llmstream simulate`: runs the simulator in the foreground, for clients in other processes."""

from __future__ import annotations

import argparse
import asyncio
import errno
import itertools
import os
import queue
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Protocol, TextIO

import msgspec

from llmstream.cli.arguments import number, positive
from llmstream.cli.config import base_url
from llmstream.cli.errors import INTERRUPTED, SUCCESS, USAGE
from llmstream.cli.terminal import print_message
from llmstream.display.terminal_text import one_line
from llmstream.server_side.local_only import is_loopback
from llmstream.server_side.routing import default_dialects
from llmstream.simulator.recording import Received, Recording
from llmstream.simulator.script import Pace, Script
from llmstream.simulator.server import Simulator

__all__ = ["LineWriter", "configure", "run"]

# Maximum delay of the log.
_POLL_S: Final = 0.1

_EPILOG: Final = """\
The server speaks all dialects on one port, with and without "stream": true. It checks requests
as the vendors do and prints a line for each. Embeddings, images and legacy completions are not
supported. By default it listens on this machine only. Ctrl-C stops it.

Without --script or --recording, it calls the first tool of the request and answers with the
result. A script is JSON:
{"turns": [{"text": "Hello."}, {"calls": [{"name": "f", "arguments": {}}]}]}

exit status: 0 stopped by Ctrl-C, 2 usage error, such as a port in use, 130 interrupted before it served

examples:
  llmstream simulate
  llmstream simulate --port 9000 --key secret --pace 40
  llmstream simulate --script turns.json
  llmstream simulate --recording answer.txt
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add(
        "--port",
        type=number(0, 65535),
        default=8080,
        metavar="N",
        help="port (default: 8080); 0 picks a free one",
    )
    add(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on (default: 127.0.0.1); 0.0.0.0 accepts other machines, as for containers",
    )
    answers = parser.add_mutually_exclusive_group()
    answers.add_argument("--script", metavar="FILE", help="answers as JSON")
    answers.add_argument(
        "--recording",
        metavar="PATH",
        action="append",
        default=[],
        help="recorded body to answer with; repeat it for further requests",
    )
    add("--key", metavar="KEY", help="accept only this API key (default: any or none)")
    lines = parser.add_mutually_exclusive_group()
    lines.add_argument(
        "--json", action="store_true", help="print JSON lines: first the address, then one object per request"
    )
    lines.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    add("--any-path", action="store_true", help="accept any prefix before the vendors' paths")
    add("--pace", type=positive, metavar="TOKENS_PER_S", help="output speed (default: no delay)")


def run(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C; returns the exit status."""
    simulator = Simulator(
        Script.load(arguments.script) if arguments.script else None,
        recordings=[Recording.load(path) for path in arguments.recording],
        api_keys=[arguments.key] if arguments.key else None,
        pace=Pace(tokens_per_s=arguments.pace) if arguments.pace else None,
        host=arguments.host,
        port=arguments.port,
        allow_remote=not is_loopback(arguments.host),
        strict_paths=not arguments.any_path,
    )
    try:
        asyncio.run(_serve(simulator, _log(arguments)))
    except socket.gaierror as error:
        print_message(f"cannot listen on {arguments.host!r}: {error.strerror}.")
        return USAGE
    except OSError as error:
        # Python 3.13 raises it without a number.
        if error.errno in (errno.EADDRNOTAVAIL, None):
            print_message(f"{arguments.host} is not an address of this machine. Pass another with --host.")
            return USAGE
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        problem = "is in use" if error.errno == errno.EADDRINUSE else "is not permitted"
        print_message(f"port {arguments.port} {problem}. Pass another --port, or --port 0 for a free one.")
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    return SUCCESS


class Log(Protocol):
    """The output while the server runs."""

    def started(self, url: str) -> str:
        """The server listens."""

    def request(self, number: int, received: Received) -> str:
        """A request has been answered."""

    def stopped(self, requests: int) -> str:
        """The server has stopped."""


class TextLog:
    """Lines for people.

    key: that clients have to send, or None
    """

    def __init__(self, key: str | None) -> None:
        self._key = key

    def started(self, url: str) -> str:
        """Addresses and commands to copy."""
        return "\n".join(_greeting(url, self._key))

    def request(self, number: int, received: Received) -> str:
        """One line."""
        return _request_line(number, received)

    def stopped(self, requests: int) -> str:
        """The number of requests."""
        return f"\nstopped after {_count(requests, 'request')}"


class JsonLog:
    """Lines of JSON for programs."""

    def started(self, url: str) -> str:
        """The address, which a program waits for."""
        return msgspec.json.encode({"type": "started", "url": url}).decode()

    def request(self, number: int, received: Received) -> str:
        """A request: its dialect and content."""
        http, request = received.http, received.request
        line: dict[str, object] = {
            "type": "request",
            "number": number,
            "method": http.method,
            "url": http.url,
        }
        line["dialect"] = received.dialect
        if request is not None:
            line |= {"model": request.model, "messages": len(request.messages), "tools": len(request.tools)}
        line["disconnected"] = received.disconnected
        return msgspec.json.encode(line).decode()

    def stopped(self, requests: int) -> str:
        """The number of requests."""
        return msgspec.json.encode({"type": "stopped", "requests": requests}).decode()


def _log(arguments: argparse.Namespace) -> Log | None:
    if arguments.quiet:
        return None
    return JsonLog() if arguments.json else TextLog(arguments.key)


async def _serve(simulator: Simulator, log: Log | None) -> None:
    writer = LineWriter(sys.stdout)
    try:
        async with simulator:
            if log is None:
                with suppress(asyncio.CancelledError):  # Ctrl-C
                    await asyncio.Event().wait()
            else:
                writer.write(log.started(simulator.url))
                count = await _report(simulator, log, writer)
                writer.write(log.stopped(count))
    finally:
        writer.close()


async def _report(simulator: Simulator, log: Log, writer: LineWriter) -> int:
    """Logs each finished request until Ctrl-C; returns the number of requests."""
    waiting: list[tuple[int, Received]] = []
    known = 0
    cancelled = False
    while not cancelled:
        try:
            await asyncio.sleep(_POLL_S)
        # Ctrl-C: one more round logs the requests that have finished.
        except asyncio.CancelledError:
            cancelled = True
        fresh = _since(simulator.requests, known)
        waiting += fresh
        known = fresh[-1][0] if fresh else known
        for entry in [entry for entry in waiting if entry[1].done.is_set()]:
            waiting.remove(entry)
            writer.write(log.request(*entry))
    return known


def _since(requests: list[Received], known: int) -> list[tuple[int, Received]]:
    """Returns the requests after the first `known` ones, numbered; the simulator drops the oldest."""
    numbered = ((int(one.request_id.rpartition("_")[2]) + 1, one) for one in reversed(requests))
    return list(itertools.takewhile(lambda entry: entry[0] > known, numbered))[::-1]


def _request_line(number: int, received: Received) -> str:
    http, request = received.http, received.request
    facts = [f"{number:>4}  {http.method} {one_line(http.url, 80)}", received.dialect or "no dialect"]
    if request is not None:
        facts.append(one_line(request.model, 60))
        facts.append(_count(len(request.messages), "message"))
        if request.tools:
            facts.append(_count(len(request.tools), "tool"))
    if received.disconnected:
        facts.append("the client disconnected early")
    return "  ".join(facts)


def _greeting(url: str, key: str | None) -> Iterator[str]:
    """Lists the addresses and commands to copy."""
    shown = key or "sim-key"
    openai, anthropic, ollama = (base_url(url, name) for name in ("openai-chat", "anthropic", "ollama"))
    yield f"The simulator listens on {url} (Ctrl-C stops it)"
    yield ""
    # Anthropic's dialect is listed three times, once for each of its paths.
    for name in dict.fromkeys(dialect.name for dialect in default_dialects()):
        yield f"  {name:<20} {base_url(url, name)}"
    yield ""
    yield "Try it:"
    yield f"  OPENAI_API_KEY={shown} llmstream chat -m openai:sim --base-url {openai} Hello"
    yield f"  ANTHROPIC_API_KEY={shown} llmstream chat -m anthropic:sim --base-url {anthropic} Hello"
    yield (
        f"  curl -N {openai}/chat/completions -H 'authorization: Bearer {shown}' "
        "-H 'content-type: application/json' "
        """-d '{"model": "sim", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}'"""
    )
    yield ""
    yield "Or configure a client:"
    yield f"  export OPENAI_BASE_URL={openai} OPENAI_API_KEY={shown}"
    yield f"  export ANTHROPIC_BASE_URL={anthropic} ANTHROPIC_API_KEY={shown}"
    yield f"  export OLLAMA_HOST={ollama}"
    yield ""


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


_MAX_LINES: Final = 10_000
_CLOSE_S: Final = 2.0


class LineWriter:
    """Writes log lines in order, from a thread of its own.

    The server may write to a pipe without a reader, or whose reader exits first. A full pipe would
    block the event loop, and a closed one would end the program. Here at most 10,000 lines wait, and
    further ones are dropped.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lines: queue.Queue[str | None] = queue.Queue(_MAX_LINES)
        self._thread = threading.Thread(target=self._run, name="llmstream-log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Queues a line."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            pass

    def close(self) -> None:
        """Waits until all lines are written, but not for a reader that does not read."""
        try:
            self._lines.put(None, timeout=_CLOSE_S)
        except queue.Full:
            return
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        # Flushes earlier output first: `_write` bypasses the buffer.
        self._out.flush()
        write = self._write
        while (line := self._lines.get()) is not None:
            try:
                write(f"{line}\n".encode(self._out.encoding or "utf-8", "backslashreplace"))
            # The reader has closed the pipe.
            except OSError:
                write = _drop

    def _write(self, data: bytes) -> None:
        """Bypasses the file's buffer: its lock, held by a waiting thread, would block the exit."""
        while data:
            data = data[os.write(self._out.fileno(), data) :]


def _drop(data: bytes) -> None:
    pass
