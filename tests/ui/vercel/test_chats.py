"""`Chats`: what is stored of a conversation, who reaches it, and what a request may start."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import llmstream as ls
from llmstream.agent.hooks import Rewrite
from llmstream.events import Custom, Finish, StreamStart, TextDelta, TextEnd, TextStart
from llmstream.log import Acquired, Claim, MemoryStore
from llmstream.middleware import Ask, wrap
from llmstream.request import Request, ToolSpec
from llmstream.serve import Body
from llmstream.simulator import Call, Refuse, Turn
from llmstream.testing import ScriptedModel
from llmstream.ui import vercel
from llmstream.ui.vercel import chats as chats_module
from tests.log.sources import LateEnds

ROOT = Path(__file__).parents[3]
DELETE = Turn(text="Well.", calls=(Call("delete", {"path": "a"}),))


@ls.tool(needs_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def agent_of(*turns: Any, **options: Any) -> ls.Agent[Any, Any]:
    return ls.Agent(ScriptedModel(*turns), tools=[delete], **options)


class Page:
    """A page without a browser: its messages, and the requests that it sends."""

    def __init__(self, chats: vercel.Chats, chat_id: str = "c", user: str = "ada") -> None:
        self.chats, self.id, self.user = chats, chat_id, user
        self.messages: list[dict[str, Any]] = []
        self.number = 0

    async def say(self, text: str, **fields: Any) -> list[dict[str, Any]]:
        self.number += 1
        message = {"id": f"u{self.number}", "role": "user", "parts": [{"type": "text", "text": text}]}
        self.messages.append(message)
        return await self.send(**fields)

    async def send(self, **fields: Any) -> list[dict[str, Any]]:
        """The chunks of the response; the page then has what it would load."""
        body = await self.ask(**fields)
        data = b"".join([chunk async for chunk in body])
        assert body.status == 200, data
        assert data.endswith(b"data: [DONE]\n\n")
        self.messages = await self.chats.load(self.id, user=self.user)
        return [json.loads(line[6:]) for line in data.decode().split("\n\n") if line.startswith("data: {")]

    async def ask(self, **fields: Any) -> Body:
        request = {"id": self.id, "messages": self.messages, "trigger": "submit-message", **fields}
        return await self.chats.answer(json.dumps(request).encode(), user=self.user)

    async def refusal(self, **fields: Any) -> tuple[int, bytes]:
        body = await self.ask(**fields)
        data = b"".join([chunk async for chunk in body])
        return body.status, data

    def decide(self, approved: bool, place: int = 0) -> None:
        parts = [part for part in self.messages[-1]["parts"] if part.get("state") == "approval-requested"]
        parts[place]["state"] = "approval-responded"
        parts[place]["approval"]["approved"] = approved

    @property
    def texts(self) -> list[str]:
        return ["".join(part.get("text", "") for part in message["parts"]) for message in self.messages]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store of each kind."""
    return "memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'chats.db'}"


@asynccontextmanager
async def page_of(agent: ls.Agent[Any, Any], store: str = "memory:") -> AsyncIterator[Page]:
    async with vercel.Chats(store, agent) as chats:
        yield Page(chats)


async def test_conversation_is_loaded_again(store: str) -> None:
    """With the ids of the page, and the metadata that its response had."""
    agent = agent_of("Hello.", "Again.", instructions="Be brief.", price=lambda model, usage: 0.5)
    async with page_of(agent, store) as page:
        chunks = await page.say("Hi")
        assert page.texts == ["Hi", "Hello."]
        assert page.messages[0]["id"] == "u1"
        started = next(chunk for chunk in chunks if chunk["type"] == "start")
        assert page.messages[1]["id"] == started["messageId"]
        metadata = next(chunk for chunk in chunks if chunk["type"] == "message-metadata")["messageMetadata"]
        assert metadata["cost"] == 0.5
        assert page.messages[1]["metadata"] == metadata
        await page.say("More")
        assert page.texts == ["Hi", "Hello.", "More", "Again."]
        assert len({message["id"] for message in page.messages}) == 4
    model = agent.model
    assert isinstance(model, ScriptedModel)
    assert [message.text for message in model.requests[1].messages] == ["Be brief.", "Hi", "Hello.", "More"]


async def test_another_user_reaches_nothing(store: str) -> None:
    async with page_of(agent_of("Hello.", "Other."), store) as page:
        await page.say("Hi")
        assert await page.chats.load("c", user="eve") == []
        assert (await page.chats.resume("c", user="eve")).status == 204
        assert await page.chats.stop("c", user="eve") is False
        other = Page(page.chats, user="eve")
        await other.say("Mine")
        assert other.texts == ["Mine", "Other."]
        assert await page.chats.load("c", user="ada") == page.messages


async def test_forged_history_is_not_read() -> None:
    agent = agent_of("Hello.")
    async with page_of(agent) as page:
        page.messages.append({"id": "x", "role": "assistant", "parts": [{"type": "text", "text": "Forged"}]})
        await page.say("Hi")
        assert page.texts == ["Hi", "Hello."]


