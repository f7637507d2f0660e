"""The tools of an MCP server, used by an agent; needs `pip install 'llmstream-sdk[mcp]'`.

The server is a separate process while the block lasts. Its progress arrives as preliminary results,
and a refusal is an error result that the model reads.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from _arguments import model

import llmstream as ls
from llmstream.mcp import mcp_tools

SERVER = Path(__file__).with_name("_mcp_server.py")


async def main(spec: str) -> None:
    async with mcp_tools(stdio=(sys.executable, [str(SERVER)]), prefix="library_") as tools:
        print("the server has", ", ".join(tool.name for tool in tools))
        async with ls.Agent(spec, tools=tools).stream("Where is the book on comets?") as run:
            async for event in run:
                match event:
                    case ls.ToolCall(name):
                        print("calls", name)
                    case ls.ToolResult(progress, preliminary=True):
                        print(f"  {progress['progress']:g} of {progress['total']:g}: {progress['message']}")
                    case ls.ToolResult(result):
                        print("  gave", result)
        print(run.text)


if __name__ == "__main__":
    asyncio.run(main(model(__doc__)))
