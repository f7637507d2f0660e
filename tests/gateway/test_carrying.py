"""What one vendor signed goes through clients of other wires, and comes back to it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from gateway_parts import WIRES, gateway_before, model_at

import llmstream as ls
from llmstream.chats.content import Reasoning, ToolCall
from llmstream.gateway.carrying import Carrier
from llmstream.testing import Turn
from tests.signed_turns import CALLS, SIGNED, THOUGHT, THOUGHTS, signed_turn

VENDORS = [wire for wire in WIRES if wire in THOUGHTS]


def signed_turns(wire: str) -> list[Turn]:
    """A call after signed thoughts, then an answer."""
    # Gemini signs the call alone.
    thought = None if wire in CALLS else THOUGHTS[wire]
    return [Turn(events=tuple(signed_turn(thought, CALLS.get(wire), ["call_1"]))), Turn(text="Sunny.")]


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"{city}: sunny"


def signatures(request: ls.Request) -> list[str]:
    """What is signed in the assistant's messages of a request, whatever its name."""
    found = []
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Reasoning | ToolCall):
                values = [value for fields in (part.metadata or {}).values() for value in fields.values()]
                found += [value for value in values if value == SIGNED]
    return found


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("client", WIRES)
async def test_signatures_come_back(client: str, vendor: str, tmp_path: Path) -> None:
    async with gateway_before(vendor, signed_turns(vendor), keys=tmp_path / "gateway.db") as (url, simulator):
        agent = ls.Agent(model_at(url, client), tools=[weather])
        run = await agent.run("How is the weather in Oslo?")
        assert run.text == "Sunny."
        second = simulator.requests[1].request
        assert second is not None
        assert signatures(second) == [SIGNED]
        thoughts = [part.text for m in second.messages for part in m.parts if isinstance(part, Reasoning)]
        if vendor != "gemini":  # whose thoughts are not sent back
            assert thoughts == [THOUGHT]
        assert "ls1." not in str(simulator.requests[1].http.body)


async def test_other_vendors_get_no_envelopes() -> None:
    """A conversation moves to a vendor of the client's own wire: there an envelope would be refused."""
    async with gateway_before("gemini", signed_turns("gemini")) as (url, _):
        agent = ls.Agent(model_at(url, "anthropic"), tools=[weather])
        async with agent.stream("How is the weather in Oslo?") as run:
            async for _event in run:
                pass
    async with gateway_before("anthropic", [Turn(text="Hi")]) as (url, simulator):
        moved = ls.Agent(model_at(url, "anthropic"), tools=[weather])
        assert (await moved.run([*run.messages(), ls.Message.user("And now?")])).text == "Hi"
        body = simulator.requests[0].http.body
        assert b"I look it up." in body
        assert b"ls1." not in body


def test_envelopes_are_signed() -> None:
    carrier, other = Carrier(b"k" * 32), Carrier(b"o" * 32)
    metadata = {"google": {"thought_signature": "x" * 500}}
    for as_base64 in (False, True):
        seal = carrier.sealed(metadata, as_base64=as_base64)
        assert carrier.opened(seal) == metadata
        assert other.opened(seal) is None
        for broken in (seal[:-3], seal[:40] + "A" + seal[41:], "ls1.", "ls1.x.y", "bHMxL???"):
            assert carrier.opened(broken) is None
    base64.b64decode(carrier.sealed(metadata, as_base64=True), validate=True)


async def test_calls_belong_to_their_key(tmp_path: Path) -> None:
    """Another key that names the same call does not get what belongs to the first."""
    request = ls.Request(model="m", messages=(ls.Message.assistant(ToolCall("call_1", "weather", "{}")),))
    carrier = Carrier(b"k" * 32)
    from llmstream.gateway.carrying import _Entry

    carrier.remember({"ada:call_1": _Entry([("thought", None)], {"google": {"thought_signature": "s"}})})
    for wire in ("openai-chat", "cohere"):
        mine = (await carrier.restored(request, wire, "ada")).messages[0].parts
        assert [type(part) for part in mine] == [Reasoning, ToolCall]
        assert await carrier.restored(request, wire, "eve") == request
