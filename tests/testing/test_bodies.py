"""Bodies are cut, decoded and checked."""

from __future__ import annotations

import pytest

from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.events import ErrorEvent, Finish, Raw, StreamStart, TextDelta, TextEnd, TextStart
from llmstream.testing import check_stream, cuts, decode_body


def test_cuts_are_all_ways_to_cut_in_two() -> None:
    assert list(cuts(b"abc")) == [(b"", b"abc"), (b"a", b"bc"), (b"ab", b"c"), (b"abc", b"")]
    assert list(cuts(b"")) == [(b"", b"")]


def test_a_body_is_decoded_whole_in_pieces_and_in_chunks(body) -> None:
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


def test_errors_name_the_provider_and_raw_comes_when_asked_for(body) -> None:
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
def test_what_is_no_sentence_fails_with_the_laws_it_breaks(body, spoil, words) -> None:
    events = decode_body(body, OpenAIChat())
    with pytest.raises(AssertionError, match=words):
        check_stream(spoil(events))


def test_all_broken_laws_are_listed() -> None:
    with pytest.raises(AssertionError) as caught:
        check_stream([TextDelta("a", "0"), TextEnd("0")])
    assert str(caught.value).count("\n") == 4
