"""The conformance suite passes our dialects, and fails on every defect that is planted."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from llmstream.dialects.anthropic import Anthropic
from llmstream.dialects.ollama import Ollama
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.errors import IncompleteStream
from llmstream.events import (
    ErrorEvent,
    File,
    Finish,
    Raw,
    ReasoningDelta,
    ReasoningStart,
    ResponseMetadata,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputStart,
    Usage,
)
from llmstream.server_side.wires import server_side
from llmstream.testing import assert_dialect_conforms, check_stream, cuts, decode_body
from llmstream.testing.conformance import content_summary, with_numbered_ids

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


def test_long_body_is_cut_at_some_places(body) -> None:
    word = body.split(b"\n\n")[1] + b"\n\n"
    assert_dialect_conforms(OpenAIChat(), [word * 500 + body], max_cuts=10)


def test_nothing_tested_without_recordings() -> None:
    with pytest.raises(AssertionError, match="no recordings"):
        assert_dialect_conforms(OpenAIChat(), [])


def test_dialect_conforms_until_broken(spoilt, body) -> None:
    assert_dialect_conforms(spoilt(), [body])


def test_one_way_dialect_is_tested_forwards(spoilt, body) -> None:
    def no_encoder(request):
        raise NotImplementedError

    assert_dialect_conforms(spoilt(), [body], event_encoder=no_encoder)
    assert_dialect_conforms(spoilt(), [body])


def fails(dialect, body, words) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_dialect_conforms(dialect, [body], event_encoder=dialect.event_encoder)


def test_delta_dropped_at_a_chunk_start(spoilt, decoder_class, body) -> None:
    class Drops(decoder_class):
        chunks = 0

        def feed(self, chunk):
            self.chunks += 1
            events = self.inner.feed(chunk)
            return events[1:] if self.chunks > 1 and isinstance((events or [None])[0], TextDelta) else events

    fails(spoilt(Drops), body, "byte by byte, differs from the complete body")


def test_a_delta_dropped_wherever_the_cut_is(spoilt, decoder_class, body) -> None:
    class Drops(decoder_class):
        dropped = False

        def feed(self, chunk):
            return [event for event in self.inner.feed(chunk) if not self.drops(event)]

        def drops(self, event):
            first = isinstance(event, TextDelta) and not self.dropped
            self.dropped = self.dropped or first
            return first

    fails(spoilt(Drops), body, "encoded and decoded again, differs")


def test_delta_doubled_at_cut_in_a_character(spoilt, decoder_class, body) -> None:
    class Repeats(decoder_class):
        def feed(self, chunk):
            events = self.inner.feed(chunk)
            return events[:1] + events if chunk[:1] == b"\xb6" else events

    fails(spoilt(Repeats), body, r"cut at byte \d+, differs from the complete body: event \d+ is TextDelta")


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

    fails(spoilt(Lines), body, "unusual characters were changed")


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

    fails(spoilt(Quiet), body, "an empty body does not give an IncompleteStream")


def test_incomplete_said_twice(spoilt, decoder_class, body) -> None:
    class Doubts(decoder_class):
        def close(self):
            return self.inner.close() or [ErrorEvent(IncompleteStream("cut off").info)]

    fails(spoilt(Doubts), body, "truncated after 0 bytes, has 2 IncompleteStream errors")


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

    fails(spoilt(encoder=Other), body, "encoded and decoded again, differs: event 1 is .'finish'")


def test_cuts_are_all_ways_to_cut_in_two() -> None:
    assert list(cuts(b"abc")) == [(b"", b"abc"), (b"a", b"bc"), (b"ab", b"c"), (b"abc", b"")]
    assert list(cuts(b"")) == [(b"", b"")]


def test_body_decoded_at_once_and_in_pieces(body) -> None:
    whole = decode_body(body, OpenAIChat())
    assert "".join(e.delta for e in whole if isinstance(e, TextDelta)) == "Hellö you"
    assert isinstance(whole[0], StreamStart)
    assert isinstance(whole[-1], Finish)
    assert decode_body([body[:50], body[50:]], OpenAIChat()) == whole
    assert all(decode_body(body, OpenAIChat(), chunks=size) == whole for size in (1, 7, 10_000))


def test_every_cut_says_the_same(body) -> None:
    whole = decode_body(body, OpenAIChat())
    assert all(decode_body(pieces, OpenAIChat()) == whole for pieces in cuts(body))


def test_a_chunk_has_at_least_one_byte(body) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        decode_body(body, OpenAIChat(), chunks=0)


def test_errors_name_provider_raw_on_request(body) -> None:
    events = decode_body(body[:100], OpenAIChat(), provider="acme", include_raw=True)
    assert [e.error.provider for e in events if isinstance(e, ErrorEvent)] == ["acme"]
    assert any(isinstance(e, Raw) for e in events)


def test_a_sentence_passes(body) -> None:
    check_stream(decode_body(body, OpenAIChat()))
    check_stream(iter(decode_body(b"", OpenAIChat())))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda events: events[1:], "stream-start has to be the first"),
        (lambda events: events[:-1], "no finish at the end"),
        (lambda events: [*events, events[-1]], "after finish"),
        (lambda events: [e for e in events if not isinstance(e, TextStart)], "not open"),
        (lambda events: [e for e in events if not isinstance(e, TextEnd)], "still open at finish"),
        (
            lambda events: [x for e in events for x in ([e, e] if isinstance(e, TextEnd) else [e])],
            "already closed",
        ),
        (lambda events: [], "no events at all"),
    ],
)
def test_grammar_failure_lists_broken_rules(body, spoil, words) -> None:
    events = decode_body(body, OpenAIChat())
    with pytest.raises(AssertionError, match=words):
        check_stream(spoil(events))


def test_all_broken_laws_are_listed() -> None:
    with pytest.raises(AssertionError) as caught:
        check_stream([TextDelta("a", "0"), TextEnd("0")])
    assert str(caught.value).count("\n") == 4


def test_fragments_join_by_id_empty_dropped() -> None:
    events = [
        ReasoningStart("r"),
        TextStart("a"),
        ReasoningDelta("hm", "r"),
        TextDelta("Hel", "a"),
        ReasoningDelta("!", "r"),
        TextDelta("lo", "a"),
        TextStart("b"),
        TextEnd("b"),
    ]
    assert content_summary(events) == [("reasoning", "hm!"), ("text", "Hello")]


def test_calls_files_and_the_end_are_said() -> None:
    events = [
        ToolCall("f", '{"a": 1}', "c"),
        ToolCall("f", "{broken", "d"),
        File("image/png", b"\x89"),
        Finish("stop", Usage(1, 2, 3, raw={"x": 1}), "end_turn"),
    ]
    assert content_summary(events) == [
        ("call", ("f", {"a": 1})),
        ("call", ("f", "{broken")),
        ("file", ("image/png", b"\x89")),
        ("finish", ("stop", 1, 2)),
    ]


def test_ids_become_numbers_not_response_ids() -> None:
    events = [ResponseMetadata("m", "x9"), TextStart("q"), ToolInputStart("f", "z"), ToolCall("f", "{}", "z")]
    assert with_numbered_ids(events) == [
        ResponseMetadata("m", "x9"),
        TextStart("#0"),
        ToolInputStart("f", "#1"),
        ToolCall("f", "{}", "#1"),
    ]
