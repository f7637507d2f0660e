"""Runs as plain text: what goes to a pipe, and what to a terminal without rich."""

from __future__ import annotations

import io

from llmstream.display.plain import (
    PlainDisplay,
    Stopwatch,
    TerminalDisplay,
    call_line,
    result_line,
    status_line,
)
from llmstream.events import (
    File,
    Finish,
    OtherWarning,
    ReasoningDelta,
    ReasoningEnd,
    Source,
    StepFinish,
    StepStart,
    StreamStart,
    TextDelta,
    ToolCall,
    ToolInputStart,
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
    show = PlainDisplay(out, notes, **options)
    for event in events:
        show.feed(event)
    show.close()
    return out.getvalue(), notes.getvalue()


def on_a_terminal(events, **options):
    out = io.StringIO()
    show = TerminalDisplay(out, **options)
    for event in events:
        show.feed(event)
    show.close()
    return out.getvalue()


def test_pipe_gets_exactly_the_text():
    out, notes = in_a_pipe(RUN)
    assert out == "Let me look.\n\nIt is \x1b]52;c;QQ==\x07cold.\n"
    assert notes.splitlines() == [
        "llmstream: warning: the option seed is not supported as given: no such thing",
        "llmstream: warning: the tool sh is not supported",
        "llmstream: warning: a\\x1bb",
        "> Ran tool: `weather`",
    ]


def test_reasoning_goes_to_stderr_if_asked():
    out, notes = in_a_pipe(RUN, reasoning=True)
    assert "Think" not in out
    assert "Think hard\n" in notes


def test_line_feed_only_where_missing():
    assert in_a_pipe([TextDelta("a\n", "0")])[0] == "a\n"
    assert in_a_pipe([TextDelta("a", "0")])[0] == "a\n"
    assert in_a_pipe([])[0] == ""


def test_two_text_blocks_are_not_separated():
    assert in_a_pipe([TextDelta("a", "0"), TextDelta("b", "1")])[0] == "ab\n"


def test_call_at_start_or_end_adds_nothing():
    call = ToolCall("f", "{}", "c")
    assert in_a_pipe([call, TextDelta("a", "0")])[0] == "a\n"
    assert in_a_pipe([TextDelta("a", "0"), call])[0] == "a\n"


def test_terminal_gets_all_safe_and_ordered():
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


def test_cut_sequence_does_not_leak():
    """A block of another kind cuts it."""
    shown = on_a_terminal([TextDelta("a\x1b]0;", "0"), ReasoningDelta("b", "1"), TextDelta("c", "0")])
    assert shown.startswith("a\n\n(thinking) b\n\nc\n")


def test_call_is_one_line_for_any_arguments():
    call = ToolCall("f\x07", '{"a":"\x1b[2J\n\u202e"}', "c", invalid=True)
    assert call_line(call) == 'f\\x07({"a":"\\x1b[2J\\n\\u202e"}) (invalid)\n'
    assert len(call_line(ToolCall("f", "x" * 10_000, "c"))) < 220


def test_a_failed_tool_says_why_on_one_line():
    result = ToolResult("no \x1b]0;x\x07such\ncity", "c", "weather", is_error=True)
    assert result_line(result) == "> Ran tool: `weather` - failed: `no \\x1b]0;x\\x07such city`\n"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def watched(*moments):
    clock = Clock()
    watch = Stopwatch(clock)
    for second, event in moments:
        clock.now = 100.0 + second
        watch.feed(event)
    return watch


def test_first_token_time_and_rate_are_shown():
    usage = Usage(1200, 50, reasoning_tokens=20, cached_input_tokens=1000)
    watch = watched(
        (0.1, StreamStart()),
        (0.5, TextDelta("a", "0")),
        (2.0, TextDelta("b", "0")),
        (3.0, Finish("stop", usage)),
    )
    assert status_line(watch) == (
        "0.50 s to first token · 20 tokens/s · 1,200 in (1,000 cached) · 50 out (20 reasoning) · stop"
    )


def test_the_time_of_tools_is_not_the_models():
    watch = watched(
        (0.0, StepStart(0)),
        (1.0, ToolInputStart("f", "c")),
        (2.0, StepFinish(0, "tool-calls")),
        (60.0, StepStart(1)),
        (61.0, TextDelta("a", "0")),
        (64.0, StepFinish(1, "stop")),
        (64.0, Finish("stop", Usage(10, 40))),
    )
    assert watch.writing_s == 4.0
    assert status_line(watch) == "1.00 s to first token · 10 tokens/s · 10 in · 40 out · stop"


def test_unreported_values_are_not_shown():
    assert status_line(watched((1.0, TextDelta("a", "0")), (2.0, Finish("length")))) == (
        "1.00 s to first token · length"
    )


def test_a_stopped_run_says_so():
    assert status_line(watched((1.0, TextDelta("a", "0"))), stopped=True) == "1.00 s to first token · stopped"
    assert status_line(watched(), stopped=True) == ""


def test_failed_run_sans_events_has_no_line():
    assert status_line(watched()) == ""
    assert status_line(watched((1.0, Finish("error")))) == ""


def test_an_empty_answer_is_told():
    assert status_line(watched((1.0, Finish("stop", Usage(3, 0))))) == "3 in · 0 out · stop"


def test_a_rate_over_a_moment_is_left_out():
    watch = watched((1.0, TextDelta("a", "0")), (1.1, Finish("stop", Usage(3, 15040))))
    assert status_line(watch) == "1.00 s to first token · 3 in · 15,040 out · stop"


def test_resent_requests_are_counted():
    watch = watched((4.0, TextDelta("a", "0")))
    watch.retries = 2
    assert status_line(watch).startswith("4.00 s to first token (2 retries) · ")
