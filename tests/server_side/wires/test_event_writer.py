"""What the driver of the server side's writers does for every wire, shown with a wire of plain lines."""

from __future__ import annotations

import pytest

from llmstream import events as ev
from llmstream.dialects.base import Dialect
from llmstream.errors import ErrorInfo
from llmstream.events import Event, Finish, TextDelta, TextEnd, TextStart
from llmstream.request import Request
from llmstream.server_side.routing import default_dialects
from llmstream.server_side.wires import server_side
from llmstream.server_side.wires.event_writer import Block, EventWriter, Shapes, raw_reason

BROKE = ErrorInfo("overloaded", "busy", retryable=True)


class Lines(Shapes[Block]):
    """A wire that writes the name of each thing it is asked for."""

    key = "lines"
    end_mark = b"DONE\n"

    def __init__(self, *, ends_at_errors: bool = True) -> None:
        self._ends_at_errors = ends_at_errors
        self._name = "?"

    def named(self, event):
        self._name = event.id or "?"
        return b""

    def begin(self):
        return b"begin %b\n" % self._name.encode()

    def start(self, event):
        return None if isinstance(event, ev.ReasoningStart) else (Block(), b"start %b\n" % event.id.encode())

    def delta(self, block, event):
        return b"delta %b\n" % event.delta.encode()

    def end(self, block, event):
        return b"end %b\n" % event.id.encode()

    def result(self, event):
        return b"result\n"

    def part(self, event, block):
        return b"part %s\n" % (b"alone" if block is None else b"in a block")

    def finish(self, event, error):
        return None if event.finish_reason == "error" else b"finish\n"

    def ends_at(self, error):
        return self._ends_at_errors

    def error(self, error):
        return b"error %b\n" % error.message.encode()


def write(*events: Event, ends_at_errors: bool = True) -> list[str]:
    """The lines of a body."""
    writer = EventWriter(Lines(ends_at_errors=ends_at_errors))
    body = b"".join(map(writer.feed, events)) + writer.close()
    return body.decode().splitlines()


def text(block_id: str = "t") -> tuple[Event, ...]:
    return TextStart(block_id), TextDelta("Hi", block_id), TextEnd(block_id)


def test_begins_once_and_with_the_name():
    named = ev.ResponseMetadata(id="one")
    late = ev.ResponseMetadata(id="two")
    lines = write(ev.StreamStart(), named, late, *text(), Finish("stop"))
    assert lines == ["begin one", "start t", "delta Hi", "end t", "finish", "DONE"]


def test_begins_with_the_first_bytes():
    assert write(*text())[:2] == ["begin ?", "start t"]


def test_empty_response_begins_and_ends():
    assert write(ev.StreamStart(), Finish("stop")) == ["begin ?", "finish", "DONE"]


def test_error_alone_does_not_begin():
    assert write(ev.StreamStart(), ev.ErrorEvent(BROKE), Finish("error")) == ["error busy"]


def test_nothing_follows_a_fatal_error():
    lines = write(TextStart("t"), ev.ErrorEvent(BROKE), TextDelta("x", "t"), Finish("error"))
    assert lines == ["begin ?", "start t", "error busy"]


def test_passing_error_waits_for_finish():
    """Where the vendor continues after an error, it is written only if the response fails."""
    error = ev.ErrorEvent(BROKE)
    assert write(error, *text(), Finish("stop"), ends_at_errors=False)[-2:] == ["finish", "DONE"]
    assert write(error, *text(), Finish("error"), ends_at_errors=False)[-2:] == ["end t", "error busy"]


def test_error_without_finish_at_close():
    assert write(*text(), ev.ErrorEvent(BROKE), ends_at_errors=False)[-1] == "error busy"


def test_failure_without_error_event():
    assert write(*text(), Finish("error"))[-1] == "error The model failed."


def test_unopened_blocks_are_dropped():
    lines = write(TextDelta("x", "none"), ev.ReasoningStart("r"), ev.ReasoningDelta("x", "r"))
    assert lines == []


def test_incomplete_block_has_no_end():
    assert write(TextStart("t"), TextEnd("t", incomplete=True)) == ["begin ?", "start t"]


def test_same_id_in_two_families():
    start = ev.ToolInputStart("f", "1")
    lines = write(TextStart("1"), start, ev.ToolInputEnd("1"), TextDelta("x", "1"))
    assert lines[-2:] == ["end 1", "delta x"]


def test_call_without_input_is_a_block():
    assert write(ev.ToolCall("f", "{}", "c")) == ["begin ?", "start c", "delta {}", "end c"]


def test_streamed_call_is_written_once():
    streamed = ev.ToolInputStart("f", "c"), ev.ToolInputDelta("{}", "c"), ev.ToolInputEnd("c")
    assert write(*streamed, ev.ToolCall("f", "{}", "c")) == ["begin ?", "start c", "delta {}", "end c"]


@pytest.mark.parametrize(
    ("mine", "preliminary", "lines"),
    [(True, False, []), (False, True, []), (False, False, ["begin ?", "result"])],
)
def test_only_vendor_results_written(mine: bool, preliminary: bool, lines: list[str]):
    result = ev.ToolResult("r", "c", "f", preliminary=preliminary, provider_executed=not mine)
    assert write(result) == lines


def test_parts_belong_to_the_open_block():
    source = ev.Source("url", "s", "http://a.b/c")
    assert write(TextStart("t"), source)[-1] == "part in a block"
    assert write(*text(), source)[-1] == "part alone"
    assert write(TextStart("t"), ev.ReasoningFile("image/png", b"x"))[-1] == "part alone"


@pytest.mark.parametrize(
    ("finish", "raw"),
    [
        (Finish("stop", raw_finish_reason="END"), "END"),
        (Finish("tool-calls", raw_finish_reason="END"), "END"),
        (Finish("tool-calls", raw_finish_reason="LONG"), "TOOLS"),
        (Finish("tool-calls", raw_finish_reason="of another vendor"), "TOOLS"),
        (Finish("other", raw_finish_reason="new"), "new"),
        (Finish("stop", raw_finish_reason="new"), "END"),
        (Finish("unknown"), None),
    ],
)
def test_raw_reason_kept_if_it_applies(finish: Finish, raw: str | None):
    known: dict[str, ev.FinishReason] = {"END": "stop", "LONG": "length"}
    assert raw_reason(finish, known.get, {"stop": "END", "tool-calls": "TOOLS"}) == raw


@pytest.mark.parametrize("dialect", default_dialects(), ids=lambda d: f"{d.name}-{d.content_type[:9]}")
def test_nothing_is_written_after_end(dialect: Dialect):
    writer = server_side(dialect).event_encoder(Request(model="m"))
    assert b"".join(map(writer.feed, (ev.StreamStart(), *text(), Finish("stop"))))
    assert writer.feed(TextDelta("late", "t")) == b""
