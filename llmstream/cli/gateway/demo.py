"""The gateway of the demonstration: every name is a simulated model behind Gemini's API."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from llmstream.chats.content import Text, ToolResult
from llmstream.chats.message import Role
from llmstream.gateway.gateway import Gateway
from llmstream.request import Request
from llmstream.simulator.script import Pace, Turn
from llmstream.simulator.server import Simulator
from llmstream.streams.model import Model

__all__ = ["demo_gateway", "demo_turn"]

_QUOTED_CHARS: Final = 200
_TOKENS_PER_S: Final = 60.0


def demo_turn(request: Request) -> Turn:
    """Answers in text. Agents offer tools in each request, and would never end if one were called."""
    asked = _prompt(request)
    tools = len(request.tools)
    offered = f" You offered {tools} tools; this model calls none." if tools else ""
    parts = [part for message in request.messages for part in message.parts]
    results = sum(isinstance(part, ToolResult) for part in parts)
    read = f" It has read {results} tool results." if results else ""
    return Turn(
        reasoning="A simulated model does not think, but its client should see where thoughts would be.",
        text=f"You said: {asked}\n\nThis is a simulated model behind llmstream's gateway: your client's API "
        f"was translated to Gemini's, and the answer back.{offered}{read}",
    )


def _prompt(request: Request) -> str:
    for message in reversed(request.messages):
        if message.role == Role.USER:
            texts = [part.text for part in message.parts if isinstance(part, Text)]
            # Agents add their reminders before the user's text.
            own = [text for text in texts if not text.lstrip().startswith("<")]
            if own:
                return own[-1].strip()[:_QUOTED_CHARS]
    return "nothing"


@asynccontextmanager
async def demo_gateway() -> AsyncGenerator[Gateway]:
    """A gateway before a simulator."""
    async with Simulator(demo_turn, pace=Pace(tokens_per_s=_TOKENS_PER_S)) as simulator:
        model = Model("google:demo", base_url=f"{simulator.url}/v1beta", api_key="demo")
        yield Gateway({"demo": model, "*": model})
