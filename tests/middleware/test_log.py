"""Two lines a call, and no content unless it is asked for."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import llmstream as ls
from llmstream.middleware import log_calls, wrap
from llmstream.simulator import Call, Turn
from llmstream.testing import Cut, ScriptedModel


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "llmstream"]


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "llmstream")


async def test_a_call_is_two_lines_without_content(read: Any, caplog: pytest.LogCaptureFixture) -> None:
    times = iter([1.0, 3.5])
    model = ScriptedModel(Turn(text="A secret", calls=(Call("f", {"a": "secret"}),)))
    await read(wrap(model, log_calls(clock=lambda: next(times))), "A secret?")
    asked, ended = lines(caplog)
    assert asked == "scripted:scripted: requested, 1 messages, 0 tools"
    assert ended.startswith(
        "scripted:scripted: finished after 2.500 s, tool-calls, 2 fragments of text, 0 of reasoning, 1 calls"
    )
    assert "secret" not in caplog.text


async def test_logged_content_cannot_forge_a_line(read: Any, caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel(Turn(text="so\nit is", calls=(Call("f", {"a": 1}),)))
    await read(wrap(model, log_calls(content=True)), "why\nnot")
    assert "the last message is 'why\\nnot'" in caplog.text
    assert "the answer is 'so\\nit is', and calls ['f({\"a\":1})']" in caplog.text


async def test_failures_and_leaving_are_said(read: Any, caplog: pytest.LogCaptureFixture) -> None:
    await read(wrap(ScriptedModel(Turn(text="one two", fault=Cut(after_events=3))), log_calls()))
    assert "failed: connection-lost after" in lines(caplog)[1]
    async with wrap(ScriptedModel("one two"), log_calls()).stream("Hi") as stream:
        async for event in stream:
            if isinstance(event, ls.TextDelta):
                break
    assert "left after" in lines(caplog)[3]
    assert "1 fragments of text" in lines(caplog)[3]


async def test_level_and_logger_are_the_callers(read: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mine")
    await read(wrap(ScriptedModel("one"), log_calls(level=logging.DEBUG, logger="mine")))
    assert [(record.name, record.levelno) for record in caplog.records] == [("mine", logging.DEBUG)] * 2