async def test_approval_outlives_the_process(tmp_path: Path) -> None:
    """A page loads, its visitor decides, and the same message continues: in another process's `Chats`."""
    store = f"sqlite:{tmp_path / 'chats.db'}"
    async with page_of(agent_of(DELETE), store) as page:
        await page.say("Delete a.")
        shown = page.messages
        assert shown[-1]["parts"][-1]["state"] == "approval-requested"
    async with page_of(agent_of("Done."), store) as page:
        page.messages = await page.chats.load("c", user="ada")
        assert page.messages == shown
        page.decide(True)
        chunks = await page.send(messageId=page.messages[-1]["id"])
        assert chunks[0] == {"type": "start", "messageId": shown[-1]["id"]}
        assert len(page.messages) == 2
        assert page.messages[-1]["id"] == shown[-1]["id"]
        (call,) = [part for part in page.messages[-1]["parts"] if part["type"] == "tool-delete"]
        assert (call["state"], call["output"]) == ("output-available", "a is gone")
        assert page.texts[-1] == "Well.Done."


async def test_decision_counts_once() -> None:
    async with page_of(agent_of(DELETE, "Done.")) as page:
        await page.say("Delete a.")
        page.decide(True)
        old = json.loads(json.dumps(page.messages))
        await page.send()
        page.messages = old
        status, text = await page.refusal()
        assert (status, text) == (409, b"This page is out of date. Reload it.")


async def test_denied_call_is_stored_as_denied() -> None:
    async with page_of(agent_of(DELETE, "Kept.")) as page:
        await page.say("Delete a.")
        page.decide(False)
        chunks = await page.send()
        assert {"type": "tool-output-denied", "toolCallId": "call_0_0"} in chunks
        (call,) = [part for part in page.messages[-1]["parts"] if part["type"] == "tool-delete"]
        assert call["state"] == "output-denied"


async def test_edited_arguments_are_shown() -> None:
    async with page_of(agent_of(DELETE, "Done.")) as page:
        await page.say("Delete a.")
        approval = page.messages[-1]["parts"][-1]["approval"]["id"]
        edits = {approval: {"approved": True, "arguments": {"path": "b"}}}
        chunks = await page.send(approvals=edits)
        kinds = [chunk["type"] for chunk in chunks]
        assert kinds[:3] == ["start", "tool-input-available", "tool-output-available"]
        assert chunks[1]["input"] == {"path": "b"}
        assert page.messages[-1]["parts"][2]["input"] == {"path": "b"}


async def test_unfit_edit_leaves_call_waiting() -> None:
    async with page_of(agent_of(DELETE, "Done.")) as page:
        await page.say("Delete a.")
        approval = page.messages[-1]["parts"][-1]["approval"]["id"]
        edits = {approval: {"approved": True, "arguments": {"town": "b"}}}
        status, text = await page.refusal(approvals=edits)
        assert status == 400
        assert b"decision does not fit" in text
        await page.send(approvals={approval: {"approved": True}})
        assert page.texts[-1] == "Well.Done."


async def test_unknown_approval_starts_nothing() -> None:
    async with page_of(agent_of(DELETE)) as page:
        await page.say("Delete a.")
        status, _ = await page.refusal(approvals={"approval_forged": {"approved": True}})
        assert status == 409
        assert page.messages == await page.chats.load("c", user="ada")


async def test_one_of_two_calls_goes_on_waiting() -> None:
    both = Turn(calls=(Call("delete", {"path": "a"}), Call("delete", {"path": "b"})))
    async with page_of(agent_of(both, "Done.")) as page:
        await page.say("Delete both.")
        page.decide(True)
        await page.send()
        states = [part["state"] for part in page.messages[-1]["parts"] if "toolCallId" in part]
        assert states == ["output-available", "approval-requested"]
        page.decide(True)
        await page.send()
        assert page.texts[-1] == "Done."


async def test_new_message_cancels_what_waits() -> None:
    agent = agent_of(DELETE, "Never mind.")
    async with page_of(agent) as page:
        await page.say("Delete a.")
        await page.say("Stop that.")
        call = page.messages[1]["parts"][-1]
        assert call["state"] == "output-error"
        assert "was cancelled" in call["errorText"]
        assert page.texts == ["Delete a.", "Well.", "Stop that.", "Never mind."]


async def test_corrected_call_is_shown_as_it_runs() -> None:
    """A hook changed the arguments: the page has to ask about those that run."""

    def before_tool(state: Any, call: Any) -> Any:
        return Rewrite({"path": "/safe/a"})

    agent = agent_of(DELETE, hooks=ls.Hooks(before_tool=before_tool))
    async with page_of(agent) as page:
        chunks = await page.say("Delete a.")
        asked = [chunk for chunk in chunks if chunk["type"].startswith("tool-")]
        assert asked[-2]["input"] == {"path": "/safe/a"}
        assert asked[-1]["type"] == "tool-approval-request"
        assert page.messages[-1]["parts"][-1]["input"] == {"path": "/safe/a"}


