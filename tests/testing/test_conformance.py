"""The conformance suite passes our dialects, and fails on every defect that is planted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from llmstream.dialects.anthropic import Anthropic
from llmstream.dialects.ollama import Ollama
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.errors import IncompleteStream
from llmstream.events import ErrorEvent, Finish, TextDelta, TextEnd
from llmstream.serving.wires import server_side
from llmstream.testing import assert_dialect_conforms

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dialect", "pattern"),
    [
        (Anthropic(), "dialects/anthropic/recordings/*.sse"),
        (Ollama(), "dialects/ollama/recordings/*.ndjson"),
        (OpenAIChat(), "cli/recordings/openai_chat.sse"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_our_dialects_conform(dialect, pattern) -> None:
    bodies = [path.read_bytes() for path in sorted(TESTS.glob(pattern))]
    assert_dialect_conforms(dialect, bodies, provider=dialect.name)


OPENAI_CHAT = sorted((TESTS / "dialects/openai_chat/recordings").glob("*.sse"))


@pytest.mark.slow
@pytest.mark.parametrize("path", OPENAI_CHAT, ids=lambda path: path.stem)
def test_openai_chat_conforms(path) -> None:
    assert_dialect_conforms(OpenAIChat(), [path.read_bytes()], provider="openai")


def test_a_long_body_is_cut_at_some_places_only(body) -> None:
    word = body.split(b"\n\n")[1] + b"\n\n"
    assert_dialect_conforms(OpenAIChat(), [word * 500 + body], max_cuts=10)


def test_without_recordings_nothing_is_tested() -> None:
    with pytest.raises(AssertionError, match="no recordings"):
        assert_dialect_conforms(OpenAIChat(), [])


def test_the_spoilt_dialect_conforms_until_it_is_spoilt(spoilt, body) -> None:
    assert_dialect_conforms(spoilt(), [body])


def test_a_dialect_without_the_reverse_is_tested_forwards(spoilt, body) -> None:
    def no_encoder(request):
        raise NotImplementedError

    assert_dialect_conforms(spoilt(), [body], event_encoder=no_encoder)
    assert_dialect_conforms(spoilt(), [body])


def fails(dialect, body, words) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_dialect_conforms(dialect, [body], event_encoder=dialect.event_encoder)


def test_a_delta_dropped_at_the_start_of_a_chunk(spoilt, decoder_class, body) -> None:
    class Drops(decoder_class):
        chunks = 0

        def feed(self, chunk):
            self.chunks += 1
            events = self.inner.feed(chunk)
            return events[1:] if self.chunks > 1 and isinstance((events or [None])[0], TextDelta) else events

    fails(spoilt(Drops), body, "byte by byte, differs from the whole")


def test_a_delta_dropped_wherever_the_cut_is(spoilt, decoder_class, body) -> None:
    class Drops(decoder_class):
        dropped = False

        def feed(self, chunk):
            return [event for event in self.inner.feed(chunk) if not self.drops(event)]

        def drops(self, event):
            first = isinstance(event, TextDelta) and not self.dropped
            self.dropped = self.dropped or first
            return first

    fails(spoilt(Drops), body, "written as bytes and read again, differs")


def test_a_delta_said_twice_at_a_cut_inside_a_character(spoilt, decoder_class, body) -> None:
    class Repeats(decoder_class):
        def feed(self, chunk):
            events = self.inner.feed(chunk)
            return events[:1] + events if chunk[:1] == b"\xb6" else events

    fails(spoilt(Repeats), body, r"cut at byte \d+, differs from the whole: event \d+ is TextDelta")


def test_chunks_taken_for_lines(spoilt, decoder_class, body) -> None:
    class Lines(decoder_class):
        def feed(self, chunk):
            return [e for line in chunk.splitlines() if line for e in self.inner.feed(line + b"\n\n")]

    fails(spoilt(Lines), body, "byte by byte")


def test_characters_taken_for_line_ends(spoilt, decoder_class, body) -> None:
    class Lines(decoder_class):
        rest = b""

        def feed(self, chunk):
            *lines, self.rest = (self.rest + chunk).decode("utf-8", "surrogateescape").splitlines(
                keepends=True
            ) or [""]
            if self.rest.endswith(("\n", "\r")):
                lines, self.rest = [*lines, self.rest], ""
            self.rest = self.rest.encode("utf-8", "surrogateescape")
            whole = "".join(
                line.rstrip("\u2028\u2029\x85") + "\n" * (line[-1] not in "\r\n") for line in lines
            )
            return self.inner.feed(whole.encode("utf-8", "surrogateescape"))

    fails(spoilt(Lines), body, "unusual characters does not survive")


def test_lines_that_end_in_lf_only(spoilt, decoder_class, body) -> None:
    class OnlyLF(decoder_class):
        def feed(self, chunk):
            return self.inner.feed(chunk.replace(b"\r", b""))

    fails(spoilt(OnlyLF), body, "with CR as line end, differs")


def test_a_block_closed_twice(spoilt, decoder_class, body) -> None:
    class ClosesTwice(decoder_class):
        def feed(self, chunk):
            return [x for e in self.inner.feed(chunk) for x in ([e, e] if isinstance(e, TextEnd) else [e])]

    fails(spoilt(ClosesTwice), body, "the decoder breaks the grammar with TextEnd")


def test_a_quiet_finish_of_nothing(spoilt, decoder_class, body) -> None:
    class Quiet(decoder_class):
        def close(self):
            return self.inner.close() or ([] if self.inner.done else [Finish("stop")])

    fails(spoilt(Quiet), body, "an empty body is no IncompleteStream")


def test_incomplete_said_twice(spoilt, decoder_class, body) -> None:
    class Doubts(decoder_class):
        def close(self):
            return self.inner.close() or [ErrorEvent(IncompleteStream("cut off").info)]

    fails(spoilt(Doubts), body, "cut off after 0 bytes, is said to be incomplete 2 times")


def test_a_decoder_that_raises(spoilt, decoder_class, body) -> None:
    class Raises(decoder_class):
        def feed(self, chunk):
            return self.inner.feed(chunk.decode().encode())

    fails(spoilt(Raises), body, "byte by byte: the decoder raises UnicodeDecodeError")


def test_an_encoder_that_says_another_reason(spoilt, body) -> None:
    class Other:
        def __init__(self, request):
            self.inner = server_side(OpenAIChat()).event_encoder(request)

        def feed(self, event):
            if isinstance(event, Finish):
                event = msgspec.structs.replace(event, finish_reason="length", raw_finish_reason=None)
            return self.inner.feed(event)

        def close(self):
            return self.inner.close()

    fails(spoilt(encoder=Other), body, "written as bytes and read again, differs: event 1 is .'finish'")
