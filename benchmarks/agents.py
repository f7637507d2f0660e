"""Many agents at once: CPU a step, memory an agent, and how long the loop is held.

Each package is measured in a process of its own, against the replay server in another; packages of others
have an environment each, which `scripts/bench_peers agents` makes. "floor" is a loop written by hand.

    python -m benchmarks.agents NAME BASE AGENTS

measures one of them and prints JSON.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.arguments import arguments

__all__ = ["OWN", "PEERS", "figures"]

STEPS: Final = 10
CALLS: Final = 5
"""Calls of a tool in each step."""
OWN: Final = ("floor", "llmstream")
PEERS: Final = ("pydantic_ai", "openai_agents", "langgraph")
_MARK: Final = "@@"  # `benchmarks.bodies.RESULT_MARK`; an import of it would bring llmstream into peers
_PROMPT: Final = "Read all of it."

Run = Callable[[str], Awaitable[str]]
Runner = AbstractAsyncContextManager[Run]


def look(page: int) -> str:
    """Gives 400 bytes.

    Args:
        page: Its number.
    """
    return f"{_MARK} page {page}: " + "words " * 64


async def look_async(page: int) -> str:
    """Gives 400 bytes.

    Args:
        page: Its number.
    """
    return look(page)


look_async.__name__ = "look"


def figures(name: str, base: str, agents: int) -> dict[str, dict[str, float]] | None:
    """What one package takes; None where its environment is missing.

    ms:            CPU of the process over all steps of all agents; CPU of the longest callback of the loop,
                   in a second run of a tenth of the agents
    kib_per_agent: growth of the peak of resident memory over the agents
    """
    python = sys.executable if name in OWN else f".bench/agents_{name}/bin/python"
    if not Path(python).exists():
        return None
    command = [python, "-m", "benchmarks.agents", name, base, str(agents)]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, dict[str, float]] = json.loads(told.splitlines()[-1])
    return found


@asynccontextmanager
async def _floor(url: str) -> AsyncIterator[Run]:
    """What a good engineer writes by hand for one vendor: no errors, no limits, no other vendor."""
    import aiohttp
    import msgspec

    decode, encode = msgspec.json.Decoder().decode, msgspec.json.encode
    schema = {"type": "object", "properties": {"page": {"type": "integer"}}, "required": ["page"]}
    tools = [{"type": "function", "function": {"name": "look", "parameters": schema}}]

    async def answer(session: aiohttp.ClientSession, messages: list[Any]) -> dict[str, Any]:
        text: list[str] = []
        calls: dict[int, dict[str, Any]] = {}
        body = encode({"model": "any", "messages": messages, "tools": tools, "stream": True})
        async with session.post(f"{url}/chat/completions", data=body) as response:
            async for line in response.content:
                if not line.startswith(b"data: {"):
                    continue
                for choice in decode(line[6:])["choices"]:
                    text.append(choice["delta"].get("content") or "")
                    for piece in choice["delta"].get("tool_calls") or ():
                        call = calls.setdefault(
                            piece["index"], {"type": "function", "function": {"arguments": ""}}
                        )
                        call["id"] = piece.get("id") or call["id"]
                        function = piece["function"]
                        call["function"]["name"] = function.get("name") or call["function"]["name"]
                        call["function"]["arguments"] += function.get("arguments") or ""
        return {"role": "assistant", "content": "".join(text), "tool_calls": list(calls.values())}

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def run(prompt: str) -> str:
            messages: list[Any] = [{"role": "user", "content": prompt}]
            while True:
                messages.append(await answer(session, messages))
                if not messages[-1]["tool_calls"]:
                    return str(messages[-1]["content"])
                for call in messages[-1]["tool_calls"]:
                    content = await look_async(**decode(call["function"]["arguments"]))
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})

        yield run


@asynccontextmanager
async def _llmstream(url: str) -> AsyncIterator[Run]:
    import llmstream as ls

    agent = ls.Agent(
        ls.Model("openai:any", base_url=url, api_key="key"), tools=[look_async], max_steps=STEPS + 1
    )

    async def run(prompt: str) -> str:
        async with agent.stream(prompt) as running:
            async for _ in running:
                pass
        return running.text

    yield run


def _runner(name: str, base: str) -> Runner:
    url = f"{base}/openai-chat/{CALLS}/agent{STEPS}"
    if name in OWN:
        return {"floor": _floor, "llmstream": _llmstream}[name](url)
    peer = importlib.import_module(f"benchmarks.agent_peers.{name}")
    runner: Runner = peer.runner(url, look_async, STEPS)
    return runner


async def _measured(name: str, base: str, agents: int) -> dict[str, dict[str, float]]:
    async with _runner(name, base) as run:
        expected = await run(_PROMPT)  # imports, connections, the server's cache
        gc.collect()
        before, began = _peak_kib(), time.process_time()
        texts = await asyncio.gather(*(run(_PROMPT) for _ in range(agents)))
        taken = time.process_time() - began
        if set(texts) != {expected} or not expected:
            raise SystemExit(f"{name}: the agents did not end with the same text")
        memory_kib = (_peak_kib() - before) / agents
        with _Holds() as holds:
            await asyncio.gather(*(run(_PROMPT) for _ in range(max(agents // 10, 1))))
    return {
        "ms": {"CPU a step": taken / agents / (STEPS + 1) * 1e3, "longest hold": holds.longest_s * 1e3},
        "kib_per_agent": {"memory an agent": memory_kib},
    }


class _Holds:
    """Measures the callbacks of the loop by the CPU of its thread, so that other processes do not count."""

    def __enter__(self) -> _Holds:
        self.longest_s = 0.0
        self._run = asyncio.Handle._run
        holds, run, clock = self, self._run, time.thread_time

        def timed(handle: Any) -> None:
            began = clock()
            run(handle)
            holds.longest_s = max(holds.longest_s, clock() - began)

        asyncio.Handle._run = timed  # type: ignore[method-assign,assignment]  # what the loop calls
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]


def _peak_kib() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


if __name__ == "__main__":
    name, base, agents = arguments("NAME BASE AGENTS", __doc__)
    print(json.dumps(asyncio.run(_measured(name, base, int(agents)))))
