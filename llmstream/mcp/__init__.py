"""Tools of MCP servers, by the official `mcp` package (extra `mcp`).

    async with mcp_tools(stdio=("uvx", ["mcp-server-time"]), prefix="time_") as tools:
        message = await ls.Agent(model, tools=tools).run("What time is it in Oslo?")

Read `connecting.py` for `mcp_tools`, `session.py` for who owns the session, `results.py` for what
becomes of a server's answer, `server_tools.py` for resources and prompts.
"""

from llmstream.mcp.connecting import mcp_tools
from llmstream.mcp.eliciting import Elicitation
from llmstream.mcp.server_tools import Prompt, PromptArgument, Resource, ServerTools

__all__ = ["Elicitation", "Prompt", "PromptArgument", "Resource", "ServerTools", "mcp_tools"]
