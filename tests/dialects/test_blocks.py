"""Blocks on their own: ids, caps, held back calls, results, and the end of an answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.blocks import Block, Blocks
from llmstream.dialects.decoder import PayloadDecoder
from llmstream.events import (
    ErrorEvent,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)
from llmstream.framing.sse import SSEDecoder


class Reader(PayloadDecoder[Any]):
    """Holds what blocks emit."""

    def __init__(self, limits: StreamLimits = StreamLimits()) -> None:
        super().__init__(SSEDecoder(), msgspec.json.Decoder(), provider="acme", limits=limits)
        self.blocks = Blocks(self, Block, key="acme")


def call(reader: Reader, index: int, wire_id: str = "c", *fragments: str) -> Block:
    block = Block("tool", reader.blocks.fresh_id(wire_id), name="f", wire_id=wire_id)
    if reader.blocks.open(index, block):
        for fragment in fragments:
            reader.blocks.input(block, fragment)
    return block


def kinds(reader: Reader) -> list[type]:
    return [type(event) for event in reader.out]


def test_a_repeated_id_gets_a_number():
    blocks = Reader().blocks
    assert [blocks.fresh_id("a") for _ in range(3)] == ["a", "a.2", "a.3"]


def test_numbers_pass_over_taken_ids():
    blocks = Reader().blocks
    blocks.fresh_id("0")
    blocks.fresh_id("source-1")
    assert (blocks.next_id(), blocks.source_id()) == ("1", "source-2")


@pytest.mark.parametrize("given", [None, "", "taken"])
def test_a_call_without_its_own_id_gets_one(given):
    blocks = Reader().blocks
    blocks.fresh_id("taken")
    assert blocks.call_id(given, lambda: "minted") == "minted"


def test_a_call_is_emitted_when_it_closes():
    reader = Reader()
    call(reader, 0, "c", '{"a":', "1}")
    reader.blocks.close(0)
    assert reader.out == [
        ToolInputStart("f", "c"),
        ToolInputDelta('{"a":', "c"),
        ToolInputDelta("1}", "c"),
        ToolInputEnd("c"),
        ToolCall("f", '{"a":1}', "c"),
    ]
    assert reader.blocks.client_called


def test_an_input_limit_counts_bytes():
    """Three characters of four bytes are longer than ten bytes."""
    reader = Reader(StreamLimits(max_tool_input_bytes=10))
    call(reader, 0, "c", "\U0001f600\U0001f600", "\U0001f600")
    assert reader.failure is not None
    assert reader.failure.code == "limit-exceeded"


def test_one_block_too_many_ends_the_stream():
    reader = Reader(StreamLimits(max_blocks=1))
    assert reader.blocks.open(0, Block("text", "0"))
    assert not reader.blocks.open(1, Block("text", "1"))
    assert reader.done
    assert reader.failure is not None


def test_block_at_taken_index_ends_other():
    reader = Reader()
    reader.blocks.open(0, Block("text", "a"))
    reader.blocks.open(0, Block("text", "b"))
    assert reader.out == [TextStart("a"), TextEnd("a"), TextStart("b")]


@pytest.mark.parametrize("reason", ["length", "content-filter", "error"])
def test_a_held_back_call_may_have_been_cut(reason):
    reader = Reader()
    call(reader, 0)
    reader.blocks.hold_back(0)
    assert reader.blocks.end(reason)
    assert reader.out[1:] == [ToolInputEnd("c", incomplete=True)]
    assert not reader.blocks.client_called


def test_next_block_releases_a_held_call():
    reader = Reader()
    call(reader, 0)
    reader.blocks.hold_back(0)
    reader.blocks.open(1, Block("text", "1"))
    assert kinds(reader) == [ToolInputStart, ToolInputEnd, ToolCall, TextStart]


def test_text_and_reasoning_close_each_other():
    reader = Reader()
    reader.blocks.reasoning("a")
    reader.blocks.text("")
    reader.blocks.text("b")
    reader.blocks.text("c")
    reader.blocks.close_prose()
    assert reader.out == [
        ReasoningStart("0"),
        ReasoningDelta("a", "0"),
        ReasoningEnd("0"),
        TextStart("1"),
        TextDelta("b", "1"),
        TextDelta("c", "1"),
        TextEnd("1"),
    ]


def test_logprobs_are_on_the_delta_and_end():
    reader = Reader()
    reader.blocks.add_logprobs([{"token": "a"}])
    reader.blocks.text("a")
    reader.blocks.close_prose("text")
    found = {"acme": {"logprobs": [{"token": "a"}]}}
    assert reader.out[1:] == [TextDelta("a", "0", found), TextEnd("0", provider_metadata=found)]


def test_a_result_takes_the_name_of_its_call():
    reader = Reader()
    call(reader, 0, "c")
    assert reader.blocks.result("c", 1, name="other", is_error=False, metadata=None)
    assert reader.out[-1] == ToolResult(1, "c", "f", provider_executed=True)


def test_a_second_result_is_a_defect():
    reader = Reader()
    given = [reader.blocks.result("c", n, name="f", is_error=False, metadata=None) for n in range(2)]
    assert given == [True, False]
    assert kinds(reader) == [ToolResult, ErrorEvent]


def test_an_orphan_is_reported_once_an_index():
    reader = Reader()
    for index in (0, 0, 1):
        reader.blocks.orphan(index, "nothing is open")
    assert kinds(reader) == [ErrorEvent, ErrorEvent]


def test_response_with_calls_is_tool_calls():
    reader = Reader()
    call(reader, 0, "c", "{}")
    reader.blocks.finish("stop", "end")
    assert reader.out[-1] == Finish("tool-calls", reader.usage, "end")
    assert reader.complete
    assert reader.done


def test_retained_values_are_freed_at_end():
    """Ten inputs of one kilobyte, one after the other, fit into a few."""
    reader = Reader(StreamLimits(max_held_bytes=5_000))
    for number in range(10):
        call(reader, 0, f"c{number}", "x" * 1_000)
    assert reader.failure is None


def test_nothing_opens_after_the_end():
    """One event of the wire may hold several calls, of which the first is too long."""
    reader = Reader(StreamLimits(max_tool_input_bytes=2))
    call(reader, 0, "a", "{", '"x"')
    call(reader, 0, "b", "{}")
    assert reader.out == [ToolInputStart("f", "a"), ToolInputDelta("{", "a")]


def test_an_input_past_the_limit_is_no_call():
    reader = Reader(StreamLimits(max_tool_input_bytes=2))
    call(reader, 0, "a", "{", '"x"')
    reader.blocks.close(0)
    assert reader.out[1:] == [ToolInputDelta("{", "a"), ToolInputEnd("a", incomplete=True)]


@pytest.mark.parametrize(("text", "expected"), [("", "{}"), ('{"a":1}', '{"a":1}')])
def test_a_call_in_one_piece_closes_the_text(text, expected):
    reader = Reader()
    reader.blocks.text("a")
    reader.blocks.complete_call("f", "c", text)
    assert kinds(reader)[2:4] == [TextEnd, ToolInputStart]
    assert reader.out[-1] == ToolCall("f", expected, "c")
    assert not reader.blocks.opened
