"""`display()` of streams and runs: without a notebook or a terminal, and in a notebook.

There a run is one output, replaced while it grows, whose end has everything.
"""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace

import pytest

import llmstream as ls
from llmstream.display import showing
from llmstream.display.plain import Wait
from llmstream.display.showing import NotebookDisplay, in_notebook
from llmstream.events import (
    Event,
    File,
    Finish,
    OtherWarning,
    ReasoningDelta,
    RetryNotice,
    Source,
    StepStart,
    StreamStart,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    Usage,
)
from llmstream.testing import Cut, ScriptedModel, Turn


def weather(city: str) -> str:
    """Tell the weather."""
    return "-2 °C"


async def test_a_stream_prints_and_returns(capsys: pytest.CaptureFixture[str]) -> None:
    message = await ls.Model("sim:demo").stream("Hello").display()
    assert message.text.startswith("You said: Hello")
    assert capsys.readouterr().out == message.text + "\n"


async def test_a_run_prints_all_its_steps(capsys: pytest.CaptureFixture[str]) -> None:
    run = ls.Agent("sim:demo", tools=[weather]).stream("How is Oslo?")
    message = await run.display()
    assert message == run.message
    printed = capsys.readouterr()
    assert printed.out == f"{run.steps[0].message.text}\n\n{message.text}\n"
    assert printed.err == "> Ran tool: `weather`\n"


async def test_a_typed_run_returns_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    run = ls.Agent(ScriptedModel('{"a": 1}'), output=dict[str, int]).stream("Go")
    assert await run.display() == {"a": 1}
    assert capsys.readouterr().out == '{"a": 1}\n'


async def test_a_suspended_run_returns_its_message() -> None:
    asking = ls.tool(weather, needs_approval=True)
    run = ls.Agent("sim:demo", tools=[asking]).stream("How is Oslo?")
    assert await run.display() == run.message
    assert run.suspended is not None


async def test_a_stream_that_is_over_says_so() -> None:
    stream = ls.stream("sim:demo", "Hello")
    await stream.collect()
    with pytest.raises(ls.InvalidRequest, match="has been read to its end"):
        await stream.display()


