"""A small MCP server for `mcp_tools.py`, by the official package: two tools over stdio."""

from __future__ import annotations

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("library", log_level="ERROR")
SHELVES = ("history", "physics", "poetry")


@server.tool()
async def search(title: str, context: Context) -> str:
    """Look for a book on every shelf."""
    for number, shelf in enumerate(SHELVES, 1):
        await context.report_progress(number, len(SHELVES), shelf)
    return f"{title!r} is on the shelf {SHELVES[-1]}."


@server.tool()
def stock() -> dict[str, int]:
    """Count the books of each shelf."""
    return dict.fromkeys(SHELVES, 12)


if __name__ == "__main__":
    server.run("stdio")
