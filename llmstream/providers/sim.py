"""The simulator: a server in this process, over real HTTP on loopback, without a key or a network.

- `sim:` speaks `openai-chat`, `sim-anthropic:`, `sim-gemini:` and so on the other dialects.
- `sim:demo` answers by itself and uses the tools it is offered.
- `sim:probe` obeys plain instructions, for `llmstream check`.
- `sim:PATH.json` follows a script; `examples/scripts` has some, and `llmstream.simulator.Script` documents
  their fields.
- The server starts with the first request of an event loop and ends with the loop.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from llmstream.dialects.base import Dialect, dialect_class
from llmstream.providers.base import Provider

__all__ = ["SimProvider", "simulated"]


@dataclass(frozen=True, kw_only=True)
class SimProvider(Provider):
    """A provider whose server lives in this process.

    path: what the vendor's base URL has after the host
    """

    path: str = ""

    async def ready(self, model: str, key: str | None) -> str | None:
        """Starts the server, once for each loop and script."""
        # By name: the simulator is a layer above the providers, and brings aiohttp's server.
        server = importlib.import_module("llmstream.simulator.server")
        url: str = await server.script_address(model, self.name, self.dialect)
        return url + self.path


def simulated(name: str, dialect: str) -> SimProvider:
    """The simulator in one dialect, whose module is loaded now; `name` is that of the provider."""
    return SimProvider(
        name=name,
        title=f"Simulator ({dialect})",
        dialect=_spoken(dialect),
        base_url="http://127.0.0.1",
        key_required=False,
        path="/v1" if dialect.startswith("openai-") else "",
    )


def _spoken(dialect: str) -> Dialect:
    if dialect != "openai-chat":
        return dialect_class(dialect)()
    from llmstream.dialects.openai_chat import OpenAIChat, Quirks, ReasoningQuirks

    # OpenAI itself shows no reasoning in Chat Completions; scripts have some.
    return OpenAIChat(Quirks(reasoning=ReasoningQuirks(field="reasoning_content")))