async def test_result_of_the_page_goes_on() -> None:
    """Of a tool that is only declared: the page runs it."""
    spec = ToolSpec("ask_page", "Ask the page.", {"type": "object", "properties": {}})
    model = ScriptedModel(Turn(calls=(Call("ask_page"),)), "Thanks.")
    async with page_of(ls.Agent(model, tools=[spec])) as page:
        await page.say("Where am I?")
        call = page.messages[-1]["parts"][-1]
        assert call["state"] == "input-available"
        call |= {"state": "output-available", "output": {"place": "Oslo"}}
        await page.send(messageId=page.messages[-1]["id"])
        assert page.texts[-1] == "Thanks."
        assert page.messages[-1]["parts"][1]["output"] == {"place": "Oslo"}


# Servers that give calls of later responses the same ids.

SAME_IDS = (
    Turn(calls=(Call("look", {"place": "a"}, "c"),)),
    Turn(calls=(Call("delete", {"path": "b"}, "c"),)),
    Turn(calls=(Call("look", {"place": "d"}, "c"),)),
    "Done.",
)
SHOWN = (
    ("tool-look", "c", "a is empty"),
    ("tool-delete", "1/c", "b is gone"),
    ("tool-look", "2/c", "d is empty"),
)


def look(place: str) -> str:
    """Look somewhere."""
    return f"{place} is empty"


def calls_of(parts: list[dict[str, Any]]) -> tuple[Any, ...]:
    return tuple(
        (part["type"], part["toolCallId"], part.get("output")) for part in parts if "toolCallId" in part
    )


def results_of(chunks: list[dict[str, Any]]) -> list[Any]:
    return [chunk["toolCallId"] for chunk in chunks if chunk["type"] == "tool-output-available"]


async def test_repeated_ids_are_calls_apart(store: str) -> None:
    """In what the page reads, in what it loads, and in what it reads again."""
    agent = ls.Agent(ScriptedModel(*SAME_IDS), tools=[look, delete])
    async with page_of(agent, store) as page:
        chunks = await page.say("Go")
        assert results_of(chunks) == ["c"]
        (asked,) = [chunk for chunk in chunks if chunk["type"] == "tool-approval-request"]
        assert asked["toolCallId"] == page.messages[-1]["parts"][-1]["toolCallId"] == "1/c"
        page.decide(True)
        assert results_of(await page.send()) == ["1/c", "2/c"]
        assert calls_of(page.messages[-1]["parts"]) == SHOWN
        data = b"".join([chunk async for chunk in await page.chats.resume("c", user="ada")])
        again = [json.loads(line[6:]) for line in data.decode().split("\n\n") if line.startswith("data: {")]
        assert results_of(again) == ["c", "1/c", "2/c"]


async def test_edited_call_with_a_repeated_id() -> None:
    agent = ls.Agent(ScriptedModel(*SAME_IDS), tools=[look, delete])
    async with page_of(agent) as page:
        await page.say("Go")
        approval = page.messages[-1]["parts"][-1]["approval"]["id"]
        chunks = await page.send(approvals={approval: {"approved": True, "arguments": {"path": "z"}}})
        shown = [chunk for chunk in chunks if chunk["type"] == "tool-input-available"]
        assert (shown[0]["toolCallId"], shown[0]["input"]) == ("1/c", {"path": "z"})


async def test_older_result_answers_no_call() -> None:
    """The page ran a call of this id before; the newer one waits until its own result is there."""
    spec = ToolSpec("ask_page", "Ask the page.", {"type": "object", "properties": {}})
    asking = Turn(calls=(Call("ask_page", {}, "c"),))
    async with page_of(ls.Agent(ScriptedModel(asking, asking, "Thanks."), tools=[spec])) as page:
        await page.say("Where am I?")
        page.messages[-1]["parts"][-1] |= {"state": "output-available", "output": "Oslo"}
        await page.send()
        assert calls_of(page.messages[-1]["parts"]) == (
            ("tool-ask_page", "c", "Oslo"),
            ("tool-ask_page", "1/c", None),
        )
        assert (await page.refusal())[0] == 409
        page.messages[-1]["parts"][-1] |= {"state": "output-available", "output": "Lima"}
        await page.send()
        assert [output for _, _, output in calls_of(page.messages[-1]["parts"])] == ["Oslo", "Lima"]
        assert page.texts[-1] == "Thanks."


async def test_regenerate_replaces_the_answer() -> None:
    agent = agent_of("One.", "Two.", "Three.")
    async with page_of(agent) as page:
        await page.say("Hi")
        first = page.messages[-1]["id"]
        page.messages = page.messages[:1]
        await page.send(trigger="regenerate-message", messageId=first)
        assert page.texts == ["Hi", "Two."]
        assert page.messages[-1]["id"] != first
        page.messages = page.messages[:1]
        await page.send(trigger="regenerate-message")
        assert page.texts == ["Hi", "Three."]


