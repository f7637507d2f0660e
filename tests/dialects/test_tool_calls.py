"""Tool calls out of fragments, without a wire around them; the wires' own tests have the rest."""

from __future__ import annotations

import pytest

from llmstream.dialects.tool_calls import ToolCallTracker
from llmstream.dialects.tool_fragments import mint_call_id
from llmstream.errors import DecodeError
from llmstream.events import ToolCall, ToolInputDelta, ToolInputEnd, ToolInputStart


def test_the_tracker_alone_gives_the_events_of_a_call():
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
def test_a_call_that_was_cut_is_kept_as_invalid_where_asked_for(arguments):
    tracker = ToolCallTracker()
    tracker.add(index=0, id="a", name="f", arguments=arguments)
    assert tracker.finish(truncated=True, keep_cut=True) == [
        ToolInputEnd("a"),
        ToolCall("f", arguments or "{}", "a", invalid=True),
    ]


def test_a_whole_input_in_a_cut_answer_is_a_call_only_where_a_call_comes_in_one_piece():
    for in_one_piece, last in ((True, ToolCall("f", '{"x":1}', "a")), (False, ToolInputEnd("a", True))):
        tracker = ToolCallTracker()
        tracker.add(index=0, id="a", name="f", arguments='{"x":1}')
        assert tracker.finish(truncated=True, in_one_piece=in_one_piece)[-1] == last
