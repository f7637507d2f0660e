"""Runs as plain text: what goes to a pipe, and what to a terminal without rich."""

from __future__ import annotations

import io

from llmstream.cli.plain import PlainShow, TerminalShow, call_line, result_line
from llmstream.events import (
    File,
    Finish,
    OtherWarning,
    ReasoningDelta,
    ReasoningEnd,
    Source,
    StreamStart,
    TextDelta,
    ToolCall,
    ToolResult,
    UnsupportedSetting,
    UnsupportedTool,
    Usage,
)

RUN = [
    StreamStart([UnsupportedSetting("seed", "no such thing"), UnsupportedTool("sh"), OtherWarning("a\x1bb")]),
    ReasoningDelta("Think \x1b[31mhard", "0"),
    ReasoningEnd("0"),
    TextDelta("Let me ", "1"),
    TextDelta("look.", "1"),
    ToolCall("weather", '{"city":"Oslo"}', "c1"),
    ToolResult("cold", "c1", "weather"),
    TextDelta("It is \x1b]52;c;QQ==\x07cold.", "2"),
    Source("url", "s1", "https://example.com/\x1b", "A page"),
    File("image/png", b"123"),
    Finish("stop", Usage(3, 4)),
]


def in_a_pipe(events, **options):
    out, notes = io.StringIO(), io.StringIO()
    show = PlainShow(out, notes, **options)
    for event in events:
        show.feed(event)
    show.close()
    return out.getvalue(), notes.getvalue()


def on_a_terminal(events, **options):
    out = io.StringIO()
    show = TerminalShow(out, **options)
    for event in events:
        show.feed(event)
    show.close()
    return out.getvalue()


def test_a_pipe_gets_the_text_as_it_is_and_nothing_else():
    out, notes = in_a_pipe(RUN)
    assert out == "Let me look.\n\nIt is \x1b]52;c;QQ==\x07cold.\n"
    assert notes.splitlines() == [
        "llmstream: warning: the option seed is not supported as given: no such thing",
        "llmstream: warning: the tool sh is not supported",
        "llmstream: warning: a\\x1bb",
        "> Ran tool: `weather`",
    ]


def test_reasoning_goes_beside_the_pipe_where_it_is_asked_for():
    out, notes = in_a_pipe(RUN, reasoning=True)
    assert "Think" not in out
    assert "Think hard\n" in notes


def test_a_line_feed_is_added_only_where_it_is_missing():
    assert in_a_pipe([TextDelta("a\n", "0")])[0] == "a\n"
    assert in_a_pipe([TextDelta("a", "0")])[0] == "a\n"
    assert in_a_pipe([])[0] == ""


def test_text_of_two_blocks_is_not_torn_apart():
    assert in_a_pipe([TextDelta("a", "0"), TextDelta("b", "1")])[0] == "ab\n"


def test_a_call_at_the_start_or_the_end_adds_nothing():
    call = ToolCall("f", "{}", "c")
    assert in_a_pipe([call, TextDelta("a", "0")])[0] == "a\n"
    assert in_a_pipe([TextDelta("a", "0"), call])[0] == "a\n"


def test_a_terminal_gets_everything_in_order_and_nothing_harmful():
    shown = on_a_terminal(RUN)
    assert "\x1b" not in shown
    assert shown.startswith("warning: the option seed is not supported as given: no such thing\n")
    assert "(thinking) Think hard\n\nLet me look.\n\n" in shown
    assert 'look.\n\nweather({"city":"Oslo"})\n> Ran tool: `weather`\n\nIt is cold.\n' in shown
    assert "[a file of type image/png]\n" in shown
    assert "[1] A page: https://example.com/\\x1b\n" in shown
    assert shown.splitlines()[-1].endswith("3 in · 4 out · stop")


def test_reasoning_can_be_hidden():
    assert "Think" not in on_a_terminal(RUN, reasoning=False)


def test_a_sequence_cut_by_another_kind_of_block_does_not_leak():
    shown = on_a_terminal([TextDelta("a\x1b]0;", "0"), ReasoningDelta("b", "1"), TextDelta("c", "0")])
    assert shown.startswith("a\n\n(thinking) b\n\nc\n")


def test_a_call_is_one_line_whatever_its_arguments_hold():
    call = ToolCall("f\x07", '{"a":"\x1b[2J\n\u202e"}', "c", invalid=True)
    assert call_line(call) == 'f\\x07({"a":"\\x1b[2J\\n\\u202e"}) (not valid)\n'
    assert len(call_line(ToolCall("f", "x" * 10_000, "c"))) < 220


def test_a_failed_tool_says_why_on_one_line():
    result = ToolResult("no \x1b]0;x\x07such\ncity", "c", "weather", is_error=True)
    assert result_line(result) == "> Ran tool: `weather` - failed: `no \\x1b]0;x\\x07such city`\n"
