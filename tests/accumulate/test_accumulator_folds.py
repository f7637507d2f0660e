"""Events in, a message out: order, merging, metadata, calls, cost."""

from __future__ import annotations

import datetime
import itertools
import random
import tracemalloc

import pytest

from llmstream import events as ev
from llmstream.accumulate import Accumulator, accumulate
from llmstream.chats import content as parts
from llmstream.chats.message import Message
from llmstream.errors import ErrorInfo
from llmstream.grammar import check

CAT = '{"value":"Sparkle Day"}'


def text(block_id: str, *fragments: str) -> list[ev.Event]:
    return [ev.TextStart(block_id), *[ev.TextDelta(f, block_id) for f in fragments], ev.TextEnd(block_id)]


def reasoning(block_id: str, *fragments: str) -> list[ev.Event]:
    deltas = [ev.ReasoningDelta(f, block_id) for f in fragments]
    return [ev.ReasoningStart(block_id), *deltas, ev.ReasoningEnd(block_id)]


def call(call_id: str, name: str, *fragments: str) -> list[ev.Event]:
    deltas = [ev.ToolInputDelta(f, call_id) for f in fragments]
    whole = "".join(fragments) or "{}"
    return [
        ev.ToolInputStart(name, call_id),
        *deltas,
        ev.ToolInputEnd(call_id),
        ev.ToolCall(name, whole, call_id),
    ]


def sentence(*events: ev.Event, reason: ev.FinishReason = "stop") -> list[ev.Event]:
    whole = [ev.StreamStart(), *events, ev.Finish(reason)]
    assert check(whole) == []
    return whole


def test_call_fragments_join_in_order() -> None:  # case 1, 8
    pieces = ['{"', "value", '":"', "Spark", "le", " Day", '"}']
    found = accumulate(sentence(*call("call_1", "test-tool", *pieces), reason="tool-calls"))
    assert found.tool_calls == [parts.ToolCall("call_1", "test-tool", CAT)]
    assert found.tool_input("call_1") == CAT


def test_call_without_arguments_is_empty() -> None:  # case 4
    found = accumulate(sentence(*call("a", "now"), reason="tool-calls"))
    assert found.tool_calls == [parts.ToolCall("a", "now", "{}")]


def test_broken_arguments_stay_raw_marked() -> None:  # case 5
    broken = "{hello\x00world"
    events = call("a", "t", broken)[:-1]
    events.append(ev.ToolCall("t", broken, "a", invalid=True))
    found = accumulate(sentence(*events, reason="tool-calls")).tool_calls
    assert found[0].arguments == broken
    assert found[0].metadata == {"llmstream": {"invalid": True}}


def test_calls_complete_independently() -> None:  # case 9, 10
    first, second = call("a", "one", "{}"), call("b", "two", "{}")
    found = Accumulator()
    found.feed_many([ev.StreamStart(), *first, *second[:2]])
    assert [c.id for c in found.tool_calls] == ["a"]
    found.feed_many(second[2:])
    assert [c.id for c in found.tool_calls] == ["a", "b"]


def test_input_without_call_leaves_no_part() -> None:  # case 11, 21, 36
    events = [ev.ToolInputStart("t", "a"), ev.ToolInputDelta('{"x":1}', "a"), ev.ToolInputEnd("a", True)]
    found = accumulate(sentence(*events, reason="length"))
    assert found.tool_calls == []
    assert found.partial.parts == ()
    assert found.tool_input("a") == '{"x":1}'


def test_parallel_calls_in_opening_order() -> None:  # case 12, 28
    a, b = call("a", "one", '{"x":', "1}"), call("b", "two", '{"y":', "2}")
    mixed = [a[0], b[0], a[1], b[1], b[2], a[2], b[3], b[4], a[3], a[4]]
    found = accumulate(sentence(*mixed, reason="tool-calls"))
    expected = [parts.ToolCall("a", "one", '{"x":1}'), parts.ToolCall("b", "two", '{"y":2}')]
    assert found.tool_calls == expected


def test_call_arguments_override_fragments() -> None:  # case 31
    events = [*call("a", "t", '{"partial":')[:-1], ev.ToolCall("t", '{"q":1}', "a")]
    assert accumulate(events).tool_calls[0].arguments == '{"q":1}'


def test_call_without_input_is_stored() -> None:
    found = accumulate(sentence(ev.ToolCall("t", '{"q":1}', "a"), reason="tool-calls"))
    assert found.tool_calls == [parts.ToolCall("a", "t", '{"q":1}')]
    assert found.tool_input("a") == '{"q":1}'
    assert found.tool_input("nobody") == ""


