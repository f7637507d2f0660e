"""A real MCP server, by the package's own server side: stdio by default, HTTP on a port if one is given."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import AssistantMessage, UserMessage
from mcp.types import BlobResourceContents, EmbeddedResource, ResourceLink, TextContent
from pydantic import BaseModel

PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(8)

server = MCPServer("test", log_level="ERROR")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def clock(city: str) -> str:
    """Tell the time in a city."""
    return f"09:30 in {city}"


@server.tool()
def row(name: str) -> dict[str, object]:
    """Look a row up."""
    return {"name": name, "id": 7}


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("the disk is full")


@server.tool()
def picture() -> Image:
    """Draw a picture."""
    return Image(data=PIXEL, format="png")


@server.tool(structured_output=False)
def papers() -> list[EmbeddedResource | ResourceLink | TextContent]:
    """Fetch papers."""
    pdf = BlobResourceContents(uri="file:///a/report.pdf", mime_type="application/pdf", blob="JVBERi0=")
    return [
        TextContent(type="text", text="Two papers."),
        EmbeddedResource(type="resource", resource=pdf),
        ResourceLink(type="resource_link", name="more", uri="https://example.test/more"),
    ]


@server.tool()
async def count(context: Context) -> str:
    """Count with progress."""
    for number in range(3):
        await context.report_progress(number, 3, f"at {number}")
    return "done"


@server.tool()
async def book(context: Context) -> str:
    """Book a table, and ask for how many."""
    answer = await context.elicit("For how many?", People)
    return f"{answer.action}: {answer.data.count}" if answer.action == "accept" else answer.action


class People(BaseModel):
    count: int


@server.resource("notes://today")
def today() -> str:
    return "Buy milk."


@server.resource("pixel://one", mime_type="image/png")
def pixel() -> bytes:
    return PIXEL


@server.resource("notes://{day}", description="Notes of a day.")
def notes(day: str) -> str:
    return f"Nothing on {day}."


@server.prompt()
def review(code: str) -> list[object]:
    """Review code."""
    return [UserMessage(f"Review: {code}"), AssistantMessage("Which style?")]


def write(mark: str, text: str) -> None:
    Path(mark).write_text(text)


@server.tool()
async def hang(mark: str) -> str:
    """Wait for ever; the file `mark` tells what became of it."""
    write(mark, "started")
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        write(mark, "cancelled")
        raise
    return ""


@server.tool()
def crash() -> str:
    """Die."""
    os._exit(3)


@server.tool(name="odd.name/with space")
def odd() -> str:
    """Have an odd name."""
    return os.environ.get("LLMSTREAM_TEST_TOKEN", "no token")


def juggle() -> str:
    """Juggle."""
    return "three balls"


@server.tool()
async def learn(context: Context) -> str:
    """Learn to juggle, and tell all who listen."""
    server.add_tool(juggle)
    await context.notify_tools_changed()
    await context.session.send_tool_list_changed()
    return "learned"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
