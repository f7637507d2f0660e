"""`llmstream simulate`: the simulator in the foreground, for other programs to talk to."""

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
from typing import Final, TextIO

from llmstream.cli.dialects import base_url
from llmstream.cli.errors import FINE, INTERRUPTED, USAGE
from llmstream.cli.terminal import complain, one_line
from llmstream.simulator import Pace, Received, Recording, Script, Simulator
from llmstream.simulator.server import default_dialects

__all__ = ["LineWriter", "configure", "run"]

_POLL_S: Final = 0.1
_LOCAL: Final = ("127.0.0.1", "localhost", "::1")

_EPILOG: Final = """\
It listens on this machine only, speaks every dialect on one port, with and without
"stream": true, checks requests as the vendors do, and prints a line for each. There are no
embeddings, images or old completions. Ctrl-C ends it. Without --script or --recording it
calls the first tool it is offered and answers from what the tool gave.

A script is JSON: {"turns": [{"text": "Hello."}, {"calls": [{"name": "f", "arguments": {}}]}]}

examples:
  llmstream simulate
  llmstream simulate --port 9000 --key secret --pace 40
  llmstream simulate --script turns.json
  llmstream simulate --recording answer.txt
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("--port", type=_port, default=8080, metavar="N", help="where to listen (8080); 0 takes a free one")
    add(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on (127.0.0.1); in a container 0.0.0.0, which others can reach",
    )
    said = parser.add_mutually_exclusive_group()
    said.add_argument("--script", metavar="FILE", help="what to say, as JSON")
    said.add_argument(
        "--recording",
        metavar="PATH",
        action="append",
        default=[],
        help="a recorded body to answer with; given again, the next request's",
    )
    add("--key", metavar="KEY", help="accept only this API key; by default any, or none")
    add("--any-path", action="store_true", help="answer below any prefix, not only at the vendors' paths")
    add("--pace", type=_rate, metavar="TOKENS_PER_S", help="how fast to speak; by default at once")


def run(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C."""
    simulator = Simulator(
        Script.load(arguments.script) if arguments.script else None,
        recordings=[Recording.load(path) for path in arguments.recording],
        api_keys=[arguments.key] if arguments.key else None,
        pace=Pace(tokens_per_s=arguments.pace) if arguments.pace else None,
        host=arguments.host,
        port=arguments.port,
        allow_remote=arguments.host not in _LOCAL,
        strict_paths=not arguments.any_path,
    )
    try:
        asyncio.run(_serve(simulator, arguments.key))
    except socket.gaierror as error:
        complain(f"the host {arguments.host!r} cannot be opened: {error.strerror}.")
        return USAGE
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, None):  # Python 3.13 says it without a number
            complain(f"{arguments.host} is no address of this machine. Pass another with --host.")
            return USAGE
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        taken = "is taken" if error.errno == errno.EADDRINUSE else "cannot be opened"
        complain(f"port {arguments.port} {taken}. Pass another with --port, or --port 0 for a free one.")
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    return FINE


async def _serve(simulator: Simulator, key: str | None) -> None:
    log = LineWriter(sys.stdout)
    try:
        async with simulator:
            log.write("\n".join(_greeting(simulator.url, key)))
            count = await _report(simulator, log)
            log.write(f"\nstopped after {_count(count, 'request')}")
    finally:
        log.close()


async def _report(simulator: Simulator, log: LineWriter) -> int:
    """A line for each request once it is over, until Ctrl-C; gives their number."""
    waiting: list[tuple[int, Received]] = []
    known = 0
    over = False
    while not over:
        try:
            await asyncio.sleep(_POLL_S)
        except asyncio.CancelledError:  # Ctrl-C; what is over by now is still told
            over = True
        fresh = _since(simulator.requests, known)
        waiting += fresh
        known = fresh[-1][0] if fresh else known
        for number, received in [entry for entry in waiting if entry[1].done.is_set()]:
            waiting.remove((number, received))
            log.write(_request_line(number, received))
    return known


def _since(requests: list[Received], known: int) -> list[tuple[int, Received]]:
    """The requests after the first `known` ones, with their numbers; the list forgets the oldest."""
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
        facts.append("the client left before the end")
    return "  ".join(facts)


def _greeting(url: str, key: str | None) -> Iterator[str]:
    """Addresses, and lines to copy."""
    shown = key or "sim-key"
    openai, anthropic, ollama = (base_url(url, name) for name in ("openai-chat", "anthropic", "ollama"))
    yield f"The simulator listens on {url} (Ctrl-C ends it)"
    yield ""
    for name in dict.fromkeys(dialect.name for dialect in default_dialects()):  # Claude's has three paths
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
    yield "Or point a client at it:"
    yield f"  export OPENAI_BASE_URL={openai} OPENAI_API_KEY={shown}"
    yield f"  export ANTHROPIC_BASE_URL={anthropic} ANTHROPIC_API_KEY={shown}"
    yield f"  export OLLAMA_HOST={ollama}"
    yield ""


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"a port is 0 to 65535, not {port}")
    return port


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate < float("inf"):
        raise argparse.ArgumentTypeError(f"tokens per second are more than 0, not {text}")
    return rate


_MOST_LINES: Final = 10_000
_CLOSE_S: Final = 2.0


class LineWriter:
    """Writes lines from a thread of its own, in order.

    A server in the foreground is often started with a pipe that nobody reads, or whose reader ends
    first: the one would stop the event loop once the pipe is full, the other end the program. Here
    lines that nobody takes are dropped, at most 10,000 wait.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lines: queue.Queue[str | None] = queue.Queue(_MOST_LINES)
        self._thread = threading.Thread(target=self._run, name="llmstream-log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Writes a line soon."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            pass

    def close(self) -> None:
        """Waits a moment until all lines are written."""
        try:
            self._lines.put(None, timeout=_CLOSE_S)
        except queue.Full:  # nobody reads
            return
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        self._out.flush()
        write = self._write
        while (line := self._lines.get()) is not None:
            try:
                write(f"{line}\n".encode(self._out.encoding or "utf-8", "backslashreplace"))
            except OSError:  # the reader has gone
                write = _drop

    def _write(self, data: bytes) -> None:
        """Past the buffer of the file: a thread that waits in it could not be left behind."""
        while data:
            data = data[os.write(self._out.fileno(), data) :]


def _drop(data: bytes) -> None:
    pass
