"""A loop on top of the stream: ask, run the tools, ask again, until no calls remain."""

from llmstream.agent.agent import Agent
from llmstream.agent.run import AgentRun

__all__ = ["Agent", "AgentRun"]
