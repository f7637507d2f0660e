"""Tools of MCP servers, through the official `mcp` package (extra `mcp`).

    async with mcp_tools(stdio=("uvx", ["mcp-server-time"]), prefix="time_") as tools:
        message = await ls.Agent(model, tools=tools).run("What time is it in Oslo?")

`connecting.py` has `mcp_tools`, `session.py` the task that owns the session, `stdio.py` a server's process,
`limits.py` what a server may send, and `server_tools.py` the tools, their results, resources and prompts.
"""

from llmstream.mcp.connecting import mcp_tools
from llmstream.mcp.server_tools import Prompt, PromptArgument, Resource, ServerTools
from llmstream.mcp.session import Elicitation

__all__ = ["Elicitation", "Prompt", "PromptArgument", "Resource", "ServerTools", "mcp_tools"]