async def test_a_failure_shows_what_has_come(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel(Turn(text="Half of it is here", fault=Cut(after_events=3)))
    with pytest.raises(ls.LLMStreamError) as failed:
        await model.stream("Go").display()
    assert capsys.readouterr().out == failed.value.partial.text + "\n"


async def test_a_cancelled_display_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    class Recorder:
        def feed(self, event: object) -> None:
            task.cancel()

        def close(self, *, stopped: bool = False) -> None:
            closed.append(stopped)

    monkeypatch.setattr(showing, "_display", lambda *, markdown: Recorder())
    stream = ls.stream("sim:demo", "Hello")
    task = asyncio.create_task(stream.display())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == [True]
    assert repr(stream).startswith("<EventStream of sim:demo: left")


class Cell:
    """The output of a cell: what it showed, in order."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.text = ""

    def __call__(self, markdown: str, text: str) -> None:
        self.shown.append(markdown)
        self.text = text


def displayed(*events: Event, markdown: bool = True) -> Cell:
    """What a cell shows in the middle, by `settle`, and at the end."""
    cell = Cell()
    display = NotebookDisplay(cell, markdown=markdown)
    for event in events:
        display.feed(event)
    display.settle()
    display.close()
    return cell


async def test_text_grows_in_one_output() -> None:
    cell = displayed(TextDelta("It is **", "0"), TextDelta("-2** °C", "0"), Finish("stop", Usage(3, 4)))
    assert cell.shown[:2] == ["…", "It is **-2** °C"]
    assert cell.shown[2].startswith("It is **-2** °C\n\n<small>")
    assert cell.shown[2].endswith(" s to first token · 3 in · 4 out · stop</small>")
    assert cell.text == "It is **-2** °C"


async def test_events_in_a_burst_are_drawn_once() -> None:
    cell = Cell()
    display = NotebookDisplay(cell)
    for _ in range(5000):
        display.feed(TextDelta("a", "0"))
    assert cell.shown == ["…"]
    display.close()
    assert [text.partition("\n")[0] for text in cell.shown] == ["…", "a" * 5000]


async def test_a_lone_surrogate_is_replaced() -> None:
    cell = displayed(TextDelta("a\ud800", "0"))
    assert (cell.shown[1], cell.text) == ("a\ufffd", "a?")


async def test_reasoning_is_open_until_text_comes() -> None:
    thinking = displayed(ReasoningDelta("Hm.", "0"))
    assert thinking.shown[1] == "<details open><summary>Reasoning</summary>\n\nHm.\n\n</details>"
    answering = displayed(ReasoningDelta("Hm.", "0"), TextDelta("Yes", "1"))
    assert answering.shown[1] == "<details><summary>Reasoning</summary>\n\nHm.\n\n</details>\n\nYes"


async def test_a_call_shows_while_it_is_written() -> None:
    begun = [TextDelta("Look.", "0"), ToolInputStart("find", "c"), ToolInputDelta('{"q":', "c")]
    assert displayed(*begun).shown[1] == 'Look.\n\n`find({"q":`…'
    called = [*begun, ToolInputEnd("c"), ToolCall("find", '{"q":1}', "c")]
    assert displayed(*called).shown[1] == 'Look.\n\n`find({"q":1})`\n\n…'
    ran = [*called, ToolResult("half", "c", "find", preliminary=True), ToolResult([1], "c", "find")]
    cell = displayed(*ran, TextDelta("One.", "1"))
    assert cell.shown[1] == 'Look.\n\n`find({"q":1})`\n\n`find` → <code>&#91;1&#93;</code>\n\nOne.'
    assert cell.text == "Look.\n\nOne."


async def test_a_repeated_step_begins_anew() -> None:
    cell = displayed(
        StepStart(0),
        TextDelta("First.", "0"),
        StepStart(1),
        TextDelta("Bro", "1"),
        RetryNotice("connection-lost", 1, 2, 0.0),
        TextDelta("Second.", "1"),
    )
    assert cell.shown[1] == "First.\n\nSecond."


async def test_warnings_files_and_sources_show() -> None:
    cell = displayed(
        StreamStart([OtherWarning("no *seed*")]),
        File("image/png", b"\x89PNG"),
        Source("url", "1", url="https://a.b/c", title="A"),
    )
    assert cell.shown[1] == (
        "*warning: no &#42;seed&#42;*\n\n![image&#47;png](data:image/png;base64,iVBORw==)\n\n- [A](https://a.b/c)"
    )


async def test_a_value_shows_as_json() -> None:
    cell = displayed(TextDelta('{"a":', "0"), TextDelta("1}", "0"), markdown=False)
    assert cell.shown[1] == '```json\n{"a":1}\n```'


async def test_a_wait_shows_until_content_comes() -> None:
    cell = Cell()
    display = NotebookDisplay(cell)
    display.wait(Wait("429 rate limited", 3.0, 2, 3))
    assert cell.shown[-1] == "429 rate limited, waiting 3 s (attempt 2 of 3)"
    display.feed(TextDelta("a", "0"))
    display.settle()
    assert cell.shown[-1] == "a"
    display.close(stopped=True)
    assert cell.shown[-1].endswith("(1 retry) · stopped</small>")


class TerminalInteractiveShell:
    """Named as that of IPython on a terminal."""


class ZMQInteractiveShell:
    """Named as that of a kernel."""


@pytest.mark.parametrize(
    ("shell", "notebook"), [(None, False), (TerminalInteractiveShell(), False), (ZMQInteractiveShell(), True)]
)
def test_only_a_kernel_is_a_notebook(monkeypatch: pytest.MonkeyPatch, shell: object, notebook: bool) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert in_notebook() is notebook


def test_without_ipython_there_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
