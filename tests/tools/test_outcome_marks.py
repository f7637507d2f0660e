"""The mark in the result of a call that a person denied, or that was cancelled: where it is set and kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import llmstream as ls
from llmstream.agent.journal_lines import Line, RunRecord
from llmstream.chats.chat import Chat
from llmstream.chats.content import ToolCall, ToolResult, outcome_mark, outcome_of
from llmstream.chats.message import Message
from llmstream.chats.saved import dump_messages
from llmstream.dialects.base import DIALECTS, dialect_class
from llmstream.events import decode, encode
from llmstream.request import Request
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from llmstream.tools import cancelled_results

DENIED = outcome_mark("denied")
CALLS = (Call("delete", {"path": "a"}), Call("delete", {"path": "b"}))


@ls.tool(needs_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


async def suspended() -> tuple[ls.Agent[Any, Any], Any]:
    agent = ls.Agent(ScriptedModel(Turn(calls=CALLS), "Done."), tools=[delete])
    async with agent.stream("Delete both.") as run:
        await run.collect()
    return agent, run.suspended


def outcomes(messages: list[Message]) -> list[str | None]:
    return [outcome_of(result.metadata) for message in messages for result in message.tool_results]


async def test_denied_call_is_marked() -> None:
    """In the event and in the history, and not where the call was approved."""
    agent, suspension = await suspended()
    first, second = suspension.pending
    run = agent.resume(suspension, {first.approval_id: ls.Deny("no"), second.approval_id: True})
    async with run:
        events = [event async for event in run if isinstance(event, ls.ToolResult)]
    assert [outcome_of(event.provider_metadata) for event in events] == ["denied", None]
    assert outcomes(run.messages()) == ["denied", None]


async def test_mark_outlives_a_suspension() -> None:
    """A call was denied, another still waits: the run is suspended again, saved and resumed."""
    agent, suspension = await suspended()
    async with agent.resume(suspension, {suspension.pending[0].approval_id: False}) as run:
        await run.collect()
    saved = type(suspension).from_json(run.suspended.to_json())
    async with agent.resume(saved, {saved.pending[0].approval_id: True}) as run:
        await run.collect()
    assert outcomes(run.messages()) == ["denied", None]


async def test_left_run_marks_its_calls() -> None:
    started = asyncio.Event()

    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.sleep(60)
        return "never"

    agent = ls.Agent(ScriptedModel(Turn(calls=(Call("wait"),))), tools=[wait])
    async with agent.stream("Wait.") as run:
        reading = asyncio.create_task(run.collect())
        await started.wait()
        reading.cancel()
        await asyncio.wait([reading])
    assert outcomes(run.messages()) == ["cancelled"]


def test_unfinished_call_is_cancelled() -> None:
    call = ToolCall("1", "f", "{}")
    assert [outcome_of(result.metadata) for result in cancelled_results([call])] == ["cancelled"]


def test_journal_marks_interrupted_calls() -> None:
    """And stores the mark of a result that was written."""
    messages = [Message.user("Hi"), Message.assistant(ToolCall("1", "f", "{}"), ToolCall("2", "f", "{}"))]
    record = RunRecord()
    saved = dump_messages(messages).decode()
    denied = ToolResult("1", "The call was denied.", True, "f", metadata=DENIED)
    for line in (Line("run", "r"), Line("messages", "r", messages=saved), Line("result", "r", result=denied)):
        record.read(msgspec.json.decode(msgspec.json.encode(line), type=Line))
    assert outcomes(record.history()) == ["denied", "cancelled"]


def test_saved_chat_has_the_mark(tmp_path: Path) -> None:
    chat = Chat(Message.tool([ToolResult("1", "no", True, "f", metadata=DENIED)]))
    chat.save(tmp_path / "chat.json")
    assert outcomes(Chat.load(tmp_path / "chat.json").messages()) == ["denied"]


def test_event_has_the_mark_in_its_json() -> None:
    event = ls.ToolResult("no", "1", "f", is_error=True, provider_metadata=DENIED)
    assert b'"providerMetadata":{"llmstream":{"outcome":"denied"}}' in encode(event)
    assert decode(encode(event)) == event


@pytest.mark.parametrize("name", DIALECTS)
def test_no_vendor_is_sent_the_mark(name: str) -> None:
    call = Message.assistant(ToolCall("call_1", "delete", '{"path": "a"}'))

    def encoded(result: ToolResult) -> Any:
        history = (Message.user("Delete."), call, Message.tool([result]))
        return dialect_class(name)().encode(
            Request(model="m", messages=history, tools=(delete.spec,)), provider=name
        )

    plain = ToolResult("call_1", "It was denied.", True, "delete")
    assert encoded(msgspec.structs.replace(plain, metadata=DENIED)) == encoded(plain)
