"""The simulator's server, one for each event loop and script."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from llmstream.errors import InvalidRequest
from llmstream.transport.loop_bound import LoopBound

if TYPE_CHECKING:
    from llmstream.simulator import Simulator

__all__ = ["address"]


async def _running(script: str) -> AsyncGenerator[Simulator]:
    from llmstream.simulator import Script, Simulator  # brings aiohttp's server

    if not script.endswith(".json") and script != "demo":
        raise InvalidRequest(
            f"the simulator has no model {script!r}. Use sim:demo, or sim:PATH.json for a script."
        )
    loaded = Script.load(script) if script != "demo" else None
    async with Simulator(loaded, models=(script,)) as simulator:
        yield simulator


_servers: Final = LoopBound(_running)


async def address(script: str) -> str:
    """Where the server of a script listens in the running loop."""
    return (await _servers.get(script)).url
