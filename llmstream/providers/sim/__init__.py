"""The simulator: real HTTP on loopback, without a key or a network.

`sim:demo` answers by itself and uses the tools it is offered. `sim:PATH.json` follows a script
(`llmstream.simulator.Script`). The server starts with the first request and ends with the
event loop. `sim-anthropic:`, `sim-gemini:` and so on are the same in other dialects.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.providers.base import Provider
from llmstream.providers.sim.server import address

__all__ = ["SIM", "SimProvider"]


@dataclass(frozen=True, kw_only=True)
class SimProvider(Provider):
    """A provider whose server lives in this process.

    path: what the vendor's base URL has after the host
    """

    path: str = ""

    async def ready(self, model: str, key: str | None) -> str | None:
        """Starts the server, once for each loop and script."""
        return await address(model, self.name, self.dialect) + self.path


SIM = SimProvider(
    name="sim",
    title="Simulator (openai-chat)",
    dialect=OpenAIChat(Quirks(reasoning_field="reasoning_content")),
    base_url="http://127.0.0.1",
    key_required=False,
    path="/v1",
)
