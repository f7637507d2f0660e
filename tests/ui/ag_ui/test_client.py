"""The real client of AG-UI reads our responses from a real server, verifies them, and asks again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import llmstream as ls
from llmstream import serve
from llmstream.chats.content import ToolCall as CallPart
from llmstream.chats.content import ToolResult as ResultPart
from llmstream.chats.message import Message
from llmstream.events import (
    Event,
    File,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
)
from llmstream.middleware import fallback, wrap
from llmstream.simulator import Break, Call, Cut, Refuse, Simulator, Stall, Turn
from llmstream.testing import ScriptedModel
from llmstream.ui import ag_ui
from tests.ui.ag_ui.conftest import Client

Seen = dict[str, Any]


def user(text: str) -> Seen:
    return {"id": f"u-{text}", "role": "user", "content": text}


def said(text: str, **run: Any) -> Seen:
    """A run of the page that begins with a message."""
    return {"messages": [user(text)], **run}


def kinds(run: Seen) -> list[str]:
    return [event["type"] for event in run["events"]]


def of(run: Seen, kind: str) -> list[Seen]:
    return [event for event in run["events"] if event["type"] == kind]


def assistants(seen: Seen) -> list[Seen]:
    return [message for message in seen["messages"] if message["role"] == "assistant"]


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"{city}: -2"


async def played(*events: Event) -> AsyncIterator[Event]:
    for event in events:
        yield event


def model_at(simulator: Simulator) -> ls.Model:
    return ls.Model("openai:m", base_url=f"{simulator.url}/v1", api_key="k", retry=ls.Retry(max_retries=0))


async def test_page_reads_steps_text_and_usage(client: Client) -> None:
    agent = ls.Agent("sim:demo", tools=[weather])
    seen = await client.talk(
        lambda asked: serve.Body(agent.stream(asked.messages), asked.writer()), said("In Oslo?")
    )
    (run,) = seen["runs"]
    assert run["warned"] == []
    assert run["outcome"] == "success"
    assert kinds(run)[:2] == ["RUN_STARTED", "STEP_STARTED"]
    assert kinds(run).count("STEP_FINISHED") == 2
    assert kinds(run).index("TOOL_CALL_RESULT") < kinds(run).index("STEP_FINISHED")
    (usage,) = run["usage"]
    assert usage["model"] == "demo"
    assert usage["totalTokens"] == usage["inputTokens"] + usage["outputTokens"]
    _, asking, result, answer = seen["messages"]
    assert asking["content"] == "Let me use weather."
    assert json.loads(asking["toolCalls"][0]["function"]["arguments"]) == {"city": "Oslo"}
    assert result["content"] == "Oslo: -2"
    assert answer["content"].startswith("weather says: Oslo: -2.")


async def test_plain_stream_has_no_steps(client: Client) -> None:
    model = ls.Model("sim:demo")
    seen = await client.talk(
        lambda asked: serve.Body(model.stream(asked.messages), asked.writer()), said("Hi")
    )
    assert "STEP_STARTED" not in kinds(seen["runs"][0])
    assert assistants(seen)[0]["content"].startswith("You said: Hi")


async def test_signatures_return_to_the_vendor(client: Client) -> None:
    """Over two turns, by the page's history alone."""
    signed = {"anthropic": {"signature": "c2lnbmVk"}}
    thought = (ReasoningStart("0"), ReasoningDelta("Hm.", "0"), ReasoningEnd("0", False, signed))
    spoken = (TextStart("1"), TextDelta("Look.", "1"), TextEnd("1"))
    call = ToolCall("weather", '{"city":"Oslo"}', "toolu_1")
    turns = [
        Turn(events=(StreamStart(), *thought, *spoken, call, Finish("tool-calls"))),
        Turn(text="Cold."),
        Turn(text="Still cold."),
    ]
    async with Simulator(lambda request, number: turns[number]) as simulator:
        model = ls.Model("anthropic:claude-sonnet-4-5", base_url=simulator.url, api_key="k")
        agent = ls.Agent(model, tools=[weather])
        seen = await client.talk(
            lambda asked: serve.Body(agent.stream(asked.messages), asked.writer()),
            said("Oslo?"),
            said("And now?"),
        )
        first, last = simulator.requests[1].request, simulator.requests[2].request
    assert seen["messages"][1]["encryptedValue"]
    assert first is not None
    assert last is not None
    wanted = [message.parts for message in first.messages]
    assert [message.parts for message in last.messages[: len(wanted)]] == wanted
    assert "c2lnbmVk" in str(wanted)