async def test_edited_message_cuts_the_history() -> None:
    async with page_of(agent_of("One.", "Two.", "Three.")) as page:
        await page.say("Hi")
        await page.say("More")
        page.messages = [{**page.messages[0], "parts": [{"type": "text", "text": "Hello"}]}]
        await page.send(messageId="u1")
        assert page.texts == ["Hello", "Three."]


async def test_message_sent_twice_is_stored_once() -> None:
    """A page sends it again after a failure."""
    async with page_of(agent_of(Turn(fault=Refuse(status=500)), "Hello.")) as page:
        page.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}]
        status, _ = await page.refusal()
        assert status == 502
        await page.send()
        assert page.texts == ["Hi", "Hello."]


async def test_defective_request_is_a_400() -> None:
    async with page_of(agent_of("Hello.")) as page:
        body = await page.chats.answer(b"{}", user="ada")
        assert body.status == 400
        assert b"".join([chunk async for chunk in body]).startswith(b"the request is not of useChat")


# Runs in progress: pages that leave, come back, stop, and come twice.


class Gate:
    """A tool that runs until the test lets it end."""

    def __init__(self) -> None:
        self.begun, self.end = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> str:
        """Wait."""
        self.begun.set()
        await self.end.wait()
        return "done"


@asynccontextmanager
async def page_in_a_run() -> AsyncIterator[tuple[Page, Gate, Body]]:
    """A page whose run is in the middle of a tool, and the response that it reads."""
    gate = Gate()
    model = ScriptedModel(Turn(text="Wait.", calls=(Call("hold"),)), "Over.", "Next.")
    async with page_of(ls.Agent(model, tools=[ls.tool(name="hold")(gate.__call__)])) as page:
        page.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Go"}]}]
        body = await page.ask()
        await gate.begun.wait()
        yield page, gate, body


async def test_page_that_left_reads_it_all() -> None:
    async with page_in_a_run() as (page, gate, body):
        await anext(aiter(body))
        await body.aclose()
        again = await page.chats.resume("c", user="ada")
        gate.end.set()
        data = b"".join([chunk async for chunk in again])
        assert b'"type":"text-start"' in data
        assert data.count(b'"type":"start"') == 1
        assert data.endswith(b'"finishReason":"stop"}\n\ndata: [DONE]\n\n')
        page.messages = await page.chats.load("c", user="ada")
        assert page.texts == ["Go", "Wait.Over."]


async def test_continued_message_is_read_again() -> None:
    """From its own beginning: a page replaces its message by what it reads."""
    turn = Turn(reasoning="Hm.", text="Well.", calls=(Call("delete", {"path": "a"}),))
    async with page_of(agent_of(turn, "Done.")) as page:
        await page.say("Delete a.")
        page.decide(True)
        live = [chunk["type"] for chunk in await page.send()]
        data = b"".join([chunk async for chunk in await page.chats.resume("c", user="ada")])
        again = [json.loads(line[6:]) for line in data.decode().split("\n\n") if line.startswith("data: {")]
        kinds = [chunk["type"] for chunk in again]
        assert kinds[0] == "start"
        assert again[0]["messageId"] == page.messages[-1]["id"]
        before = kinds.index("tool-input-available")
        assert kinds[1:before] == [
            "start-step",
            *("reasoning-start", "reasoning-delta", "reasoning-end"),
            *("text-start", "text-delta", "text-end"),
        ]
        assert kinds[before + 1] == "tool-approval-request"
        assert kinds[before + 2 :] == [live[1], "finish-step", *live[2:]]


async def test_page_that_reads_again_loads_less() -> None:
    async with page_of(agent_of("Hello.", "More.")) as page:
        await page.say("Hi")
        await page.say("Go on")
        left = await page.chats.load("c", user="ada", resume=True)
        assert left == page.messages[:3]
        assert await page.chats.load("c", user="ada") == page.messages


async def test_two_readers_read_the_same() -> None:
    async with page_in_a_run() as (page, gate, body):
        other = await page.chats.resume("c", user="ada")
        gate.end.set()
        first, second = [b"".join([chunk async for chunk in reader]) for reader in (body, other)]
        assert first == second


async def test_new_message_stops_the_first() -> None:
    """A page's `stop()` only leaves, so the visitor who stops and writes on must not be refused."""
    async with page_in_a_run() as (page, _gate, body):
        page.messages.append({"id": "u2", "role": "user", "parts": [{"type": "text", "text": "Rather this"}]})
        await page.send()
        assert page.texts == ["Go", "Wait.", "Rather this", "Over."]
        assert (b"".join([chunk async for chunk in body])).endswith(b'{"type":"abort"}\n\ndata: [DONE]\n\n')


async def test_decisions_wait_for_the_run() -> None:
    async with page_in_a_run() as (page, gate, _body):
        page.messages = []
        status, text = await page.refusal(approvals={"x": {"approved": True}})
        assert (status, text[:24]) == (409, b"A response is in progres")
        gate.end.set()


