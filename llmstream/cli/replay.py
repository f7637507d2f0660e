"""`llmstream replay`: a recorded response body becomes events."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import BinaryIO, Final

from llmstream.cli.dialects import wire_of
from llmstream.cli.exits import FAILED, FINE
from llmstream.cli.recording import Recording
from llmstream.cli.terminal import complain, write_bytes
from llmstream.dialects.names import DIALECTS
from llmstream.errors import InvalidRequest
from llmstream.events import Event, encode

__all__ = ["configure", "run"]

_PIECE_BYTES: Final = 64 * 1024

_EPILOG: Final = """\
The body is what an HTTP client sees: de-chunked and decompressed, without the head.

exit status: 0 decoded; 3 decoded, but the stream ended in an error, which is the last
event but one; 2 wrong usage, such as a file that is not there

examples:
  curl -sN ... > answer.txt; llmstream replay --dialect openai-chat answer.txt
  llmstream replay --dialect anthropic --json answer.txt | jq -r .type
  curl -sN ... | llmstream replay --dialect ollama -
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("--dialect", required=True, metavar="NAME", help=f"the wire: {', '.join(DIALECTS)}")
    parser.add_argument(
        "--provider", metavar="NAME", help="who sent it, for the habits of one vendor (llmstream providers)"
    )
    parser.add_argument("--json", action="store_true", help="one event a line, as JSON")
    parser.add_argument("--raw", action="store_true", help="the wire's own events as well, as `raw`")
    parser.add_argument("file", metavar="FILE", help="the recorded body; - reads standard input")


def run(arguments: argparse.Namespace) -> int:
    """Prints the events of one body; 3 where the stream in it ended in an error."""
    wire = wire_of(arguments.dialect, arguments.provider)
    with _opened(arguments.file) as source:
        if wire.warning:
            complain(f"warning: {wire.warning}")
        recording = Recording(wire.dialect, provider=wire.provider, include_raw=arguments.raw)
        lines = _as_json if arguments.json else _as_transcript
        for events in recording.events(_pieces(source, arguments.file)):
            write_bytes(lines(events))
    if recording.error is not None:
        complain(str(recording.error))
        return FAILED
    return FINE


def _as_json(events: list[Event]) -> bytes:
    return b"".join([encode(event) + b"\n" for event in events])


def _as_transcript(events: list[Event]) -> bytes:
    from llmstream.cli.transcript import event_line

    return "".join([event_line(event) + "\n" for event in events]).encode()


def _opened(file: str) -> AbstractContextManager[BinaryIO]:
    if file == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return open(file, "rb")
    except OSError as error:
        raise _cannot_read(file, error) from None


def _pieces(source: BinaryIO, file: str) -> Iterator[bytes]:
    """The body as it comes: a pipe's pieces are not waited for until they are full."""
    read: Callable[[int], bytes] = getattr(source, "read1", source.read)
    try:
        while piece := read(_PIECE_BYTES):
            yield piece
    except OSError as error:
        raise _cannot_read(file, error) from None


def _cannot_read(file: str, error: OSError) -> InvalidRequest:
    return InvalidRequest(f"cannot read {file}: {error.strerror or error}. Check the path.")
