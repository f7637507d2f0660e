"""A conversation that comes back as a prompt: the system prompt is sent once, on every wire."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.providers.base import Provider
from llmstream.providers.registry import find_provider
from llmstream.providers.sim import SimProvider
from llmstream.simulator import Call, Script, Simulator, Turn

SYSTEM = "Answer in one sentence."
WIRES = [
    "sim",
    "sim-anthropic",
    "sim-bedrock",
    "sim-cohere",
    "sim-gemini",
    "sim-gemini-interactions",
    "sim-mistral",
    "sim-ollama",
    "sim-openai-responses",
]


@contextlib.asynccontextmanager
async def wire(name: str, *turns: Turn) -> AsyncIterator[tuple[ls.Model, Simulator]]:
    sim = find_provider(name)
    assert isinstance(sim, SimProvider)
    async with Simulator(Script(turns or (Turn(text="Yes."),)), dialects=[sim.dialect]) as server:
        provider = Provider(
            name=name, dialect=sim.dialect, base_url=server.url + sim.path, key_required=False
        )
        yield ls.Model(f"{name}:m", provider=provider), server


def sent(server: Simulator) -> list[int]:
    """How often the system prompt is in the body of each request."""
    return [found.http.body.count(SYSTEM.encode()) for found in server.requests if found.http.body]


@pytest.mark.parametrize("name", WIRES)
async def test_continuing_agent_sends_prompt_once(name) -> None:
    async with wire(name) as (model, server):
        agent = ls.Agent(model, instructions=SYSTEM)
        messages = [ls.Message.user("One?")]
        for turn in range(3):
            async with agent.stream(messages) as run:
                await run.collect()
            messages = [*run.messages(), ls.Message.user(f"And {turn}?")]
        assert sent(server) == [1, 1, 1]
    assert [message.role for message in messages].count("system") == 1


@pytest.mark.parametrize("name", WIRES)
async def test_recovered_run_sends_prompt_once(name, tmp_path: Path) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    turns = (Turn(calls=(Call("look"),)), Turn(text="Seen."), Turn(text="Again."))
    async with wire(name, *turns) as (model, server):
        agent = ls.Agent(model, instructions=SYSTEM, tools=[look], journal=tmp_path / "journal")
        await agent.run("Look!")
        recovered = agent.recover(tmp_path / "journal")
        async with agent.stream([*recovered, ls.Message.user("Again!")]) as run:
            await run.collect()
        assert sent(server) == [1, 1, 1]


@pytest.mark.parametrize("name", WIRES)
async def test_continuing_stream_sends_prompt_once(name) -> None:
    async with wire(name) as (model, server):
        messages: list[ls.Message] = [ls.Message.user("One?")]
        for _ in range(3):
            stream = ls.stream(model, messages, instructions=SYSTEM)
            await stream.collect()
            messages = [*stream.messages(), ls.Message.user("And?")]
        async for _ in model.events(messages, instructions=SYSTEM):
            pass
        assert sent(server) == [1, 1, 1, 1]


@pytest.mark.parametrize("name", WIRES)
async def test_chat_with_system_prompt_sends_once(name) -> None:
    async with wire(name) as (model, server):
        chat = ls.Chat(ls.Message.system(SYSTEM))
        agent = ls.Agent(model, instructions=SYSTEM)
        for ask in (lambda: agent.stream(chat), lambda: ls.stream(model, chat, instructions=SYSTEM)):
            chat.append(ls.Message.user("One?"))
            before = len(chat)
            answer = await ask().collect()
            assert len(chat) == before  # a stream borrows the chat
            chat.append(answer)
        assert sent(server) == [1, 1]


@pytest.mark.parametrize(
    ("first", "second"), list(itertools.permutations(("Be brief.", "Be kind.", None), 2))
)
async def test_second_system_prompt_goes_first(first, second) -> None:
    """The earlier one follows it."""
    async with wire("sim") as (model, server):
        messages = ls.stream(model, "One?", instructions=first).messages()
        await ls.stream(model, messages, instructions=second).collect()
        request = server.requests[-1].request
        assert request is not None
        said = [message.text for message in request.messages if message.role == "system"]
        assert said == [text for text in (second, first) if text]