async def test_decided_before_the_logs_end() -> None:
    """What waits is stored before the last event of the run; another tab may decide at once."""
    late = LateEnds()
    async with (
        ls.open_logs(late) as logs,
        vercel.Chats("memory:", agent_of(DELETE, "Done."), logs=logs) as chats,
    ):
        page = Page(chats)
        page.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Delete a."}]}]
        body = await page.ask()
        async with asyncio.timeout(30):
            while "approval-requested" not in json.dumps(page.messages):
                await asyncio.sleep(0)
                page.messages = await chats.load("c", user="ada")
        page.decide(True)
        asyncio.get_running_loop().call_later(0.05, late.allowed.set)
        await page.send()
        assert page.texts[-1] == "Well.Done."
        assert b"tool-approval-request" in b"".join([chunk async for chunk in body])


async def test_stop_ends_the_response_in_order() -> None:
    """The page reads an abort; what was written is stored, and the next message is answered."""
    async with page_in_a_run() as (page, _gate, body):
        assert await page.chats.stop("c", user="ada") is True
        data = b"".join([chunk async for chunk in body])
        assert b'"type":"message-metadata"' in data
        assert data.endswith(b'data: {"type":"abort"}\n\ndata: [DONE]\n\n')
        page.messages = await page.chats.load("c", user="ada")
        assert page.texts == ["Go", "Wait."]
        assert page.messages[-1]["parts"][-1]["state"] == "output-error"
        assert await page.chats.stop("c", user="ada") is False
        page.number = 1
        await page.say("On")
        assert page.texts == ["Go", "Wait.", "On", "Over."]


async def test_stop_before_the_first_content() -> None:
    """It is no failure either: the page reads an abort, and not the status of an error."""
    begun = asyncio.Event()

    async def silent(request: Request, ask: Ask) -> AsyncIterator[ls.Event]:
        begun.set()
        await asyncio.sleep(60)
        async for event in ask(request):
            yield event

    agent = ls.Agent(wrap(ScriptedModel("Hello."), silent))
    async with page_of(agent) as page:
        page.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Go"}]}]
        body = await page.ask()
        await begun.wait()
        assert await page.chats.stop("c", user="ada") is True
        data = b"".join([chunk async for chunk in body])
        assert body.status == 200
        assert data.startswith(b'data: {"type":"start"')
        assert data.endswith(b'data: {"type":"abort"}\n\ndata: [DONE]\n\n')
        # A reload shows the stored messages, without an empty one after them.
        assert (await page.chats.resume("c", user="ada")).status == 204
        assert len(await page.chats.load("c", user="ada", resume=True)) == 1


async def test_closing_stores_what_was_written(tmp_path: Path) -> None:
    """Also where the logs are the application's, and stay open."""
    where, gate = f"sqlite:{tmp_path / 'chats.db'}", Gate()
    model = ScriptedModel(Turn(text="Wait.", calls=(Call("hold"),)))
    async with ls.open_logs("memory:") as logs:
        async with vercel.Chats(
            where, ls.Agent(model, tools=[ls.tool(name="hold")(gate.__call__)]), logs=logs
        ) as chats:
            page = Page(chats)
            page.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Go"}]}]
            await page.ask()
            await gate.begun.wait()
        async with vercel.Chats(where, agent_of("On."), logs=logs) as chats:
            page = Page(chats)
            page.messages = await chats.load("c", user="ada")
            assert page.texts == ["Go", "Wait."]
            assert page.messages[1]["parts"][-1]["state"] == "output-error"


async def test_page_nobody_reads_is_stopped() -> None:
    gate = Gate()
    model = ScriptedModel(Turn(text="Wait.", calls=(Call("hold"),)))
    agent = ls.Agent(model, tools=[ls.tool(name="hold")(gate.__call__)])
    async with vercel.Chats("memory:", agent, stop_when_left_s=1.0) as chats:
        page = Page(chats)
        page.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Go"}]}]
        body = await page.ask()
        async with asyncio.timeout(20):
            await gate.begun.wait()
        await body.aclose()
        async with asyncio.timeout(20):
            while (await chats.load("c", user="ada"))[-1]["role"] == "user":
                await asyncio.sleep(0.05)
        page.messages = await chats.load("c", user="ada")
        assert page.texts == ["Go", "Wait."]


