"""Releases of the client before 1.0 read our responses: they know fewer events, and no request names them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

import llmstream as ls
from llmstream import serve
from llmstream.events import Finish, StreamStart, TextDelta, TextEnd, TextStart
from llmstream.simulator import Break, Call, Cut, Refuse, Simulator, Stall, Turn
from llmstream.testing import ScriptedModel
from tests.ui.ag_ui.conftest import Client
from tests.ui.ag_ui.test_client import DECISIONS, Approvals, Seen, assistants, kinds, said, weather

OSLO = (Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Lima"}))

EMPTY = (
    *(StreamStart(), TextStart("0"), TextDelta("", "0"), TextDelta("Done.", "0"), TextEnd("0")),
    Finish("stop"),
)


async def scan(folder: str) -> AsyncGenerator[dict[str, int]]:
    """Scan a folder."""
    for done in (1, 2):
        yield {"done": done}


def broken(x: str) -> str:
    """Fail."""
    raise ValueError("no luck")


def writing_agent() -> ls.Agent:
    turn = Turn(reasoning="Hm.", text="First,", calls=OSLO)
    writer = ls.Agent(ScriptedModel(turn, "It is cold."), name="writer", tools=[weather])
    return ls.Agent(
        ScriptedModel(Turn(calls=(Call("writer", {"prompt": "Write"}),)), "Done."), tools=[writer.as_tool()]
    )


AGENTS: dict[str, Callable[[], ls.Agent]] = {
    "text": lambda: ls.Agent(ScriptedModel("Done.")),
    "empty fragment": lambda: ls.Agent(ScriptedModel(Turn(events=EMPTY))),
    "reasoning": lambda: ls.Agent(ScriptedModel(Turn(reasoning="Hm.", text="Done."))),
    "parallel": lambda: ls.Agent(
        ScriptedModel(Turn(text="Let me see.", calls=OSLO), "Done."), tools=[weather]
    ),
    "progress": lambda: ls.Agent(
        ScriptedModel(Turn(calls=(Call("scan", {"folder": "x"}),)), "Done."), tools=[scan]
    ),
    "broken": lambda: ls.Agent(
        ScriptedModel(Turn(calls=(Call("broken", {"x": "x"}),)), "Done."), tools=[broken]
    ),
    "sub-agent": writing_agent,
}


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
async def test_older_client_reads_two_runs(older_client: Client, agent: Callable[[], ls.Agent]) -> None:
    """The second one has the history that the client made of the first."""
    agents = [agent(), ls.Agent(ScriptedModel("Again."))]
    seen = await older_client.talk(
        lambda asked: serve.Body(agents.pop(0).stream(asked.messages), asked.writer()),
        said("Go"),
        said("And?"),
    )
    for run in seen["runs"]:
        assert "failed" not in run
        assert kinds(run)[-1] == "RUN_FINISHED"
    assert [message.get("content") for message in assistants(seen)][-2:] == ["Done.", "Again."]
    assert "First," not in json.dumps(seen["messages"])  # a sub-agent's text is no text of the conversation


@pytest.mark.parametrize(("decision", "deleted", "result"), DECISIONS, ids=["yes", "edited", "no", "left"])
async def test_older_client_decides(
    older_client: Client, decision: Seen, deleted: list[str], result: str
) -> None:
    """By the outcome, if it knows interrupts."""
    server = Approvals()
    asking = await older_client.talk(server.respond, said("Delete it"))
    (run,) = asking["runs"]
    (shown,) = [event["value"] for event in run["events"] if event.get("name") == "llmstream.interrupts"]
    (suspension,) = server.waiting.values()
    assert [interrupt["id"] for interrupt in shown] == [suspension.pending[0].approval_id]
    if "outcome" not in run:
        return
    assert run["pending"] == shown
    seen = await older_client.talk(
        server.respond, {"decide": decision}, messages=asking["messages"], interrupts=shown
    )
    assert seen["runs"][0]["outcome"] == "success"
    assert server.deleted == deleted
    _, _, tool, answer = seen["messages"]
    assert result in tool["content"]
    assert answer["content"] == "Done."


async def test_sub_agents_question_is_complete(older_client: Client) -> None:
    """It has none of the sub-agent's calls: the question names the arguments, beside the call that it has."""
    server = Approvals()
    inner = ls.Agent(server.agent.model, name="cleaner", tools=[ls.tool(server.delete, needs_approval=True)])
    model = ScriptedModel(Turn(calls=(Call("cleaner", {"prompt": "Clean"}),)), "All clean.")
    server.agent = ls.Agent(model, tools=[inner.as_tool()])
    asking = await older_client.talk(server.respond, said("Clean up"))
    (run,) = asking["runs"]
    assert "failed" not in run
    ((interrupt,),) = [
        event["value"] for event in run["events"] if event.get("name") == "llmstream.interrupts"
    ]
    assert interrupt["message"] == 'May delete run with {"path":"notes.txt"}?'
    assert interrupt["toolCallId"] == assistants(asking)[0]["toolCalls"][0]["id"]
    if "outcome" not in run:
        return
    yes = {"decide": {"status": "resolved", "payload": {"approved": True}}}
    seen = await older_client.talk(
        server.respond, yes, messages=asking["messages"], interrupts=run["pending"]
    )
    assert server.deleted == ["notes.txt"]
    assert assistants(seen)[-1]["content"] == "All clean."