def test_a_repeated_call_changes_nothing() -> None:  # case 32, 35
    events = [*call("a", "t", "{}"), ev.ToolInputStart("t", "a"), ev.ToolInputDelta("junk", "a")]
    events.append(ev.ToolCall("t", '{"other":1}', "a"))
    assert accumulate(events).partial.parts == (parts.ToolCall("a", "t", "{}"),)


def test_reopened_input_restarts_in_place() -> None:
    events = [ev.ToolInputStart("t", "a"), ev.ToolInputDelta("old", "a"), ev.TextStart("x")]
    events += [ev.TextDelta("hi", "x"), *call("a", "t", "[]")]
    found = accumulate(events)
    assert found.tool_input("a") == "[]"
    assert [p.part_kind for p in found.partial.parts] == ["tool_call", "text"]


def test_text_and_reasoning_do_not_mix() -> None:  # case 39
    events = [
        ev.TextStart("0"),
        ev.ReasoningStart("1"),
        ev.TextDelta("in", "0"),
        ev.ReasoningDelta("hm", "1"),
    ]
    events += [ev.TextDelta("tro", "0"), ev.TextEnd("0"), ev.ReasoningEnd("1"), *text("2", "outro")]
    found = accumulate(sentence(*events))
    assert found.partial.parts == (parts.Text("intro"), parts.Reasoning("hm"), parts.Text("outro"))
    assert found.text == "introoutro"


def test_empty_text_block_leaves_no_part() -> None:  # case 39
    assert accumulate(sentence(*text("0"), *text("1", ""))).message == Message.assistant()


def test_empty_stream_gives_empty_message() -> None:  # case 39
    found = accumulate(sentence())
    assert found.message == Message.assistant()
    assert found.text == ""


def test_signature_block_stays_without_text() -> None:  # case 40
    start = ev.ReasoningStart("0", {"anthropic": {"redacted_data": "x"}})
    signed_text = ev.TextEnd("1", provider_metadata={"google": {"thought_signature": "s"}})
    events = [start, ev.ReasoningEnd("0"), ev.TextStart("1"), signed_text]
    assert accumulate(sentence(*events)).partial.parts == (
        parts.Reasoning("", {"anthropic": {"redacted_data": "x"}}),
        parts.Text("", {"google": {"thought_signature": "s"}}),
    )


def test_later_keys_win_in_block_metadata() -> None:  # case 40
    """Metadata of the start, the deltas and the end is merged."""
    events: list[ev.Event] = [
        ev.ReasoningStart("0", {"a": {"id": 1, "n": 1}}),
        ev.ReasoningDelta("x", "0", {"a": {"n": 2}, "b": {"k": 1}}),
        ev.ReasoningDelta("y", "0"),
        ev.ReasoningEnd("0", provider_metadata={"a": {"signature": "s"}}),
    ]
    expected = {"a": {"id": 1, "n": 2, "signature": "s"}, "b": {"k": 1}}
    assert accumulate(sentence(*events)).partial.parts == (parts.Reasoning("xy", expected),)
    assert events[0].provider_metadata == {"a": {"id": 1, "n": 1}}  # type: ignore[union-attr]


def test_end_without_metadata_keeps_earlier() -> None:  # case 40
    signed = ev.ReasoningDelta("", "0", {"anthropic": {"signature": "s"}})
    events = [ev.ReasoningStart("0"), ev.ReasoningDelta("x", "0"), signed, ev.ReasoningEnd("0")]
    part = accumulate(sentence(*events)).partial.parts[0]
    assert part == parts.Reasoning("x", {"anthropic": {"signature": "s"}})


def test_call_metadata_from_input_and_call() -> None:
    events: list[ev.Event] = [
        ev.ToolInputStart("t", "a", provider_metadata={"p": {"index": 0}}),
        ev.ToolInputDelta("{}", "a", {"p": {"seen": True}}),
        ev.ToolInputEnd("a", provider_metadata={"p": {"signature": "s"}}),
        ev.ToolCall("t", "{}", "a", provider_metadata={"p": {"index": 1}}),
    ]
    found = accumulate(sentence(*events, reason="tool-calls")).tool_calls[0]
    assert found.metadata == {"p": {"index": 1, "seen": True, "signature": "s"}}
    assert found.arguments == "{}"