class SlowStore(MemoryStore):
    """A store of logs in which a claim takes as long as the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = True
        self.claimed, self.released = asyncio.Event(), asyncio.Event()

    async def acquire(self, claim: Claim) -> Acquired:
        if self.waits:
            self.waits = False
            self.claimed.set()
            await self.released.wait()
        return await super().acquire(claim)


async def test_run_about_to_start_is_not_lost() -> None:
    """A request that comes while another one starts its run waits for that run, and does not end it."""
    logs_store = SlowStore()
    async with (
        ls.open_logs(logs_store) as logs,
        vercel.Chats("memory:", agent_of("Hello."), logs=logs) as chats,
    ):
        page = Page(chats)
        saying = asyncio.create_task(page.say("Hi"))
        await logs_store.claimed.wait()
        resuming = asyncio.create_task(chats.resume("c", user="ada"))
        await asyncio.sleep(0.05)
        logs_store.released.set()
        body = await resuming
        assert body.status == 200
        assert b"Hello." in b"".join([chunk async for chunk in body])
        await saying
        assert page.texts == ["Hi", "Hello."]


async def test_run_that_starts_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that took too long starts nothing: its conversation has been continued without it."""
    monkeypatch.setattr(chats_module, "_START_S", 0.05)
    logs_store, agent = SlowStore(), agent_of("Hello.")
    async with (
        ls.open_logs(logs_store) as logs,
        vercel.Chats("memory:", agent, logs=logs) as chats,
    ):
        slow, page = Page(chats), Page(chats)
        slow.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}]
        late = asyncio.create_task(slow.refusal())
        await logs_store.claimed.wait()
        page.number = 1
        await page.say("Anyone?")
        assert page.texts == ["Hi", "Anyone?", "Hello."]
        logs_store.released.set()
        assert (await late)[0] == 409
        assert await chats.load("c", user="ada") == page.messages
        assert isinstance(agent.model, ScriptedModel)
        assert len(agent.model.requests) == 1


class DyingStore(vercel.MemoryConversations):
    """A store whose process dies, long ago, once it has stored a decision."""

    died = False

    async def save(self, key: str, conversation: vercel.Conversation) -> bool:
        if conversation.decided is None or self.died:
            return await super().save(key, conversation)
        self.died = await super().save(key, msgspec.structs.replace(conversation, begun=0.0))
        raise OSError("killed")


@asynccontextmanager
async def page_that_decided(
    agent: ls.Agent[Any, Any], approved: bool = True, **given: Any
) -> AsyncIterator[Page]:
    """A page whose decision was stored by a process that died before it began the run."""
    async with vercel.Chats(DyingStore(), agent) as chats:
        page = Page(chats)
        await page.say("Delete a.")
        page.decide(approved)
        body = json.dumps({"id": "c", "messages": page.messages}).encode()
        with pytest.raises(OSError, match="killed"):
            await chats.answer(body, user="ada", **given)
        yield page


@pytest.mark.parametrize("approved", [True, False])
async def test_stored_decision_is_continued(approved: bool) -> None:
    """By the page that loads, which reads the run as any other."""
    async with page_that_decided(agent_of(DELETE, "Done."), approved) as page:
        loaded = await page.chats.load("c", user="ada", resume=True)
        assert [message["role"] for message in loaded] == ["user"]
        body = await page.chats.resume("c", user="ada")
        data = b"".join([chunk async for chunk in body])
        assert (b"a is gone" in data) == approved
        page.messages = await page.chats.load("c", user="ada")
        assert page.texts == ["Delete a.", "Well.Done."]
        call = page.messages[-1]["parts"][-3]
        assert call["state"] == ("output-available" if approved else "output-denied")


async def test_stored_decision_is_made_again() -> None:
    """The page sends it again after the failure of its request, or its visitor has another opinion."""
    async with page_that_decided(agent_of(DELETE, "Kept.")) as page:
        page.messages[-1]["parts"][-1]["approval"]["approved"] = False
        chunks = await page.send()
        assert {"type": "tool-output-denied", "toolCallId": "call_0_0"} in chunks
        assert page.texts[-1] == "Well.Kept."


async def test_message_after_a_stored_decision() -> None:
    async with page_that_decided(agent_of(DELETE, "Never mind.")) as page:
        await page.say("Stop that.")
        assert page.messages[1]["parts"][-1]["state"] == "output-error"
        assert page.texts[-1] == "Never mind."


async def test_decision_with_deps_is_asked_again() -> None:
    """Deps are not stored, so the run cannot begin without the request."""
    async with page_that_decided(agent_of(DELETE, "Done."), deps="a database") as page:
        page.messages = await page.chats.load("c", user="ada", resume=True)
        assert page.messages[-1]["parts"][-1]["state"] == "approval-requested"
        assert (await page.chats.resume("c", user="ada")).status == 204
        page.decide(True)
        await page.send()
        assert page.texts[-1] == "Well.Done."


async def test_stopped_decision_is_not_continued() -> None:
    async with page_that_decided(agent_of(DELETE, "Done.")) as page:
        await page.chats.stop("c", user="ada")
        page.messages = await page.chats.load("c", user="ada", resume=True)
        assert page.messages[-1]["parts"][-1]["state"] == "approval-requested"


async def test_decision_of_two_processes_runs_once() -> None:
    """One is slow between storing the decision and starting its run; the other one has continued it."""
    ran = []

    @ls.tool(needs_approval=True)
    def delete(path: str) -> str:
        """Delete a file."""
        ran.append(path)
        return f"{path} is gone"

    logs_store = SlowStore()
    logs_store.waits = False
    agent = ls.Agent(ScriptedModel(DELETE, "Done.", "Twice."), tools=[delete])
    async with (
        ls.open_logs(logs_store) as logs,
        vercel.Chats("memory:", agent, logs=logs) as chats,
    ):
        page = Page(chats)
        await page.say("Delete a.")
        page.decide(True)
        logs_store.waits = True
        late = asyncio.create_task(page.refusal())
        await logs_store.claimed.wait()
        body = await chats.resume("c", user="ada")  # it waits for the first one, as long as that is alive
        assert b"Done." in b"".join([chunk async for chunk in body])
        logs_store.released.set()
        assert (await late)[0] == 409
        assert ran == ["a"]
        page.messages = await chats.load("c", user="ada")
        assert page.texts[-1] == "Well.Done."


