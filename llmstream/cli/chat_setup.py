"""What `llmstream chat` asks with: a model, its address, tools and options; from them, an agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from llmstream.agent import Agent
from llmstream.errors import InvalidRequest
from llmstream.streams import Model
from llmstream.streams.observations import Observe
from llmstream.tools import Tool

__all__ = ["TOOL_SETS", "Setup"]

TOOL_SETS: Final = ("demo",)
"""Names of tools that can be offered."""


@dataclass(frozen=True)
class Setup:
    """Whom to ask, and how.

    tool_set: a name of TOOL_SETS, or "" for no tools
    options:  of `stream`
    """

    model: str
    base_url: str | None = None
    tool_set: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def agent(self, observe: Observe | None = None) -> Agent:
        """An agent of it. raises: InvalidRequest for what it cannot be made of"""
        model = Model(self.model, base_url=self.base_url, observe=observe)
        return Agent(model, tools=self.tools, **self.options)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools on offer."""
        if not self.tool_set:
            return ()
        from llmstream.cli.demo_tools import DEMO_TOOLS

        return DEMO_TOOLS

    @property
    def noted_model(self) -> str:
        """The model as a saved conversation may note it; "" with an address of its own.

        A conversation with a server of one's own is not to go to the vendor another time.
        """
        return "" if self.base_url else self.model

    def with_model(self, model: str) -> Self:
        """The same with another model; its address stays if the provider does."""
        same = model.partition(":")[0] == self.model.partition(":")[0]
        return replace(self, model=model, base_url=self.base_url if same else None)

    def with_tools(self, name: str) -> Self:
        """The same with other tools."""
        if name and name not in TOOL_SETS:
            raise InvalidRequest(f"there are no tools called {name!r}: {', '.join(TOOL_SETS)}, or off")
        return replace(self, tool_set=name)
