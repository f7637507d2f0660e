"""`llmstream replay`: decodes a recorded body into events; shows those of a cache or cassette."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from llmstream.cli.config import wire_of
from llmstream.cli.errors import FAILED, SUCCESS
from llmstream.cli.terminal import print_message, write_bytes
from llmstream.dialects.base import DIALECTS, Dialect
from llmstream.dialects.errors import is_error_body, vendor_error
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.errors import InvalidRequest, LLMStreamError, NotAStream, StreamError
from llmstream.events import ErrorEvent, Event, Finish, Raw, ResponseMetadata, StreamStart, encode
from llmstream.files import read_file

if TYPE_CHECKING:
    from llmstream.middleware.caching.form import Answer

__all__ = ["Recording", "configure", "looks_like", "run"]

# The size of a pipe's buffer on Linux.
_PIECE_BYTES: Final = 64 * 1024
# The field in which a cache or a cassette names its format.
_STORED_HEAD_BYTES: Final = 64

_EPILOG: Final = """\
The file holds the response body as an HTTP client returns it: decompressed, without chunk
framing and headers. It may also be a folder that `llmstream.testing.record` wrote, an answer of
a cache (KEY.jsonl) or a cassette (NAME.json); the last two are events and need no dialect.

exit status: 0 success, 2 usage error, such as a missing file, 3 the stream ended in an error, which is
the second to last event, 130 interrupted (Ctrl-C), 141 the reader of the pipe closed it

examples:
  curl -sN ... > answer.txt; llmstream replay --dialect openai-chat answer.txt
  llmstream replay --dialect anthropic --json answer.txt | jq -r .type
  curl -sN ... | llmstream replay --dialect ollama -
  llmstream replay --pace original tests/cassettes/test_chat/test_greeting.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "--dialect", metavar="DIALECT", help=f"API of the recorded body: {', '.join(DIALECTS)}"
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
    parser.add_argument(
        "--pace",
        type=_speed,
        metavar="SPEED",
        help="original: as it was recorded; 2: twice as fast (default: at once)",
    )
    parser.add_argument("file", metavar="FILE", help="recorded body; - reads standard input")


def run(arguments: argparse.Namespace) -> int:
    """Prints the events of one recording; returns the exit status."""
    lines = _as_json if arguments.json else _as_transcript
    answers = _stored_answers(arguments.file)
    if answers is not None:
        return _replay_stored(arguments, answers, lines)
    if arguments.dialect is None:
        if arguments.file != "-" and not os.path.exists(arguments.file):
            raise InvalidRequest(
                f"cannot read {arguments.file}: there is no such file or folder. Check the path."
            )
        raise InvalidRequest(
            f"{arguments.file} is neither a cached answer nor a cassette. For the body of a response add "
            f"--dialect DIALECT: {', '.join(DIALECTS)}."
        )
    wire = wire_of(arguments.dialect, arguments.provider)
    with _opened(arguments.file, arguments.pace) as pieces:
        if wire.warning:
            print_message(f"warning: {wire.warning}")
        recording = Recording(wire.dialect, provider=wire.provider, include_raw=arguments.raw)
        for events in recording.events(pieces):
            if not arguments.quiet:
                write_bytes(lines(events))
    if recording.error is not None:
        print_message(str(recording.error))
        return FAILED
    return SUCCESS


def _speed(text: str) -> float:
    """Reads the value of --pace."""
    from llmstream.middleware.caching.form import speed_of

    try:
        speed = speed_of("original" if text == "original" else float(text))
        assert speed is not None  # only for "none", which is no number
    except ValueError:  # an InvalidRequest is one
        raise argparse.ArgumentTypeError(f"original or a positive number, not {text!r}") from None
    return speed


def _stored_answers(file: str) -> list[Answer] | None:
    """The answers of a cache or cassette; None for another file.

    raises: InvalidRequest if it is damaged
    """
    path = Path(file)
    if file == "-" or not path.is_file():
        return None
    try:
        with open(path, "rb") as source:
            head = source.read(_STORED_HEAD_BYTES)
        if b'"llmstream.cache"' in head:
            from llmstream.middleware.caching.form import decode_answer

            return [decode_answer(read_file(path))]
        if b'"llmstream.cassette"' in head:
            from llmstream.testing.cassette_file import read_cassette

            return [each.answer for each in read_cassette(path) if each.answer is not None]
    except OSError as error:
        raise _cannot_read(file, error) from None
    except InvalidRequest:
        raise
    except ValueError as error:
        raise InvalidRequest(f"{file} is a damaged cached answer: {error}") from None
    return None


