"""Tool calls out of fragments, without a wire around them; the wires' own tests have the rest."""

from __future__ import annotations

import pytest

from llmstream.dialects.tool_calls import ToolCallTracker, mint_call_id
from llmstream.errors import DecodeError
from llmstream.events import ToolCall, ToolInputDelta, ToolInputEnd, ToolInputStart


def test_tracker_alone_gives_a_calls_events():
    tracker = ToolCallTracker()
    assert tracker.add(index=0, id="a", name="f") == [ToolInputStart("f", "a")]
    assert tracker.add(index=0, arguments="{}") == [ToolInputDelta("{}", "a")]
    assert tracker.finish() == [ToolInputEnd("a"), ToolCall("f", "{}", "a")]
    assert tracker.finish() == []
    with pytest.raises(DecodeError):
        tracker.add(index=0, arguments="}")


def test_minted_ids_are_unique():
    assert mint_call_id() != mint_call_id()


@pytest.mark.parametrize("arguments", [None, "", '{"x":'])
def test_a_call_that_was_cut_is_dropped(arguments):
    tracker = ToolCallTracker()
    tracker.add(index=0, id="a", name="f", arguments=arguments)
    assert tracker.finish(truncated=True) == [ToolInputEnd("a", incomplete=True)]
    assert tracker.called == 0


@pytest.mark.parametrize("arguments", [None, "", '{"x":'])
def test_cut_call_is_invalid_on_request(arguments):
    tracker = ToolCallTracker()
    tracker.add(index=0, id="a", name="f", arguments=arguments)
    assert tracker.finish(truncated=True, keep_cut=True) == [
        ToolInputEnd("a"),
        ToolCall("f", arguments or "{}", "a", invalid=True),
    ]


def test_cut_input_may_be_a_complete_call():
    """Only where a call comes in one piece, and its input is complete."""
    for in_one_piece, last in ((True, ToolCall("f", '{"x":1}', "a")), (False, ToolInputEnd("a", True))):
        tracker = ToolCallTracker()
        tracker.add(index=0, id="a", name="f", arguments='{"x":1}')
        assert tracker.finish(truncated=True, in_one_piece=in_one_piece)[-1] == last


CUSTOM = {"acme": {"type": "custom_tool_call"}}


@pytest.mark.parametrize("pieces", [[" x = 1\n"], ["null"], ["  ", "x"], ["{", "not json"]])
def test_plain_text_is_kept_to_the_letter(pieces):
    tracker = ToolCallTracker()
    events = tracker.add(index=0, id="a", name="f", arguments="", custom=CUSTOM)
    for piece in pieces:
        events += tracker.add(index=0, arguments=piece, custom=CUSTOM)
    assert events[0] == ToolInputStart("f", "a", provider_metadata=CUSTOM)
    text = "".join(pieces)
    assert tracker.finish() == [ToolInputEnd("a"), ToolCall("f", text, "a", provider_metadata=CUSTOM)]


def test_plain_text_that_looks_whole_goes_on():
    tracker = ToolCallTracker()
    tracker.add(index=0, id="a", name="f", arguments="1", custom=CUSTOM)
    tracker.add(index=1, id="b", name="g", arguments="{}")
    tracker.add(index=0, arguments="2", custom=CUSTOM)
    calls = [event for event in tracker.finish() if isinstance(event, ToolCall)]
    assert [(call.tool_name, call.input) for call in calls] == [("f", "12"), ("g", "{}")]


def test_empty_text_is_no_empty_object():
    tracker = ToolCallTracker()
    tracker.add(index=0, id="a", name="f", custom=CUSTOM)
    said = {"acme": {"type": "custom_tool_call", "input": ""}}
    assert tracker.finish()[1] == ToolCall("f", "{}", "a", provider_metadata=said)
