"""`llmstream replay`: a recorded response body becomes events."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import BinaryIO, Final

import msgspec

from llmstream.cli.dialects import wire_of
from llmstream.cli.errors import FAILED, FINE
from llmstream.cli.terminal import complain, write_bytes
from llmstream.dialects.base import Dialect
from llmstream.dialects.errors import is_error_body, vendor_error
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.names import DIALECTS
from llmstream.errors import InvalidRequest, LLMStreamError, NotAStream, StreamError
from llmstream.events import ErrorEvent, Event, Finish, Raw, ResponseMetadata, StreamStart, encode

__all__ = ["Recording", "configure", "looks_like", "run"]

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


_NO_CONTENT: Final = frozenset({StreamStart, ResponseMetadata, Raw, ErrorEvent, Finish})
_BEGINNINGS: Final = (b"data:", b"event:", b"id:", b"retry:", b":", b"{", b"\xef\xbb\xbf")
"""How the bodies of our text framings begin, also those that are cut off at once."""
_KEPT_BYTES: Final = 16 * 1024 * 1024
_EXCERPT_BYTES: Final = 80


class Recording:
    """Decodes one body. Until its first content comes, events wait: should the body be no stream
    of this dialect, they are replaced by an error that says what it is.

    error: why the stream in it failed, or None; known once `events` is exhausted
    """

    def __init__(self, dialect: Dialect, *, provider: str, include_raw: bool = False) -> None:
        self.error: LLMStreamError | None = None
        self._dialect = dialect
        self._provider = provider
        self._include_raw = include_raw

    def events(self, pieces: Iterable[bytes]) -> Iterator[list[Event]]:
        """The whole sentence, in batches.

        pieces: the body in order, cut anywhere
        """
        sentence = self._sentence()
        held: list[Event] | None = sentence.start()
        head = bytearray()
        for piece in pieces:
            events = sentence.feed(piece)
            if held is not None:
                head += piece[: _KEPT_BYTES - len(head)]
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
        """The events of a body that is no stream; None where it is one and just failed."""
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
        message = self._what_it_is(body)
        return self._failed(NotAStream(message, provider=self._provider)) if message else None

    def _failed(self, error: LLMStreamError) -> list[Event]:
        sentence = self._sentence()
        events = sentence.start() + sentence.fail(error)
        self.error = sentence.error
        return events

    def _what_it_is(self, body: bytes) -> str:
        """What the body is if it is not what the dialect says, and the remedy; "" if it may be."""
        dialect = self._dialect.name
        name, words = looks_like(body)
        if name == dialect:
            if body.startswith(_BEGINNINGS) and not self._dialect.content_type.startswith("text/event"):
                return (
                    f"this recording is {words}, not in the frames of {self._provider}. Leave out --provider."
                )
            return ""
        if not words:
            if body.lstrip().startswith(_BEGINNINGS):
                return ""
            return (
                f"this recording is no {dialect} stream. It begins: "
                f"{body[:_EXCERPT_BYTES].decode('utf-8', 'replace')!r}"
            )
        remedy = ""
        if name:
            known = name.partition(" ")[0] in DIALECTS
            remedy = f" Try --dialect {name}." if known else f" Its dialect, {name}, cannot be replayed yet."
        return f"this recording is no {dialect} stream: it looks like {words}.{remedy}"


def _is_one_json_value(body: bytes) -> bool:
    if not body.lstrip().startswith((b"{", b"[")):
        return False
    try:
        msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


_SIGNS: Final[tuple[tuple[str, str, re.Pattern[bytes]], ...]] = tuple(
    (dialect, words, re.compile(sign, re.DOTALL))
    for dialect, words, sign in (
        ("", "an HTML page, not the API's answer", rb"\s*<(?i:!doctype|html|\?xml|head|body)"),
        ("", "compressed (gzip): decompress it first", rb"\x1f\x8b"),
        ("", "compressed (zstd): decompress it first", rb"\x28\xb5\x2f\xfd"),
        ("", "an HTTP answer with its head: keep only the body", rb"HTTP/[0-9.]+ [0-9]{3}"),
        ("", "a body still in HTTP chunks: join them first", rb"[0-9a-fA-F]{1,8}\r\n(data|event|\{)"),
        ("", "events of llmstream, already decoded", rb'\s*\{"type":"stream-start"'),
        ("anthropic", "a stream of Anthropic's", rb'.*"type":\s*"(message_start|content_block_)'),
        ("openai-responses", "a stream of OpenAI's Responses", rb'.*"type":\s*"response\.(c|o|i)'),
        ("openai-chat", "a stream of chat completions", rb'.*("choices":|"chat\.completion)'),
        ("gemini", "a stream of Gemini's", rb'.*"candidates":'),
        ("gemini-interactions", "a stream of Gemini's Interactions", rb'.*"interaction\.(c|s)'),
        ("cohere", "a stream of Cohere's", rb'.*"type":\s*"message-start"'),
        ("ollama", "lines of Ollama's", rb'\s*\{.*"done":\s*(true|false)'),
        ("", "one JSON value: an answer that was not streamed, or an error", rb"\s*[\[{]"),
    )
)
"""(dialect or "", what it is, its sign), the surest first."""

_AWS_HEADERS: Final = (b":message-type", b":event-type", b":exception-type")


def looks_like(head: bytes) -> tuple[str, str]:
    """The dialect whose body begins like this ("" if none does) and what it is, in words ("" if unknown).

    head: the first few KiB
    """
    if not head.strip():
        return "", "empty" if not head else "blank"
    if any(header in head[:2048] for header in _AWS_HEADERS):
        if b'"bytes":' in head[:4096]:
            return "anthropic --provider bedrock-invoke", "frames of Amazon Bedrock (InvokeModel)"
        return "bedrock-converse", "frames of Amazon Bedrock (Converse)"
    for dialect, words, sign in _SIGNS:
        if sign.match(head[:8192]):
            return dialect, words
    if b"\x00" in head[:1024]:
        return "", "binary data"
    return "", ""
