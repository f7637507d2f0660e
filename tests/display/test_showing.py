"""`display()` of streams and runs where there is neither a notebook nor a terminal."""

from __future__ import annotations

import asyncio

import pytest

import llmstream as ls
from llmstream.display import showing
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
