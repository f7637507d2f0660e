"""Many calls with random faults, at random moments left by their clients: nothing is left behind."""

from __future__ import annotations

import asyncio
import collections
import os
import random
from pathlib import Path

import pytest
from gateway_parts import PROVIDERS, WIRES, model_at, serving, target_at

import llmstream as ls
from llmstream.gateway import Gateway, Ledger, Route, Routes, Target
from llmstream.testing import Break, Cut, Refuse, Simulator, Stall, Turn

CALLS = int(os.environ.get("GATEWAY_FAULTS", "200"))
"""More with an environment variable: GATEWAY_FAULTS=10000."""


def faulty(dice: random.Random) -> Turn:
    fault = dice.choice(
        [
            None,
            None,
            Cut(after_events=dice.randrange(8), clean=True),
            Cut(after_events=dice.randrange(8)),
            Stall(after_events=dice.randrange(8), stall_s=0.1),
            Break(after_events=dice.randrange(8), message="broken"),
            Refuse(status=dice.choice([400, 401, 429, 500, 503])),
        ]
    )
    return Turn(text="one two three four five six seven", reasoning="hm", fault=fault)


async def one_call(url: str, dice: random.Random) -> str:
    """How a call ended at its client."""
    model = model_at(url, dice.choice(WIRES), name=f"{dice.choice(WIRES)}")
    leaves = dice.random() < 0.2
    try:
        async with model.stream("Hello") as stream:
            async for _ in stream:
                if leaves and stream.text:
                    return "left"
            return "complete" if stream.text == "one two three four five six seven" else "half"
    except ls.LLMStreamError:
        return "failed"


@pytest.mark.slow
async def test_faults_leave_nothing_behind(tmp_path: Path) -> None:
    dice = random.Random(7)
    async with Simulator(lambda request: faulty(dice)) as simulator:
        routes = [Route(w, (Target(f"{PROVIDERS[w]}:sim", **target_at(simulator.url, w)),)) for w in WIRES]
        gateway = Gateway(Routes(routes), keys=tmp_path / "gateway.db")
        ends: collections.Counter[str] = collections.Counter()
        async with serving(gateway) as url:
            before = len(asyncio.all_tasks())

            async def some(count: int) -> None:
                for _ in range(count):
                    ends[await one_call(url, dice)] += 1

            await asyncio.gather(*(some(CALLS // 10) for _ in range(10)))
            async with asyncio.timeout(60):
                while len(asyncio.all_tasks()) > before + 10 or _open_rows(gateway):
                    await asyncio.sleep(0.05)
            rows = gateway.admission.ledger.rows(limit=CALLS * 2)
        # A vendor's half is never an answer.
        assert ends["half"] == 0
        assert ends["complete"] > 0
        assert ends["failed"] > 0
        assert len(rows) == sum(ends.values())
        made = [row for row in rows if row.outcome in ("complete", "cut", "left")]
        assert all(row.input_tokens > 0 and row.cost_usd > 0 for row in made)


def _open_rows(gateway: Gateway) -> int:
    ledger = gateway.admission.ledger
    assert isinstance(ledger, Ledger)
    return len(ledger.rows(outcome="open", limit=5))