FAULTS = {"cut": Cut(after_events=4), "error": Break(after_events=4, message="at 10.0.0.7")}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_older_client_sees_cut_stream(older_client: Client, fault: Any) -> None:
    model = ScriptedModel(Turn(text="It was a dark and stormy night.", fault=fault))
    seen = await older_client.talk(
        lambda asked: serve.Body(ls.Agent(model).stream(asked.messages), asked.writer()), said("A story")
    )
    (run,) = seen["runs"]
    assert kinds(run)[-1] == "RUN_ERROR"
    assert run["runError"]["message"]
    assert "10.0.0.7" not in json.dumps(seen)


async def test_cut_call_without_mark_is_left(older_client: Client) -> None:
    """It does not keep our mark: arguments that are half an object tell."""
    turns = [Turn(calls=OSLO[:1], fault=Cut(after_events=3)), Turn(text="Hi.")]
    async with Simulator(lambda request, number: turns[number]) as simulator:
        model = ls.Model(
            "openai:m", base_url=f"{simulator.url}/v1", api_key="k", retry=ls.Retry(max_retries=0)
        )
        agent = ls.Agent(model, tools=[weather])
        seen = await older_client.talk(
            lambda asked: serve.Body(agent.stream(asked.messages), asked.writer()),
            said("Oslo?"),
            said("Again"),
        )
        request = simulator.requests[-1].request
    failed, fine = seen["runs"]
    assert kinds(failed)[-1] == "RUN_ERROR"
    assert kinds(fine)[-1] == "RUN_FINISHED"
    assert request is not None
    assert [message.text for message in request.messages] == ["Oslo?", "Again"]


async def test_older_client_sees_refusal(older_client: Client) -> None:
    model = ScriptedModel(Turn(fault=Refuse(status=429, retry_after_s=7, message="at 10.0.0.7")))
    seen = await older_client.talk(
        lambda asked: serve.Body(model.stream(asked.messages), asked.writer()), said("Hi")
    )
    assert "The model is busy. Try again in 7 s." in seen["runs"][0]["failed"]["message"]


async def test_older_page_runs_its_own_tool(older_client: Client) -> None:
    tools = [{"name": "locate", "description": "Where the user is", "parameters": {"type": "object"}}]
    agent = ls.Agent(ScriptedModel(Turn(calls=(Call("locate"), *OSLO)), "In Oslo."))
    seen = await older_client.talk(
        lambda asked: serve.Body(agent.stream(asked.messages, tools=[weather, *asked.tools]), asked.writer()),
        said("Where am I?", tools=tools),
        {"results": {"locate": "Oslo"}, "tools": tools},
    )
    assert [kinds(run)[-1] for run in seen["runs"]] == ["RUN_FINISHED"] * 2
    assert assistants(seen)[-1]["content"] == "In Oslo."


async def test_older_client_stops_the_run(older_client: Client) -> None:
    turn = Turn(text="It was a dark and stormy night.", fault=Stall(after_events=4))
    async with Simulator(lambda request, number: turn) as simulator:
        model = ls.Model(
            "openai:m", base_url=f"{simulator.url}/v1", api_key="k", retry=ls.Retry(max_retries=0)
        )
        seen = await older_client.talk(
            lambda asked: serve.Body(model.stream(asked.messages), asked.writer()),
            said("A story", stopAt="TEXT_MESSAGE_CONTENT"),
        )
        received = simulator.requests[0]
        await received.done.wait()
    assert received.disconnected
    assert assistants(seen)[0]["content"]