def test_vendor_calls_stay_in_wire_order() -> None:
    events: list[ev.Event] = [
        ev.ToolInputStart("web_search", "s", provider_executed=True),
        ev.ToolInputDelta('{"q":1}', "s"),
        ev.ToolInputEnd("s"),
        ev.ToolCall("web_search", '{"q":1}', "s", provider_executed=True),
        ev.ToolResult([], "s", "web_search", preliminary=True, provider_executed=True),
        ev.ToolResult([{"url": "u"}], "s", "web_search", provider_executed=True),
        *text("0", "found"),
    ]
    found = accumulate(sentence(*events))
    assert found.tool_calls == []
    assert found.tool_message is None
    assert found.partial.parts == (
        parts.ToolCall("s", "web_search", '{"q":1}', provider_executed=True),
        parts.ToolResult(
            "s", '[{"url":"u"}]', name="web_search", result=[{"url": "u"}], provider_executed=True
        ),
        parts.Text("found"),
    )


def test_files_sources_custom_parts_stored() -> None:
    found = accumulate(
        sentence(
            ev.File("image/png", b"\x89PNG"),
            ev.ReasoningFile("image/png", "https://x.example/y.png"),
            ev.Source("url", "s1", url="https://x.example", title="X", provider_metadata={"p": {"k": 1}}),
            ev.Custom("acme.thing", {"acme": {"k": 1}}),
        )
    )
    assert found.partial.parts == (
        parts.File("image/png", data=b"\x89PNG"),
        parts.File("image/png", "https://x.example/y.png", metadata={"llmstream": {"reasoning": True}}),
        parts.Source("url", "s1", "https://x.example", "X", metadata={"p": {"k": 1}}),
        parts.Custom("acme.thing", {"acme": {"k": 1}}),
    )


def test_response_id_and_finish_are_stored() -> None:
    start = ev.StreamStart([ev.OtherWarning("top_k was left out")])
    found = accumulate(
        [
            start,
            ev.ResponseMetadata("m-1", "resp_1", datetime.datetime(2026, 1, 1)),
            ev.ResponseMetadata(None, None),
            ev.ErrorEvent(ErrorInfo("decode-error", "first", False)),
            ev.ErrorEvent(ErrorInfo("decode-error", "second", False)),
            ev.Finish("other", ev.Usage(1, 2, 3), "pause_turn", {"p": {"tier": "x"}}),
        ]
    )
    assert (found.response_id, found.model_id) == ("resp_1", "m-1")
    assert (found.finish_reason, found.raw_finish_reason) == ("other", "pause_turn")
    assert found.usage == ev.Usage(1, 2, 3)
    assert found.warnings == [ev.OtherWarning("top_k was left out")]
    assert found.error is not None
    assert found.error.message == "first"
    assert found.message is not None
    assert found.message.metadata == {"llmstream": {"p": {"tier": "x"}}}


def test_partial_readable_at_every_event() -> None:
    events = sentence(*reasoning("0", "a", "b"), *text("1", "c", "", "d"), *call("x", "t", '{"', 'a":1}'))
    read = Accumulator()
    texts = []
    for event in events:
        read.feed(event)
        texts.append(read.partial.text)
    assert texts == sorted(texts, key=len)
    assert read.message == accumulate(events).message


def test_no_message_before_the_finish() -> None:
    found = Accumulator(sender="bot")
    assert (found.message, found.finished, found.finish_reason) == (None, False, None)
    found.feed_many(text("0", "hi"))
    assert found.message is None
    assert found.partial.sender == "bot"
    found.feed(ev.Finish("stop"))
    assert found.finished
    assert found.message == found.partial


def test_fragmentation_keeps_message_equal() -> None:  # case 37
    rng = random.Random(7)
    whole = "Grüße, 世界 and \U0001f600 " * 20
    expected = accumulate(
        sentence(*reasoning("0", whole), *text("1", whole), *call("a", "t", f'"{whole}"'))
    ).message
    for _ in range(50):
        cuts = sorted(rng.sample(range(len(whole)), 6))
        pieces = [whole[i:j] for i, j in itertools.pairwise([0, *cuts, len(whole)])]
        events = [*reasoning("0", *pieces), *text("1", *pieces), *call("a", "t", '"', *pieces, '"')]
        assert accumulate(sentence(*events)).message == expected


def test_after_an_error_what_came_stays() -> None:  # S0.11, case 24
    info = ErrorInfo("connection-lost", "gone", True)
    events = [*call("a", "t", "{}"), ev.TextStart("0"), ev.TextDelta("half", "0"), ev.TextEnd("0", True)]
    found = accumulate([ev.StreamStart(), *events, ev.ErrorEvent(info), ev.Finish("error")])
    assert found.error == info
    assert found.message == Message.assistant(parts.ToolCall("a", "t", "{}"), parts.Text("half"))


def test_nothing_is_folded_after_the_finish() -> None:
    found = accumulate([*sentence(*text("0", "a")), *text("1", "b"), ev.TextDelta("c", "0")])
    assert found.text == "a"
    found.feed(ev.Finish("length"))
    assert found.finish_reason == "stop"


