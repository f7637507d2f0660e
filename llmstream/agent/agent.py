"""An agent: a model, its instructions and its tools."""

from __future__ import annotations

from typing import Unpack

from llmstream.agent.run import AgentRun
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest
from llmstream.streams.model import Model
from llmstream.streams.options import Options, Prompt

__all__ = ["Agent"]


class Agent:
    """Runs a model and its tools until no calls remain.

    instructions: the system prompt
    max_steps:    how often the model may be asked in one run
    options:      as for `stream` (tools, settings and so on), used at every step
    """

    def __init__(
        self,
        model: str | Model,
        *,
        instructions: str | None = None,
        max_steps: int = 20,
        **options: Unpack[Options],
    ) -> None:
        if max_steps < 1:
            raise InvalidRequest(f"max_steps is at least 1, got {max_steps}")
        self.model = model if isinstance(model, Model) else Model(model)
        self.max_steps = max_steps
        self._options = options
        if instructions is not None:
            self._options["system"] = instructions

    def __repr__(self) -> str:
        return f"Agent({self.model!r})"

    def stream(self, prompt: Prompt) -> AgentRun:
        """One run as one stream of events over all its steps; nothing is sent until it is read."""
        return AgentRun(self.model.stream(prompt, **self._options), max_steps=self.max_steps)

    async def run(self, prompt: Prompt) -> Message:
        """Runs to the end and gives the last message.

        raises: LLMStreamError where a step failed; `.partial` holds what came
        """
        return await self.stream(prompt).collect()