class FullStore(MemoryStore):
    """A store of logs that takes no new run while it is full."""

    full = False

    async def acquire(self, claim: Claim) -> Acquired:
        if self.full:
            raise ls.LogUnavailable("the disk is full")
        return await super().acquire(claim)


async def test_log_that_fails_keeps_what_waits() -> None:
    store = FullStore()
    async with (
        ls.open_logs(store) as logs,
        vercel.Chats("memory:", agent_of(DELETE, "Done."), logs=logs) as chats,
    ):
        page = Page(chats)
        await page.say("Delete a.")
        page.decide(True)
        store.full = True
        with pytest.raises(ls.LogUnavailable):
            await page.ask()
        store.full = False
        await page.send()
        assert page.texts[-1] == "Well.Done."


async def test_deleted_chat_is_not_stored_again() -> None:
    async with page_in_a_run() as (page, _gate, _body):
        await page.chats.delete("c", user="ada")
        assert await page.chats.load("c", user="ada") == []


DYING = """
import asyncio, json, sys
import llmstream as ls
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from llmstream.ui import vercel

async def hold() -> str:
    "Wait."
    await asyncio.sleep(60)
    return "never"

async def main() -> None:
    where = sys.argv[1]
    turn = Turn(text="Wait.", calls=(Call("hold"),))
    agent = ls.Agent(ScriptedModel(turn), tools=[hold])
    message = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Go"}]}
    async with ls.open_logs(where, lease_s=float(sys.argv[2])) as logs:
        chats = vercel.Chats(where, agent, logs=logs)
        body = await chats.answer(json.dumps({"id": "c", "messages": [message]}).encode(), user="ada")
        async for chunk in body:
            if b"tool-input-available" in chunk:
                print("seen", flush=True)

asyncio.run(main())
"""


async def dying(where: str, lease_s: float = 0.5) -> asyncio.subprocess.Process:
    """A process that has a response in progress."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DYING, where, str(lease_s), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"seen\n"
    return process


async def test_killed_process_leaves_its_text(tmp_path: Path) -> None:
    """Its pages read an error, and what they have seen is in the conversation."""
    where = f"sqlite:{tmp_path / 'chats.db'}"
    process = await dying(where)
    async with (
        ls.open_logs(where, lease_s=0.5) as logs,
        vercel.Chats(where, agent_of("On."), logs=logs) as chats,
    ):
        page = Page(chats)
        body = await chats.resume("c", user="ada")
        process.kill()
        await process.wait()
        data = b"".join([chunk async for chunk in body])
        assert b'"type":"error"' in data
        page.messages = await chats.load("c", user="ada")
        assert page.texts == ["Go", "Wait."]
        assert page.messages[1]["parts"][-1]["state"] == "output-error"
        assert page.messages[1]["id"] in data.decode()
        page.number = 1
        await page.say("Go on")
        assert page.texts == ["Go", "Wait.", "Go on", "On."]


async def test_message_after_a_killed_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is answered once the lease has expired, however short the wait for tools is."""
    monkeypatch.setattr(chats_module, "_STOP_S", 1.5)  # a reader looks once a second
    where = f"sqlite:{tmp_path / 'chats.db'}"
    process = await dying(where, lease_s=3)
    process.kill()
    await process.wait()
    async with (
        ls.open_logs(where) as logs,
        vercel.Chats(where, agent_of("On."), logs=logs) as chats,
    ):
        page = Page(chats)
        page.number = 1
        await page.say("Go on")
        assert page.texts == ["Go", "Wait.", "Go on", "On."]


