"""Tools that come and go while a conversation lasts, such as those of a server."""

from __future__ import annotations

from llmstream.tools.tool import Tool

__all__ = ["LiveTools"]


class LiveTools(list[Tool]):
    """A list of tools that its owner may change; whoever is given it whole sees the change.

    `tools=[*mine, live]` or `tools=live` offers what is in it at the time of each request;
    `tools=[*mine, *live]` what is in it now, for ever.
    """
