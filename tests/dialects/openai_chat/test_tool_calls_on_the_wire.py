"""Tool calls out of fragments, in all the shapes that servers have been seen to send."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.openai_chat import Quirks, ToolQuirks
from llmstream.events import TextEnd, ToolCall, ToolInputDelta, ToolInputEnd


def piece(index=None, id=None, name=None, arguments=None, **more):
    fragment = {"type": "function", "function": {"name": name, "arguments": arguments}, **more}
    if index is not None:
        fragment["index"] = index
    if id is not None:
        fragment["id"] = id
    return fragment


def test_fragments_of_one_call_are_joined(wire):  # case 1
    parts = ['{"', "value", '":"', "Spark", "le", " Day", '"}']
    usage = {"prompt_tokens": 53, "completion_tokens": 17, "total_tokens": 70}
    answer = wire.answer(
        wire.call(piece(0, "call_a", "test-tool", "")),
        *[wire.call({"index": 0, "function": {"arguments": part}}) for part in parts],
        wire.chunk({}, "tool_calls"),
        {"choices": [], "usage": usage},
    )
    assert answer.calls == [("test-tool", '{"value":"Sparkle Day"}')]
    assert answer.ids == ["call_a"]
    assert answer.finish.finish_reason == "tool-calls"
    told = answer.finish.usage
    assert (told.input_tokens, told.output_tokens, told.total_tokens) == (53, 17, 70)
    assert answer.kinds[2:] == [
        "tool-input-start",
        *["tool-input-delta"] * 7,
        "tool-input-end",
        "tool-call",
        "finish",
    ]


def test_call_ends_before_the_next_starts(wire):  # case 2
    answer = wire.answer(
        wire.call(piece(0, "a", "weather", "")),
        wire.call(piece(0, arguments='{"city":')),
        wire.call(piece(0, arguments='"Oslo"}')),
        wire.call(piece(1, "b", "time", "")),
        wire.call(piece(1, arguments='{"zone":"CET"}')),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("weather", '{"city":"Oslo"}'), ("time", '{"zone":"CET"}')]
    kinds = answer.kinds
    assert kinds.index("tool-call") < [i for i, k in enumerate(kinds) if k == "tool-input-start"][1]


def test_text_closes_before_call_in_a_chunk(wire):  # case 3
    delta = {"content": "thinking before tool", "tool_calls": [piece(0, "a", "t", '{"value":"hello"}')]}
    answer = wire.answer(wire.chunk(delta), wire.chunk({}, "tool_calls"))
    assert answer.text == "thinking before tool"
    assert answer.calls == [("t", '{"value":"hello"}')]
    assert answer.kinds.index("text-end") < answer.kinds.index("tool-input-start")


@pytest.mark.parametrize("nothing", ["", None, {}, "  "])
def test_call_without_arguments_is_an_object(wire, nothing):  # cases 4, 20
    answer = wire.answer(wire.call(piece(0, "a", "now", nothing)), wire.chunk({}, "tool_calls"))
    assert answer.calls == [("now", "{}")]
    assert answer.of(ToolInputDelta) == []


def test_text_null_is_the_input_if_alone(wire):  # Groq, calls without parameters
    answer = wire.answer(wire.call(piece(0, "a", "now", "null")), wire.chunk({}, "tool_calls"))
    assert answer.calls == [("now", "null")]


@pytest.mark.parametrize("blank", ["null", "  "])
def test_blank_before_the_input_is_dropped(wire, blank):
    """In a fragment of its own, without a name."""
    parts = [blank, '{"a":', "1}"]
    answer = wire.answer(
        *[wire.chunk({"content": "a"})] * 2,
        wire.call(piece(0, "a", "t", "")),
        *[wire.call({"index": 0, "function": {"arguments": part}}) for part in parts],
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("t", '{"a":1}')]


def test_non_json_arguments_are_invalid(wire):  # cases 5, 22
    """They come raw."""
    answer = wire.answer(wire.call(piece(0, "a", "t", '{"x":"a\\x00b"}')), wire.chunk({}, "tool_calls"))
    (call,) = answer.of(ToolCall)
    assert call.invalid
    assert call.input == '{"x":"a\\x00b"}'
    assert answer.finish.finish_reason == "tool-calls"


def test_done_completes_calls_without_reason(wire):  # case 6
    answer = wire.answer(wire.call(piece(0, "a", "t", "{}")))
    assert answer.calls == [("t", "{}")]
    assert (answer.finish.finish_reason, answer.finish.raw_finish_reason) == ("tool-calls", None)
    assert answer.error is None


def test_two_halves_make_one_call(wire):  # case 8
    answer = wire.answer(
        wire.call(piece(0, "a", "read", '{"pa')), wire.call(piece(0, arguments='th": "/tmp/test"}'))
    )
    assert answer.calls == [("read", '{"path": "/tmp/test"}')]


def test_call_without_a_name_is_an_error(wire):  # case 11
    answer = wire.answer(wire.call(piece(0, "a", None, '{"x":1}')), wire.chunk({}, "tool_calls"))
    assert answer.calls == []
    assert answer.errors == ["decode-error"]


def test_calls_are_ordered_by_index(wire):  # case 12
    answer = wire.answer(
        wire.call(piece(0, "call_1", "a", "")),
        wire.call(piece(1, "call_2", "b", "")),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.ids == ["call_1", "call_2"]


def test_empty_id_and_name_continue_the_call(wire):  # case 13
    answer = wire.answer(
        wire.call(piece(0, "a", "f", '{"city": "')),
        wire.call(piece(0, "", "", 'Boston"}')),
        wire.chunk({}, "stop"),
    )
    assert answer.calls == [("f", '{"city": "Boston"}')]


def test_new_id_with_a_name_is_a_new_call(wire):  # case 16
    answer = wire.answer(
        wire.call(piece(0, "aaa", "f", '{"a":1}')),
        wire.call(piece(0, "bbb", "f", '{"a":')),
        wire.call(piece(0, None, None, "2}")),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("f", '{"a":1}'), ("f", '{"a":2}')]
    assert answer.ids == ["aaa", "bbb"]


def test_new_id_without_a_name_is_same_call(wire):  # cases 17, 27
    """And the input `null` is replaced."""
    answer = wire.answer(
        wire.call(piece(0, "aaa", "web_search", "null")),
        wire.call(piece(0, "bbb", "", '{"query": "META')),
        wire.call(piece(0, "ccc", "", ' Platforms news"}')),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("web_search", '{"query": "META Platforms news"}')]
    assert answer.ids == ["aaa"]


def test_id_before_the_name_is_used(wire):  # case 18
    answer = wire.answer(
        wire.call({"index": 0, "id": "a"}),
        wire.call({"index": 0, "function": {"name": "f"}}),
        wire.call(piece(0, arguments='{"x":1}')),
        wire.chunk({}, "tool_calls"),
    )
    assert (answer.calls, answer.ids) == ([("f", '{"x":1}')], ["a"])


def test_arguments_before_the_name_wait(wire):
    answer = wire.answer(
        wire.call(piece(0, "a", None, '{"x"')),
        wire.call(piece(0, None, "f", ":1}")),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("f", '{"x":1}')]


def test_id_after_the_name_is_used(wire):
    answer = wire.answer(
        wire.call(piece(0, None, "f", "")),
        wire.call(piece(0, "late", None, "{}")),
        wire.chunk({}, "tool_calls"),
    )
    assert (answer.calls, answer.ids) == ([("f", "{}")], ["late"])


def test_arguments_may_be_an_object(wire):  # case 20
    answer = wire.answer(wire.call(piece(0, "a", "f", {"city": "London"})), wire.chunk({}, "tool_calls"))
    assert answer.calls == [("f", '{"city":"London"}')]


def test_empty_function_fragments_ignored(wire):  # case 20
    answer = wire.answer("hi", wire.call({"index": 0, "function": None}, None), wire.chunk({}, "stop"))
    assert (answer.calls, answer.text, answer.errors) == ([], "hi", [])


@pytest.mark.parametrize("arguments", ['{"x":', "", '{"x":1}'])
def test_length_drops_an_unfinished_call(wire, arguments):  # case 21
    answer = wire.answer(wire.call(piece(0, "a", "f", arguments)), wire.chunk({}, "length"))
    assert answer.calls == []
    assert answer.of(ToolInputEnd) == [ToolInputEnd("a", incomplete=True)]
    assert answer.finish.finish_reason == "length"


def test_length_keeps_a_followed_call(wire):
    answer = wire.answer(
        wire.call(piece(0, "a", "f", '{"x":1}')),
        wire.call(piece(1, "b", "g", "{}")),
        wire.chunk({}, "length"),
    )
    assert answer.calls == [("f", '{"x":1}')]


def test_truncation_keeps_complete_parts(wire):  # cases 19, 24, 36
    """It makes no call."""
    answer = wire.answer(
        wire.call(piece(0, "a", "f", '{"x":1}')), wire.call(piece(1, "b", "g", '{"y":')), done=False
    )
    assert answer.calls == [("f", '{"x":1}')]
    assert answer.errors == ["incomplete-stream"]
    assert answer.finish.finish_reason == "error"


def test_empty_name_does_not_erase_the_name(wire):  # case 26
    answer = wire.answer(
        wire.call(piece(0, "a", "get_weather", "")),
        wire.call(piece(0, "a", "", "{}")),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("get_weather", "{}")]


def test_a_repeated_name_is_never_glued(wire):  # reliability row 35
    answer = wire.answer(
        *[wire.call(piece(0, "a", "get_weather", part)) for part in ('{"city"', ':"Os', 'lo"}')],
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("get_weather", '{"city":"Oslo"}')]


def test_parallel_calls_assemble_separately(wire):  # case 28
    answer = wire.answer(
        wire.call(piece(0, "a", "f", "")),
        wire.call(piece(1, "b", "g", "")),
        wire.call(piece(0, arguments='{"x":')),
        wire.call(piece(1, arguments='{"y":')),
        wire.call(piece(1, arguments="2}"), piece(0, arguments="1}")),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("f", '{"x":1}'), ("g", '{"y":2}')]


def test_calls_without_ids_get_minted_ids(wire):  # case 29
    answer = wire.answer(
        wire.call(piece(0, None, "f", '{"x"'), piece(1, None, "g", '{"y"')),
        wire.call(piece(1, arguments=":2}"), piece(0, arguments=":1}")),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("f", '{"x":1}'), ("g", '{"y":2}')]
    assert answer.ids == ["made-1", "made-2"]


def test_json_so_far_is_not_a_final_input(wire):  # case 30
    answer = wire.answer(
        wire.call(piece(0, "a", "f", "1")), wire.call(piece(0, arguments="2")), wire.chunk({}, "tool_calls")
    )
    assert answer.calls == [("f", "12")]


def test_reused_index_makes_a_new_call(wire):  # case 33
    answer = wire.answer(
        wire.call(piece(0, "a", "f", '{"x":1}')),
        wire.call(piece(1, "b", "g", '{"y":1}')),
        wire.call(piece(0, "c", "f", '{"x":2}')),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("f", '{"x":1}'), ("g", '{"y":1}'), ("f", '{"x":2}')]


def test_a_whole_call_said_twice_is_one_call(wire):  # case 34
    whole = piece(0, None, "f", '{"x":1}')
    answer = wire.answer(wire.call(whole), wire.call({**whole, "id": "a"}), wire.chunk({}, "tool_calls"))
    assert answer.calls == [("f", '{"x":1}')]


@pytest.mark.parametrize("other", [("g", '{"x":1}'), ("f", '{"x":2}')])
def test_equal_index_calls_keep_their_input(wire, other):  # case 34
    answer = wire.answer(
        wire.call(piece(0, None, "f", '{"x":1}')),
        wire.call(piece(0, None, *other)),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("f", '{"x":1}'), other]


def test_equal_calls_in_a_chunk_are_several(wire):
    whole = piece(None, None, "f", '{"x":1}')
    answer = wire.answer(wire.call(whole, whole), wire.chunk({}, "stop"))
    assert answer.calls == [("f", '{"x":1}')] * 2
    assert len(set(answer.ids)) == 2


@pytest.mark.parametrize("in_pieces", [True, False])
def test_oversized_input_ends_without_a_call(wire, in_pieces):  # case 35
    parts = ["x" * 400] * 4 if in_pieces else ["x" * 1600]
    answer = wire.answer(
        *[wire.call(piece(0, "a", "f" if i == 0 else None, part)) for i, part in enumerate(parts)],
        limits=StreamLimits(max_tool_input_bytes=1000),
    )
    assert answer.calls == []
    assert answer.errors == ["limit-exceeded"]


def test_too_many_calls_end_the_stream(wire):
    answer = wire.answer(
        *[wire.call(piece(i, f"c{i}", "f", "{}")) for i in range(4)], limits=StreamLimits(max_blocks=3)
    )
    assert answer.errors == ["limit-exceeded"]


@given(st.lists(st.integers(1, 12), min_size=0, max_size=8), st.text(max_size=30))
def test_any_fragmentation_gives_same_input(wire, sizes, value):  # case 37
    whole = json.dumps({"v": value}, ensure_ascii=False)
    if any("\ud800" <= c <= "\udfff" for c in whole):
        return
    parts, rest = [], whole
    for size in sizes:
        parts.append(rest[:size])
        rest = rest[size:]
    fragments = [wire.call(piece(0, "a", "f", ""))]
    fragments += [wire.call(piece(0, arguments=part)) for part in [*parts, rest]]
    assert wire.answer(*fragments, wire.chunk({}, "tool_calls")).calls == [("f", whole)]


def test_tail_at_a_new_index_joins_open_call(wire):  # case 38, agno #8880
    answer = wire.answer(
        wire.call(piece(0, "a", "f", '{"x":1}')),
        wire.call(piece(0, "b", "g", "")),
        wire.call(piece(1, arguments='{"y":')),
        wire.call(piece(1, arguments="2}")),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("f", '{"x":1}'), ("g", '{"y":2}')]


def test_tail_at_ended_index_joins_open_call(wire):  # case 38, dirac #215
    answer = wire.answer(
        wire.call(piece(0, "a", "f", '{"x":1}')),
        wire.call(piece(1, "b", "g", "")),
        wire.call(piece(0, arguments='{"y":2}')),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("f", '{"x":1}'), ("g", '{"y":2}')]


def test_ambiguous_tail_is_an_error(wire):  # case 38
    answer = wire.answer(
        wire.call(piece(0, "a", "f", "")),
        wire.call(piece(1, "b", "g", "")),
        wire.call(piece(7, arguments='{"y":2}')),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.errors == ["decode-error"]
    assert answer.calls == [("f", "{}"), ("g", "{}")]


def test_calls_without_an_index_go_by_id(wire):  # case 38, openai-python #3246
    answer = wire.answer(
        wire.call(piece(None, "a", "f", '{"x"')),
        wire.call(piece(None, "b", "g", '{"y"')),
        wire.call(piece(None, "a", None, ":1}")),
        wire.call(piece(None, "b", None, ":2}")),
        wire.chunk({}, "stop"),
    )
    assert answer.calls == [("f", '{"x":1}'), ("g", '{"y":2}')]
    assert answer.finish.finish_reason == "tool-calls"


def test_bare_fragments_join_the_latest_call(wire):
    answer = wire.answer(
        wire.call(piece(None, "a", "f", "")),
        wire.call(piece(None, None, None, '{"x":')),
        wire.call(piece(None, "", "", "1}")),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("f", '{"x":1}')]


def test_idless_calls_at_index_0_separate(wire):  # case 38, maka #1995
    answer = wire.answer(
        wire.call(piece(0, None, "f", '{"x":1}')),
        wire.call(piece(0, None, "f", '{"x":2}')),
        wire.call(piece(0, None, "g", "{}")),
        wire.chunk({}, "stop"),
    )
    assert answer.calls == [("f", '{"x":1}'), ("f", '{"x":2}'), ("g", "{}")]
    assert len(set(answer.ids)) == 3


def test_repeated_call_id_gives_two_ids(wire):  # reliability row 35
    answer = wire.answer(
        wire.call(piece(0, "same", "f", '{"x":1}')),
        wire.call(piece(1, "same", "g", '{"y":1}')),
        wire.chunk({}, "stop"),
    )
    assert answer.calls == [("f", '{"x":1}'), ("g", '{"y":1}')]
    assert answer.ids == ["same", "made-1"]


def test_call_id_is_never_a_block_id(wire):
    answer = wire.answer("hi", wire.call(piece(0, 0, "f", "{}")), wire.call(piece(1, "1", "g", "{}")), "more")
    opened = [
        event.id
        for event in answer.events
        if event.__struct_config__.tag.endswith("-start") and hasattr(event, "id")
    ]
    assert len(opened) == len(set(opened)) == 4
    assert answer.ids == ["made-1", "1"]


def test_repeated_finish_runs_each_call_once(wire):  # reliability row 36
    answer = wire.answer(
        wire.call(piece(0, "a", "f", "{}")),
        wire.chunk({}, "stop"),
        wire.chunk({}, "stop"),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("f", "{}")]
    assert (answer.finish.finish_reason, answer.finish.raw_finish_reason) == ("tool-calls", "stop")


def test_the_old_function_call_is_a_call(wire):
    answer = wire.answer(
        wire.chunk({"function_call": {"name": "f", "arguments": ""}}),
        wire.chunk({"function_call": {"arguments": '{"x":'}}),
        wire.chunk({"function_call": {"arguments": "1}"}}),
        wire.chunk({}, "function_call"),
    )
    assert answer.calls == [("f", '{"x":1}')]
    assert answer.finish.finish_reason == "tool-calls"


def test_text_between_fragments_is_harmless(wire):
    answer = wire.answer(
        wire.call(piece(0, "a", "f", '{"x":')),
        "by the way",
        wire.call(piece(0, arguments="1}")),
        wire.chunk({}, "stop"),
    )
    assert (answer.calls, answer.text) == ([("f", '{"x":1}')], "by the way")
    assert len(answer.of(TextEnd)) == 1


def test_indices_may_be_strings_or_floats(wire):
    """Or enormous."""
    answer = wire.answer(
        wire.call(piece("0", "a", "f", '{"x":')),
        wire.call(piece(0.0, arguments="1}")),
        wire.call(piece(10**9, "b", "g", "{}")),
        wire.chunk({}, "tool_calls"),
    )
    assert answer.calls == [("f", '{"x":1}'), ("g", "{}")]


def test_enormous_numbers_do_no_harm(wire):
    huge = "9" * 5000
    answer = wire.answer(
        wire.call(piece(huge, huge, "f", {"x": 10**30, "y": "\ud83d"})), wire.chunk({}, "tool_calls")
    )
    assert len(answer.calls) == 1


def test_restarting_ids_are_replaced(wire):
    """Bedrock numbers the calls of each answer from call_0; two answers of a conversation share ids then."""
    quirks = Quirks(tools=ToolQuirks(numbered_call_ids=True))
    chunks = (
        wire.call(piece(0, "call_0", "look", "")),
        wire.call({"index": 0, "id": "call_0", "function": {"arguments": '{"x":1}'}}),
        wire.call(piece(1, "call_1", "look", "{}"), piece(2, "call_0a2b", "look", "{}")),
        wire.chunk({}, "tool_calls"),
    )
    answer = wire.answer(*chunks, quirks=quirks)
    assert answer.calls == [("look", '{"x":1}'), ("look", "{}"), ("look", "{}")]
    assert answer.ids == ["made-1", "made-2", "call_0a2b"]
    assert wire.answer(*chunks).ids == ["call_0", "call_1", "call_0a2b"]


@pytest.mark.parametrize("odd", ["", {}, [], {"name": 7, "input": None}])
def test_odd_custom_beside_function_ignored(wire, odd):
    whole = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}, "custom": odd}
    answer = wire.answer(wire.call(whole), wire.chunk({}, "tool_calls"))
    assert (answer.calls, answer.errors) == ([("f", "{}")], [])
    assert answer.of(ToolCall)[0].provider_metadata is None


def test_custom_call_may_be_one_fragment(wire):
    whole = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    answer = wire.answer(wire.call(whole), wire.chunk({}, "tool_calls"))
    said = {"acme": {"type": "custom_tool_call"}}
    assert answer.of(ToolCall) == [ToolCall("sql", "SELECT 1", "c1", provider_metadata=said)]


def test_custom_call_cut_by_limit_is_none(wire):
    part = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT"}}
    answer = wire.answer(wire.call(part), wire.chunk({}, "length"))
    assert (answer.calls, answer.finish.finish_reason) == ([], "length")
