"""The closing line."""

from __future__ import annotations

from llmstream.cli.timing import Stopwatch, status_line
from llmstream.events import Finish, StepFinish, StepStart, StreamStart, TextDelta, ToolInputStart, Usage


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


def test_time_to_first_token_and_rate_of_one_answer():
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


def test_what_the_vendor_did_not_say_is_not_shown():
    assert status_line(watched((1.0, TextDelta("a", "0")), (2.0, Finish("length")))) == (
        "1.00 s to first token · length"
    )


def test_a_stopped_run_says_so():
    assert status_line(watched((1.0, TextDelta("a", "0"))), stopped=True) == "1.00 s to first token · stopped"
    assert status_line(watched(), stopped=True) == "stopped"


def test_a_run_that_failed_before_anything_came_has_no_line():
    assert status_line(watched()) == ""
    assert status_line(watched((1.0, Finish("error")))) == ""


def test_an_empty_answer_is_told():
    assert status_line(watched((1.0, Finish("stop", Usage(3, 0))))) == "3 in · 0 out · stop"


def test_a_rate_over_a_moment_is_left_out():
    watch = watched((1.0, TextDelta("a", "0")), (1.1, Finish("stop", Usage(3, 15040))))
    assert status_line(watch) == "1.00 s to first token · 3 in · 15,040 out · stop"


def test_requests_that_were_sent_again_are_counted():
    watch = watched((4.0, TextDelta("a", "0")))
    watch.retries = 2
    assert status_line(watch).startswith("4.00 s to first token (2 retries) · ")
