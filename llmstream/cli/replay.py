"""`llmstream replay`: decodes a recorded response body into events."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import BinaryIO, Final

import msgspec

from llmstream.cli.dialects import wire_of
from llmstream.cli.errors import FAILED, SUCCESS
from llmstream.cli.terminal import print_message, write_bytes
from llmstream.dialects.base import DIALECTS, Dialect
from llmstream.dialects.errors import is_error_body, vendor_error
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.errors import InvalidRequest, LLMStreamError, NotAStream, StreamError
from llmstream.events import ErrorEvent, Event, Finish, Raw, ResponseMetadata, StreamStart, encode

__all__ = ["Recording", "configure", "looks_like", "run"]

_PIECE_BYTES: Final = 64 * 1024

_EPILOG: Final = """\
The file holds the response body as an HTTP client returns it: decompressed, without chunk
framing and headers.

exit status: 0 success, 2 usage error, such as a missing file, 3 the stream ended in an error, which is
the second to last event, 130 interrupted (Ctrl-C), 141 the reader of the pipe closed it

examples:
  curl -sN ... > answer.txt; llmstream replay --dialect openai-chat answer.txt
  llmstream replay --dialect anthropic --json answer.txt | jq -r .type
  curl -sN ... | llmstream replay --dialect ollama -
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--dialect", required=True, metavar="DIALECT", help=f"API of the recording: {', '.join(DIALECTS)}"
    )
    parser.add_argument(
        "--provider",
        metavar="PROVIDER",
        help="provider that sent it, for its quirks",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print one JSON object per event")
    output.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    parser.add_argument("--raw", action="store_true", help="include the vendor's own events as `raw`")
    parser.add_argument("file", metavar="FILE", help="recorded body; - reads standard input")


def run(arguments: argparse.Namespace) -> int:
    """Prints the events of one body; returns the exit status."""
    wire = wire_of(arguments.dialect, arguments.provider)
    with _opened(arguments.file) as source:
        if wire.warning:
            print_message(f"warning: {wire.warning}")
        recording = Recording(wire.dialect, provider=wire.provider, include_raw=arguments.raw)
        lines = _as_json if arguments.json else _as_transcript
        for events in recording.events(_pieces(source, arguments.file)):
            if not arguments.quiet:
                write_bytes(lines(events))
    if recording.error is not None:
        print_message(str(recording.error))
        return FAILED
    return SUCCESS


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
    """Reads the body in pieces, without waiting for a pipe to fill one."""
    read: Callable[[int], bytes] = getattr(source, "read1", source.read)
    try:
        while piece := read(_PIECE_BYTES):
            yield piece
    except OSError as error:
        raise _cannot_read(file, error) from None


def _cannot_read(file: str, error: OSError) -> InvalidRequest:
    return InvalidRequest(f"cannot read {file}: {error.strerror or error}. Check the path.")


_NO_CONTENT: Final = frozenset({StreamStart, ResponseMetadata, Raw, ErrorEvent, Finish})
# First bytes of bodies in our text framings, including truncated ones.
_BEGINNINGS: Final = (b"data:", b"event:", b"id:", b"retry:", b":", b"{", b"\xef\xbb\xbf")
_HEAD_BYTES: Final = 16 * 1024 * 1024
_EXCERPT_BYTES: Final = 80


class Recording:
    """Decodes one body.

    Holds the events back until the first content: if the body is not a stream of this dialect, an
    error that describes it replaces them.

    error: why the stream failed, or None; set once `events` is exhausted
    """

    def __init__(self, dialect: Dialect, *, provider: str, include_raw: bool = False) -> None:
        self.error: LLMStreamError | None = None
        self._dialect = dialect
        self._provider = provider
        self._include_raw = include_raw

    def events(self, pieces: Iterable[bytes]) -> Iterator[list[Event]]:
        """Decodes the body, in batches.

        pieces: the body in order, cut anywhere
        yields: one complete stream of events
        """
        sentence = self._sentence()
        held: list[Event] | None = sentence.start()
        head = bytearray()
        for piece in pieces:
            events = sentence.feed(piece)
            if held is not None:
                head += piece[: _HEAD_BYTES - len(head)]
                held += events
                if all(type(event) in _NO_CONTENT for event in events):
                    events = []
                else:
                    events, held = held, None
            if events:
                yield events
            if sentence.done:
                break
        rest = sentence.close()
        self.error = sentence.error
        if held is not None:
            rest = held + rest
            if isinstance(self.error, StreamError):
                rest = self._second_look(bytes(head)) or rest
        if rest:
            yield rest

    def _sentence(self) -> GuardedDecoder:
        decoder = self._dialect.decoder(provider=self._provider, include_raw=self._include_raw)
        return GuardedDecoder(decoder, provider=self._provider)

    def _second_look(self, body: bytes) -> list[Event] | None:
        """Returns the events of a body that is not a stream; None if it is one that failed."""
        sentence = self._sentence()
        events = sentence.start()
        if self._dialect.content_type == "text/event-stream" and _is_one_json_value(body):
            if is_error_body(body):
                return self._failed(vendor_error(200, {}, body, provider=self._provider))
            line = b" ".join(body.split(b"\n"))
            events += sentence.feed(b"data: " + line + b"\n\n") + sentence.close()
            if sentence.error is None:
                self.error = None
                return events
        message = self._mismatch(body)
        return self._failed(NotAStream(message, provider=self._provider)) if message else None

    def _failed(self, error: LLMStreamError) -> list[Event]:
        sentence = self._sentence()
        events = sentence.start() + sentence.fail(error)
        self.error = sentence.error
        return events

    def _mismatch(self, body: bytes) -> str:
        """Describes a body of another kind, with a remedy; "" if it may be a stream of the dialect."""
        dialect = self._dialect.name
        name, description = looks_like(body)
        if name == dialect:
            if body.startswith(_BEGINNINGS) and not self._dialect.content_type.startswith("text/event"):
                return (
                    f"this recording is {description}, without the framing of {self._provider}. "
                    "Omit --provider."
                )
            return ""
        if not description:
            if body.lstrip().startswith(_BEGINNINGS):
                return ""
            return (
                f"this recording is not a stream of {dialect}. It begins with "
                f"{body[:_EXCERPT_BYTES].decode('utf-8', 'replace')!r}"
            )
        remedy = f" Try --dialect {name}." if name else ""
        return f"this recording is not a stream of {dialect}. It looks like {description}.{remedy}"


def _is_one_json_value(body: bytes) -> bool:
    if not body.lstrip().startswith((b"{", b"[")):
        return False
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


# (dialect or "", description, pattern), the most certain first.
_SIGNS: Final[tuple[tuple[str, str, re.Pattern[bytes]], ...]] = tuple(
    (dialect, description, re.compile(sign, re.DOTALL))
    for dialect, description, sign in (
        ("", "an HTML page, not a response of the API", rb"\s*<(?i:!doctype|html|\?xml|head|body)"),
        ("", "gzip data. Decompress it first", rb"\x1f\x8b"),
        ("", "zstd data. Decompress it first", rb"\x28\xb5\x2f\xfd"),
        ("", "an HTTP response with headers. Remove all but the body", rb"HTTP/[0-9.]+ [0-9]{3}"),
        ("", "a body in HTTP chunks. Join the chunks first", rb"[0-9a-fA-F]{1,8}\r\n(data|event|\{)"),
        ("", "decoded events of llmstream", rb'\s*\{"type":"stream-start"'),
        ("anthropic", "a stream of the Anthropic API", rb'.*"type":\s*"(message_start|content_block_)'),
        ("openai-responses", "a stream of the OpenAI Responses API", rb'.*"type":\s*"response\.(c|o|i)'),
        ("openai-chat", "a stream of chat completions", rb'.*("choices":|"chat\.completion)'),
        ("gemini", "a stream of the Gemini API", rb'.*"candidates":'),
        ("gemini-interactions", "a stream of the Gemini Interactions API", rb'.*"interaction\.(c|s)'),
        ("cohere", "a stream of the Cohere API", rb'.*"type":\s*"message-start"'),
        ("ollama", "a stream of the Ollama API", rb'\s*\{.*"done":\s*(true|false)'),
        ("", "one JSON value: a response without streaming, or an error", rb"\s*[\[{]"),
    )
)

_AWS_HEADERS: Final = (b":message-type", b":event-type", b":exception-type")


def looks_like(head: bytes) -> tuple[str, str]:
    """Guesses what a body is from its beginning.

    head:    the first few KiB
    returns: the dialect, "" for none, and a description, "" if unknown
    """
    if not head.strip():
        return "", "an empty file" if not head else "a blank file"
    if any(header in head[:2048] for header in _AWS_HEADERS):
        if b'"bytes":' in head[:4096]:
            return "anthropic --provider bedrock-invoke", "a stream of Amazon Bedrock (InvokeModel)"
        return "bedrock-converse", "a stream of Amazon Bedrock (Converse)"
    for dialect, description, sign in _SIGNS:
        if sign.match(head[:8192]):
            return dialect, description
    if b"\x00" in head[:1024]:
        return "", "binary data"
    return "", ""
