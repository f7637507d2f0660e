"""Answers in which something grows for ever: what a decoder keeps is counted, and its end is typed."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from llmstream.cli.config import wire_of
from llmstream.dialects.base import StreamLimits
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.media import Base64Pieces
from llmstream.dialects.payload_size import held_size
from llmstream.errors import LimitExceeded
from llmstream.framing.aws_event_stream import encode_message
from llmstream.grammar import check

MB = 1024 * 1024
PAD = "x" * 80


def sse(value: dict[str, Any]) -> bytes:
    name = f"event: {value['type']}\n" if "type" in value else ""
    return f"{name}data: {json.dumps(value)}\n\n".encode()


def chat(delta: dict[str, Any], **beside: Any) -> bytes:
    return sse({"id": "1", "model": "m", "choices": [{"index": 0, "delta": delta}], **beside})


def block(index: int, wire: dict[str, Any]) -> bytes:
    return sse({"type": "content_block_start", "index": index, "content_block": wire})


def grown(index: int, delta: dict[str, Any]) -> bytes:
    return sse({"type": "content_block_delta", "index": index, "delta": delta})


def aws(kind: str, value: dict[str, Any]) -> bytes:
    headers = {":event-type": kind, ":message-type": "event", ":content-type": "application/json"}
    return encode_message(headers, json.dumps(value).encode())


TEXT_BLOCK = block(0, {"type": "text", "text": ""})
TOOL_BLOCK = block(0, {"type": "tool_use", "id": "t", "name": "f", "input": {}})
CUSTOM_BLOCK = block(0, {"type": "compaction", "content": ""})
MESSAGE = sse(
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}}
)
CALL = sse(
    {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "function_call", "id": "f", "call_id": "c", "name": "f"},
    }
)

Piece = Callable[[int], bytes]
FLOODS: dict[str, tuple[str, bytes, Piece]] = {
    "chat reasoning details": (
        "openai-chat",
        b"",
        lambda n: chat({"reasoning_details": [{"type": "t", "id": f"{n}", "text": PAD}]}),
    ),
    "chat reasoning details, keys": (
        "openai-chat",
        b"",
        lambda n: chat(
            {"reasoning_details": [{"type": "t", "index": 0, **{f"k{n}-{i}": i for i in range(20)}}]}
        ),
    ),
    "chat reasoning details, one growing": (
        "openai-chat",
        b"",
        lambda n: chat({"reasoning_details": [{"type": "t", "index": 0, "text": "ab"}] * 50}),
    ),
    "chat audio": ("openai-chat", b"", lambda n: chat({"audio": {"data": "QUJD" * 4000}})),
    "chat annotations": (
        "openai-chat",
        b"",
        lambda n: chat(
            {"annotations": [{"type": "url_citation", "url": f"https://{n}/{i}"} for i in range(20)]}
        ),
    ),
    "chat citations": (
        "openai-chat",
        b"",
        lambda n: chat({"content": "a"}, citations=[f"https://{n}/{i}{PAD}" for i in range(20)]),
    ),
    "chat usage keys": ("openai-chat", b"", lambda n: chat({"content": "a"}, usage={f"k{n}": 1})),
    "chat tool input": (
        "openai-chat",
        b"",
        lambda n: chat(
            {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "ab"}}] * 50}
        ),
    ),
    "chat tool inputs side by side": (
        "openai-chat",
        b"",
        lambda n: chat(
            {
                "tool_calls": [
                    {"index": n % 500, "id": f"c{n % 500}", "function": {"name": "f", "arguments": PAD * 99}}
                ]
            }
        ),
    ),
    "chat ids of calls": (
        "openai-chat",
        b"",
        lambda n: chat(
            {
                "tool_calls": [
                    {"index": 0, "id": f"{n}{PAD * 99}", "function": {"name": "f", "arguments": "{}"}}
                ]
            }
        ),
    ),
    "ollama ids of calls": (
        "ollama",
        b"",
        lambda n: (
            json.dumps(
                {
                    "model": "m",
                    "message": {
                        "tool_calls": [{"id": f"{n}{PAD * 99}", "function": {"name": "f", "arguments": {}}}]
                    },
                }
            )
            + "\n"
        ).encode(),
    ),
    "chat executed tools": (
        "openai-chat",
        b"",
        lambda n: chat({"executed_tools": [{"index": n * 20 + i, "type": "t"} for i in range(20)]}),
    ),
    "chat logprobs": (
        "openai-chat",
        b"",
        lambda n: sse(
            {
                "choices": [
                    {
                        "index": 0,
                        "delta": {"content": "a"},
                        "logprobs": {"content": [{"token": f"{n}", "logprob": -1.0, "bytes": [1, 2]}] * 40},
                    }
                ]
            }
        ),
    ),
    "anthropic citations": (
        "anthropic",
        TEXT_BLOCK,
        lambda n: grown(0, {"type": "citations_delta", "citation": {"type": "c", "cited_text": f"{n}{PAD}"}}),
    ),
    "anthropic usage keys": (
        "anthropic",
        b"",
        lambda n: sse({"type": "message_delta", "delta": {}, "usage": {f"k{n}": 1}}),
    ),
    "anthropic tool input": (
        "anthropic",
        TOOL_BLOCK,
        lambda n: grown(0, {"type": "input_json_delta", "partial_json": "ab"}) * 20,
    ),
    "anthropic custom block": (
        "anthropic",
        CUSTOM_BLOCK,
        lambda n: grown(0, {"type": "compaction_delta", "content": PAD * 50}),
    ),
    "anthropic custom block, keys": (
        "anthropic",
        CUSTOM_BLOCK,
        lambda n: grown(0, {"type": "compaction_delta", **{f"k{n}-{i}": i for i in range(50)}}),
    ),
    "anthropic open blocks": (
        "anthropic",
        b"",
        lambda n: block(n, {"type": "tool_use", "id": f"t{n}", "name": "f", "input": {"q": PAD * 999}}),
    ),
    "anthropic ids": (
        "anthropic",
        b"",
        lambda n: block(0, {"type": "tool_use", "id": f"{n}{PAD * 999}", "name": "f", "input": {}}),
    ),
    "responses annotations": (
        "openai-responses",
        MESSAGE,
        lambda n: sse(
            {
                "type": "response.output_text.annotation.added",
                "output_index": 0,
                "annotation": {"type": "url_citation", "url": f"https://{n}/", "title": PAD},
            }
        ),
    ),
    "responses items": (
        "openai-responses",
        b"",
        lambda n: sse(
            {
                "type": "response.output_item.done",
                "output_index": n,
                "item": {"type": "image_generation_call", "id": f"i{n}", "result": PAD * 999},
            }
        ),
    ),
    "responses tool input": (
        "openai-responses",
        CALL,
        lambda n: (
            sse({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "ab"}) * 20
        ),
    ),
    "responses audio": (
        "openai-responses",
        b"",
        lambda n: sse({"type": "response.audio.delta", "delta": "QUJD" * 4000}),
    ),
    "responses pieces": (
        "openai-responses",
        MESSAGE,
        lambda n: b"".join(
            sse(
                {
                    "type": "response.output_text.delta",
                    "output_index": 0,
                    "content_index": n * 20 + i,
                    "delta": "a",
                }
            )
            for i in range(20)
        ),
    ),
    "gemini sources": (
        "gemini",
        b"",
        lambda n: sse(
            {
                "candidates": [
                    {
                        "content": {"parts": [{"text": "a"}]},
                        "groundingMetadata": {
                            "groundingChunks": [{"web": {"uri": f"https://{n}/{i}/{PAD}"}} for i in range(20)]
                        },
                    }
                ]
            }
        ),
    ),
    "gemini logprobs": (
        "gemini",
        b"",
        lambda n: sse(
            {
                "candidates": [
                    {
                        "content": {"parts": [{"text": "a"}]},
                        "logprobsResult": {
                            "chosenCandidates": [{"token": f"{n}", "logProbability": -1}] * 50
                        },
                    }
                ]
            }
        ),
    ),
    "gemini usage keys": (
        "gemini",
        b"",
        lambda n: sse(
            {"candidates": [{"content": {"parts": [{"text": "a"}]}}], "usageMetadata": {f"k{n}": 1}}
        ),
    ),
    "cohere citations": (
        "cohere",
        b"",
        lambda n: sse(
            {
                "type": "citation-start",
                "index": 0,
                "delta": {
                    "message": {
                        "citations": {
                            "start": 0,
                            "end": 1,
                            "text": "a",
                            "sources": [
                                {"id": f"{n}-{i}", "type": "document", "document": {"id": f"{n}-{i}"}}
                                for i in range(20)
                            ],
                        }
                    }
                },
            }
        ),
    ),
    "cohere tool input": (
        "cohere",
        sse(
            {
                "type": "tool-call-start",
                "index": 0,
                "delta": {"message": {"tool_calls": {"id": "c", "function": {"name": "f", "arguments": ""}}}},
            }
        ),
        lambda n: (
            sse(
                {
                    "type": "tool-call-delta",
                    "index": 0,
                    "delta": {"message": {"tool_calls": {"function": {"arguments": "ab"}}}},
                }
            )
            * 20
        ),
    ),
    "cohere white space": (
        "cohere",
        sse(
            {
                "type": "tool-call-start",
                "index": 0,
                "delta": {"message": {"tool_calls": {"id": "c", "function": {"name": "f", "arguments": ""}}}},
            }
        ),
        lambda n: sse(
            {
                "type": "tool-call-delta",
                "index": 0,
                "delta": {"message": {"tool_calls": {"function": {"arguments": " " * 900}}}},
            }
        ),
    ),
    "mistral usage keys": ("mistral", b"", lambda n: chat({"content": "a"}, usage={f"k{n}": 1})),
    "mistral metadata": (
        "mistral",
        b"",
        lambda n: chat({"content": "a", "metadata": {f"k{n}": 1}}),
    ),
    "converse citations": (
        "bedrock-converse",
        b"",
        lambda n: aws(
            "contentBlockDelta",
            {"contentBlockIndex": 0, "delta": {"citation": {"title": f"{n}{PAD}", "source": PAD}}},
        ),
    ),
    "converse tool results side by side": (
        "bedrock-converse",
        b"".join(
            aws(
                "contentBlockStart", {"contentBlockIndex": n, "start": {"toolResult": {"toolUseId": f"t{n}"}}}
            )
            for n in range(500)
        ),
        lambda n: aws(
            "contentBlockDelta",
            {"contentBlockIndex": n % 500, "delta": {"toolResult": [{"text": PAD * 99}]}},
        ),
    ),
    "converse signature": (
        "bedrock-converse",
        b"",
        lambda n: (
            aws(
                "contentBlockDelta",
                {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": f"{n}ab"}}},
            )
            * 20
        ),
    ),
    "interactions audio": (
        "gemini-interactions",
        sse({"event_type": "step.start", "index": 0, "step": {"type": "model_output"}}),
        lambda n: sse(
            {"event_type": "step.delta", "index": 0, "delta": {"type": "audio", "data": "QUJD" * 4000}}
        ),
    ),
    "interactions annotations": (
        "gemini-interactions",
        sse({"event_type": "step.start", "index": 0, "step": {"type": "model_output"}}),
        lambda n: sse(
            {
                "event_type": "step.delta",
                "index": 0,
                "delta": {
                    "type": "text",
                    "text": "a",
                    "annotations": [{"url": f"https://{n}/", "title": PAD}],
                },
            }
        ),
    ),
    "interactions usage keys": (
        "gemini-interactions",
        b"",
        lambda n: sse({"event_type": "step.delta", "index": 0, "metadata": {"usage": {f"k{n}": 1}}}),
    ),
}


def pieces(head: bytes, piece: Piece, most: int) -> Iterator[bytes]:
    yield head
    sent = 0
    for n in itertools.count():
        body = piece(n)
        sent += len(body)
        if sent > most:
            return
        yield body


def sentence(dialect: str, limits: StreamLimits) -> GuardedDecoder:
    made = wire_of(dialect, None).dialect
    return GuardedDecoder(made.decoder(provider="acme", limits=limits), provider="acme")


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOODS)
def test_what_grows_ends_the_stream(name: str) -> None:
    """With a cap of 2 MB the end comes before 16 MB of the wire, and memory stays near the cap."""
    dialect, head, piece = FLOODS[name]
    flood = sentence(dialect, StreamLimits(max_held_bytes=2 * MB, max_blocks=5000))
    events = flood.start()
    tracemalloc.start()
    try:
        for body in pieces(head, piece, 16 * MB):
            found = flood.feed(body)
            if flood.done:
                events += found
                break
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(flood.error, LimitExceeded), flood.error
    assert peak < 12 * MB
    assert [event for event in events if type(event).__name__ == "Finish"]


@pytest.mark.parametrize("name", FLOODS)
def test_a_small_flood_is_a_lawful_sentence(name: str) -> None:
    dialect, head, piece = FLOODS[name]
    flood = sentence(dialect, StreamLimits(max_held_bytes=100_000, max_blocks=100))
    events = flood.start()
    for body in pieces(head, piece, 2 * MB):
        if flood.done:
            break
        events += flood.feed(body)
    events += flood.close()
    assert check(events) == []
    assert isinstance(flood.error, LimitExceeded)


def test_what_is_given_out_counts_no_more() -> None:
    """Ten calls of 300 KB one after the other pass a cap of 1 MB; side by side they do not."""

    def calls(*, closed: bool) -> GuardedDecoder:
        flow = sentence("anthropic", StreamLimits(max_held_bytes=MB))
        flow.start()
        for n in range(10):
            flow.feed(block(n, {"type": "tool_use", "id": f"t{n}", "name": "f", "input": {}}))
            flow.feed(grown(n, {"type": "input_json_delta", "partial_json": json.dumps("y" * 300_000)}))
            if closed:
                flow.feed(sse({"type": "content_block_stop", "index": n}))
        return flow

    assert not calls(closed=True).done
    assert isinstance(calls(closed=False).error, LimitExceeded)


def test_value_size_counts_its_contents() -> None:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    value = json.loads(json.dumps([{f"key{n}": [n, "t" * n, None]} for n in range(1000)]))
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.8 < held_size(value) / taken < 1.5


@pytest.mark.parametrize("cut", range(1, 9))
def test_base64_that_is_cut_anywhere(cut: int) -> None:
    text = "QUJDREVGR0hJSktM"
    whole = Base64Pieces()
    for at in range(0, len(text), cut):
        whole.add(text[at : at + cut])
    assert whole.joined() == b"ABCDEFGHIJKL"


def test_base64_whose_pieces_end_each() -> None:
    whole = Base64Pieces()
    for piece in ("QQ==", "QkM=", "REVG", "RA=="):
        whole.add(piece)
    assert whole.joined() == b"ABCDEFD"


def peak_of(body: bytes, dialect: str = "openai-chat") -> tuple[float, float, GuardedDecoder]:
    """Memory while one body is read, and after it, in bytes for one of the body."""
    wire = wire_of(dialect, None)
    inner = wire.dialect.decoder(provider=wire.provider)
    decoder = GuardedDecoder(inner, provider=wire.provider, marked=True)
    decoder.start()
    tracemalloc.start()
    try:
        for at in range(0, len(body), 65536):
            decoder.feed(body[at : at + 65536])
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak / len(body), held / len(body), decoder


def test_an_event_of_megabytes_is_not_kept() -> None:
    """Neither its bytes, nor more than a few copies of them at once."""
    body = chat({"content": "x"}, unknown="x" * 8 * MB)
    peak, held, _ = peak_of(body)
    assert peak < 2.5
    assert held < 0.1


def test_flood_of_empty_objects_is_refused() -> None:
    """Three bytes of the wire would be eighty of memory."""
    body = b'data: {"id":"1","choices":[' + b"{}," * 2_000_000 + b"{}]}\n\n"
    peak, _, decoder = peak_of(body)
    assert peak < 3
    assert isinstance(decoder.error, LimitExceeded)
    assert "of memory" in str(decoder.error)


WIDE = "\N{ARTIST PALETTE}"
LARGE_VALUES: dict[str, Callable[[], bytes]] = {  # made by the test: they are 100 MB together
    "keys": lambda: b"{" + b",".join(b'"k%d":1' % n for n in range(1_000_000)) + b"}",
    "numbers": lambda: b"[" + b",".join([b"1.5"] * 3_500_000) + b"]",
    "strings": lambda: b"[" + b",".join([b'"ab"'] * 2_500_000) + b"]",
    "objects": lambda: b"[" + b",".join([b'{"a":1.5,"b":1.5,"c":1.5}'] * 450_000) + b"]",
    "a wide text": lambda: json.dumps("x" * 13_000_000 + WIDE, ensure_ascii=False).encode(),
    "an escaped wide text": lambda: json.dumps("x" * 13_000_000 + WIDE).encode(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE_VALUES)
def test_one_event_of_much_memory_is_refused(name: str) -> None:
    """Decoded, each of these would be 80 to 180 MB."""
    body = b'data: {"id":"1","choices":[],"usage":' + LARGE_VALUES[name]() + b"}\n\n"
    peak, _, decoder = peak_of(body)
    assert peak * len(body) < 64 * MB
    assert isinstance(decoder.error, LimitExceeded)
    assert "of memory; the limit is 64 MiB" in str(decoder.error)


def test_large_event_of_alternatives_is_read() -> None:
    """Twenty logprobs for each of a few thousand tokens, in one event."""
    told = [{"token": " the", "logprob": -0.1, "bytes": [32, 116]}] * 60_000
    body = chat({"content": "x"}, unknown=told)
    _, _, decoder = peak_of(body)
    assert decoder.error is None


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic", "gemini", "openai-responses", "cohere"])
def test_stream_error_message_is_cut(dialect: str) -> None:
    long = "x" * MB
    body = sse({"type": "error", "error": {"message": long, "code": long, "status": long, "param": long}})
    _, _, decoder = peak_of(body, dialect)
    assert decoder.error is not None
    assert len(str(decoder.error)) < 100_000
    assert len(repr(decoder.error.info)) < 200_000