def test_a_second_stream_start_begins_anew() -> None:
    found = accumulate([*sentence(*text("0", "a")), ev.StreamStart(), *text("0", "b")])
    assert (found.text, found.finished) == ("b", False)


def test_retry_discards_current_step_only() -> None:
    error = ev.ErrorEvent(ErrorInfo("overloaded", "busy", True))
    begin: list[ev.Event] = [ev.StreamStart(), ev.StepStart(0), *text("0", "kept"), *call("a", "t", "{}")]
    begin += [
        ev.ToolResult("ok", "a", "t"),
        ev.StepStart(1),
        *text("1", "gone"),
        *call("b", "t", "{}"),
        error,
    ]
    found = accumulate([*begin, ev.RetryNotice("overloaded", 1, 1, 0.0), *text("2", "!")])
    assert found.text == "kept!"
    assert [c.id for c in found.tool_calls] == ["a"]
    assert found.pending_calls == []
    assert found.error is None
    other_step = accumulate([*begin, ev.RetryNotice("overloaded", 0, 1, 0.0)])
    assert other_step.text == "keptgone"


def test_retry_without_steps_discards_all() -> None:
    found = accumulate(
        [ev.StreamStart(), *text("0", "gone"), ev.RetryNotice("x", 0, 1, 0.0), *text("0", "new")]
    )
    assert found.text == "new"


def test_unrelated_events_are_ignored() -> None:
    extra: list[ev.Event] = [
        ev.Raw({"k": 1}),
        ev.StepFinish(0, "stop"),
        ev.ToolApprovalRequest("a", "p"),
        ev.TextEnd("never-opened"),
        ev.ToolInputEnd("never-opened"),
        ev.ToolInputDelta("x", "never-opened"),
    ]
    assert accumulate(extra).partial.parts == ()


def test_no_order_of_events_breaks_the_fold() -> None:
    rng = random.Random(11)
    meta = {"p": {"k": 1}}
    kinds: list[ev.Event] = [ev.StreamStart(), ev.StepStart(1), ev.RetryNotice("x", 1, 1, 0.0)]
    for i in "ab":
        kinds += [ev.TextStart(i), ev.TextDelta("t", i), ev.TextDelta("t", i, meta), ev.TextEnd(i)]
        kinds += [ev.ReasoningStart(i, meta), ev.ReasoningDelta("r", i, meta), ev.ReasoningEnd(i)]
        kinds += [ev.ToolInputStart("t", i), ev.ToolInputDelta("i", i, meta), ev.ToolInputEnd(i)]
        kinds += [
            ev.ToolCall("t", "{}", i),
            ev.ToolResult(1, i, "t"),
            ev.ToolResult(1, i, "t", provider_executed=True),
        ]
    for _ in range(500):
        found = Accumulator()
        for event in rng.choices(kinds, k=30):
            found.feed(event)
            assert found.partial.text == found.text
        ids = [c.id for c in found.tool_calls]
        assert len(ids) == len(set(ids))


def test_a_delta_without_a_block_opens_one() -> None:
    assert accumulate([ev.TextDelta("hi", "7"), ev.TextDelta("!", "7")]).text == "hi!"


def test_client_results_go_to_tool_message() -> None:
    events = [*call("a", "t", "{}"), *call("b", "t", "{}")]
    events += [ev.ToolResult({"n": 1}, "b", "t"), ev.ToolResult("no", "a", "t", is_error=True)]
    found = accumulate(events)
    assert found.tool_message is not None
    assert found.tool_message.tool_results == [
        parts.ToolResult("a", "no", True, "t"),
        parts.ToolResult("b", '{"n":1}', name="t"),
    ]


def test_failing_source_leaves_no_stale_view() -> None:
    found = Accumulator()

    def source() -> object:
        yield ev.TextStart("0")
        assert found.partial.parts == ()
        yield ev.TextDelta("x", "0")
        raise ValueError("broken source")

    with pytest.raises(ValueError, match="broken source"):
        found.feed_many(source())  # type: ignore[arg-type]
    assert found.text == "x"


def test_million_deltas_cost_only_the_text() -> None:  # RELIABILITY 30
    delta = ev.TextDelta("abcd", "0")
    found = Accumulator()
    found.feed(ev.TextStart("0"))
    found.feed_many(itertools.repeat(delta, 1_000_000))
    assert len(found.text) == 4_000_000
    tracemalloc.start()
    second = Accumulator()
    second.feed_many(ev.TextDelta(str(n % 10), "0") for n in range(100_000))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 2_000_000  # the text is 0.1 MB; its fragments alone would be 5 MB