async def test_tool_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for only so long; then the page is asked to wait, and nothing is lost."""
    monkeypatch.setattr(chats_module, "_STOP_S", 0.05)
    begun, released = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        """Go on whatever happens."""
        begun.set()
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return "done"

    agent = ls.Agent(ScriptedModel(Turn(text="Wait.", calls=(Call("stubborn"),)), "On."), tools=[stubborn])
    async with (
        ls.open_logs("memory:", lease_s=0.1) as logs,
        vercel.Chats("memory:", agent, logs=logs) as chats,
    ):
        page = Page(chats)
        page.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Go"}]}]
        await page.ask()
        await begun.wait()
        try:
            assert await chats.stop("c", user="ada") is True
            page.messages.append({"id": "u2", "role": "user", "parts": [{"type": "text", "text": "On"}]})
            assert (await page.refusal())[0] == 409
        finally:
            released.set()
        monkeypatch.undo()
        await page.send()
        assert page.texts == ["Go", "Wait.", "On", "On."]


@pytest.mark.parametrize("turn", [DELETE, Turn(reasoning="Hm.", text="Hello.")])
async def test_stored_response_is_read_again(turn: Turn) -> None:
    """Its process died between storing it and writing its end into the log."""
    agent = agent_of(turn, "Done.")
    async with vercel.Chats("memory:", agent) as chats:
        page = Page(chats)
        chunks = await page.say("Go")
        (metadata,) = [chunk for chunk in chunks if chunk["type"] == "message-metadata"]
        key = json.dumps(["ada", "c"])
        stored = await chats._store.load(key)
        assert stored is not None
    async with ls.open_logs("memory:", lease_s=0.1) as logs:
        lost = await logs.start(str(stored.run), _unfinished())
        await asyncio.sleep(0.05)
        async with vercel.Chats("memory:", agent, logs=logs) as chats:
            await chats._store.save(key, msgspec.structs.replace(stored, version=0))
            for _ in range(2):  # while the log is open, and after it was closed
                assert [one["role"] for one in await chats.load("c", user="ada", resume=True)] == ["user"]
                body = await chats.resume("c", user="ada")
                data = b"".join([chunk async for chunk in body])
                again = [
                    json.loads(line[6:]) for line in data.decode().split("\n\n") if line.startswith("data: {")
                ]
                kinds = {chunk["type"] for chunk in again}
                assert {chunk["type"] for chunk in chunks} - kinds <= {"tool-input-start", "tool-input-delta"}
                assert metadata in again
                assert again[-1] == chunks[-1]
                lost.stop()
                await lost.wait()
            page.chats = chats
            assert await chats.load("c", user="ada") == page.messages


async def _unfinished() -> AsyncIterator[ls.Event]:
    yield StreamStart()
    await asyncio.sleep(60)


async def test_part_of_a_vendor_is_loaded() -> None:
    """As the page has read it."""
    events = (
        Custom("acme.thing", {"acme": {"size": 3}}),
        TextStart("0"),
        TextDelta("Hi.", "0"),
        TextEnd("0"),
        Finish("stop"),
    )
    async with page_of(agent_of(Turn(events=events))) as page:
        chunks = await page.say("Go")
        (chunk,) = [chunk for chunk in chunks if chunk["type"] == "data-llmstream-custom"]
        assert chunk in page.messages[-1]["parts"]


# Sub-agents: their calls are shown as calls of the page.


async def test_nested_calls_with_repeated_ids() -> None:
    """Both the sub-agent's call and the call that runs it; each approval is a part of its own."""
    cleaning = [Turn(calls=(Call("delete", {"path": path}, "d"),)) for path in "ab"]
    inner = ls.Agent(
        ScriptedModel(cleaning[0], "Gone.", cleaning[1], "Gone."), name="cleaner", tools=[delete]
    )
    run_it = Turn(calls=(Call("cleaner", {"prompt": "Clean."}, "c"),))
    agent = ls.Agent(ScriptedModel(run_it, run_it, "Clean now."), tools=[inner.as_tool()])
    async with page_of(agent) as page:
        await page.say("Clean up.")
        assert page.messages[-1]["parts"][-1]["toolCallId"] == "c/d"
        page.decide(True)
        chunks = await page.send()
        (asked,) = [chunk for chunk in chunks if chunk["type"] == "tool-approval-request"]
        assert asked["toolCallId"] == page.messages[-1]["parts"][-1]["toolCallId"] == "1/c/d"
        page.decide(True)
        results = results_of(await page.send())
        assert {"1/c", "1/c/d"} <= set(results)
        assert not {"c", "c/d"} & set(results)
        assert page.texts[-1] == "Clean now."


async def test_nested_approval_is_shown() -> None:
    inner = ls.Agent(ScriptedModel(DELETE, "It is gone."), name="cleaner", tools=[delete])
    outer = ScriptedModel(Turn(calls=(Call("cleaner", {"prompt": "Clean."}),)), "Clean now.")
    agent = ls.Agent(outer, tools=[inner.as_tool()])
    async with page_of(agent) as page:
        chunks = await page.say("Clean up.")
        (request,) = [chunk for chunk in chunks if chunk["type"] == "tool-approval-request"]
        call = page.messages[-1]["parts"][-1]
        assert call["toolCallId"] == request["toolCallId"] == "call_0_0/call_0_0"
        assert (call["type"], call["state"], call["input"]) == (
            "tool-delete",
            "approval-requested",
            {"path": "a"},
        )
        page.decide(True)
        chunks = await page.send()
        results = [chunk for chunk in chunks if chunk["type"] == "tool-output-available"]
        assert {"call_0_0/call_0_0", "call_0_0"} <= {result["toolCallId"] for result in results}
        assert page.texts[-1] == "Clean now."
        # A page that reloads has it too.
        parts = page.messages[-1]["parts"]
        (card,) = [part for part in parts if part.get("toolCallId") == "call_0_0/call_0_0"]
        assert (card["state"], card["output"]) == ("output-available", "a is gone")
