"""`drain = true`: a response is read to its end though its client has left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from gateway_parts import gateway_before, model_at, script_of, serving

import llmstream as ls
from llmstream.events import Usage
from llmstream.gateway import Gateway, Route, Routes, open_ledger
from llmstream.gateway.accounts import Row
from llmstream.testing import Cut, Pace, Simulator, Stall, Turn

SLOW = Turn(text="one two three four five six", usage=Usage(1000, 100), pace=Pace(tokens_per_s=20))


async def left_at_once(url: str, client: str) -> None:
    async with model_at(url, client).stream("Hello") as stream:
        async for _ in stream.text_deltas():
            break


def rows_of(path: Path) -> list[Row]:
    ledger = open_ledger(path)
    rows = ledger.rows()
    ledger.close()
    return rows


@pytest.mark.parametrize("client", ["anthropic", "gemini"])
async def test_left_calls_are_read_on(tmp_path: Path, client: str) -> None:
    """What the vendor reports at the end is billed, on both lanes; a stop of the server waits for it."""
    path = tmp_path / "gateway.db"
    async with gateway_before("anthropic", [SLOW], keys=path, drain=True) as (url, simulator):
        await left_at_once(url, client)
        async with asyncio.timeout(30):
            await simulator.requests[0].done.wait()
        assert not simulator.requests[0].disconnected
    (row,) = rows_of(path)
    assert (row.outcome, row.estimated) == ("left", False)
    assert (row.input_tokens, row.output_tokens) == (1000, 100)


@pytest.mark.parametrize("client", ["anthropic", "gemini"])
async def test_clients_that_stay_see_all(client: str) -> None:
    """Also how a response breaks off."""
    script = [Turn(text="word " * 500), Turn(text="one two three four", fault=Cut(after_events=4))]
    async with gateway_before("anthropic", script, drain=True) as (url, _):
        model = model_at(url, client)
        assert (await model.ask("Hello")).text == "word " * 500
        with pytest.raises(ls.LLMStreamError) as caught:
            await model.ask("Hello")
        assert caught.value.partial is not None


async def test_endless_responses_are_left(tmp_path: Path) -> None:
    """A server that stops waits only for so long."""
    path = tmp_path / "gateway.db"
    script = [Turn(text="one two three four", fault=Stall(after_events=3, stall_s=None))]
    async with Simulator(script_of(script)) as simulator:
        routes = Routes([Route("sim", models=(model_at(simulator.url, "anthropic"),), drain=True)])
        gateway = Gateway(routes, keys=path)
        async with serving(gateway) as url:
            await left_at_once(url, "gemini")
            async with asyncio.timeout(30):
                await gateway.drains.finish(0.1)
                await simulator.requests[0].done.wait()
            assert simulator.requests[0].disconnected
    (row,) = rows_of(path)
    assert (row.outcome, row.estimated, row.output_tokens > 0) == ("left", True, True)