async def test_parallel_calls_share_a_message(client: Client) -> None:
    calls = (Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Rome"}))
    agent = ls.Agent(ScriptedModel(Turn(text="Both.", calls=calls), "Done."), tools=[weather])
    seen = await client.talk(
        lambda asked: serve.Body(agent.stream(asked.messages), asked.writer()), said("Both?")
    )
    assert [message["role"] for message in seen["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert len(assistants(seen)[0]["toolCalls"]) == 2
    assert {m["content"] for m in seen["messages"] if m["role"] == "tool"} == {"Oslo: -2", "Rome: -2"}


async def test_progress_is_one_activity(client: Client) -> None:
    async def scan(folder: str) -> AsyncIterator[dict[str, int]]:
        """Scan a folder."""
        for done in (1, 2, 3):
            yield {"done": done}

    agent = ls.Agent(ScriptedModel(Turn(calls=(Call("scan", {"folder": "/"}),)), "Done."), tools=[scan])
    seen = await client.talk(
        lambda asked: serve.Body(agent.stream(asked.messages), asked.writer()), said("Scan"), said("Thanks")
    )
    shown = [event["content"]["result"] for event in of(seen["runs"][0], "ACTIVITY_SNAPSHOT")]
    assert shown == [{"done": 1}, {"done": 2}, {"done": 3}, {"done": 3}]
    (activity,) = [message for message in seen["messages"] if message["role"] == "activity"]
    assert activity["activityType"] == "llmstream.progress"
    assert activity["content"]["done"] is True
    assert json.loads(next(m for m in seen["messages"] if m["role"] == "tool")["content"]) == {"done": 3}


async def test_failing_tool_is_marked(client: Client) -> None:
    def broken(x: int) -> int:
        """Fail."""
        raise ValueError("no luck")

    agent = ls.Agent(ScriptedModel(Turn(calls=(Call("broken", {"x": 1}),)), "Well."), tools=[broken])
    seen = await client.talk(
        lambda asked: serve.Body(agent.stream(asked.messages), asked.writer()), said("Go")
    )
    (result,) = [message for message in seen["messages"] if message["role"] == "tool"]
    assert result["metadata"]["llmstream"]["isError"] is True
    assert "no luck" in result["content"]
    assert seen["runs"][0]["outcome"] == "success"


class Approvals:
    """A server that stores suspended runs by thread, as an application does."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.waiting: dict[str, ls.Suspension] = {}
        self.histories: dict[str, list[ls.Message]] = {}
        model = ScriptedModel(
            Turn(text="Away with it.", calls=(Call("delete", {"path": "notes.txt"}),)), "Done."
        )
        self.agent = ls.Agent(model, tools=[ls.tool(self.delete, needs_approval=True)])

    def delete(self, path: str) -> str:
        """Delete a file."""
        self.deleted.append(path)
        return f"{path} is gone"

    def respond(self, asked: ag_ui.RunInput) -> serve.Body:
        return serve.Body(self.events(asked), asked.writer(approval_ttl_s=60))

    async def events(self, asked: ag_ui.RunInput) -> AsyncIterator[Event]:
        if asked.is_resume:
            decisions, results = asked.answers(self.waiting[asked.thread_id])
            run = self.agent.resume(self.waiting.pop(asked.thread_id), decisions, results=results)
        else:
            run = self.agent.stream(asked.messages)
        async with run:
            async for event in run:
                if run.suspended is not None:
                    self.waiting[asked.thread_id] = run.suspended
                yield event
        self.histories[asked.thread_id] = run.messages()


DECISIONS = [
    ({"status": "resolved", "payload": {"approved": True}}, ["notes.txt"], "notes.txt is gone"),
    (
        {"status": "resolved", "payload": {"approved": True, "editedArgs": {"path": "old.txt"}}},
        ["old.txt"],
        "old.txt is gone",
    ),
    ({"status": "resolved", "payload": {"approved": False, "reason": "I need it"}}, [], "I need it"),
    ({"status": "cancelled"}, [], "dismissed"),
]


@pytest.mark.parametrize(("decision", "deleted", "result"), DECISIONS, ids=["yes", "edited", "no", "left"])
async def test_interrupt_is_resumed_as_decided(
    client: Client, decision: Seen, deleted: list[str], result: str
) -> None:
    server = Approvals()
    seen = await client.talk(server.respond, said("Delete it"), {"decide": decision})
    asking, resumed = seen["runs"]
    assert asking["outcome"] == "interrupt"
    (interrupt,) = asking["pending"]
    call = assistants(seen)[0]["toolCalls"][0]
    assert interrupt["toolCallId"] == call["id"]
    assert interrupt["message"] == "May delete run?"
    assert interrupt["responseSchema"]["required"] == ["approved"]
    assert interrupt["expiresAt"].endswith("Z")
    assert resumed["outcome"] == "success"
    assert resumed["pending"] == []
    assert server.deleted == deleted
    _, _, tool, answer = seen["messages"]
    assert tool["toolCallId"] == call["id"]
    assert result in tool["content"]
    assert answer["content"] == "Done."


async def test_reloaded_page_decides(client: Client) -> None:
    """It has its messages and interrupts from the server: in the same form, and with the same ids."""
    server = Approvals()
    before = await client.talk(server.respond, said("Delete it"))
    (suspension,) = server.waiting.values()
    (thread,) = server.histories.values()
    messages, interrupts = ag_ui.dump(thread, suspension), ag_ui.interrupts(suspension)
    assert messages[1:] == [
        {**message, "id": f"history-1-{place}"} for place, message in enumerate(before["messages"][1:])
    ]
    assert [one["id"] for one in interrupts] == [one["id"] for one in before["runs"][0]["pending"]]
    yes = {"decide": {"status": "resolved", "payload": {"approved": True}}}
    seen = await client.talk(server.respond, yes, messages=messages, interrupts=interrupts)
    assert seen["runs"][0]["outcome"] == "success"
    assert [message["role"] for message in seen["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert server.deleted == ["notes.txt"]


async def test_reloaded_page_with_repeated_ids(client: Client) -> None:
    """A server counts its calls from 0 in each run: the result belongs to the call that waited."""
    server = Approvals()
    turn = Turn(
        events=(StreamStart(), ToolCall("delete", '{"path":"b.txt"}', "call_0"), Finish("tool-calls"))
    )
    server.agent = ls.Agent(ScriptedModel(turn, "Done."), tools=[ls.tool(server.delete, needs_approval=True)])
    made = [Message.assistant(CallPart("call_0", "delete", '{"path":"a.txt"}')), Message.assistant("Done.")]
    thread = [Message.user("a"), made[0], Message.tool([ResultPart("call_0", "a.txt is gone")]), made[1]]
    await client.talk(server.respond, said("b"), messages=ag_ui.dump(thread))
    (suspension,) = server.waiting.values()
    (thread,) = server.histories.values()
    # As an application has it that stores the calls by the names of their vendor.
    messages, interrupts = ag_ui.dump(thread, suspension), ag_ui.interrupts(suspension)
    yes = {"decide": {"status": "resolved", "payload": {"approved": True}}}
    seen = await client.talk(server.respond, yes, messages=messages, interrupts=interrupts)
    assert seen["runs"][0]["outcome"] == "success"
    calls = [call["id"] for message in assistants(seen) for call in message.get("toolCalls", ())]
    assert interrupts[0]["toolCallId"] == calls[1] != calls[0]
    results = [message for message in seen["messages"] if message["role"] == "tool"]
    assert [(message["toolCallId"], message["content"]) for message in results] == [
        (calls[0], "a.txt is gone"),
        (calls[1], "b.txt is gone"),
    ]


async def test_unclear_decision_runs_nothing(client: Client) -> None:
    server = Approvals()
    unclear = {"decide": {"status": "resolved", "payload": {"ok": "sure"}}}
    yes = {"decide": {"status": "resolved", "payload": True}}
    seen = await client.talk(server.respond, said("Delete it"), unclear, yes)
    refused, resumed = seen["runs"][1:]
    assert refused["failed"]["status"] == 400
    assert refused["failed"]["payload"]["code"] == "invalid-request"
    assert resumed["outcome"] == "success"  # the refusal did not use the suspension up
    assert server.deleted == ["notes.txt"]


async def test_page_runs_its_own_tools(client: Client) -> None:
    """Its call ends the run as a success that names it; the next request has the result."""
    tools = [{"name": "locate", "description": "Where the user is", "parameters": {"type": "object"}}]
    agent = ls.Agent(ScriptedModel(Turn(calls=(Call("locate"), Call("weather", {"city": "x"}))), "In Oslo."))
    seen = await client.talk(
        lambda asked: serve.Body(agent.stream(asked.messages, tools=[weather, *asked.tools]), asked.writer()),
        said("Where am I?", tools=tools),
        {"results": {"locate": "Oslo"}, "tools": tools},
    )
    asking, done = seen["runs"]
    located = assistants(seen)[0]["toolCalls"][0]["id"]
    assert asking["outcome"] == "success"
    assert asking["pendingCalls"] == [located]
    assert done["outcome"] == "success"
    assert assistants(seen)[-1]["content"] == "In Oslo."


FAULTS = {
    "cut": Cut(after_events=4),
    "cleanly cut": Cut(after_events=4, clean=True),
    "error": Break(after_events=4, message="at 10.0.0.7"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_cut_stream_is_a_run_error(client: Client, fault: Any) -> None:
    turn = Turn(text="It was a dark and stormy night.", fault=fault)
    async with Simulator(lambda request, number: turn) as simulator:
        agent = ls.Agent(model_at(simulator))
        seen = await client.talk(
            lambda asked: serve.Body(agent.stream(asked.messages), asked.writer()), said("A story")
        )
    (run,) = seen["runs"]
    assert "outcome" not in run
    error = run["runError"]
    assert "127.0.0.1" not in json.dumps(seen)
    assert "10.0.0.7" not in json.dumps(seen)
    assert error["message"]
    assert error["metadata"]["llmstream"]["retryable"] in (True, False)
    (message,) = assistants(seen)
    assert "It was a dark and stormy night.".startswith(message["content"])
    assert message["metadata"]["llmstream"]["incomplete"] is True


async def test_bug_in_the_source_is_no_success(client: Client) -> None:
    """The server cuts the connection: a clean end would pass for a success."""

    async def events() -> AsyncIterator[Event]:
        for event in (StreamStart(), TextStart("0"), TextDelta("Half", "0")):
            yield event
        raise ValueError("a bug of the application")

    seen = await client.talk(lambda asked: serve.Body(events(), asked.writer()), said("Hi"))
    (run,) = seen["runs"]
    assert "outcome" not in run
    assert run["failed"]["message"]
    assert "a bug" not in json.dumps(seen)


async def test_call_cut_in_its_input_never_runs(client: Client) -> None:
    """It stays open for the page, and the next request does not have it."""
    turns = [Turn(calls=(Call("weather", {"city": "Oslo"}),), fault=Cut(after_events=3)), Turn(text="Hi.")]
    async with Simulator(lambda request, number: turns[number]) as simulator:
        agent = ls.Agent(model_at(simulator), tools=[weather])
        seen = await client.talk(
            lambda asked: serve.Body(agent.stream(asked.messages), asked.writer()),
            said("Oslo?"),
            said("Again"),
        )
        request = simulator.requests[-1].request
    broken, fine = seen["runs"]
    assert kinds(broken)[-1] == "RUN_ERROR"
    assert "TOOL_CALL_END" not in kinds(broken)
    assert fine["outcome"] == "success"
    assert request is not None
    assert [message.text for message in request.messages] == ["Oslo?", "Again"]


async def test_refused_request_is_a_status(client: Client) -> None:
    turn = Turn(fault=Refuse(status=429, retry_after_s=7, message="at 10.0.0.7"))
    async with Simulator(lambda request, number: turn) as simulator:
        model = model_at(simulator)
        seen = await client.talk(
            lambda asked: serve.Body(model.stream(asked.messages), asked.writer()), said("Hi")
        )
    (run,) = seen["runs"]
    assert run["failed"]["status"] == 429
    assert run["failed"]["payload"] == {
        "type": "RUN_ERROR",
        "message": "The model is busy. Try again in 7 s.",
        "code": "rate-limited",
        "metadata": {"llmstream": {"retryable": True, "retryAfterS": 7.0}},
    }


async def test_stop_closes_the_vendors_socket(client: Client) -> None:
    turn = Turn(text="It was a dark and stormy night.", fault=Stall(after_events=4))
    async with Simulator(lambda request, number: turn) as simulator:
        agent = ls.Agent(model_at(simulator))
        seen = await client.talk(
            lambda asked: serve.Body(agent.stream(asked.messages), asked.writer()),
            said("A story", stopAt="TEXT_MESSAGE_CONTENT"),
        )
        received = simulator.requests[0]
        await asyncio.wait_for(received.done.wait(), 10)
        assert received.disconnected
    assert "outcome" not in seen["runs"][0]
    assert assistants(seen)[0]["content"]


def writing_agents() -> ls.Agent:
    writer = ls.Agent(
        ScriptedModel(Turn(text="First,", calls=(Call("weather", {"city": "Oslo"}),)), "It is cold."),
        name="writer",
        tools=[weather],
    )
    return ls.Agent(
        ScriptedModel(Turn(calls=(Call("writer", {"prompt": "Write"}),)), "Here it is.", "Welcome."),
        tools=[writer.as_tool()],
    )


async def test_sub_agent_has_events_of_its_own(client: Client) -> None:
    agent = writing_agents()
    seen = await client.talk(
        lambda asked: serve.Body(agent.stream(asked.messages), asked.writer()), said("Go"), said("Thanks")
    )
    run = seen["runs"][0]
    (started,) = of(run, "SUBAGENT_STARTED")
    (ended,) = of(run, "SUBAGENT_FINISHED")
    call = next(m["toolCalls"][0] for m in seen["messages"] if "toolCalls" in m)
    assert started["name"] == "writer"
    assert started["parentToolCallId"] == call["id"]
    assert ended["outcome"] == {"type": "success"}
    owner = started["subagentRunId"]
    own = [message["content"] for message in assistants(seen) if message.get("subagentRunId") == owner]
    assert own == ["First,", "It is cold."]
    assert sum(usage["totalTokens"] for usage in run["usage"]) > 0
    assert seen["runs"][1]["outcome"] == "success"


async def test_waiting_sub_agent_is_suspended(client: Client) -> None:
    server = Approvals()
    inner = ls.Agent(server.agent.model, name="cleaner", tools=[ls.tool(server.delete, needs_approval=True)])
    server.agent = ls.Agent(
        ScriptedModel(Turn(calls=(Call("cleaner", {"prompt": "Clean"}),)), "All clean."),
        tools=[inner.as_tool()],
    )
    yes = {"decide": {"status": "resolved", "payload": {"approved": True}}}
    seen = await client.talk(server.respond, said("Clean up"), yes)
    asking, resumed = seen["runs"]
    (interrupt,) = asking["pending"]
    (ended,) = of(asking, "SUBAGENT_FINISHED")
    assert ended["outcome"] == {"type": "suspended", "interruptIds": [interrupt["id"]]}
    assert interrupt["subagentRunId"] == ended["subagentRunId"]
    assert resumed["outcome"] == "success"
    assert server.deleted == ["notes.txt"]
    assert assistants(seen)[-1]["content"] == "All clean."


async def test_sources_and_files_are_custom(client: Client) -> None:
    source = Source("url", "s1", "https://a.example", "A page")
    events = (StreamStart(), source, File("image/png", b"\x89PNG"), Finish("stop"))
    seen = await client.talk(lambda asked: serve.Body(played(*events), asked.writer()), said("Draw"))
    custom = {event["name"]: event["value"] for event in of(seen["runs"][0], "CUSTOM")}
    assert custom["llmstream.source"]["url"] == "https://a.example"
    assert custom["llmstream.file"] == {"mediaType": "image/png", "url": "data:image/png;base64,iVBORw=="}


async def test_retry_takes_text_back(client: Client) -> None:
    broken = ScriptedModel(Turn(reasoning="Hm.", text="It was a dark", fault=Break(after_events=6)))
    agent = ls.Agent(wrap(broken, fallback(ScriptedModel("It was sunny.", "Yes."), restart=True)))
    seen = await client.talk(
        lambda asked: serve.Body(agent.stream(asked.messages), asked.writer()), said("A story"), said("So?")
    )
    run = seen["runs"][0]
    assert "MESSAGES_SNAPSHOT" in kinds(run)
    assert run["outcome"] == "success"
    assert [message["content"] for message in assistants(seen)][:1] == ["It was sunny."]
    assert "dark" not in json.dumps(seen["messages"])
    assert [message["content"] for message in seen["messages"] if message["role"] == "user"] == [
        "A story",
        "So?",
    ]


async def test_state_is_shared_both_ways(client: Client) -> None:
    cities: list[Any] = []

    async def events(asked: ag_ui.RunInput) -> AsyncIterator[Event]:
        cities.append(asked.state)
        async for event in ls.Model("sim:demo").stream(asked.messages):
            yield event
            if isinstance(event, TextEnd):
                yield ag_ui.state({"city": "Oslo"})
                yield ag_ui.state_delta([{"op": "add", "path": "/days", "value": 2}])

    seen = await client.talk(
        lambda asked: serve.Body(events(asked), asked.writer()),
        said("Hi"),
        said("Again"),
        state={"city": "Rome"},
    )
    assert seen["state"] == {"city": "Oslo", "days": 2}
    assert cities == [{"city": "Rome"}, {"city": "Oslo", "days": 2}]


async def test_repeated_call_id_gets_another(client: Client) -> None:
    """The page would append the arguments to those of the first call."""
    call = ToolCall("weather", '{"city":"Oslo"}', "call_0")
    turn = Turn(events=(StreamStart(), call, Finish("tool-calls")))
    agent = ls.Agent(ScriptedModel(turn, "One.", turn, "Two."), tools=[weather])
    seen = await client.talk(
        lambda asked: serve.Body(agent.stream(asked.messages), asked.writer()), said("1"), said("2")
    )
    calls = [call for message in assistants(seen) for call in message.get("toolCalls", ())]
    assert [call["function"]["arguments"] for call in calls] == ['{"city":"Oslo"}'] * 2
    assert len({call["id"] for call in calls}) == 2
    assert seen["runs"][1]["warned"] == []