def _replay_stored(
    arguments: argparse.Namespace, answers: list[Answer], lines: Callable[[list[Event]], bytes]
) -> int:
    status = SUCCESS
    for answer in answers:
        pace = _Pace(arguments.pace)
        for due_s, events in answer.batches:
            pace.wait(due_s)
            if not arguments.quiet:
                write_bytes(lines(events))
        for error in [event.error for event in answer.events if isinstance(event, ErrorEvent)]:
            print_message(error.message)
            status = FAILED
    return status


class _Pace:
    """Waits until an item is due.

    speed: as many times faster than recorded; None does not wait
    """

    def __init__(self, speed: float | None) -> None:
        self._speed = speed
        self._began = time.monotonic()

    def wait(self, due_s: float) -> None:
        """Waits until this many seconds after the start of the recording."""
        if self._speed is not None:
            time.sleep(max(0.0, self._began + due_s / self._speed - time.monotonic()))


def _as_json(events: list[Event]) -> bytes:
    return b"".join([encode(event) + b"\n" for event in events])


def _as_transcript(events: list[Event]) -> bytes:
    from llmstream.cli.outputs import event_line

    return "".join([event_line(event) + "\n" for event in events]).encode()


@contextmanager
def _opened(file: str, speed: float | None) -> Iterator[Iterator[bytes]]:
    """The pieces of a body: of a recording with its timing when they are due, else as they can be read."""
    if file != "-" and (speed is not None or (Path(file) / "response.bin").exists()):
        yield _paced(file, speed)
        return
    with _source(file) as source:
        yield _pieces(source, file)


def _paced(file: str, speed: float | None) -> Iterator[bytes]:
    from llmstream.simulator.recording import Recording as RecordedBody

    recorded = RecordedBody.load(file)
    if speed is not None and not recorded.timing:
        print_message(f"warning: {file} has no timing, so it is replayed at once")
    pace = _Pace(speed)
    for due_s, piece in recorded.pieces():
        pace.wait(due_s)
        yield piece


def _source(file: str) -> AbstractContextManager[BinaryIO]:
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
        guarded = self._guarded()
        held: list[Event] | None = guarded.start()
        head = bytearray()
        for piece in pieces:
            events = guarded.feed(piece)
            if held is not None:
                # For a second decoding; bounded, because a body without content may be endless.
                head += piece[: _HEAD_BYTES - len(head)]
                held += events
                if all(type(event) in _NO_CONTENT for event in events):
                    events = []
                else:
                    events, held = held, None
            if events:
                yield events
            # A pipe may stay open after the end of the stream.
            if guarded.done:
                break
        rest = guarded.close()
        self.error = guarded.error
        if held is not None:
            rest = held + rest
            if isinstance(self.error, StreamError):
                rest = self._second_look(bytes(head)) or rest
        if rest:
            yield rest

    def _guarded(self) -> GuardedDecoder:
        decoder = self._dialect.decoder(provider=self._provider, include_raw=self._include_raw)
        return GuardedDecoder(decoder, provider=self._provider)

    def _second_look(self, body: bytes) -> list[Event] | None:
        """Returns the events of a body that is not a stream; None if it is one that failed."""
        guarded = self._guarded()
        events = guarded.start()
        if self._dialect.content_type == "text/event-stream" and _is_one_json_value(body):
            if is_error_body(body):
                return self._failed(vendor_error(200, {}, body, provider=self._provider))
            # SSE ends a field at a line end; within JSON a blank is equivalent.
            line = b" ".join(body.split(b"\n"))
            events += guarded.feed(b"data: " + line + b"\n\n") + guarded.close()
            if guarded.error is None:
                self.error = None
                return events
        message = self._mismatch(body)
        return self._failed(NotAStream(message, provider=self._provider)) if message else None

    def _failed(self, error: LLMStreamError) -> list[Event]:
        guarded = self._guarded()
        events = guarded.start() + guarded.fail(error)
        self.error = guarded.error
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
        # InvokeModel wraps the vendor's event as base64 under this name.
        if b'"bytes":' in head[:4096]:
            return "anthropic --provider bedrock-invoke", "a stream of Amazon Bedrock (InvokeModel)"
        return "bedrock-converse", "a stream of Amazon Bedrock (Converse)"
    for dialect, description, sign in _SIGNS:
        if sign.match(head[:8192]):
            return dialect, description
    if b"\x00" in head[:1024]:
        return "", "binary data"
    return "", ""
